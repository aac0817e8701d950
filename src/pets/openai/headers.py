"""What response headers say of time: when to come back, and how much of a rate limit is left."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self

__all__ = ["RateLimits", "duration_s", "retry_after_s"]

LONGEST_WAIT_S = 366 * 24 * 3600.0  # whoever says more has not meant it
UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|µs|ns|d|h|m|s))+")
DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A server's ``x-ratelimit-*`` headers, by their own names; resets in seconds, ``None`` where it says nothing.

    >>> RateLimits.from_headers({"x-ratelimit-limit-requests": "60", "x-ratelimit-reset-requests": "6m0s"})
    RateLimits(limit_requests=60, remaining_requests=None, reset_requests_s=360.0,
               limit_tokens=None, remaining_tokens=None, reset_tokens_s=None)
    """

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> Self | None:
        """``headers`` is asked for lower-case names. ``None`` where there is not one of these headers."""
        limits = cls(
            _count(headers.get("x-ratelimit-limit-requests")),
            _count(headers.get("x-ratelimit-remaining-requests")),
            duration_s(headers.get("x-ratelimit-reset-requests", "")),
            _count(headers.get("x-ratelimit-limit-tokens")),
            _count(headers.get("x-ratelimit-remaining-tokens")),
            duration_s(headers.get("x-ratelimit-reset-tokens", "")),
        )
        return None if limits == cls() else limits


def duration_s(text: str) -> float | None:
    """A duration as rate limits give it, in seconds; ``None`` where it makes no sense.

    >>> [duration_s(text) for text in ("1s", "6m0s", "20ms", "1m30.5s", "2.5", "soon")]
    [1.0, 360.0, 0.02, 90.5, 2.5, None]
    """
    text = text.strip()
    if DURATION.fullmatch(text):
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in DURATION_PART.findall(text))
        return seconds if seconds <= LONGEST_WAIT_S else None
    return _seconds(text)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds from now, be it a number or a date; ``None`` where it is missing or makes no sense.

    >>> retry_after_s({"retry-after": "7"}), retry_after_s({"retry-after": "1e99"}), retry_after_s({})
    (7.0, None, None)
    """
    text = headers.get("retry-after", "")
    if (seconds := _seconds(text)) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds) if seconds <= LONGEST_WAIT_S else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) and seconds <= LONGEST_WAIT_S else None


def _count(text: str | None) -> int | None:
    """
    >>> _count("60"), _count("-1"), _count(None)
    (60, None, None)
    """
    return int(text) if text is not None and len(text) < 19 and text.isascii() and text.isdecimal() else None
