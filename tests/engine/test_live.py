"""A live run opens what it asks, and closes all that it holds."""

import asyncio

from pets.engine.live import LiveRun
from pets.engine.sources import Sources

from .conftest import Scripted


class Opened(Scripted):
    """Says whether it is open, and which models it has."""

    def __init__(self, *models):
        super().__init__()
        self.names, self.open = models, False

    async def __aenter__(self):
        self.open = True
        return self

    async def __aexit__(self, *exception):
        self.open = False

    async def models(self):
        return [{"id": name} for name in self.names]


def test_samplers_and_a_judge_are_open_as_long_as_the_run():
    one, two, judge = Opened("a", "b"), Opened("b"), Opened("c")

    async def work():
        async with LiveRun(Sources([one, two], judge=judge)) as live:
            assert one.open and two.open and judge.open and live.store_name == ""
            return await live.models()

    assert asyncio.run(work()) == ["a", "b"]
    assert not (one.open or two.open or judge.open)
