"""The one description of a run, in sections: on the command line, as keywords of Python, as JSON in a store.

A field is declared once: type, default, help text, range, and the verbs that honour it. :meth:`RunSpec.check` refuses
what a verb does not honour.
"""

from collections.abc import Collection, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, TypedDict, get_type_hints

from pets.answers.base import AnswerType
from pets.arguments import Interval, check_fields, check_values, setting
from pets.confidence import Kind
from pets.core.money import Currency
from pets.core.policy import Policy
from pets.engine.budget import ModelShare, TokenPrice, price_of, with_prices
from pets.engine.question import instructed
from pets.errors import InputError, StateError
from pets.questions import Problem
from pets.registry import answer_types, policies, spec_of
from pets.samplers import Sampling, Seeds

VERBS = ("solve", "batch", "stream", "pool", "sample", "serve", "doctor", "resume")
"""The verbs that a spec describes; ``batch`` is `pets solve --to`, ``pool`` is `pets stream --pool`, ``resume`` takes
up a run as its own spec says."""
TOP_LOGPROBS = 20
MIN_SEEDS = 4096  # per question
CONCURRENCY = 64  # traces in flight, where nobody says
BATCH_HURRY, ARRIVING_HURRY = 0.25, 0.5  # of a list of questions, and of those that come one by one, where servers stop

Reused = Literal["server", "model", "nothing"]
"""Whose traces of a store a run takes: the same server's, any server's of the same model name, nobody's."""


class RunOptions(TypedDict, total=False):
    """The keywords of ``solve`` and ``Engine``: every field of a spec that ``solve`` honours, as people write it."""

    budget: str | float
    policy: str | Policy
    max_traces: int | None
    concurrency: int | None
    hurry: float | None
    batch_api: bool
    answer: str | AnswerType | None
    instruct: bool
    system: str | None
    confidence: Kind | None
    price: TokenPrice | str | Mapping[str, TokenPrice | str] | None
    soft: bool
    target_consistency: float | None
    overshoot: float
    tries: int
    backoff: float
    rpm: int | None
    tpm: int | None
    timeout: float
    keep_texts: bool
    reuse: Reused
    keep_going: bool
    seed: int
    max_tokens: int | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    stop: str | tuple[str, ...] | list[str]
    top_logprobs: int | None
    window: int
    reasoning_effort: str | None
    extra_body: Mapping[str, Any]


ASKING = ("solve", "stream", "sample", "serve")  # verbs that ask servers request by request
BUDGETED = ("solve", "batch", "stream", "pool")  # verbs that spend a budget on questions
AT_LEAST_1, MORE_THAN_0 = Interval(1), Interval(0, open="()")


@dataclass(frozen=True, slots=True)
class SpendingSpec:
    """What may be spent, and on which question."""

    title: ClassVar = "Budget"

    budget: str = setting(
        "16x",
        "What may be spent: 16x (per question on average), 5000 (traces), 2Mtok or 5usd; of a stream in all or per "
        "window. 16x, or as its plan says, if not given.",
        verbs=(*BUDGETED, "doctor"),
    )
    max_traces: int | None = setting(
        64,
        "How many traces a question gets at most; 64, or a plan's, if not given. A run that goes on may be given more.",
        verbs=(*BUDGETED, "serve", "resume"),
        within=AT_LEAST_1,
    )
    policy: str | Policy = setting(
        "okg",
        "Who gets the next trace; if not given okg, and price:warmup=2 where questions come one by one.",
        verbs=(*BUDGETED, "serve"),
    )
    target_consistency: float | None = setting(
        None,
        "Stop when this self-consistency is expected, such as 0.99.",
        ("solve", "batch"),
        Interval(0, 1, open="()"),
    )
    price: TokenPrice | None = setting(
        None,
        "Dollars per million tokens, for budgets in money: in=0.15,out=0.60; MODEL=in=...,out=... for one of several "
        "models. Batch jobs cost half, or batch=SHARE of it.",
        verbs=(*BUDGETED, "serve", "doctor"),
    )
    # By what share a budget in tokens or money may be exceeded; 999 of 1,000 runs keep to it.
    overshoot: float = setting(0.1, within=Interval(0, 1), verbs=("solve", "batch", "stream"))
    horizon: int | None = setting(None, within=AT_LEAST_1, verbs=("stream", "pool"))  # how many questions will come
    budget_window: int | None = setting(
        None,
        "How many questions share a budget, in a stream without an end; 100 if not given.",
        verbs=("stream", "pool", "serve"),
        within=AT_LEAST_1,
    )


@dataclass(frozen=True, slots=True)
class PacingSpec:
    """How much is asked at once, and how long a run may take (:mod:`pets.engine.pacing`)."""

    title: ClassVar = "Time"

    concurrency: int | None = setting(
        None,
        "How many traces are in flight; if not given 64, 16 of a local model, 256 of a gateway.",
        verbs=("solve", "stream", "pool", "serve", "resume"),
        within=AT_LEAST_1,
        operational=True,
    )
    hurry: float | None = setting(
        None,
        "How many traces of a question are in flight beyond those that it must have; when its vote is settled they are "
        "cancelled. 0 costs nothing; 0.5 about a tenth more tokens for half the time; 1 a fifth more for another fifth "
        "of the time. If not given 0.25, or 0.5 where questions come one by one, and 0 where the server may not stop.",
        verbs=("solve", "stream", "serve", "resume"),
        within=Interval(0),
        operational=True,
    )
    open_questions: int | None = setting(
        None,
        "How many questions are open at a time: 8 of a stream, 2 of a recording, 1,024 of a gateway if not given.",
        verbs=("stream", "pool", "sample", "serve"),
        within=AT_LEAST_1,
        operational=True,
        rare=True,
    )

    @property
    def in_flight(self) -> int:
        """How many traces are in flight at most."""
        return self.concurrency or CONCURRENCY


@dataclass(frozen=True, slots=True)
class ServingSpec:
    """Which models are asked, and how patiently.

    ``models`` are several that vote together. ``headers`` are the names of those sent with every request: values are
    never kept. The second try of a trace waits about ``backoff`` seconds, every further one twice as long. A request
    asks for ``max_n`` traces at most.
    """

    title: ClassVar = "Model"

    models: tuple[ModelShare, ...] = setting(())
    headers: tuple[str, ...] = setting((), operational=True)
    rpm: int | None = setting(
        None, "How many requests per minute each server takes.", ASKING, AT_LEAST_1, operational=True, rare=True
    )
    tpm: int | None = setting(
        None, "How many tokens per minute each server takes.", ASKING, AT_LEAST_1, operational=True, rare=True
    )
    timeout: float = setting(
        600.0, "How many seconds a request may take.", (*ASKING, "doctor"), MORE_THAN_0, operational=True, rare=True
    )
    tries: int = setting(
        6, "How often a trace is tried before it counts as failed.", ASKING, AT_LEAST_1, operational=True, rare=True
    )
    backoff: float = setting(0.5, within=Interval(0, 60), operational=True)
    max_n: int = setting(16, within=AT_LEAST_1, verbs=("sample", "serve"), operational=True)
    batch_api: bool = setting(
        False,
        "Hand in every wave as a job of the provider's batch interface, for half the price and an answer within a day. "
        "Ctrl-C leaves a job where it is; the same command again goes on with it.",
        verbs=("solve", "batch"),
    )
    seed: int = setting(
        0, "The seed that the seeds of all traces follow from.", (*BUDGETED, "sample"), Interval(0), rare=True
    )


@dataclass(frozen=True, slots=True)
class ReadingSpec:
    """How questions are put and answers are read, whatever the questions say.

    With a ``confidence`` log-probabilities are asked for, as with ``soft`` votes. ``answer_sizes`` are the sizes of
    closed answer sets by answer type, for questions that do not say theirs.
    """

    title: ClassVar = "Answers"

    answer: str | AnswerType | None = setting(
        None,
        "How the answers of all questions are read: choice, number, math, text, yesno, json, regex:PATTERN, "
        "python:MODULE:FUNCTION or judge; if not given as the questions or the first traces say, of a gateway text.",
        verbs=(*BUDGETED, "sample", "serve", "doctor"),
    )
    instruct: bool = setting(
        True,
        "Ask questions that are a text alone with how to end the answer; `pets solve --dry-run` shows it.",
        verbs=("solve", "batch", "stream", "sample", "doctor"),
        rare=True,
    )
    system: str | None = setting(
        None, "A system message for every question.", verbs=("solve", "batch", "stream", "doctor"), rare=True
    )
    confidence: Kind | None = setting(
        None,
        "Ask for log-probabilities; votes may be weighed by this confidence.",
        verbs=("solve", "batch", "stream", "doctor"),
        rare=True,
    )
    soft: bool = setting(
        False,
        "For short answers: count what a trace might have said at the token that decides its answer as well.",
        verbs=("solve",),
        rare=True,
    )
    answer_sizes: Mapping[str, int | None] = setting(factory=dict, verbs=("stream", "pool"), hashed=False)


@dataclass(frozen=True, slots=True)
class KeepingSpec:
    """What is kept of a run, and whether it stops by itself."""

    title: ClassVar = "Run"

    keep_texts: bool = setting(
        True,
        "Keep what traces say in the store, not only what they answer.",
        verbs=("solve", "batch", "stream", "sample"),
        flags=("--texts/--no-texts",),
        rare=True,
    )
    reuse: Reused = setting(
        "server",
        "Which traces of the store are taken instead of paying again: those of the same model at the same server "
        "(server), at any server (model), or none (nothing).",
        verbs=("solve",),
    )
    keep_going: bool = setting(
        False,
        "Go on also where most of the first traces were cut, refused or unreadable.",
        verbs=(*BUDGETED, "resume"),
        operational=True,
        rare=True,
    )


@dataclass(frozen=True, slots=True)
class RunSpec:
    """All that a user says of a run, but for its questions, its servers and its store.

    >>> spec = RunSpec.of(budget="8x", confidence="tail", temperature=0.7)
    >>> spec.spending.budget, spec.sampling.temperature, spec.drawn.top_logprobs
    ('8x', 0.7, 20)
    """

    spending: SpendingSpec = field(default_factory=SpendingSpec)
    pacing: PacingSpec = field(default_factory=PacingSpec)
    serving: ServingSpec = field(default_factory=ServingSpec)
    sampling: Sampling = field(default_factory=Sampling)
    reading: ReadingSpec = field(default_factory=ReadingSpec)
    keeping: KeepingSpec = field(default_factory=KeepingSpec)

    def __post_init__(self) -> None:
        spending, reading = self.spending, self.reading
        for record in (self, spending, self.pacing, self.serving, reading, self.keeping):
            check_fields(record)
        if reading.answer is not None:
            answer_types().accept(reading.answer)  # or refuses it
        if self.make_policy().sees == "traces" and reading.soft:
            raise InputError(f"{spending.policy} weighs traces itself; soft votes need a policy of votes, such as okg.")
        if spending.horizon is not None and spending.budget_window is not None:
            raise InputError("a horizon is for a known number of questions, a window for an endless stream. Take one.")

    @classmethod
    def of(cls, **options: Any) -> Self:
        """The spec of these options."""
        return cls().with_options(**options)

    def with_options(self, **options: Any) -> Self:
        """The same with some of its fields replaced, or whole sections; an unknown one is refused.

        >>> RunSpec().with_options(budjet=5)
        Traceback (most recent call last):
        pets.errors.InputError: there is no option 'budjet'; did you mean budget?
        """
        sections = dict[str, Any]()
        for name in SECTIONS:
            sections[name] = options.pop(name, getattr(self, name))
        check_option_names(options, SECTION_OF)
        check_values(OPTION_HINTS, options)
        if "budget" in options:
            options["budget"] = str(options["budget"])
        price = options.get("price")
        if isinstance(price, str):
            options["price"] = TokenPrice.parse(price)
        elif isinstance(price, Mapping):
            del options["price"]
            options["models"] = with_prices(options.get("models", self.serving.models), price)
        changes: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            changes.setdefault(SECTION_OF[name], {})[name] = value
        for section, own in changes.items():
            sections[section] = replace(sections[section], **own)
        return replace(self, **sections)

    def get(self, name: str) -> Any:
        """The field of that name, whichever section has it."""
        return getattr(getattr(self, SECTION_OF[name]), name)

    def check(self, verb: str) -> Self:
        """The same, if the verb honours whatever is set in it.

        >>> RunSpec.of(soft=True).check("stream")
        Traceback (most recent call last):
        pets.errors.InputError: soft is True, which `pets stream` does not honour, but solve: leave it out.
        """
        unset = {section: cls() for section, cls in SECTIONS.items()}
        for name, option in OPTIONS.items():
            value = self.get(name)
            if value != getattr(unset[SECTION_OF[name]], name) and not is_honoured(option, verb):
                others = ", ".join(option.metadata["verbs"])
                raise InputError(
                    f"{name} is {value!r}, which `pets {verb}` does not honour, but {others}: leave it out."
                )
        return self

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """What JSON can hold; a policy or answer type that another process cannot make is refused."""
        plain: dict[str, dict[str, Any]] = {}
        for name, section in SECTION_OF.items():
            plain.setdefault(section, {})[name] = _plain(self.get(name))
        return plain

    @classmethod
    def from_plain(cls, data: Mapping[str, Mapping[str, Any]]) -> Self:
        """The spec that :meth:`to_plain` described.

        >>> spec = RunSpec.of(price="in=1,out=2", stop="END", policy="okg:zone=0.1")
        >>> RunSpec.from_plain(spec.to_plain()) == spec
        True
        """
        try:
            values = {section: dict(data.get(section, {})) for section in SECTIONS}
            spending, serving, sampling = values["spending"], values["serving"], values["sampling"]
            if isinstance(policy := spending.get("policy"), Mapping):
                spending["policy"] = policies()[policy["name"]].from_plain(policy["options"])
            models = [dict(share) for share in serving.get("models", ())]
            for priced in (spending, *models):
                if priced.get("price") is not None:
                    priced["price"] = TokenPrice(**priced["price"])
            waves, _ = (values["pacing"].pop(name, None) for name in ("waves", "patience"))  # of runs of before
            if waves and serving.get("batch_api") and isinstance(spending.get("policy"), str):
                spending["policy"] = policies().accept(spending["policy"]).with_waves(waves)
            serving["models"] = tuple(ModelShare(**share) for share in models)
            serving["headers"] = tuple(serving.get("headers", ()))
            sampling["stop"] = tuple(sampling.get("stop", ()))
            return cls(**{section: SECTIONS[section](**own) for section, own in values.items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise StateError(f"this run was not made by `pets solve`, or by a newer pets ({error!r}).") from None

    def make_policy(self) -> Policy:
        """The policy, made of its spec where it is one."""
        policy = self.spending.policy
        return _named_policy(policy) if isinstance(policy, str) else policy

    def asked(self, problem: Problem) -> Problem:
        """The question as the model reads it: with its instruction, where it is a text alone."""
        return instructed(problem, self.reading.answer) if self.reading.instruct else problem

    def prices(self, model: str) -> tuple[TokenPrice, ...]:
        """What the tokens of each model cost, of ``model`` where it is one; none where a price is not known."""
        shares = self.serving.models or (ModelShare(model),)
        prices = [price_of(share.name, share.price or self.spending.price) for share in shares]
        known = tuple(filter(None, prices))
        return known if len(known) == len(shares) else ()

    def price_at_most(self, model: str) -> TokenPrice | None:
        """What tokens cost at most, whichever model takes a launch; ``None`` where a price is not known."""
        prices = self.prices(model)
        return TokenPrice.dearest(prices) if prices else None

    def price_in_money(self, model: str) -> Currency | None:
        """What traces cost in money that do not say so themselves; ``None`` where a price is not known."""
        price = self.price_at_most(model)
        return None if price is None else price.currency()

    @property
    def confidence_kind(self) -> Kind | None:
        """The confidence to tell the policy: a policy that weighs traces gets the tail's unless another was chosen."""
        return self.reading.confidence or ("tail" if self.make_policy().sees == "traces" else None)

    @property
    def drawn(self) -> Sampling:
        """The sampling, with log-probabilities where a confidence or soft votes are wanted."""
        wanted = self.confidence_kind is not None or self.reading.soft
        if not wanted or self.sampling.top_logprobs is not None:
            return self.sampling
        return replace(self.sampling, top_logprobs=TOP_LOGPROBS)

    def seeds(self, questions: int) -> Seeds:
        """Seeds of 32 bits, which every server takes, as long as there are enough of them."""
        seed, cap = self.serving.seed, self.spending.max_traces
        wide = Seeds(seed, cap=max(MIN_SEEDS, cap or 0))
        if questions <= wide.questions:
            return wide
        narrow = Seeds(seed, cap=cap or MIN_SEEDS)
        return narrow if questions <= narrow.questions else Seeds(seed, cap=wide.cap, bits=63)


SECTIONS: dict[str, Any] = {section.name: section.default_factory for section in fields(RunSpec)}
"""The sections by name, each a frozen dataclass."""
SECTION_OF = {spec.name: section for section, cls in SECTIONS.items() for spec in fields(cls)}
OPTIONS: dict[str, Field[Any]] = {spec.name: spec for cls in SECTIONS.values() for spec in fields(cls)}
"""Every field of the sections, by name."""
OPTION_HINTS: Mapping[str, Any] = {
    name: hint for cls in (*SECTIONS.values(), RunOptions) for name, hint in get_type_hints(cls).items()
}


def is_honoured(spec: Field[Any], verb: str) -> bool:
    """Whether a verb reads that field: all do where its metadata names none."""
    return verb in spec.metadata.get("verbs", VERBS)


def check_option_names(values: Mapping[str, object], known: Collection[str]) -> None:
    """Refuse an option that there is not, with the name that comes closest."""
    if "max_per_question" in values:
        raise InputError("the option max_per_question is now max_traces.")
    for name in values:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"options are {', '.join(sorted(known))}."
            raise InputError(f"there is no option {name!r}; {hint}")


_named_policy = lru_cache(maxsize=64)(lambda spec: policies().accept(spec))


def _plain(value: Any) -> Any:
    """A value of a spec as JSON holds it; of a policy that was fitted, its name and all that it learned."""
    if isinstance(value, AnswerType | Policy):
        if (spec := spec_of(value)) is not None:
            return spec
        if isinstance(value, Policy) and (name := policies().name_of(type(value))):
            return {"name": name, "options": value.to_plain()}
        raise InputError(
            f"a run in a store is resumed by another process, which cannot make {value!r}. "
            "Install it as an entry point of pets, or run without a store."
        )
    if isinstance(value, TokenPrice | ModelShare):
        return asdict(value)
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return dict(value) if isinstance(value, Mapping) else value
