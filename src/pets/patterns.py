r"""Patterns for text that comes from elsewhere, matched by RE2: any text is searched in time linear in its length.

The syntax is RE2's (https://github.com/google/re2/wiki/Syntax) with two changes. ``\d``, ``\s``, ``\w`` and their
capitals are Unicode's, as in Python's ``re``; ``\b`` stays ASCII's. RE2 has no look-around; ``‹`` and ``›`` stand in
for it: what a pattern matches lies between them, and what stands outside of them is looked at and left where it is.

>>> word = Pattern(rf"(?i){START}(?:is|ist|était){END}")
>>> [match.span() for match in word.finditer("This is été, était IS")]
[(5, 7), (13, 18), (19, 21)]
>>> Pattern(r"(\w)-(\w)").sub(r"\2+\1", "é-b")
'b+é'
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import re2

SPACES = r"\t\n\x0b-\r\x1c- \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
CLASSES = {"s": SPACES, "d": r"\p{Nd}", "w": r"\p{L}\p{N}_"}
BLANK = f"[{SPACES.replace(chr(92) + 'n', '')}]"
"""A space that ends no line."""
LETTER = r"[\p{L}\p{Nl}\p{No}]"
"""A character of words that is no digit."""
START, END = r"(?:\A|\W)‹", r"›(?:\W|\z)"
"""Where a word starts, and where it ends; a pattern that starts so is searched, not matched at a place."""
MAX_BYTES_PATTERN = 64 << 20  # of memory, for the longest of keys
UNANCHORED, ANCHOR_START, ANCHOR_BOTH = re2._Anchor.UNANCHORED, re2._Anchor.ANCHOR_START, re2._Anchor.ANCHOR_BOTH

Spans = list[tuple[int, int]]

escape = re2.escape


def bytes_pattern(pattern: bytes) -> Any:
    """A pattern of bytes, in RE2's own syntax and with its own methods."""
    options = re2.Options()
    options.encoding, options.log_errors, options.max_mem = re2.Options.Encoding.LATIN1, False, MAX_BYTES_PATTERN
    return re2.compile(pattern, options)


@dataclass(slots=True, eq=False, repr=False)
class Match:
    """A match of a pattern. A group that took no part is ``None``."""

    _text: str
    _spans: Spans

    def __getitem__(self, group: int) -> str | Any:
        start, end = self._spans[group]
        return None if start < 0 else self._text[start:end]

    def start(self) -> int:
        return self._spans[0][0]

    def end(self) -> int:
        return self._spans[0][1]

    def span(self) -> tuple[int, int]:
        return self._spans[0]

    def groups(self) -> tuple[str | Any, ...]:
        return tuple(self[group] for group in range(1, len(self._spans)))


class Pattern:
    """A pattern, compiled when it is first used; ``needs`` is a text without which nothing matches, looked for first.

    Its methods are those of Python's ``re``.
    """

    def __init__(self, pattern: str, needs: str = "") -> None:
        self.pattern, self._needs = pattern, needs

    def search(self, text: str, start: int = 0, anchor: Any = UNANCHORED) -> Match | None:
        """The first match at ``start`` or after it; where it must begin or end may be said."""
        if self._needs and text.find(self._needs, max(0, start - 1)) < 0:
            return None
        subject = None if text.isascii() else _subject(text)
        data = _encoded(text) if subject is None else subject.data
        index = start if subject is None else subject.bytes(start)
        matched, starts, ends, groups = self._compiled
        begin = index
        if starts and index and anchor is UNANCHORED:  # the character before is looked at
            begin -= 1
            while data[begin] & 0xC0 == 0x80:
                begin -= 1
        while True:
            spans = matched(anchor, data, begin, len(data))
            first, last = spans[0]
            if first < 0:
                return None
            for group in starts:
                first = max(first, spans[group][0])
            for group in ends:
                last = last if spans[group][0] < 0 else spans[group][0]
            if first >= index or begin == index:
                break
            begin = index
        if starts or ends:
            spans = [(first, last), *(spans[group] for group in groups)]
        return Match(text, spans) if subject is None else subject.match(spans)

    def match(self, text: str, start: int = 0) -> Match | None:
        return self.search(text, start, ANCHOR_START)

    def fullmatch(self, text: str) -> Match | None:
        return self.search(text, 0, ANCHOR_BOTH)

    def finditer(self, text: str, start: int = 0) -> Iterator[Match]:
        """The matches from left to right, none within another."""
        while start <= len(text) and (match := self.search(text, start)) is not None:
            yield match
            start = max(match.end(), match.start() + 1)

    def findall(self, text: str) -> list[Any]:
        """The matches' texts, or their groups' where there are groups: "" of one that took no part."""
        found = []
        for match in self.finditer(text):
            groups = tuple(group or "" for group in match.groups())
            found.append(groups if len(groups) > 1 else groups[0] if groups else match[0])
        return found

    def split(self, text: str, maxsplit: int | None = None) -> list[str]:
        """The texts between the matches, ``maxsplit + 1`` at most; what groups match is dropped."""
        pieces, index = list[str](), 0
        for match in islice(self.finditer(text), maxsplit):
            pieces.append(text[index : match.start()])
            index = match.end()
        return [*pieces, text[index:]]

    def sub(self, replacement: str | Callable[[Match], str], text: str, count: int | None = None) -> str:
        r"""The text with its matches replaced, the first ``count`` or all; ``\1`` is a group, ``\\`` a backslash."""
        pieces, index = list[str](), 0
        for match in islice(self.finditer(text), count):
            pieces.append(text[index : match.start()])
            if isinstance(replacement, str):
                pieces += [(match[part] or "") if isinstance(part, int) else part for part in _template(replacement)]
            else:
                pieces.append(replacement(match))
            index = match.end()
        return "".join([*pieces, text[index:]]) if pieces else text

    @cached_property
    def _compiled(self) -> tuple[Callable[[Any, bytes, int, int], Spans], list[int], list[int], list[int]]:
        """RE2's own search, which gives spans in bytes: what ``re2`` wraps around it takes thrice the time.

        Beside it the groups that mark where a match starts, those where it ends, and the pattern's own.
        """
        options = re2.Options()
        options.log_errors = False
        regexp = re2.compile(_translated(self.pattern), options)
        marks = dict(zip(regexp.groupindex.values(), regexp.groupindex, strict=True))
        groups: dict[str, list[int]] = {"s": [], "e": [], "": []}
        for group in range(1, regexp.groups + 1):
            groups[marks.get(group, "")[:1]].append(group)
        return regexp._regexp.Match, groups["s"], groups["e"], groups[""]


class _Subject:
    """A text in UTF-8, and which of its characters is at which byte; cheap for places near the one asked for last."""

    __slots__ = ("_cursor", "_text", "data")

    def __init__(self, text: str) -> None:
        self._text, self._cursor = text, (0, 0)
        try:
            self.data = text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            self.data = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text).encode()

    def match(self, spans: Spans) -> Match:
        """The match of these bytes."""
        spans = [(-1, -1) if start < 0 else (self._character(start), self._character(end)) for start, end in spans]
        return Match(self._text, spans)

    def bytes(self, index: int) -> int:
        """The byte at which a character starts."""
        at_byte, at_character = self._cursor
        size, moved = 1, self._text[at_character:index]
        if index < at_character:
            size, moved = -1, self._text[index:at_character]
        at_byte += size * len(moved.encode("utf-8", "surrogatepass"))  # as many bytes as of what stands in for it
        self._cursor = at_byte, min(index, len(self._text))
        return at_byte

    def _character(self, index: int) -> int:
        """The character that starts at a byte."""
        at_byte, at_character = self._cursor
        if index >= at_byte:
            at_character += len(self.data[at_byte:index].decode())
        else:
            at_character -= len(self.data[index:at_byte].decode())
        self._cursor = index, at_character
        return at_character


# One for all searches of a text, so that its places are found from where the last search left off.
_subject, _encoded = lru_cache(maxsize=32)(_Subject), lru_cache(maxsize=32)(str.encode)


@lru_cache(maxsize=256)
def _template(replacement: str) -> list[str | int]:
    r"""The texts and the numbers of the groups of a replacement.

    >>> _template(r"\1\\frac{\2}")
    [1, '\\', 'frac{', 2, '}']
    """
    parts = ((part, part.removeprefix("\\")) for part in re.findall(r"\\.|[^\\]+", replacement, re.DOTALL))
    return [int(bare) if part != bare and bare.isdigit() else bare for part, bare in parts]


def _translated(pattern: str) -> str:
    r"""Translate a pattern to RE2's own syntax.

    >>> _translated(r"‹\d[\d.\]]\\d\D›")
    '(?P<s0>)[\\p{Nd}][\\p{Nd}.\\]]\\\\d[^\\p{Nd}](?P<e10>)'
    """
    parts, in_class = list[str](), False
    for piece in re.findall(r"\\?.", pattern, re.DOTALL):
        letters = CLASSES.get(piece[1:].lower())
        if piece[0] == "\\" and letters is not None:
            negated = piece[1].isupper()
            assert not (in_class and negated), f"{piece} stands within a class of {pattern!r}"
            parts.append(letters if in_class else f"[{'^' * negated}{letters}]")
        elif piece in "‹›":
            parts.append(f"(?P<{'se'[piece == '›']}{len(parts)}>)")
        else:
            parts.append(piece)
            in_class = piece == "[" or (in_class and piece != "]")
    return "".join(parts)
