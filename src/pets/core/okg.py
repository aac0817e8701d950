"""The index of the optimistic knowledge gradient on a tally, for the policies that rank by it."""

import math

from pets.core.dirichlet import log_R_plus_counts
from pets.core.tally import Tally
from pets.errors import InputError


def okg_index(tally: Tally, prior: float, unseen: int) -> float:
    """log(R+ x chance that a trace votes) under Dir(prior) on the tally's slots, pending traces as a fantasy.

    >>> okg_index(Tally((2, 1)), 1.0, 1) > okg_index(Tally((3,)), 1.0, 1) > okg_index(Tally((9, 1)), 1.0, 1)
    True
    """
    gain = log_R_plus_counts(tally.counts, prior, tally.slots(unseen), tally.pending)
    return gain + math.log(voting_chance(tally))


def voting_chance(tally: Tally) -> float:
    """(voters + 1) / (traces + 1): a question whose traces never parse must not swallow the budget.

    >>> voting_chance(Tally((3,))), voting_chance(Tally((), nulls=3))
    (1.0, 0.25)
    """
    return (tally.votes - tally.extra + 1) / (tally.returned + 1)


def check_prior(prior: float, unseen: int) -> None:
    """Refuse what is no prior."""
    if not 0.0 < prior < math.inf:
        raise InputError(f"a prior is a positive number of pseudo-votes for each option; got {prior}. Try 1.")
    if unseen < 1:
        raise InputError(f"an open answer set keeps at least 1 unseen slot; got unseen={unseen}.")


def check_zone(zone: float, prior: float | str = "learned") -> None:
    """Refuse what is no indifference zone, and one that the policy's gain cannot see."""
    if not 0.0 <= zone < 1.0:
        raise InputError(f"an indifference zone is a difference of shares, 0 <= zone < 1; got {zone}. Try 0.1.")
    if zone and prior != "learned":
        raise InputError(f"a zone needs the learned prior; got prior={prior}. Drop one of the two.")
