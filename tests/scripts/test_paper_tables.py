"""The paper's tables: the numbers behind them."""

from scripts.paper.tables import bin_sweep, wall_clock

from pets.lab import ReplayConfig, read_answers, replay


def test_the_sweep_says_what_replay_found(pool):
    config = ReplayConfig(2, 16, budgets=(8.0,))
    rows = bin_sweep([pool], config)
    assert [(row.policy, row.K) for row in rows] == [
        *(("oracle", K) for K in (2, 3, 5, 8)),
        *(("online_grid", K) for K in (2, 3, 4, 5)),
    ]
    (pool_result,) = replay([pool], ["oracle:K=3"], config=config)
    (result,) = pool_result.results
    assert (rows[1].consistency, rows[1].accuracy) == (result.consistency.mean(), result.accuracy.mean())


def test_the_clock_runs_on_whole_budgets(pool):
    rows = wall_clock(read_answers(pool), ReplayConfig(2, 16, budgets=(8.0,)))
    by_policy = {row.policy: row for row in rows}
    assert by_policy["okg:prior=1"].traces == 14 * 8 and by_policy["uniform"].traces == 4 * 8
    assert 4 * 4 <= by_policy["online_grid"].traces <= 4 * 8
    assert all(row.seconds > 0 for row in rows)
