"""Finds the passages of a free text in which the final answer may stand.

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
MAX_LINE_CHARS = 2000  # what runs on longer is prose, and only its near end is read
BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def places(text: str) -> Iterator[tuple[Place, str]]:
    """The passages where the answer may stand, best first, each with its kind.

    A box decides alone; thoughts that were not closed hold no answer.
    """
    visible = _after_thoughts(text)
    if (box := boxed(visible)) is not None:
        yield "boxed", box
        return
    cues = list(CUE.finditer(visible))
    if cues and (rest := visible[cues[-1].end() :].split("\n", 1)[0].strip()):
        yield "cue", rest[:MAX_LINE_CHARS]
    last = next((line.strip() for line in reversed(visible.splitlines()) if line.strip()), "")
    if len(last) > MAX_LINE_CHARS:
        last = last[-MAX_LINE_CHARS:].partition(" ")[2]
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


def _after_thoughts(text: str) -> str:
    """The text that follows the model's thoughts; empty where they never end."""
    visible = text.rpartition("</think>")[2]
    return "" if "<think>" in visible else visible
