"""Ask: one question, one vote of at most 16 traces; fewer, where they agree at once.

Anything that takes a text and gives a text is a model: a function, `async` or not. With a server it is
``pets.ask(question, endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B")``, inside an event loop
``await pets.aask(...)``.
"""

import random

import pets

rng = random.Random(0)


def model(question: str) -> str:
    """Your model; this one is right in three of four traces."""
    return f"The answer is {rng.choice([391, 391, 391, 381])}."


answer = pets.ask("What is 17 x 23?", sampler=model)
print(f"{answer.answer}, certain {answer.certificate:.0%}, votes {dict(answer.votes)}")
