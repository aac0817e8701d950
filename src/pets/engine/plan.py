"""What a live run is to do, as plain frozen data; a store keeps it so that another process can go on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pets.confidence import KINDS, Kind
from pets.core.policy import Policy
from pets.engine.prices import Price
from pets.errors import InputError
from pets.registry import make_answer_type, make_policy
from pets.samplers import Sampling

__all__ = ["Plan"]

TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """A policy, a budget and how traces are drawn.

    ``answer`` and ``system`` replace what the questions say. ``confidence`` is the kind that votes are weighted by;
    with one, log-probabilities are asked for. ``target_consistency`` ends the run early, once the expected
    self-consistency is there. ``overshoot`` is the share of a budget in tokens or money that traces in flight may go
    over it at the very worst; a budget in traces is never exceeded. A trace is given up after ``tries``, the second of
    which waits about ``backoff`` seconds, every further one twice as long.

    >>> Plan(budget="8x", confidence="tail").drawn.top_logprobs
    20
    """

    budget: str = "16x"
    policy: str = "okg"
    max_per_question: int | None = 64
    concurrency: int = 64
    sampling: Sampling = field(default_factory=Sampling)
    answer: str | None = None
    system: str | None = None
    confidence: Kind | None = None
    price: Price | None = None
    target_consistency: float | None = None
    overshoot: float = 0.1
    tries: int = 6
    backoff: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        domains = (
            (
                self.max_per_question is None or self.max_per_question >= 1,
                f"the cap is at least 1 trace a question; got {self.max_per_question}",
            ),
            (self.concurrency >= 1, f"at least 1 trace is in flight; got {self.concurrency}"),
            (self.tries >= 1, f"a trace is tried at least once; got {self.tries}"),
            (0 <= self.backoff <= 60, f"the backoff is 0 to 60 seconds; got {self.backoff}"),
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
        for holds, found in domains:
            if not holds:
                raise InputError(f"{found}.")
        self.make_policy()
        if self.answer is not None:
            make_answer_type(self.answer)

    def make_policy(self) -> Policy:
        """The policy that the spec names."""
        return make_policy(self.policy)

    @property
    def kind(self) -> Kind | None:
        """The confidence to tell the policy: a policy that weighs traces gets the tail's unless another was chosen."""
        return self.confidence or ("tail" if self.make_policy().sees == "traces" else None)

    @property
    def drawn(self) -> Sampling:
        """The sampling, with log-probabilities where a confidence is wanted."""
        if self.kind is None or self.sampling.top_logprobs is not None:
            return self.sampling
        return replace(self.sampling, top_logprobs=TOP_LOGPROBS)

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "Plan":
        """The plan that :meth:`to_plain` described.

        >>> Plan.from_plain(Plan(price=Price(1, 2)).to_plain()) == Plan(price=Price(1, 2))
        True
        """
        sampling = Sampling(**{**data["sampling"], "stop": tuple(data["sampling"]["stop"])})
        price = None if data["price"] is None else Price(**data["price"])
        return cls(**{**data, "sampling": sampling, "price": price})
