"""Soft votes on short answers: how many traces they save, where they give nothing, and whether certificates hold.

    python -m benchmarks.soft_votes [--repetitions 10] [--level 0.9] [--record FILE]

The 136 general-knowledge questions of the starter set, 128 traces each of SmolLM2-135M, in two forms: *worked* is the
starter pool itself (the answer's word, 30 more tokens, "The answer is ..."), *word* asks for the word alone. okg spends
trace by trace, with soft votes and without, on the same draws. Self-consistency is agreement with the vote of all 128
traces, and (``not drawn``) with the vote of the 64 that were not drawn. Levels are read off isotonic curves; intervals
are over questions, and the null value is okg with soft votes against itself on other repetitions.

Beside it three servers that give nothing, made of the same recording: one whose tokens have nothing to do with the
answers, as of traces that reason first; one whose answers are settled when their token comes; and one whose
probabilities are not those that it samples from (the temperature left out).

The recording is in ``benchmarks/data``. ``--record FILE`` makes it again with the local model (`pets-llm[local]`): the
first tokens of the starter pool's own seeds, and whole traces of the other form; about half an hour on 2 cores.
"""

import argparse
import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pets.answers.text import Text
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.soft import SoftVoteCount
from pets.engine.progress import Certifier
from pets.engine.reading import soft_vote
from pets.lab.calibration import Certified, calibrate
from pets.lab.metrics import RisingCurve
from pets.policies.okg import OKG
from pets.pools import load
from pets.prompts import Completion, Prompt, is_cut
from pets.questions.sets import STARTER_SAMPLING as SAMPLING
from pets.questions.sets import starter
from pets.samplers import Seeds
from pets.samplers.local import LocalSampler
from pets.types import Question, SoftVote, Trace

RECORDING = Path(__file__).parent / "data" / "soft_votes.jsonl.gz"
TRACES = 128
DRAWN = 64
MEAN_BUDGET = 20
POINTS_PER_TRACE = 4  # at which verdicts are looked at
CERTIFIED_AT = (2, 4, 8)
BOOTSTRAPS = 200
SHOTS = {
    "What is the capital of Italy?": "Rome",
    "Which animal says moo?": "cow",
    "What is the opposite of up?": "down",
    "Which gas do we breathe to stay alive?": "oxygen",
}

Ballots = list[tuple[str | None, SoftVote | None]]
Change = Callable[[np.random.Generator, Ballots], Ballots]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One repetition: who agrees with the two targets, (points, questions), certificates, and votes per trace."""

    whole: NDArray[np.bool_]
    not_drawn: NDArray[np.bool_]
    certified: dict[int, tuple[NDArray[np.float64], NDArray[np.bool_]]]
    votes_per_trace: float


def read(path: Path, form: str) -> list[Ballots]:
    """Every question's traces in one form: answer and soft vote."""
    answers = {question.id: question.answers for question in load("starter").questions}
    pool: list[Ballots] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if record["form"] == form:
                shares = [tuple(distribution.items()) for distribution in record["shares"]]
                said = [None if row is None else SoftVote(row[1], shares[row[0]]) for row in record["said"]]
                pool.append(list(zip(record.get("answers") or answers[record["id"]], said, strict=True)))
    return pool


def vote(ballots: Ballots) -> str | None:
    return next(iter(Counter(answer for answer, _ in ballots if answer is not None).most_common(1)), (None,))[0]


def play(pool: Sequence[Ballots], repetition: int, soft: bool, change: Change | None = None) -> Run:
    """okg on one draw of 64 traces per question."""
    rng = np.random.default_rng(repetition)
    drawn: list[Ballots] = []
    whole, rest = [], []
    for ballots in pool:
        order = rng.permutation(len(ballots))
        drawn.append([ballots[i] for i in order[:DRAWN]])
        whole.append(vote(ballots))
        rest.append(vote([ballots[i] for i in order[DRAWN:]]))
    if change is not None:
        drawn = [change(rng, ballots) for ballots in drawn]
    N = len(pool)
    allocator = Allocator(
        OKG(),
        Budget(MEAN_BUDGET * N, DRAWN),
        [Question(str(q)) for q in range(N)],
        votes=SoftVoteCount() if soft else None,
    )
    looks: list[list[str | None]] = []
    certified = {}
    while launches := allocator.ask():
        question, number = launches[0]
        answer, said = drawn[int(question)][number]
        allocator.tell(Trace(question, number, answer, soft=said))
        if allocator.told % (N // POINTS_PER_TRACE) == 0:
            looks.append([allocator.verdict(str(q)).answer for q in range(N)])
        if allocator.told in {N * mean for mean in CERTIFIED_AT}:
            certified[allocator.told // N] = _certificates(allocator, whole)
    return Run(
        np.array([[answer == target for answer, target in zip(look, whole, strict=True)] for look in looks]),
        np.array([[answer == target for answer, target in zip(look, rest, strict=True)] for look in looks]),
        certified,
        allocator.votes_per_trace or 1.0,
    )


def _certificates(allocator: Allocator, targets: Sequence[str | None]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    allocator.learn_worth()
    decisions = [allocator.decision(str(q)) for q in range(len(targets))]
    certify = Certifier(decisions)
    right = [allocator.verdict(str(q)).answer == target for q, target in enumerate(targets)]
    return np.array([certify(decision) for decision in decisions]), np.array(right)


def traces_at(runs: Sequence[NDArray[np.bool_]], level: float, questions: NDArray[np.int64]) -> float:
    """Traces per question at a level of the mean curve over repetitions, of some of the questions."""
    consistency = np.mean([agree[:, questions].mean(axis=1) for agree in runs], axis=0)
    traces = np.arange(1, len(consistency) + 1) / POINTS_PER_TRACE
    return RisingCurve.through(traces, consistency).traces_at(level)


def compare(
    ours: Sequence[NDArray[np.bool_]], others: Sequence[NDArray[np.bool_]], level: float
) -> tuple[float, float, float, float, float]:
    """Traces of both at the level, their ratio, and its 95 % interval over questions."""
    rng, N = np.random.default_rng(0), int(ours[0].shape[1])
    spends = [traces_at(runs, level, np.arange(N)) for runs in (ours, others)]
    samples = [rng.integers(0, N, size=(N,)) for _ in range(BOOTSTRAPS)]
    ratios = np.array([traces_at(ours, level, q) / traces_at(others, level, q) for q in samples])
    low, high = np.nanquantile(ratios, (0.025, 0.975)) if np.isfinite(ratios).any() else (np.nan, np.nan)
    return spends[0], spends[1], spends[0] / spends[1], float(low), float(high)


def unrelated(rng: np.random.Generator, ballots: Ballots) -> Ballots:
    """Each trace with the token of another one."""
    order = rng.permutation(len(ballots))
    return [(answer, ballots[i][1]) for (answer, _), i in zip(ballots, order, strict=True)]


def settled(rng: np.random.Generator, ballots: Ballots) -> Ballots:
    """Each trace sure of its own answer at its token."""
    return [(answer, None if answer is None else SoftVote(answer, ((answer, 1.0),))) for answer, _ in ballots]


def untempered(rng: np.random.Generator, ballots: Ballots) -> Ballots:
    """Probabilities to which the temperature was not applied."""
    return [(answer, None if soft is None else _tempered(soft, SAMPLING.temperature)) for answer, soft in ballots]


def _tempered(soft: SoftVote, power: float) -> SoftVote:
    weights = {token: share**power for token, share in soft.shares}
    total = sum(weights.values())
    return SoftVote(soft.token, tuple((token, weight / total) for token, weight in weights.items()))


def report(form: str, pool: Sequence[Ballots], repetitions: int, level: float) -> dict[str, object]:
    """Print what soft votes save on one form, and their certificates."""
    soft, plain = ([play(pool, repetition, own) for repetition in range(repetitions)] for own in (True, False))
    again = [play(pool, repetition, True) for repetition in range(repetitions, 2 * repetitions)]
    votes = float(np.mean([run.votes_per_trace for run in soft]))
    print(f"\n{form}: {len(pool)} questions, {repetitions} repetitions; a trace counts as {votes:.2f} votes in the end")
    print(f"{'target':12}{'level':>7}{'soft':>8}{'plain':>8}{'ratio':>8}   95 % over questions    null")
    row: dict[str, object] = {"form": form, "votes_per_trace": votes}
    for target in ("whole", "not_drawn"):
        for bar in sorted({0.8, 0.85, level}):
            ours, plains, others = ([getattr(run, target) for run in runs] for runs in (soft, plain, again))
            spend, spend_plain, ratio, low, high = compare(ours, plains, bar)
            null = traces_at(ours, bar, np.arange(len(pool))) / traces_at(others, bar, np.arange(len(pool)))
            name = target.replace("_", " ")
            print(
                f"{name:12}{bar:7.2f}{spend:8.2f}{spend_plain:8.2f}{ratio:8.3f}   ({low:.3f} to {high:.3f}){null:11.3f}"
            )
            row[f"{target} {bar:g}"] = [spend, spend_plain, ratio, low, high, null]
    print("certificates    mean traces   certificate   right   error   null of a calibrated forecaster (questions')")
    for name, runs in (("soft", soft), ("plain", plain)):
        for mean in CERTIFIED_AT:
            certified = [run.certified[mean] for run in runs]
            quality = calibrate([Certified(form, "okg", mean, c, c, right) for c, right in certified])
            print(
                f"{name:16}{mean:11}{quality.certificate:14.3f}{quality.right:8.3f}{quality.error:8.3f}"
                f"{quality.null:8.3f} ({quality.null_questions:.3f})"
            )
            row[f"{name} certificates at {mean}"] = [quality.certificate, quality.right, quality.error, quality.null]
    return row


def gives_nothing(pool: Sequence[Ballots], repetitions: int, level: float) -> dict[str, object]:
    """Print the votes per trace, and the traces, of servers whose tokens tell nothing."""
    plain = [play(pool, repetition, False).whole for repetition in range(repetitions)]
    row: dict[str, object] = {}
    print(f"\nservers that give nothing      votes per trace   traces at {level:g} over those without soft votes")
    for change, words in ((unrelated, "tokens unrelated to answers"), (settled, "answers settled before"),
                          (untempered, "temperature left out")):  # fmt: skip
        runs = [play(pool, repetition, True, change) for repetition in range(repetitions)]
        votes = float(np.mean([run.votes_per_trace for run in runs]))
        _, _, ratio, low, high = compare([run.whole for run in runs], plain, level)
        print(f"{words:31}{votes:15.2f}   {ratio:.3f} ({low:.3f} to {high:.3f})")
        row[words] = [votes, ratio, low, high]
    return row


async def record(path: Path) -> None:
    """Record both forms with the local model."""
    facts = [(place, problem) for place, problem in enumerate(starter().problems) if problem.answer_type == "text"]
    shots = "".join(f"Question: {question}\nAnswer: {gold}\n\n" for question, gold in SHOTS.items())
    forms = (
        ("worked", "", replace(SAMPLING, max_tokens=2)),
        ("word", shots, replace(SAMPLING, max_tokens=8)),
    )
    answers = {question.id: question.answers for question in load("starter").questions}
    seeds = Seeds(0)
    async with LocalSampler(slots=32, context=384, threads=1) as sampler:
        with gzip.open(path, "wt", encoding="utf-8") as file:
            for form, shots_of_form, sampling in forms:
                for place, problem in facts:
                    content = str(problem.prompt.content)
                    prompt = Prompt(shots_of_form + "Question: " + content.rsplit("Question: ", 1)[1])
                    if form == "worked":
                        prompt = problem.prompt
                    traces = await sampler.sample(prompt, TRACES, seeds.at(place, 0), sampling)
                    own = list(answers[problem.id]) if form == "worked" else list(map(_answer, traces))
                    file.write(_line(form, problem.id, own, traces) + "\n")
                    print(form, problem.id, flush=True)


def _answer(trace: Completion) -> str | None:
    return None if is_cut(trace.finish) else Text().canonical(trace.text)


def _line(form: str, id: str, answers: Sequence[str | None], traces: Sequence[Completion]) -> str:
    """A question as JSON: its distinct distributions, and each trace's place among them with the token that it said."""
    places: dict[tuple[tuple[str, float], ...], int] = {}
    said = []
    for answer, trace in zip(answers, traces, strict=True):
        soft = None if answer is None else soft_vote(trace.alternatives, answer, Text(), SAMPLING.temperature)
        said.append(None if soft is None else [places.setdefault(soft.shares, len(places)), soft.token])
    row = {"form": form, "id": id, "shares": [dict(shares) for shares in places], "said": said}
    return json.dumps(row if form == "worked" else {**row, "answers": list(answers)}, ensure_ascii=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--record", type=Path, help="Record with the local model into this file, and measure nothing.")
    parser.add_argument("--recording", type=Path, default=RECORDING)
    return parser.parse_args()


def main() -> Iterator[dict[str, object]]:
    """The rows of the report."""
    arguments = _arguments()
    if arguments.record is not None:
        asyncio.run(record(arguments.record))
        return
    for form in ("worked", "word"):
        if pool := read(arguments.recording, form):
            yield report(form, pool, arguments.repetitions, arguments.level)
    yield gives_nothing(read(arguments.recording, "worked"), max(2, arguments.repetitions // 3), arguments.level)


if __name__ == "__main__":
    rows = list(main())
    if rows:
        print(json.dumps(rows))
