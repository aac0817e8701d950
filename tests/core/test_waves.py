"""Plans of waves: equal shares by the index, for policies without a plan of their own."""

import math

from pets.core.tally import Tally
from pets.core.waves import Wave, equal_shares


def test_equal_shares_go_where_the_index_with_what_was_dealt_pending_is_highest():
    states = {Tally((3, 2)): 2, Tally((9,)): 1, Tally(): 1}
    plan = equal_shares(lambda tally: -tally.launched, states, Wave(budget=30, left=3))
    assert sum(map(sum, plan.values())) == 10
    assert plan == {Tally((3, 2)): [2, 2], Tally((9,)): [0], Tally(): [6]}


def test_equal_shares_keep_to_the_cap_and_leave_out_what_is_never_served():
    states = {Tally((3,)): 1, Tally((1, 1)): 1}
    plan = equal_shares(lambda tally: -math.inf if tally.counts == (3,) else 1.0, states, Wave(99, 1, cap=6))
    assert plan == {Tally((3,)): [0], Tally((1, 1)): [4]}
