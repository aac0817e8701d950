"""What the operator of a gateway chooses."""

import math
from dataclasses import dataclass, field
from typing import Literal

from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest request that is taken; what is larger gets a 4xx and costs nothing."""

    body: int = 1 << 20
    messages: int = 4096
    max_tokens: int = 32_768
    n: int = 16
    body_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How requests are served.

    ``concurrency`` upstream traces are in flight at most, ``queue`` voted requests are open at most (one more is
    refused with 503). A trace is given up after ``tries``. ``rpm`` and ``tpm`` are the requests and tokens per minute
    that each upstream server takes. ``exhausted`` says what a request gets when the budget is used up: ``refuse`` is
    a 429, ``single`` one trace without a vote, which is not counted against the budget. Without keys, requests name
    this machine or one of ``allow_hosts`` as their host. Pages of ``cors_origins`` may ask and read
    replies. ``allow_fields`` are fields of requests, and types of tools, that are sent on under a budget though the
    gateway does not know what they cost. ``texts`` keeps the latest questions and their traces in memory, for the
    dashboard.
    """

    prefix: str = "pets/"
    answer: str = "text"
    max_traces: int = 64
    timeout: float = 600.0
    concurrency: int = 256
    queue: int = 1024
    tries: int = 6
    rpm: int | None = None
    tpm: int | None = None
    keepalive: float = 5.0
    passthrough: bool = True
    exhausted: Literal["refuse", "single"] = "refuse"
    allow_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    allow_fields: tuple[str, ...] = ()
    texts: bool = True
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name in ("max_traces", "concurrency", "queue", "tries"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is 1 or more; got {getattr(self, name)}.")
        for name in ("timeout", "keepalive"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} is a number of seconds, more than 0; got {getattr(self, name)}.")
        for origin in self.cors_origins:
            scheme, _, host = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not host or "/" in host):
                raise InputError(f"{origin!r} is no origin of pages; write https://app.example, without a path.")
        if not self.prefix:
            raise InputError("the prefix tells voted models from plain ones and is not empty; pets/ is usual.")
