"""Traces of one question that are asked for together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pets.types import Launch

__all__ = ["Batch", "batches"]


@dataclass(slots=True, eq=False)
class Batch:
    """Launches ``first``, ``first + 1``, ... of question ``number``, one request; ``held`` is reserved for each.

    ``tries`` have failed so far, ``wasted`` of them after the server had worked. ``refused`` is the larger n that the
    server would not take.
    """

    id: str
    number: int
    first: int
    size: int
    held: tuple[int, ...] = ()
    durable: bool = False
    tries: int = 0
    wasted: int = 0
    refused: int = 0

    @property
    def launches(self) -> list[Launch]:
        """What the allocator asked for."""
        return [Launch(self.id, self.first + at) for at in range(self.size)]

    def part(self, start: int, size: int) -> "Batch":
        """Some of it, with the same history."""
        held = self.held[start : start + size]
        history = (self.durable, self.tries, self.wasted, self.refused)
        return Batch(self.id, self.number, self.first + start, size, held, *history)

    def split(self, most: int) -> Iterator["Batch"]:
        """In parts of at most ``most``.

        >>> [part.size for part in Batch("q", 0, first=3, size=5).split(2)]
        [2, 2, 1]
        """
        for start in range(0, self.size, most):
            yield self.part(start, min(most, self.size - start))


def batches(launches: Iterable[tuple[Launch, int, int]], most: int) -> Iterator[Batch]:
    """Launches (each with its question's number and what is held for it), question by question.

    >>> asked = [(Launch("a", 0), 0, 1), (Launch("b", 4), 1, 1), (Launch("a", 1), 0, 1)]
    >>> [(batch.id, batch.first, batch.size) for batch in batches(asked, most=8)]
    [('a', 0, 2), ('b', 4, 1)]
    """
    first: dict[str, tuple[int, int]] = {}
    held: dict[str, list[int]] = {}
    for launch, number, amount in launches:
        first.setdefault(launch.question, (number, launch.number))
        held.setdefault(launch.question, []).append(amount)
    for id, (number, start) in first.items():
        yield from Batch(id, number, start, len(held[id]), tuple(held[id])).split(most)
