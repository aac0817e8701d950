"""Every exception that PETS raises on purpose.

PetsError                   the user can act on it: the message says what was found and what to do
├── InputError              an argument is outside its domain (theta, counts, confidences, sizes)
├── BudgetError             a budget that cannot be kept, or an amount that was never reserved
├── SpecError               "okg:prior=x": an unknown name, an unknown option or a bad value
├── StateError              saved state that does not fit: another version, another policy, corrupt
└── PoolError               a recorded pool that cannot be read, or a bad line in one: file and line are named

>>> issubclass(BudgetError, PetsError)
True
"""


class PetsError(Exception):
    """Root of the tree: one clear line for the user."""


class InputError(PetsError, ValueError):
    """An argument is outside its domain."""


class BudgetError(PetsError, ValueError):
    """A budget that cannot be kept, or an amount that was never reserved."""


class SpecError(PetsError, ValueError):
    """A spec such as ``okg:prior=0.5`` that names something unknown."""


class StateError(PetsError, ValueError):
    """Saved state that cannot be restored."""


class PoolError(PetsError, ValueError):
    """A recorded pool, or a line of one, that cannot be used."""
