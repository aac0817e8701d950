"""How many traces may be in flight: fewer towards the end of a small batch, so that the last ones are well spent.

A launch is decided without the traces in flight, so the last ones of a small batch are decided blindly. This rule costs
some rounds more at the end (``python -m benchmarks.in_flight_quality`` says what is still lost with it). Large batches,
whose questions are many more than the traces in flight, are not held back at all.
"""

__all__ = ["in_flight_limit"]

LEFT = 8  # traces that are still to be launched or told, for each in flight
QUESTIONS = 32  # questions for each trace in flight: so many never hurt


def in_flight_limit(concurrency: int, questions: int, left: int) -> int:
    """The most that may be in flight when ``left`` traces, those in flight included, are left of the budget.

    >>> [in_flight_limit(64, 198, left) for left in (792, 200, 20)], in_flight_limit(64, 5000, 64)
    ([64, 25, 6], 64)
    """
    return min(concurrency, max(1, questions // QUESTIONS, left // LEFT))
