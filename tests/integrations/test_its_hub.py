"""Results of the real its_hub become a pool: `make integrations` installs it and runs this."""

import asyncio
import json
from itertools import cycle

import pytest

pytest.importorskip("its_hub", reason="its_hub is not installed; `make integrations` tests it")

from its_hub.core.algorithms.self_consistency import SelfConsistency

from pets import read_pool

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore")]
TEXTS = ["It is 4.", "So: 4", "It is 5."]


class Canned:
    """A language model as its_hub asks it, which says the same three things again and again."""

    def __init__(self):
        self.texts = cycle(TEXTS)

    async def agenerate_single(self, *messages, **options):
        return {"role": "assistant", "content": next(self.texts)}


def test_its_hubs_responses_are_traces(tmp_path):
    results = {
        id: asyncio.run(SelfConsistency().ainfer(Canned(), "2 + 2?", 6, return_response_only=False)) for id in "ab"
    }
    rows = [{"id": id, "gold": "4", "responses": result.responses} for id, result in results.items()]
    (tmp_path / "its.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pool = read_pool(tmp_path / "its.jsonl")
    assert [(question.id, question.gold) for question in pool.questions] == [("a", "4"), ("b", "4")]
    assert all(sorted(question.texts) == sorted(TEXTS * 2) for question in pool.questions)
