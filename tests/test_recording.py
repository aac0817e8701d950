"""Recording: every trace once, whatever breaks off."""

import asyncio
from dataclasses import replace

import pytest

from pets.confidence import Confidence
from pets.errors import BusyError, InputError, PoolError
from pets.pools import read_pool
from pets.questions import Problem
from pets.recording import Recording, record
from pets.samplers import Completion, Prompt, Sampler, Sampling

PROBLEMS = tuple(Problem(f"q{number}", Prompt(f"{number} ="), "number", str(number)) for number in range(5))
RECORDING = Recording(PROBLEMS, traces=6, sampling=Sampling(), at_once=2)


class Counting(Sampler):
    """Says its seed; gives at most ``most`` traces a call, and fails for good at one question."""

    def __init__(self, most=6, broken=None):
        self.most, self.broken, self.seeds = most, broken, []

    async def sample(self, prompt, n, seed, sampling):
        if prompt.content == self.broken:
            raise BusyError("it fell over")
        await asyncio.sleep(0)
        seeds = range(seed, seed + min(n, self.most))
        self.seeds += seeds
        sure = Confidence(mean=2.0, tail=3.0, lowest=1.0, bottom=1.5, tokens=3)
        return [Completion(f"The answer is {at}.", "length" if at % 3 == 0 else "stop", 3, 9, sure) for at in seeds]


def run(sampler, path, recording=RECORDING):
    return asyncio.run(record(recording, sampler, path))


def test_every_question_gets_its_traces_and_no_seed_is_used_twice(tmp_path):
    sampler = Counting(most=4)  # fewer choices than asked
    assert run(sampler, tmp_path / "pool.jsonl") == 5
    pool = read_pool(tmp_path / "pool.jsonl")
    assert sorted(question.id for question in pool.questions) == [problem.id for problem in PROBLEMS]
    assert len(sampler.seeds) == len(set(sampler.seeds)) == 30
    first = pool.questions[0]
    assert [answer is None for answer in first.answers].count(True) == 2  # cut at their limit: no vote
    assert first.tokens == (3,) * 6 and first.confidence == (3.0,) * 6 and first.confidences["lowest"] == (1.0,) * 6


def test_a_broken_recording_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "pool.jsonl"
    with pytest.raises(ExceptionGroup) as error:
        run(Counting(broken="3 ="), path, replace(RECORDING, at_once=1))
    assert error.group_contains(BusyError)
    kept = path.read_bytes()
    assert kept.count(b"\n") == 3
    path.write_bytes(kept + b'{"id":"q3","answ')  # killed while it wrote
    assert run(Counting(), path) == 2
    assert path.read_bytes().startswith(kept)
    whole = tmp_path / "whole.jsonl"
    run(Counting(), whole)
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.read_bytes().splitlines())
    assert run(Counting(), path) == 0


def test_a_file_of_another_recording_is_refused(tmp_path):
    run(Counting(), tmp_path / "pool.jsonl")
    with pytest.raises(PoolError, match=r"holds 6 traces of 'q.'; this recording has 7"):
        run(Counting(), tmp_path / "pool.jsonl", replace(RECORDING, traces=7))


def test_parts_put_together_are_the_whole(tmp_path):
    run(Counting(), tmp_path / "whole.jsonl")
    for i in (1, 2):
        run(Counting(), tmp_path / f"{i}.jsonl", replace(RECORDING, part=(i, 2)))
    parts = (tmp_path / "1.jsonl").read_bytes() + (tmp_path / "2.jsonl").read_bytes()
    assert sorted(parts.splitlines()) == sorted((tmp_path / "whole.jsonl").read_bytes().splitlines())
    with pytest.raises(InputError, match="part 3/2"):
        replace(RECORDING, part=(3, 2))
