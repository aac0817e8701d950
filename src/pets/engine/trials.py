"""Trying again: what a failure is called, whether it concerns everybody, and how long to wait."""

from pets.engine.endpoints import unreachable
from pets.errors import ReplyError, SamplerError

__all__ = ["FATAL", "LONGEST_WAIT", "name_of", "wait_of"]

FATAL = {401, 403, 404}  # a bad key, no such model: the same for every question
LONGEST_WAIT = 30.0


def wait_of(tries: int, error: SamplerError, backoff: float, coin: float) -> float:
    """Seconds until the next try: doubling, with jitter (``coin`` in [0, 1)), never before the server's own word.

    >>> from pets.errors import BusyError
    >>> wait_of(3, BusyError("full", status=503), 0.5, coin=0.5)
    2.0
    >>> wait_of(1, BusyError("slow down", status=429, retry_after=8.0), 0.5, coin=0.5)
    8.8
    """
    jitter = 0.5 + coin
    wait = min(LONGEST_WAIT, backoff * 2.0 ** (tries - 1)) * jitter
    return max(wait, (error.retry_after or 0.0) * (1.0 + 0.1 * jitter))


def name_of(error: SamplerError) -> str:
    """A fault's name in the log.

    >>> from pets.errors import BusyError
    >>> name_of(BusyError("slow down", status=429)), name_of(ReplyError("half a body"))
    ('429', 'broken reply')
    """
    if error.status is not None:
        return str(error.status)
    if isinstance(error, ReplyError):
        return "broken reply"
    return "unreachable" if unreachable(error) else "timeout"
