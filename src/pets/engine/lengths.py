"""Tokens of a trace, also where the server counts only those of a whole reply, or of one choice."""

from pets.samplers import Completion

__all__ = ["Lengths"]

CHARACTERS = 4.0  # a token, until a server has told


class Lengths:
    """Learns from traces whose tokens are known how many a text of a given length has.

    >>> lengths = Lengths()
    >>> lengths.tokens(Completion("x" * 30, "stop", 10)), lengths.tokens(Completion("x" * 60, "stop", None))
    (10, 20)
    """

    def __init__(self) -> None:
        self._characters = self._tokens = 0

    def tokens(self, one: Completion) -> int:
        """As the server told; else as many as so long a text has had elsewhere."""
        if one.tokens is not None:
            self._characters += len(one.text)
            self._tokens += one.tokens
            return one.tokens
        a_token = self._characters / self._tokens if self._tokens and self._characters else CHARACTERS
        return max(1, round(len(one.text) / a_token))
