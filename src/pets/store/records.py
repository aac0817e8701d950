"""The records of a store, frozen and plain: settings, traces, lost launches, summaries."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from pets.confidence import Confidence
from pets.core.budget import Currency
from pets.errors import StateError
from pets.types import Launch, Trace

__all__ = ["LostLaunch", "RunSettings", "RunState", "RunSummary", "StoredTrace"]

RunState = Literal["running", "stopped", "finished"]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All that a run needs to go on in another process: plain data, no key of any server.

    ``budget`` is what the user wrote, ``total`` what it comes to in the currency's smallest unit. ``confidence`` is
    the kind that votes are weighted by. ``more`` takes whatever else a driver wants to find again, as JSON.
    """

    policy: str
    total: int
    currency: Currency = field(default_factory=Currency)
    budget: str = ""
    cap: int | None = None
    seed: int = 0
    model: str = ""
    endpoints: tuple[str, ...] = ()
    confidence: str | None = None
    concurrency: int = 1
    name: str = ""  # of the question set
    version: str = ""  # of pets
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """As the store keeps them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The settings that :meth:`to_json` wrote.

        >>> settings = RunSettings("okg", 100, endpoints=("http://localhost:8000/v1",))
        >>> RunSettings.from_json(settings.to_json()) == settings
        True
        """
        try:
            data = json.loads(text)
            data.pop("sampling", None)  # version 0.1.0 wrote it, always empty
            return cls(**{**data, "currency": Currency(**data["currency"]), "endpoints": tuple(data["endpoints"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f"the settings of a run are damaged ({error}); this pets cannot read them.") from None


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace as it came back, whole: enough to vote, to audit and to replay without asking the model again.

    ``answer`` is canonical, ``None`` where no vote is cast; ``error`` says why nothing came back after ``tries``.
    ``endpoint`` is a place in the settings' list. ``tokens`` are those paid for, of failed tries too; ``wasted`` counts
    the tries before this one that may have been sampled, were charged and came to nothing.
    """

    question: str
    number: int
    answer: str | None = None
    text: str = ""
    finish: str = ""
    tokens: int = 0
    prompt_tokens: int = 0
    confidences: Confidence | None = None
    error: str | None = None
    endpoint: int = 0
    seconds: float = 0.0
    tries: int = 1
    wasted: int = 0

    @property
    def launch(self) -> Launch:
        """The launch that this trace answers."""
        return Launch(self.question, self.number)

    def trace(self, kind: str | None = None) -> Trace:
        """What the allocator is told; ``kind`` is the confidence that votes are weighted by.

        >>> StoredTrace("q", 0, "7", tokens=9).trace()
        Trace(question='q', number=0, answer='7', confidence=None, tokens=9, prompt_tokens=0)
        """
        confidence = None if kind is None or self.confidences is None else getattr(self.confidences, kind)
        return Trace(self.question, self.number, self.answer, confidence, self.tokens, self.prompt_tokens)


@dataclass(frozen=True, slots=True)
class LostLaunch:
    """A launch that was dispatched and never came back; ``held`` is what was reserved for it."""

    question: str
    number: int
    held: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in numbers. ``spent`` counts lost launches at what was held for them; times are seconds since 1970."""

    id: int
    state: RunState
    created: float
    updated: float
    questions: int
    traces: int
    answered: int
    lost: int
    tokens: int
    prompt_tokens: int
    spent: int
    settings: RunSettings
