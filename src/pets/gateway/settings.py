"""What the operator of a gateway chooses."""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from pets.arguments import Interval, check_fields, setting
from pets.engine.spec import RunSpec
from pets.errors import InputError

RETRY_BACKOFF_S = 0.1  # before the second try, doubled each time; a client waits
SERVED = RunSpec.of(
    policy="price:warmup=2",
    budget_window=100,
    concurrency=256,
    open_questions=1024,
    answer="text",
    backoff=RETRY_BACKOFF_S,
)
"""How a gateway votes where nothing is said."""
NEEDED = ("max_traces", "budget_window", "concurrency", "open_questions")


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest request that is taken; what is larger gets a 4xx and costs nothing."""

    title: ClassVar = "Requests"

    body: int = setting(
        1 << 20, "How many bytes a request may have.", flags=("--max-body",), within=Interval(1), rare=True
    )
    messages: int = 4096
    max_tokens: int = setting(32_768, "How many tokens per trace a request may ask for.", within=Interval(1))
    n: int = 16
    body_seconds: float = 30.0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """How requests are served, and by its ``spec`` voted on; one vote more than its ``open_questions`` gets a 503.

    A trace without a vote, where the budget is used up, is not counted against it. ``keepalive`` is how many seconds a
    stream of events is silent at most.
    """

    title: ClassVar = "Requests"

    spec: RunSpec = SERVED
    limits: Limits = field(default_factory=Limits)
    prefix: str = "pets/"
    keepalive: float = setting(5.0, within=Interval(0, open="()"))
    over_budget: Literal["refuse", "single"] = setting(
        "refuse", "What a request that the budget does not pay for gets: 429, or one trace without a vote."
    )
    passthrough: bool = setting(True, "Serve plain models too, as they are.", rare=True)
    allow_fields: tuple[str, ...] = setting(
        (),
        "A field of requests, or a type of tool, that is sent on under a budget though its cost is not known; "
        "may be repeated.",
        flags=("--allow-field",),
        metavar="NAME",
        rare=True,
    )
    allow_hosts: tuple[str, ...] = setting(
        (),
        "A name under which clients reach the gateway; without keys, others than this machine's are refused.",
        flags=("--allow-host",),
        metavar="NAME",
    )
    cors_origins: tuple[str, ...] = setting(
        (),
        "An origin whose pages may ask from a browser, such as https://app.example; may be repeated. '*' is any, for a "
        "gateway with keys.",
        flags=("--cors-origin",),
        metavar="ORIGIN",
        rare=True,
    )
    reuse: bool = setting(
        False,
        "Keep traces in the store, and answer a question that the same key asks again with those that it has paid for.",
    )
    texts: bool = setting(True, "Keep the latest questions and their traces in memory, to be read on the dashboard.")

    def __post_init__(self) -> None:
        check_fields(self)
        if missing := [name for name in NEEDED if self.spec.check("serve").get(name) is None]:
            raise InputError(f"{missing[0]} is None; a gateway needs a number.")
        if not isinstance(answer := self.spec.reading.answer, str):
            raise InputError(f"a gateway reads answers by a type with a name, such as text; got {answer!r}.")
        for origin in self.cors_origins:
            scheme, _, host = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not host or "/" in host):
                raise InputError(f"{origin!r} is no origin of pages; write https://app.example, without a path.")
        if not self.prefix:
            raise InputError("the prefix tells voted models from plain ones and is not empty; pets/ is usual.")

    @classmethod
    def of(cls, **options: Any) -> Self:
        """The settings that keywords say: fields of the settings, or of their spec.

        >>> Settings.of(answer="number", over_budget="single").spec.reading.answer
        'number'
        """
        own = {spec.name: options.pop(spec.name) for spec in fields(cls) if spec.name in options}
        return cls(SERVED.with_options(**options), **own)
