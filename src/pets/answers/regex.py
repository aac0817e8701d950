r"""A pattern of your own: ``regex:Final: (\w+)`` reads what the group matched, the last match counts.

All that follows ``regex:`` is the pattern, whatever characters it has: no comma, colon or equals sign needs quoting
but for the shell's. Patterns are RE2's (https://github.com/google/re2/wiki/Syntax), which reads any text in
linear time: no back-references, no look-around.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from pets.answers.base import AROUND, AnswerType, Reading
from pets.answers.final import visible_text
from pets.answers.text import Text
from pets.errors import InputError

MAX_CHARS = 100_000  # of a text, its last
NEAR_END_CHARS = 4_096
MAX_MATCHES = 1_000  # in a whole text, more than which cast no vote: each search may read all that follows


@dataclass(frozen=True, slots=True)
class Regex(AnswerType):
    r"""Answers matched by the first group of a pattern that took part, else by the whole of it; folded as text.

    >>> answer_type = Regex(r"(?i)final: *(\w+)")
    >>> answer_type.extract("Final: 3. No, wait: FINAL: Seven."), answer_type.extract("Seven.")
    ('7', None)
    """

    spec_option = "pattern"
    reads_at_once = True

    pattern: str

    def __post_init__(self) -> None:
        _compiled(self.pattern)  # a bad one is told now

    def canonical(self, answer: str) -> str | None:
        return Text().canonical(answer)

    def read(self, text: str) -> Reading | None:
        """The last match near the end of the text, else in all of it."""
        visible = visible_text(text)[-MAX_CHARS:].encode("utf-8", "replace").decode()
        for start, limit in ((max(0, len(visible) - NEAR_END_CHARS), NEAR_END_CHARS + 1), (0, MAX_MATCHES)):
            last = None
            for count, match in enumerate(_compiled(self.pattern).finditer(visible, start), 1):
                if count > limit:
                    return None
                last = match
            if last is not None:
                match = next((group for group in last.groups() if group is not None), last[0])
                form = self.canonical(match)
                return None if form is None else Reading(form, match.strip(AROUND))
        return None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error
        raise InputError(f"the pattern {pattern!r} is none of RE2's ({reason}).") from None
    except UnicodeEncodeError:
        raise InputError(f"the pattern {pattern!r} is no UTF-8.") from None
