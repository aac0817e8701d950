"""The mock's books, for a client that wants to check its own."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Stats"]


@dataclass(slots=True)
class Stats:
    """Counts since the start. ``traces`` went out in whole replies; ``lost`` in replies that were cut, garbled or
    given up by the client: a server would charge for those too."""

    requests: int = 0
    refused: int = 0
    traces: int = 0
    lost: int = 0
    abandoned: int = 0
    unmatched: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)

    def to_plain(self, questions: bool = False) -> dict[str, Any]:
        """As JSON has it; with the traces served of each question if asked."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("faults", "questions")}
        plain["faults"] = dict(self.faults)
        return plain | ({"questions": dict(self.questions)} if questions else {})
