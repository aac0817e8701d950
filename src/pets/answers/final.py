"""Where in a free text the final answer stands.

>>> list(places(r"First 3, then 4. So \\boxed{7}. Check: the answer is 7."))
[('boxed', '7')]
>>> list(places("<think>the answer is 3?</think>\\nThe final answer is **4**.\\nThanks!"))
[('cue', '4**.'), ('line', 'Thanks!')]
"""

import re
from collections.abc import Iterator
from typing import Literal

__all__ = ["Place", "boxed", "places"]

Place = Literal["boxed", "cue", "line"]

CUE = re.compile(
    r"(?:\banswer\b[^.:=\n]{0,60}?(?:\bis\b|\bare\b|[:=：])|\b(?:option|choice)\s+is\b|^\s*####)[*_:：\s]*", re.I | re.M
)
LONGEST = 2000  # of a line; what runs on longer is prose, and only its near end is read
BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def places(text: str) -> Iterator[tuple[Place, str]]:
    """Where the answer may stand, best first. A box decides alone; thoughts that were not closed hold no answer."""
    said = _said(text)
    if (box := boxed(said)) is not None:
        yield "boxed", box
        return
    cues = list(CUE.finditer(said))
    if cues and (rest := said[cues[-1].end() :].split("\n", 1)[0].strip()):
        yield "cue", rest[:LONGEST]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if lines and (line := lines[-1] if len(lines[-1]) <= LONGEST else lines[-1][-LONGEST:].partition(" ")[2]):
        yield "line", line


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
    depth, position = 1, start
    while position < end:
        char = text[position]
        if char == "\\":
            position += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return text[start:position]
        position += 1
    return None


def _said(text: str) -> str:
    """What follows the thoughts."""
    said = text.rpartition("</think>")[2]
    return "" if "<think>" in said else said
