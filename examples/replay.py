"""Replay: compare policies on answers that you have recorded, before you pay for any more.

A pool is a file with one question per line: its answers in the order of sampling, and the right one (``gold``) if you
know it. Texts work too, and so do logs of lm-eval and inspect_ai. This script first writes such a file, as a recording
of yours would be. The same on the command line: ``pets replay mine.jsonl --policy okg --policy uniform``.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pets
from pets.pools import load

LEVELS = (0.90, 0.95)

with TemporaryDirectory() as folder:
    # Your recording: here the first 60 questions of the pool that PETS brings, with 128 traces each.
    path = Path(folder) / "mine.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for question in load("starter").questions[:60]:
            file.write(json.dumps({"id": question.id, "gold": question.gold, "answers": question.answers}) + "\n")
    pool = pets.read_pool(path)

# Each policy buys the recorded traces one by one, five times in random orders. Self-consistency is the share of
# questions whose vote so far is the vote of all traces.
(result,) = pets.replay([pool], ["okg", "uniform"], repetitions=5)
print(f"{result.questions} questions, vote of all traces right in {result.vote_accuracy:.2f} of them")

# How many traces per question does each policy need, on average, to reach a level?
print("policy  " + "".join(f"{level:8.0%}" for level in LEVELS))
for curve in result.results:
    traces, consistency = curve.traces.mean(axis=0), curve.consistency.mean(axis=0)
    needed = [traces[(consistency >= level).argmax()] for level in LEVELS]
    print(f"{curve.policy:8s}" + "".join(f"{number:8.1f}" for number in needed))
