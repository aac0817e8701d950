r"""Reads numbers, in figures and in words, and plain arithmetic exactly, as fractions.

>>> figures = ("073", "1,234", "-0", r"\frac12", "1.5e-3", r"1\frac{4}{5}", "2^{10}", r"\sqrt{16}")
>>> [str(number_at(plain(text), 0)[0]) for text in figures]
['73', '1234', '0', '1/2', '3/2000', '9/5', '1024', '4']
>>> figures = ("12 + 30", "3 x 10^8", r"0.\overline{3}", "1'000", "1,00,000", "1 000", "2 1/2")
>>> [str(number_at(plain(text), 0)[0]) for text in figures]
['42', '300000000', '1/3', '1000', '100000', '1000', '5/2']
>>> number_at("05/01/2021", 0), number_at("1/0", 0), number_at("two", 0), number_at("7-8", 0)
(None, None, None, None)
"""

from fractions import Fraction
from math import factorial, isqrt
from operator import add, mul, sub, truediv

from pets.answers.phrases import TABLES, characters
from pets.patterns import Match, Pattern

MAX_DIGITS, MAX_EXPONENT, MAX_CHARS = 4000, 1000, 10_000  # 1e999999999 is hostile, not a number to write out
MAX_FACTORIAL = 1000
MAX_OPERATIONS = 100
MAX_DEPTH = 20
MAX_LAYERS = 20  # of dressing, one around the other
FIRST_TOO_LARGE = 10**MAX_DIGITS

SIGNS = characters(TABLES["signs"])
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
POWERS = Pattern("⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
FONT = Pattern(r"\\(?:text(?:bf|it|rm|normal)?|math(?:rm|bf|it|sf)|mbox)\s*\{([^{}]*)\}")
COMMANDS = (  # of texts with a backslash; blanks are settled afterwards
    (Pattern(r"\\!|\\(?:displaystyle|textstyle|left|right)›(?:[^a-z]|\z)"), ""),
    (Pattern(r"\\[,;:> ]|\\q?quad›(?:[^a-zA-Z]|\z)"), " "),
    (Pattern(r"\\[dtc]frac›(?:[^a-z]|\z)"), r"\\frac"),
    (Pattern(r"\\(?:times|cdot|ast)›(?:[^a-z]|\z)"), "*"),
    (Pattern(r"\\div›(?:[^a-z]|\z)"), "/"),
    (Pattern(r"\\›[%$#&]"), ""),
)
STARS = Pattern(r"\*\*›\s?[0-9({]", needs="**")

# 1.234,56 in any language
COMMA_DECIMAL = Pattern(r"(?:\A|[^0-9.,])‹([0-9]{1,3}(?:\.[0-9]{3})+),([0-9]{1,2})›(?:[^0-9,]|\z)", needs=",")
NEGATIVE = Pattern(r"(?i)(?:\A|[^\w ]|(?:\A|[^0-9)]) )‹(?:negative|minus) ›[0-9.]")
DIGITS = "0123456789"
SEPARATORS = ",.' "
NO_SEPARATORS = str.maketrans("", "", SEPARATORS)
GROUPED = Pattern(
    r"[0-9]{1,3}(?:\.[0-9]{3}){2,}›(?:[^0-9.]|\z)"
    r"|(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3})›(?:[^0-9,]|\z|[0-9,](?:[^0-9]|\z))"
    r"|[0-9]{1,3}(?:'[0-9]{3})+›(?:[^0-9]|\z)|[0-9]{1,3}(?: [0-9]{3})+›(?:[^0-9,]|\z)"
)
REPEATED = Pattern(r"\\(?:overline|bar|dot)\s?\{?([0-9]+)\}?|\(([0-9]+)\)›(?:\z|[^\s(]|\s(?:[^(]|\z))")
EXPONENT = Pattern(r"[eE]([+-]?[0-9]+)›(?:[^\w.]|\z)")
MIXED = Pattern(r" ([0-9]+) ?/ ?([0-9]+)›(?:[^0-9.,/]|\z)")
ROOT = Pattern(r"\\sqrt(?:\[([0-9])\])?")
OPERATIONS = {"+": add, "-": sub, "*": mul, "x": mul, "X": mul, "/": truediv}
RANGE = Pattern(r"[0-9]+ ?- ?[0-9]+")

_Result = tuple[Fraction, int] | None


class _DoubtError(Exception):
    """It looks like a number and is none: a date, a range, a chain of fractions."""


def number_at(text: str, start: int) -> _Result:
    """The value of the longest arithmetic at ``start`` of a :func:`plain` text, and where it ends."""
    try:
        return _Reader(text).sum(start, 0)
    except (_DoubtError, ZeroDivisionError):
        return None


def plain(text: str) -> str | None:
    """One spelling of signs, blanks, digits and commands, without fonts, dollars and stars around it.

    ``None`` where more than ``MAX_LAYERS`` are around each other.
    """
    if not text.isascii():
        text = POWERS.sub(lambda match: f"^{{{match[0].translate(RAISED)}}}", text).translate(SIGNS)
        text = "".join([str(int(sign)) if sign.isdecimal() else sign for sign in text])  # of any writing
    text = text.strip(" *_`\"'“”")
    text = COMMA_DECIMAL.sub(lambda match: match[1].replace(".", "") + "." + match[2], text)
    text = NEGATIVE.sub("-", text)
    for _ in range(MAX_LAYERS):
        before = text
        if "\\" in text:
            text = FONT.sub(r" \1 ", text)
            for pattern, replacement in COMMANDS:
                text = pattern.sub(replacement, text)
        text = STARS.sub("^", text.replace("~", " ").replace("{,}", ",").replace("{.}", "."))
        text = " ".join(text.split()).strip(" *_`\"'“”")
        if len(text) > 2 and text[0] == text[-1] == "$":
            text = text[1:-1].strip()
        for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]")):
            if text.startswith(opening) and text.endswith(closing):
                text = text[2:-2].strip()
        if text == before:
            return text
    return None


def _digits_end(text: str, index: int) -> int:
    while index < len(text) and text[index] in DIGITS:
        index += 1
    return index


class _Reader:
    """Recursive descent over one text; every method returns a value and where it ends, or ``None``."""

    def __init__(self, text: str) -> None:
        self.text, self.operations = text, 0

    def sum(self, index: int, depth: int, signs: str = "+-") -> _Result:
        """``product (+|- product)*``, a product being ``signed (*|/ signed)*``; ``x`` is a sign before a digit.

        7-8 is a range, not a difference; 1/2/3 is a date, not a quotient.
        """
        text, before = self.text, ""
        left = self._operand(index, depth, signs)
        while left:
            at = left[1] + text.startswith(" ", left[1])
            sign, end = text[at : at + 1], at + 1 + text.startswith(" ", at + 1)
            if not sign or sign not in signs or (sign in "xX" and text[end : end + 1] not in tuple(DIGITS)):
                break
            right = self._operand(end, depth, signs)
            if right is None:
                break
            unspaced = end == left[1] + 1 or left[0] < right[0]
            if sign == before == "/" or (sign == "-" and unspaced and RANGE.fullmatch(text[index : right[1]])):
                raise _DoubtError
            left, before = (self._checked(OPERATIONS[sign](left[0], right[0])), right[1]), sign
        return left

    def _operand(self, index: int, depth: int, signs: str) -> _Result:
        return self.sum(index, depth, "*/xX") if signs == "+-" else self.signed(index, depth)

    def signed(self, index: int, depth: int) -> _Result:
        """``(+|-)? atom !? (^ exponent)?``."""
        sign = self.text[index : index + 1]
        if sign and sign in "+-":
            index += 1 + self.text.startswith(" ", index + 1)
        base = self.atom(index, depth)
        if base is None:
            return None
        value, end = base
        if self.text.startswith("!", end) and value.denominator == 1 and 0 <= value <= MAX_FACTORIAL:
            if self.text.startswith("!!", end):
                raise _DoubtError
            value, end = Fraction(factorial(int(value))), end + 1
        caret = end + self.text.startswith(" ", end)
        if self.text.startswith("^", caret):
            exponent = self.signed(caret + 1 + self.text.startswith(" ", caret + 1), depth + 1)
            if exponent is not None:  # else a degree, an ordinal, a unit's power
                value, end = self._raised(value, exponent[0]), exponent[1]
        return (-value if sign == "-" else value), end

    def atom(self, index: int, depth: int) -> _Result:
        """A number, a mixed number, a fraction, a root, or a sum in brackets."""
        if depth > MAX_DEPTH:
            raise _DoubtError
        if figures := self._figures(index):
            return figures
        if self.text.startswith(r"\frac", index):
            return self._fraction(index + 5, depth)
        if root := ROOT.match(self.text, index):
            return self._root(root, depth)
        return self._bracketed(index, "()", depth) or self._bracketed(index, "{}", depth)

    def _bracketed(self, index: int, brackets: str, depth: int) -> _Result:
        """A sum in brackets of one kind."""
        if not self.text.startswith(brackets[0], index):
            return None
        inner = self.sum(index + 1 + self.text.startswith(" ", index + 1), depth + 1)
        if inner is None:
            return None
        end = inner[1] + self.text.startswith(" ", inner[1])
        return (inner[0], end + 1) if self.text.startswith(brackets[1], end) else None

    def _figures(self, index: int) -> _Result:
        """The value of ``1,234.5(6)e-7``, of ``1 1/2`` or of ``1\\frac{1}{2}`` at a place."""
        text, end = self.text, _digits_end(self.text, index)
        if end == index and not (text.startswith(".", index) and _digits_end(text, index + 1) > index + 1):
            return None
        if index < end <= index + 3 and end + 1 < len(text) and text[end] in SEPARATORS and text[end + 1] in DIGITS:
            end = grouped.end() if (grouped := GROUPED.match(text, index)) else end
        whole, decimals, repeated, exponent = text[index:end].translate(NO_SEPARATORS), "", "", ""
        has_point = text.startswith(".", end) and text[end + 1 : end + 2] != "" and text[end + 1] in DIGITS + "(\\"
        if has_point:
            start, end = end + 1, _digits_end(text, end + 1)
            decimals = text[start:end]
            if whole and text[end : end + 1] in ("(", "\\") and (part := REPEATED.match(text, end)):
                repeated, end = part[1] or part[2], part.end()
        if text[end : end + 1] in ("e", "E") and (power := EXPONENT.match(text, end)):
            exponent, end = power[1], power.end()
        too_long = end - index > 2 * MAX_DIGITS or len(whole) + len(decimals) > MAX_DIGITS + 1
        if too_long or len(exponent) > 5 or abs(int(exponent or "0")) > MAX_EXPONENT:
            raise _DoubtError
        value = Fraction(int((whole + decimals) or "0"), 10 ** len(decimals))
        if repeated:
            value += Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(decimals))
        value = self._checked(value * Fraction(10) ** int(exponent or "0"))
        if not whole or has_point or exponent:
            return value, end
        if text.startswith(" ", end) and (mixed := MIXED.match(text, end)) and int(mixed[1]) < int(mixed[2]):
            return value + Fraction(int(mixed[1]), int(mixed[2])), mixed.end()
        start = end + text.startswith(" ", end)
        if text.startswith(r"\frac", start) and (below_one := self._fraction(start + 5, 0)) and 0 < below_one[0] < 1:
            return value + below_one[0], below_one[1]
        return value, end

    def _fraction(self, index: int, depth: int) -> _Result:
        """The quotient after ``\\frac``: two braced sums, or two digits."""
        values = []
        for _ in range(2):
            index += self.text.startswith(" ", index)
            digit = self.text[index : index + 1] in tuple(DIGITS)
            part = (Fraction(self.text[index]), index + 1) if digit else self._bracketed(index, "{}", depth)
            if part is None:
                raise _DoubtError
            values.append(part[0])
            index = part[1]
        return self._checked(values[0] / values[1]), index

    def _root(self, root: Match, depth: int) -> _Result:
        """The root of a square, or of another power, that comes out even."""
        start = root.end() + self.text.startswith(" ", root.end())
        inner = self._bracketed(start, "{}", depth)
        if inner is None and self.text.startswith("(", start):
            inner = self.atom(start, depth + 1)
        elif inner is None and (end := _digits_end(self.text, start)) > start:
            inner = Fraction(int(self.text[start:end])), end
        if inner is None:
            raise _DoubtError
        degree = int(root[1] or 2)
        return Fraction(_whole_root(inner[0].numerator, degree), _whole_root(inner[0].denominator, degree)), inner[1]

    def _raised(self, base: Fraction, exponent: Fraction) -> Fraction:
        bits = max(abs(base.numerator), base.denominator).bit_length()
        if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT or bits * abs(exponent) > 4 * MAX_DIGITS:
            raise _DoubtError
        return self._checked(base ** int(exponent))

    def _checked(self, value: Fraction) -> Fraction:
        self.operations += 1
        if self.operations > MAX_OPERATIONS or max(abs(value.numerator), value.denominator) >= FIRST_TOO_LARGE:
            raise _DoubtError
        return value


def _whole_root(value: int, degree: int) -> int:
    if value < 0 or degree < 2:
        raise _DoubtError
    root = isqrt(value) if degree == 2 else round(value ** (1 / degree)) if value < 1 << 50 else 0
    if root**degree != value:
        raise _DoubtError
    return root


# In words


SMALL, LARGE, PARTS = (TABLES["number_words"][name] for name in ("small", "large", "parts"))
PARTS |= {f"{word}s": value for word, value in PARTS.items()} | {"half": 2, "halves": 2}
NUMBER_WORDS = {*SMALL, *LARGE, *PARTS, "hundred", "and", "a", "an", "dozen", "point"}
MAX_WORDS = 30
WORD = Pattern(r"(?i)[a-z]+")
GAP = Pattern(r"[ -]|, ›\w")
MINUS = Pattern(r"(?i)(?:minus|negative)[ -]")


def in_words(text: str, start: int = 0) -> _Result:
    """The value of the longest number in English words at ``start``, and where it ends.

    >>> [str(in_words(text)[0]) for text in ("forty-two", "three hundred and five", "minus seven", "two thirds")]
    ['42', '305', '-7', '2/3']
    >>> [str(in_words(text)[0]) for text in ("one and a half", "two point five", "a hundred", "half a dozen")]
    ['3/2', '5/2', '100', '6']
    >>> in_words("twenty-third"), in_words("several"), in_words("one of them")
    (None, None, (Fraction(1, 1), 3))
    """
    if not text[start : start + 1].isalpha():
        return None
    if sign := MINUS.match(text, start):
        result = in_words(text, sign.end())
        return (-result[0], result[1]) if result else None
    words, ends = list[str](), list[int]()
    while len(words) < MAX_WORDS and (word := WORD.match(text, start)) and word[0].lower() in NUMBER_WORDS:
        words.append(word[0].lower())
        ends.append(word.end())
        gap = GAP.match(text, word.end())
        if gap is None:
            break
        start = gap.end()
    for count in range(len(words), 0, -1):
        value = _value(words[:count])
        if value is not None:
            is_ordinal = words[count:] and (words[count] in PARTS or words[count] in SMALL)
            return None if is_ordinal else (value, ends[count - 1])
    return None


def _value(words: list[str]) -> Fraction | None:
    if words[:2] == ["half", "a"] and len(words) == 3 and words[2] in LARGE:
        return Fraction(LARGE[words[2]], 2)
    if words[-1] in PARTS:
        return _parts(words)
    if words[-1] == "dozen":
        head = words[:-1] if words[-2:-1] != ["a"] else words[:-2]
        count = _parts(head) if head and head[-1] == "half" else _whole(head or ["one"])
        return None if count is None else 12 * count
    if "point" in words:
        index = words.index("point")
        digits = [SMALL.get(word, 99) for word in words[index + 1 :]]
        whole = _whole(words[:index] or ["zero"])
        if whole is None or not digits or max(digits) > 9:
            return None
        return whole + Fraction(int("".join(map(str, digits))), 10 ** len(digits))
    return _whole(words)


def _parts(words: list[str]) -> Fraction | None:
    """``two thirds``, ``one and a half``, ``half``; ``twenty-third`` is an ordinal."""
    part, singular = Fraction(1, PARTS[words[-1]]), not words[-1].endswith("s")
    head = words[:-1]
    if not head or head in (["a"], ["an"]):
        return part if words[-1] == "half" or head else None
    whole = Fraction(0)
    if "and" in head:
        index = len(head) - 1 - head[::-1].index("and")
        before = _whole(head[:index])
        if before is None or index == len(head) - 1:
            return None
        whole, head = before, head[index + 1 :]
    count = Fraction(1) if head in (["a"], ["an"]) else _whole(head)
    return None if count is None or (singular and count != 1) else whole + count * part


def _whole(words: list[str]) -> Fraction | None:
    """``three hundred and five thousand and one``."""
    total = current = 0
    last = 10**15  # the size of the last part: each must be smaller than the one before
    for index, word in enumerate(words):
        if word == "and":
            if not index or index == len(words) - 1 or (current < 100 and current):
                return None
        elif word in ("a", "an"):
            if index or len(words) == 1 or words[1] not in (*LARGE, "hundred"):
                return None
            current = 1
        elif word in SMALL:
            tens, digit = current % 100, SMALL[word]
            if (tens and not (tens >= 20 and tens % 10 == 0 and 0 < digit < 10)) or (index and digit == 0):
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
