"""What the demo shows: savings, averages."""

from pets.cli.demo_report import PolicyRun, averaged, savings
from pets.pools import Pool, PooledQuestion


def a_run(policy, *curve):
    return PolicyRun(policy, (), curve[-1], 0.0, curve, {})


def test_the_saving_is_told_where_the_others_end_was_reached_earlier():
    told = savings(a_run("okg", 0.2, 0.6, 0.8, 0.9), a_run("uniform", 0.2, 0.4, 0.5, 0.6))
    assert "self-consistency of 60.0%" in told and "okg after 2 traces, by uniform after 4: 50% saved." in told


def test_no_saving_is_told_where_there_is_none():
    same = a_run("okg", 0.2, 0.6), a_run("uniform", 0.2, 0.6)
    assert savings(*same).endswith("okg after 2 traces, by uniform after 2.")
    behind = a_run("okg", 0.2, 0.4), a_run("uniform", 0.2, 0.6)
    assert savings(*behind) == "okg did not reach uniform's self-consistency of 60.0% this time."


def test_averages_are_over_the_whole_pool():
    pool = Pool("toy", tuple(PooledQuestion(f"q{i}", ("A",) * 16) for i in range(6)))
    assert averaged(pool) == (
        "Averages, 6 recorded questions, 5 draws of 16 traces: at 8 traces per question okg is +0.0 ± 0.0 points "
        "ahead; for a self-consistency of 0.95 it needs 1.0, uniform 1.0."
    )
