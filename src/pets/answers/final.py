"""Finds the passages of a free text in which the final answer may stand.

Texts come from models, hence from whoever asks them: of a text its last ``MAX_TEXT_CHARS`` are looked at, every scan
is linear, and no passage is longer than ``MAX_PASSAGE_CHARS``, so that what reads passages is bounded.

>>> list(places(r"First 3, then 4. So \\boxed{7}. Check: the answer is 7."))
[('boxed', '7')]
>>> list(places("<think>the answer is 3?</think>\\nThe final answer is **4**.\\nThanks!"))
[('cue', '4**.'), ('line', 'Thanks!')]
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import Literal

__all__ = ["Place", "boxed", "places", "visible_text"]

Place = Literal["boxed", "cue", "line"]

CUE = re.compile(
    r"(?:\banswer\b[^.:=\n]{0,60}?(?:\bis\b|\bare\b|[:=：])|\b(?:option|choice)\s+is\b|^[^\S\n]*####)[*_:：\s]*",
    re.I | re.M,
)
MAX_TEXT_CHARS = 100_000
MAX_PASSAGE_CHARS = 2000  # a longer box holds no answer; a longer line is prose, and only its near end is read
BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


def places(text: str) -> Iterator[tuple[Place, str]]:
    """The passages where the answer may stand, best first, each with its kind.

    A box decides alone; thoughts that were not closed hold no answer.
    """
    visible = visible_text(text)[-MAX_TEXT_CHARS:]
    if (box := boxed(visible)) is not None:
        if len(box) <= MAX_PASSAGE_CHARS:
            yield "boxed", box
        return
    cue = deque(CUE.finditer(visible), maxlen=1)
    if cue and (rest := visible[cue[0].end() :].split("\n", 1)[0].strip()):
        yield "cue", rest[:MAX_PASSAGE_CHARS]
    last = next((line.strip() for line in reversed(visible.splitlines()) if line.strip()), "")
    if len(last) > MAX_PASSAGE_CHARS:
        last = last[-MAX_PASSAGE_CHARS:].partition(" ")[2]
    if last:
        yield "line", last


def boxed(text: str) -> str | None:
    r"""The content of the last complete and non-empty ``\boxed{...}``.

    >>> boxed(r"\boxed{1} or rather \boxed{\{2, \frac{1}{3}\}}, and \boxed{4")
    '\\{2, \\frac{1}{3}\\}'
    """
    end = len(text)
    for match in reversed(list(BOX.finditer(text))):
        content = _braced(text, match.end(), end)
        if content is None:
            end = match.start()  # it swallows the rest, so no earlier box can close beyond it
        elif content.strip():
            return content.strip()
    return None


def _braced(text: str, start: int, end: int) -> str | None:
    """From ``start``, just inside an opening brace, to the brace that closes it before ``end``."""
    depth = 1
    for match in BRACES.finditer(text, start, end):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[start : match.start()]
    return None


def visible_text(text: str) -> str:
    """The text that follows the model's thoughts; empty where they never end."""
    visible = text.rpartition("</think>")[2]
    return "" if "<think>" in visible else visible
