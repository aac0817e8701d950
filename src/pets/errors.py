"""Every exception that PETS raises on purpose.

PetsError                   the user can act on it: the message says what was found and what to do
├── InputError              an argument is outside its domain (theta, counts, confidences, sizes)
├── BudgetError             a budget that cannot be kept, or an amount that was never reserved
├── SpecError               "okg:prior=x": an unknown name, an unknown option or a bad value
├── StateError              saved state that does not fit: another version, another policy, corrupt
├── FirstTracesError        most of a run's first traces cast no vote: it stopped; ``excerpt`` is one of them
├── PoolError               a recorded pool that cannot be read, or a bad line in one: file and line are named
└── SamplerError            a model gave no traces; ``status`` and ``retry_after`` as the server sent them
    ├── RefusedError        it understood and will not: a bad key, no such model, a prompt too long. Do not try again
    ├── BusyError           it cannot now: 429, 5xx, a timeout. Try again, not before retry_after
    │   └── UnreachableError  no connection could be made: nothing was sent, so nothing was sampled
    ├── ReplyError          it answered what cannot be read: half a body, a lost connection, wrong JSON. Try again
    ├── LocalModelError     the local model cannot be started or has died: file, memory, port, installation
    ├── JobError            a batch job as a whole came to nothing, or its output is not an answer to it
    └── JobLeftError        a batch job was left where it is: the run goes on with it later
"""

import copyreg
from typing import Any, Self


class PetsError(Exception):
    """Root of the tree."""

    def say_more(self, words: str) -> Self:
        """This error with a sentence added.

        >>> SamplerError("no such model.", status=404).say_more("Run 3 is kept.")
        SamplerError('no such model. Run 3 is kept.')
        """
        self.args = (f"{self} {words}",)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles (Ray's actors send them) are made without the constructor."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InputError(PetsError, ValueError):
    """An argument is outside its domain."""


class BudgetError(PetsError, ValueError):
    """A budget that cannot be kept, or an amount that was never reserved."""


class SpecError(PetsError, ValueError):
    """A spec such as ``okg:prior=0.5`` that names something unknown."""


class StateError(PetsError, ValueError):
    """Saved state that cannot be restored."""


class FirstTracesError(PetsError, RuntimeError):
    """Most of a run's first traces were cut, refused or unreadable; ``excerpt`` is what one of them said, shortened."""

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(message)
        self.excerpt = excerpt


class PoolError(PetsError, ValueError):
    """A recorded pool, or a line of one, that cannot be used."""


class SamplerError(PetsError, RuntimeError):
    """A model gave no traces.

    ``status`` is the HTTP status, ``retry_after`` how many seconds the server asks to wait, ``model`` the place of the
    model among several.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after, self.model = status, retry_after, 0


class RefusedError(SamplerError):
    """The server understood the request and will not serve it: trying again is of no use."""


class BusyError(SamplerError):
    """The server cannot serve the request now."""


class UnreachableError(BusyError):
    """No connection to the server could be made: nothing was sent, so nothing was sampled or paid for."""


class ReplyError(SamplerError):
    """The server's reply cannot be read."""


class LocalModelError(SamplerError):
    """The model on this machine cannot be started, or has died."""


class JobError(SamplerError):
    """A batch job as a whole came to nothing, or what came of it is no answer to it."""


class JobLeftError(SamplerError):
    """A batch job was left where it is, at its provider or in a file; the run goes on with it later."""


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The user's own error out of nested groups, else the only one there is, else the group.

    >>> first_error(ExceptionGroup("", [OSError(), ExceptionGroup("", [InputError("no question")])]))
    InputError('no question')
    """
    own = errors.subgroup(PetsError)
    error: BaseException = own or errors
    while isinstance(error, BaseExceptionGroup) and (own is not None or len(error.exceptions) == 1):
        error = error.exceptions[0]
    return errors if isinstance(error, BaseExceptionGroup) else error
