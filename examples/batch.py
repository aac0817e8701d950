"""A batch through ask and tell: 60 questions of known difficulty, 8 traces each on average, 16 in flight.

Put your own model where ``sample`` is; everything else stays as it is.
"""

import numpy as np

from pets import Allocator, Budget, Question, Trace, make_policy

rng = np.random.default_rng(0)
theta = {f"q{i}": rng.dirichlet([0.3] * 4) for i in range(60)}


def sample(question: str) -> str:
    """One trace of a made-up model."""
    return str(rng.choice(list("ABCD"), p=theta[question]))


allocator = Allocator(make_policy("okg"), Budget(total=8 * 60, cap=32), [Question(q, options=4) for q in theta])
while launches := allocator.ask(16):
    for launch in launches:
        allocator.tell(Trace(launch.question, launch.number, sample(launch.question)))

verdicts = allocator.verdicts()
right = sum(v.answer == "ABCD"[theta[v.question].argmax()] for v in verdicts)
most = max(verdicts, key=lambda v: v.traces)
print(f"{allocator.budget.spent} traces; {right} of {len(verdicts)} answers are the infinite-budget vote")
print(f"hardest: {most.question}, {most.traces} traces, agreement {most.agreement:.2f}")
