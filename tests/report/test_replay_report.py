"""A replay's page: from any file of rows, policies side by side."""

from dataclasses import asdict

import pytest

from pets.errors import InputError
from pets.replay import rows
from pets.report.replay_report import read_rows, replay_page
from pets.tabular import write_rows


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_are_read_as_they_were_written(pool_result, tmp_path, suffix):
    table = rows([pool_result])
    write_rows(map(asdict, table), tmp_path / f"rows.{suffix}")
    again = read_rows(tmp_path / f"rows.{suffix}")
    assert [(row.policy, row.metric, row.option) for row in again] == [(r.policy, r.metric, r.option) for r in table]
    assert [row.mean for row in again] == [None if row.mean is None else pytest.approx(row.mean) for row in table]


def test_the_page_has_every_policy_and_its_curves(pool_result):
    page = replay_page(rows([pool_result]))
    for policy in ("uniform", "okg:prior=1", "asc", "dsc", "online_grid"):
        assert f"<td>{policy}</td>" in page
    assert (
        page.partition("</main>")[0].count("<svg") == 4 and "Questions one by one" in page and "pets replay toy" in page
    )


def test_another_file_is_refused(tmp_path):
    (tmp_path / "answers.jsonl").write_text('{"id": "q1"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    for name in ("answers.jsonl", "empty.jsonl"):
        with pytest.raises(InputError, match="pets replay POOL -o"):
            read_rows(tmp_path / name)
