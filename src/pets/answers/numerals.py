"""Reads numbers that are written out in English words.

>>> [str(in_words(text)[0]) for text in ("forty-two", "three hundred and five", "minus seven", "two thirds")]
['42', '305', '-7', '2/3']
>>> [str(in_words(text)[0]) for text in ("one and a half", "two point five", "a hundred", "half a dozen")]
['3/2', '5/2', '100', '6']
>>> in_words("twenty-third"), in_words("several"), in_words("one of them")
(None, None, (Fraction(1, 1), 3))
"""

from fractions import Fraction

from pets.patterns import Pattern

__all__ = ["in_words"]

BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL = {word: value for value, word in enumerate(BELOW_TWENTY.split())}
SMALL |= {word: 20 + 10 * place for place, word in enumerate(TENS.split())} | {"fourty": 40}
LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
PARTS = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4, "fourths": 4, "fifth": 5,
    "fifths": 5, "sixth": 6, "sixths": 6, "seventh": 7, "sevenths": 7, "eighth": 8, "eighths": 8, "ninth": 9,
    "ninths": 9,
    "tenth": 10, "tenths": 10, "hundredth": 100, "hundredths": 100,
}  # fmt: skip
MAX_WORDS = 30
WORD = Pattern(r"(?i)[a-z]+")
GAP = Pattern(r"[ -]|, ›\w")
NEGATIVE = Pattern(r"(?i)(?:minus|negative)[ -]")


def in_words(text: str, start: int = 0) -> tuple[Fraction, int] | None:
    """The value of the longest number in words at ``start``, and where it ends."""
    if not text[start : start + 1].isalpha():
        return None
    if sign := NEGATIVE.match(text, start):
        result = in_words(text, sign.end())
        return (-result[0], result[1]) if result else None
    words = _words(text, start)
    for count in range(len(words), 0, -1):
        value = _value([word for word, _, _ in words[:count]], [gap for _, gap, _ in words[1:count]])
        if value is not None:
            end = words[count - 1][2]
            following = words[count][0] if count < len(words) else ""
            return None if following in PARTS or following in SMALL else (value, end)
    return None


def _words(text: str, start: int) -> list[tuple[str, str, int]]:
    """Words of numbers, each with the gap before it and where it ends."""
    words: list[tuple[str, str, int]] = []
    gap, place = "", start
    while len(words) < MAX_WORDS and (match := WORD.match(text, place)):
        word = match[0].lower()
        if not (
            word in SMALL or word in LARGE or word in PARTS or word in ("hundred", "and", "a", "an", "dozen", "point")
        ):
            break
        words.append((word, gap, match.end()))
        separator = GAP.match(text, match.end())
        if separator is None:
            break
        gap, place = separator[0], separator.end()
    return words


def _value(words: list[str], gaps: list[str]) -> Fraction | None:
    if words[:2] == ["half", "a"] and len(words) == 3 and words[2] in LARGE:
        return Fraction(LARGE[words[2]], 2)
    if words[-1] in PARTS:
        return _parts(words, gaps)
    if words[-1] == "dozen":
        head = words[:-1] if words[-2:-1] != ["a"] else words[:-2]
        count = _parts(head, gaps) if head and head[-1] == "half" else _whole(head or ["one"])
        return None if count is None else 12 * count
    if "point" in words:
        place = words.index("point")
        digits = [SMALL.get(word, 99) for word in words[place + 1 :]]
        whole = _whole(words[:place] or ["zero"])
        if whole is None or not digits or max(digits) > 9:
            return None
        return whole + Fraction(int("".join(map(str, digits))), 10 ** len(digits))
    return _whole(words)


def _parts(words: list[str], gaps: list[str]) -> Fraction | None:
    """``two thirds``, ``one and a half``, ``half``; ``twenty-third`` is an ordinal."""
    if not words or words[-1] not in PARTS:
        return None
    part, singular = Fraction(1, PARTS[words[-1]]), not words[-1].endswith("s")
    head = words[:-1]
    if not head or head in (["a"], ["an"]):
        return part if words[-1] == "half" or head else None
    whole = Fraction(0)
    if "and" in head:
        place = len(head) - 1 - head[::-1].index("and")
        before = _whole(head[:place])
        if before is None or place == len(head) - 1:
            return None
        whole, head = before, head[place + 1 :]
    count = Fraction(1) if head in (["a"], ["an"]) else _whole(head)
    if count is None or (singular and count != 1):
        return None
    return whole + count * part


def _whole(words: list[str]) -> Fraction | None:
    """``three hundred and five thousand and one``."""
    total = current = 0
    last = 10**15  # the size of the last part: each must be smaller than the one before
    for place, word in enumerate(words):
        if word == "and":
            if not place or place == len(words) - 1 or (current < 100 and current):
                return None
        elif word in ("a", "an"):
            if place or len(words) == 1 or words[1] not in (*LARGE, "hundred"):
                return None
            current = 1
        elif word in SMALL:
            tens, digit = current % 100, SMALL[word]
            if (tens and not (tens >= 20 and tens % 10 == 0 and 0 < digit < 10)) or (place and digit == 0):
                return None
            current += digit
        elif word == "hundred":
            if not 0 < current < 100:
                return None
            current *= 100
        elif word in LARGE:
            if not current or LARGE[word] >= last:
                return None
            total, current, last = total + current * LARGE[word], 0, LARGE[word]
        else:
            return None
    return Fraction(total + current)
