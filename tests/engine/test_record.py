"""Recording: every trace once, whatever breaks off."""

import asyncio
import json
from dataclasses import replace

import pytest

from pets.confidence import Confidence
from pets.engine.record import MAX_CHOICES, Recording, record, summarize_recording
from pets.engine.spec import RunSpec
from pets.errors import BusyError, InputError, PoolError, RefusedError, ReplyError, SpecError, UnreachableError
from pets.lab import read_answers
from pets.pools import read_pool, read_pools
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler

from ..simulated_time import run_simulated

PROBLEMS = tuple(Problem(f"q{number}", Prompt(f"{number} ="), "number", str(number)) for number in range(5))
SPEC = RunSpec.of(open_questions=2)
RECORDING = Recording(PROBLEMS, traces=6, spec=SPEC)
OTHER = SPEC.with_options(temperature=0.5, stop=["."])
ONE_BY_ONE = SPEC.with_options(open_questions=1)


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
    return run_simulated(record(recording, sampler, path))


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
    with pytest.raises(BusyError, match="it fell over"):
        run(Counting(broken="3 ="), path, replace(RECORDING, spec=ONE_BY_ONE))
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
    with pytest.raises(PoolError, match=r"line 1 holds 6 traces of 'q.'; this recording has 7"):
        run(Counting(), tmp_path / "pool.jsonl", replace(RECORDING, traces=7))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"model": "large"}, "model 'small'; now it is 'large'"),
        ({"spec": SPEC.with_options(seed=3)}, "seed 0; now it is 3"),
        (
            {"spec": SPEC.with_options(temperature=0.5, stop=["."])},
            r"temperature 1.0, stop \[\]; now it is 0.5, \['.'\]",
        ),
    ],
)
def test_traces_of_another_kind_do_not_get_among_those_of_the_file(tmp_path, other, says):
    path, mine = tmp_path / "pool.jsonl", replace(RECORDING, model="small", part=(1, 2))
    run(Counting(), path, mine)
    kept, sampler = path.read_bytes(), Counting()
    with pytest.raises(PoolError, match=f"was recorded with {says}"):
        run(sampler, path, replace(mine, part=(1, 1), **other))
    assert sampler.seeds == [] and path.read_bytes() == kept
    assert run(Counting(), path, replace(mine, part=(1, 1), spec=ONE_BY_ONE)) == 2


def test_a_recording_with_a_token_limit_goes_on_with_it_where_none_is_named(tmp_path):
    path, limits = tmp_path / "pool.jsonl", []

    class Limited(Counting):
        async def sample(self, prompt, n, seed, sampling):
            limits.append(sampling.max_tokens)
            return await super().sample(prompt, n, seed, sampling)

    run(Limited(), path, replace(RECORDING, part=(1, 2), spec=SPEC.with_options(max_tokens=1024)))
    run(Limited(), path, RECORDING)
    assert set(limits) == {1024} and len(read_pool(path).questions) == 5
    with pytest.raises(PoolError, match="max_tokens 1024; now it is 2048"):
        run(Limited(), path, replace(RECORDING, spec=SPEC.with_options(max_tokens=2048)))


def test_a_file_that_does_not_say_how_it_was_recorded_is_taken_as_it_is(tmp_path):
    path, beside = tmp_path / "pool.jsonl", tmp_path / "pool.jsonl.recording"
    run(Counting(), path, replace(RECORDING, part=(1, 2)))
    beside.write_text("[]")
    with pytest.raises(PoolError, match=r'pool.jsonl.recording" does not say how .* Delete it'):
        run(Counting(), path)
    beside.unlink()
    assert run(Counting(), path, replace(RECORDING, spec=SPEC.with_options(seed=8))) == 2 and not beside.exists()


def asking(*texts):
    """The recording with these texts for its first questions."""
    changed = [replace(PROBLEMS[at], prompt=Prompt(text)) for at, text in enumerate(texts)]
    return replace(RECORDING, problems=(*changed, *PROBLEMS[len(changed) :]))


def test_another_text_under_the_same_id_does_not_go_on_with_the_file(tmp_path):
    path, beside = tmp_path / "pool.jsonl", tmp_path / "pool.jsonl.recording"
    run(Counting(), path, replace(RECORDING, problems=PROBLEMS[:2]))
    kept, sampler = path.read_bytes(), Counting()
    with pytest.raises(PoolError, match=r"2 of these questions with another prompt, first 'q0'. Ask as before"):
        run(sampler, path, asking("zero =", "one ="))
    assert sampler.seeds == [] and path.read_bytes() == kept
    assert run(Counting(), path, asking("0 =", "1 =", "two =")) == 3  # q2 had not been asked
    with pytest.raises(PoolError, match="first 'q2'"):
        run(Counting(), path)
    terms = json.loads(beside.read_text())
    del terms["prompts"]  # as earlier versions wrote it
    beside.write_text(json.dumps(terms))
    assert run(Counting(), path) == 0


def test_nothing_that_failed_before_its_first_question_binds_the_next_recording(tmp_path):
    path = tmp_path / "pool.jsonl"
    with pytest.raises(BusyError):
        run(Counting(broken="0 ="), path, replace(RECORDING, model="typo", problems=PROBLEMS[:1]))
    assert run(Counting(), path, replace(RECORDING, model="right")) == 5


def test_what_is_beside_a_recording_is_no_pool(tmp_path):
    run(Counting(), tmp_path / "pool.jsonl")
    assert [pool.name for pool in read_pools([tmp_path])] == ["pool"]


def test_a_request_is_for_so_many_traces_and_no_more(tmp_path):
    asked = []

    class Generous(Counting):
        async def sample(self, prompt, n, seed, sampling):
            asked.append((n, seed))
            return await super().sample(prompt, n, seed, sampling)

    run(
        Generous(most=MAX_CHOICES),
        tmp_path / "pool.jsonl",
        replace(RECORDING, problems=PROBLEMS[:1], traces=2 * MAX_CHOICES + 6),
    )
    (_, first), *_ = asked
    assert asked == [(MAX_CHOICES, first), (MAX_CHOICES, first + MAX_CHOICES), (6, first + 2 * MAX_CHOICES)]


def test_parts_put_together_are_the_whole(tmp_path):
    run(Counting(), tmp_path / "whole.jsonl")
    for i in (1, 2):
        run(Counting(), tmp_path / f"{i}.jsonl", replace(RECORDING, part=(i, 2)))
    parts = (tmp_path / "1.jsonl").read_bytes() + (tmp_path / "2.jsonl").read_bytes()
    assert sorted(parts.splitlines()) == sorted((tmp_path / "whole.jsonl").read_bytes().splitlines())
    with pytest.raises(InputError, match="part 3/2"):
        replace(RECORDING, part=(3, 2))


class Refusing(Counting):
    """Will not serve the first question."""

    async def sample(self, prompt, n, seed, sampling):
        if prompt.content == "0 =":
            raise RefusedError("too long", status=400)
        return await super().sample(prompt, n, seed, sampling)


def test_what_was_begun_when_another_question_fails_is_asked_to_its_end_and_kept(tmp_path):
    path = tmp_path / "pool.jsonl"
    for traces in (6, 2 * MAX_CHOICES + 6):  # more than are in flight at once
        with pytest.raises(RefusedError, match="too long"):
            run(Refusing(most=1), path, replace(RECORDING, traces=traces))
        assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["q1"]
        path.unlink()


class Away(Counting):
    """Cannot be reached for some time after its first request."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    async def sample(self, prompt, n, seed, sampling):
        await asyncio.sleep(1)
        if self.seeds and asyncio.get_running_loop().time() < self.seconds:
            raise UnreachableError("nobody is there")
        return await super().sample(prompt, n, seed, sampling)


def test_an_outage_does_not_end_a_recording_unless_it_lasts(tmp_path):
    sampler, path = Away(seconds=200), tmp_path / "pool.jsonl"
    assert run(sampler, path) == 5 and len(sampler.seeds) == len(set(sampler.seeds)) == 30
    run(Counting(), tmp_path / "calm.jsonl")
    assert sorted(path.read_text().splitlines()) == sorted((tmp_path / "calm.jsonl").read_text().splitlines())
    gone = tmp_path / "gone.jsonl"
    with pytest.raises(UnreachableError, match="nobody is there"):
        run(Away(seconds=1e9), gone)
    kept = len(gone.read_text().splitlines())
    assert kept >= 1 and run(Counting(), gone) == 5 - kept


class Moody(Counting):
    """Takes no more than two traces at a time, and every other call that it takes fails."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    async def sample(self, prompt, n, seed, sampling):
        if n > 2:
            raise RefusedError("two slots", status=400)
        self.calls += 1
        if self.calls % 2:
            raise ReplyError("half a body") if self.calls % 4 == 1 else BusyError("later", status=429, retry_after=0.0)
        return await super().sample(prompt, n, seed, sampling)


def test_failures_that_pass_and_small_servers_cost_nothing(tmp_path):
    sampler = Moody()
    assert run(sampler, tmp_path / "pool.jsonl", replace(RECORDING, spec=ONE_BY_ONE)) == 5
    run(Counting(), tmp_path / "calm.jsonl", replace(RECORDING, spec=ONE_BY_ONE))
    assert (tmp_path / "pool.jsonl").read_bytes() == (tmp_path / "calm.jsonl").read_bytes()
    assert len(sampler.seeds) == len(set(sampler.seeds)) == 30


def test_a_refusal_that_concerns_one_trace_ends_it(tmp_path):
    class Unknown(Counting):
        async def sample(self, prompt, n, seed, sampling):
            self.seeds.append(n)
            raise RefusedError("no such model", status=404)

    sampler = Unknown()
    with pytest.raises(RefusedError, match="no such model"):
        run(sampler, tmp_path / "pool.jsonl", replace(RECORDING, spec=ONE_BY_ONE))
    assert sampler.seeds == [6]


class Speechless(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return [replace(one, finish="length") for one in await super().sample(prompt, n, seed, sampling)]


def test_a_question_without_any_answer_is_not_sampled_again(tmp_path):
    path = tmp_path / "pool.jsonl"
    assert run(Speechless(), path, replace(RECORDING, part=(1, 2))) == 3
    assert run(Counting(), path) == 2 and summarize_recording(path, PROBLEMS).unanswered == 3
    assert run(Counting(), path) == 0
    assert len(read_pool(path).questions) == 5 and len(read_answers(read_pool(path)).questions) == 2


def test_a_line_that_lacks_only_its_end_is_not_sampled_again(tmp_path):
    path = tmp_path / "pool.jsonl"
    run(Counting(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert run(Counting(), path) == 0 and path.read_bytes() == whole


@pytest.mark.parametrize("theirs", [b'{"id":"a","prompt":"x"}', b'{"id": "a", "pro', b"hello", b"[1]\n", b"5\n"])
def test_a_file_that_was_not_recorded_is_refused_and_stays_as_it_is(tmp_path, theirs):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(theirs)
    with pytest.raises(PoolError, match="line 1 was not recorded here"):
        run(Counting(), path)
    assert path.read_bytes() == theirs


def test_what_cannot_end_well_ends_before_anything_is_paid_for(tmp_path):
    sampler = Counting()
    with pytest.raises(PoolError, match="cannot be written"):
        run(sampler, tmp_path / "none" / "pool.jsonl")
    with pytest.raises(PoolError, match="cannot be read"):
        run(sampler, tmp_path)
    with pytest.raises(SpecError):
        run(
            sampler, tmp_path / "pool.jsonl", replace(RECORDING, problems=[replace(PROBLEMS[0], answer_type="nothing")])
        )
    assert sampler.seeds == []


def test_an_empty_gold_is_none(tmp_path):
    run(Counting(), tmp_path / "pool.jsonl", replace(RECORDING, problems=[replace(PROBLEMS[0], gold="")]))
    assert read_pool(tmp_path / "pool.jsonl").questions[0].gold is None


def test_progress_counts_what_was_recorded_before(tmp_path):
    heard = []
    for part in ((1, 2), (1, 1)):
        recording = replace(RECORDING, part=part, spec=ONE_BY_ONE)
        asyncio.run(record(recording, Counting(), tmp_path / "pool.jsonl", lambda *told: heard.append(told)))
    assert heard == [(0, 3), (1, 3), (2, 3), (3, 3), (3, 5), (4, 5), (5, 5)]


def test_texts_are_kept_so_that_answers_can_be_read_anew(tmp_path):
    run(Counting(), tmp_path / "pool.jsonl")
    pool = read_pool(tmp_path / "pool.jsonl")
    asked = next(question for question in pool.questions if question.id == "q0")
    seeds = [int(text.removeprefix("The answer is ").rstrip(".")) for text in asked.texts]
    assert asked.cut == tuple(seed % 3 == 0 for seed in seeds)
    anew = next(question for question in read_answers(pool, "number").questions if question.id == "q0")
    assert anew.labels == asked.answers == tuple(None if seed % 3 == 0 else str(seed) for seed in seeds)
    run(Counting(), tmp_path / "bare.jsonl", replace(RECORDING, spec=SPEC.with_options(keep_texts=False)))
    bare = read_pool(tmp_path / "bare.jsonl")
    assert all(question.texts is None and question.cut is None for question in bare.questions)
    with pytest.raises(PoolError, match="was recorded with keep_texts False; now it is True"):
        run(Counting(), tmp_path / "bare.jsonl")


def test_a_recording_is_its_owners_alone(tmp_path):
    run(Counting(), tmp_path / "pool.jsonl")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_accuracy_is_told_where_there_is_gold(tmp_path):
    problems = (PROBLEMS[0], replace(PROBLEMS[1], gold="#### 4097"), replace(PROBLEMS[2], gold=None))
    recording = replace(RECORDING, problems=problems, traces=1)
    run(Counting(), tmp_path / "pool.jsonl", recording)
    said = [json.loads(line)["answers"] for line in (tmp_path / "pool.jsonl").read_text().splitlines()]
    summary = summarize_recording(tmp_path / "pool.jsonl", problems)
    assert summary.judged == 2 and summary.unanswered == said.count([None])
    right = sum(answers == [gold] for answers, gold in zip(said, ("0", "4097"), strict=False))
    assert summary.pass_at_1 == summary.vote_accuracy == right / 2
    assert summarize_recording(tmp_path / "pool.jsonl", ()).judged == 0


def test_gold_that_was_mended_after_the_recording_counts(tmp_path):
    path = tmp_path / "pool.jsonl"
    problems = [replace(problem, gold="-1") for problem in PROBLEMS]
    run(Counting(), path, replace(RECORDING, problems=problems, traces=1))
    answers = {row["id"]: row["answers"][0] for row in map(json.loads, path.read_text().splitlines())}
    mended = [replace(problem, gold=answers[problem.id]) for problem in problems]
    assert any(answers.values())
    assert (
        summarize_recording(path, problems).vote_accuracy == 0 and summarize_recording(path, mended).vote_accuracy == 1
    )
