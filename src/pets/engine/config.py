"""The configuration of a live run, as plain frozen data; a store keeps it so that another process can go on."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, cast, get_type_hints

from pets.answers.base import AnswerType
from pets.arguments import check_fields, check_values
from pets.confidence import KINDS, Kind
from pets.core.money import amount_words
from pets.core.policy import Policy
from pets.engine.budget import Amount, TokenPrice, price_of, total_of
from pets.engine.models import ModelShare, shares_from_plain, with_prices
from pets.engine.question import instructed
from pets.engine.spec import RunOptions
from pets.errors import BudgetError, InputError
from pets.questions import Problem
from pets.registry import as_answer_type, as_policy, spec_of
from pets.samplers import Sampling, Seeds
from pets.store import RunSettings

TOP_LOGPROBS = 20
OPERATIONAL = ("concurrency", "tries", "backoff", "rpm", "tpm", "timeout", "headers", "keep_going", "waves", "patience")
"""Options that change how servers are asked and how long a run takes, and nothing of what is asked."""
MIN_SEEDS = 4096  # per question


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A policy, a budget and how traces are drawn.

    ``waves`` is the most parallel batches that the budget is spent in, ``patience`` how many times as long as all
    traces at once would the run may take (:mod:`pets.engine.pacing`).
    ``answer`` and ``system`` replace what the questions say. With ``instruct``, questions that are a text alone are
    asked with the instruction of their answer type. ``confidence`` is the kind that votes are weighted by; with
    one, log-probabilities are asked for, as with ``soft`` votes: what a trace might have said at the token that decides
    its answer. ``target_consistency`` ends the run early, once the expected
    self-consistency is there. ``overshoot`` is the share of a budget in tokens or money that traces in flight may go
    over it at the very worst; a budget in traces is never exceeded. A trace is given up after ``tries``, the second
    of which waits about ``backoff`` seconds, every further one twice as long. ``rpm`` and ``tpm`` limit requests
    and tokens per minute at each endpoint. ``timeout`` is the seconds that a request to them may take; ``headers``
    are the names of headers that go with each, whose values are never kept. Without ``keep_texts`` a store gets the
    answers of traces and not their texts. ``models`` are those of a mixture, none where one model is asked.
    ``keep_going`` goes on whatever the first traces say: else a run ends with a
    ``FirstTracesError`` when most of them cast no vote. With ``batch_api`` every wave is a job of the provider's batch
    interface, at its price for that.

    >>> RunConfig(budget="8x", confidence="tail").drawn.top_logprobs
    20
    """

    budget: str = "16x"
    policy: str | Policy = "okg"
    max_traces: int | None = 64
    concurrency: int = 64
    waves: int | None = None
    patience: float | None = None
    sampling: Sampling = field(default_factory=Sampling)
    answer: str | AnswerType | None = None
    instruct: bool = True
    system: str | None = None
    confidence: Kind | None = None
    soft: bool = False
    price: TokenPrice | None = None
    models: tuple[ModelShare, ...] = ()
    target_consistency: float | None = None
    overshoot: float = 0.1
    tries: int = 6
    backoff: float = 0.5
    rpm: int | None = None
    tpm: int | None = None
    timeout: float = 600.0
    headers: tuple[str, ...] = ()
    keep_texts: bool = True
    keep_going: bool = False
    seed: int = 0
    batch_api: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        positive = {"rpm": self.rpm, "tpm": self.tpm}
        domains = (
            (
                self.max_traces is None or self.max_traces >= 1,
                f"the cap is at least 1 trace per question; got {self.max_traces}",
            ),
            (self.concurrency >= 1, f"at least 1 trace is in flight; got {self.concurrency}"),
            (self.waves is None or self.waves >= 1, f"a run has at least 1 wave; got {self.waves}"),
            (self.patience is None or self.patience >= 1, f"the patience is 1 or more; got {self.patience}"),
            (
                self.waves is None or self.patience is None,
                "waves and patience both say how long a run may take: give one",
            ),
            (self.tries >= 1, f"a trace is tried at least once; got {self.tries}"),
            (0 <= self.backoff <= 60, f"the backoff is 0 to 60 seconds; got {self.backoff}"),
            (all(value is None or value >= 1 for value in positive.values()), f"limits are 1 or more; got {positive}"),
            (0 < self.timeout < math.inf, f"a request takes more than 0 seconds; got {self.timeout}"),
            (self.seed >= 0, f"the seed is 0 or more; got {self.seed}"),
            (0 <= self.overshoot <= 1, f"the overshoot is a share from 0 to 1; got {self.overshoot}"),
            (
                self.target_consistency is None or 0 < self.target_consistency < 1,
                f"a target self-consistency lies between 0 and 1; got {self.target_consistency}",
            ),
            (
                self.confidence is None or self.confidence in KINDS,
                f"a confidence is one of {', '.join(KINDS)}; got {self.confidence!r}",
            ),
        )
        for holds, problem in domains:
            if not holds:
                raise InputError(f"{problem}.")
        if self.soft and as_policy(self.policy).sees == "traces":
            raise InputError(f"{self.policy} weighs traces itself; soft votes need a policy of votes, such as okg.")
        as_policy(self.policy)
        if self.answer is not None:
            as_answer_type(self.answer)

    def make_policy(self) -> Policy:
        """The policy, made of its spec where it is one."""
        return as_policy(self.policy)

    def asked(self, problem: Problem) -> Problem:
        """The question as the model reads it: with its instruction, where it is a text alone."""
        return instructed(problem, self.answer) if self.instruct else problem

    def settled(self, answer_type: str) -> "RunConfig":
        """The same, where ``auto`` has come to mean this type: a question's own type still comes before it."""
        return replace(self, answer=f"auto:type={answer_type}")

    def prices(self, model: str) -> tuple[TokenPrice, ...]:
        """What the tokens of each model cost, of ``model`` where it is one; none where a price is not known.

        >>> RunConfig(models=(ModelShare("gpt-5"), ModelShare("b", 1, TokenPrice(1, 2)))).prices("")[1]
        TokenPrice(prompt=1, output=2, batch=0.5, cached=None)
        """
        shares = self.models or (ModelShare(model),)
        prices = [price_of(share.name, share.price or self.price) for share in shares]
        known_prices = tuple(price for price in prices if price is not None)
        return known_prices if len(known_prices) == len(prices) else ()

    def price_at_most(self, model: str) -> TokenPrice | None:
        """What tokens cost at most, whichever model takes a launch; ``None`` where a price is not known."""
        prices = self.prices(model)
        return TokenPrice.dearest(prices) if prices else None

    @property
    def confidence_kind(self) -> Kind | None:
        """The confidence to tell the policy: a policy that weighs traces gets the tail's unless another was chosen."""
        policy = self.policy
        sees = _sees(policy) if isinstance(policy, str) else policy.sees
        return self.confidence or ("tail" if sees == "traces" else None)

    @property
    def drawn(self) -> Sampling:
        """The sampling, with log-probabilities where a confidence or soft votes are wanted."""
        if (self.confidence_kind is None and not self.soft) or self.sampling.top_logprobs is not None:
            return self.sampling
        return replace(self.sampling, top_logprobs=TOP_LOGPROBS)

    def seeds(self, questions: int) -> Seeds:
        """Seeds of 32 bits, which every server takes, as long as there are enough of them."""
        wide = Seeds(self.seed, cap=max(MIN_SEEDS, self.max_traces or 0))
        if questions <= wide.questions:
            return wide
        narrow = Seeds(self.seed, cap=self.max_traces or MIN_SEEDS)
        return narrow if questions <= narrow.questions else Seeds(self.seed, cap=wide.cap, bits=63)

    def with_options(self, options: RunOptions) -> "RunConfig":
        """The same with some of its options, or of its sampling's, replaced."""
        values = cast("dict[str, Any]", dict(options))
        own, sampling = {f.name for f in fields(RunConfig)}, {f.name for f in fields(Sampling)}
        hints = get_type_hints(RunOptions)
        if "max_per_question" in values:
            raise InputError("the option max_per_question is now max_traces.")
        if unknown := set(values) - set(hints):
            raise InputError(f"there is no option {min(unknown)!r}. Options: {', '.join(sorted(hints))}.")
        check_values(hints, values)
        values["budget"] = str(values.get("budget", self.budget))
        price = values.get("price")
        if isinstance(price, str):
            values["price"] = TokenPrice.parse(price)
        elif isinstance(price, Mapping):
            del values["price"]
            values["models"] = with_prices(self.models, price)
        drawn = replace(self.sampling, **{name: value for name, value in values.items() if name in sampling})
        return replace(self, sampling=drawn, **{name: value for name, value in values.items() if name in own})

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold; a policy or answer type that no spec describes cannot be kept."""
        specs = {name: _spec(getattr(self, name)) for name in ("policy", "answer")}
        for name in ("policy", "answer"):
            if specs[name] is None and getattr(self, name) is not None:
                raise InputError(
                    f"a run in a store is resumed by another process, which cannot make {getattr(self, name)!r}. "
                    f"Install it as an entry point of pets, or run without a store."
                )
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        price = None if self.price is None else asdict(self.price)
        shares = plain.pop("models")  # not there where there are none: older runs are the same runs
        models = {"models": [asdict(share) for share in shares]} if shares else {}
        return {**plain, **specs, **models, "sampling": asdict(self.sampling), "price": price}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "RunConfig":
        """The configuration that :meth:`to_plain` described, of version 0.1.0 too.

        >>> RunConfig.from_plain(RunConfig(price=TokenPrice(1, 2)).to_plain()) == RunConfig(price=TokenPrice(1, 2))
        True
        """
        values = {"instruct": False, **data}
        if "max_per_question" in values:
            values["max_traces"] = values.pop("max_per_question")
        values.pop("dialect", None)  # servers' refusals tell it now
        values["headers"] = tuple(values.get("headers", ()))
        sampling = Sampling(**{**values["sampling"], "stop": tuple(values["sampling"]["stop"])})
        price = None if values["price"] is None else TokenPrice(**values["price"])
        models = shares_from_plain(values.get("models", ()))
        return cls(**{**values, "sampling": sampling, "price": price, "models": models})


def _spec(value: str | Policy | AnswerType | None) -> str | None:
    return value if value is None or isinstance(value, str) else spec_of(value)


@lru_cache(maxsize=64)
def _sees(spec: str) -> Literal["counts", "traces"]:
    return as_policy(spec).sees


def rebudgeted(settings: RunSettings, text: str, questions: int, spent: int) -> RunSettings:
    """The settings with another budget, in the currency that the run has: ``+2000`` more, or ``=5000`` in all.

    >>> rebudgeted(RunSettings("okg", 100), "+2x", questions=10, spent=60).total
    120
    >>> rebudgeted(RunSettings("okg", 100), "2x", questions=10, spent=60)
    Traceback (most recent call last):
    pets.errors.BudgetError: 2x more, or 2x in all? Write +2x to add to the run's budget, or =2x for its new total.
    """
    sign, text = text[:1], text.lstrip("+=")
    amount = Amount.parse(text)
    if sign not in ("+", "="):
        raise BudgetError(
            f"{text} more, or {text} in all? Write +{text} to add to the run's budget, or ={text} for its new total."
        )
    if amount.ledger_unit != settings.currency.unit:
        units = [unit.replace("picodollars", "dollars") for unit in (settings.currency.unit, amount.ledger_unit)]
        raise BudgetError(f"this run counts {units[0]}; {sign}{text} is in {units[1]}.")
    total = total_of(amount, questions) + (settings.total if sign == "+" else 0)
    if total < spent:
        words = [amount_words(*settings.currency.shown(number)) for number in (spent, total)]
        raise BudgetError(f"this run has spent {words[0]}: a total of {words[1]} is less. Write +AMOUNT to add to it.")
    return replace(settings, total=total)
