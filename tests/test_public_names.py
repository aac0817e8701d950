"""What ``import pets`` promises; adding or removing a name is a decision, not an accident."""

import pets

NAMES = [
    "Allocator",
    "Budget",
    "BudgetError",
    "Currency",
    "Engine",
    "IndexPolicy",
    "InputError",
    "Launch",
    "PetsError",
    "PoolError",
    "Question",
    "QuotaPolicy",
    "SpecError",
    "StateError",
    "Tally",
    "Trace",
    "Verdict",
    "View",
    "make_policy",
    "solve",
]


def test_the_public_names_are_pinned():
    assert pets.__all__ == NAMES
    assert all(hasattr(pets, name) for name in NAMES)
