"""Replay: compare policies on answers that you have recorded, before you pay for any more.

A pool is a file with one question per line: its answers in the order of sampling, and the right one (``gold``) if you
know it; or the records themselves, as here, or a DataFrame. Texts work too, and so do logs of lm-eval and inspect_ai.
The same on the command line: ``pets replay mine.jsonl --policy okg --policy uniform``.
"""

import pets
from pets.pools import load

# Your recording: here the first 60 questions of the pool that PETS brings, with 128 traces each.
mine = [{"id": q.id, "gold": q.gold, "answers": q.answers} for q in load("starter").questions[:60]]

# Each policy buys the recorded traces one by one, five times in random orders. Self-consistency is the share of
# questions whose vote so far is the vote of all traces.
results = pets.replay(mine, ["okg", "uniform"], repetitions=5)
print(f"{results[0].questions} questions, vote of all traces right in {results[0].vote_accuracy:.2f} of them")

# How many traces per question does each policy need, on average, to reach a level?
for level in (0.90, 0.95):
    print(f"{level:.0%}: " + ", ".join(f"{policy} {traces:.1f}" for policy, traces in results.traces_at(level).items()))

# In a notebook `results` is a table and `results.plot()` a picture; `results.plot().save("curves")` writes files.
