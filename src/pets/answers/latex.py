r"""Rewrites LaTeX until only what carries meaning is left: cheap, and enough for most pairs.

>>> print(normalize(r"$\left(3,\ \dfrac{\pi}{2}\right)$."), normalize(r"\displaystyle x^5 - \cotx"))
(3,\frac{\pi}{2}) x^{5}-\cot x
>>> print(normalize(r"DE = 2\sqrt3"), normalize("x=3, x=5"), normalize("(3/5,8/3]"))
2\sqrt{3} 3,5 (\frac{3}{5},\frac{8}{3}]
"""

from string import ascii_letters

from pets.answers.phrases import TABLES, characters, words
from pets.answers.quantity import UNIT_WORD
from pets.patterns import Match, Pattern

ALPHABET = words("latex_alphabet")
# What the comparison may see. A command outside this vocabulary is never interpreted, hence never merged.
MATH = frozenset(f"{words('latex_functions')}|{ALPHABET}|{words('latex_operations')}".split("|"))
COMMANDS = MATH | frozenset(words("latex_others").split("|"))

LATEX, FRAGMENTS = TABLES["latex"], {**TABLES["latex"]["fragments"], "unit": UNIT_WORD}
UNICODE = characters(LATEX["characters"]) | {ord(power): f"^{{{digit}}}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
FONT = FRAGMENTS["font"]


def _rules(stage: str) -> list[tuple[Pattern, str]]:
    """The rules of the table, in order: what is written, and what stands for it."""
    rules = []
    for written, needs, replacement in LATEX[stage]:
        for name, fragment in FRAGMENTS.items():
            written = written.replace(f"<{name}>", fragment)
        rules.append((Pattern(written, needs), replacement))
    return rules


FIRST_RULES, LAST_RULES = _rules("first"), _rules("last")
LETTERS_ALONE = frozenset(ascii_letters)
TRAILING = "".join(filter(str.isspace, map(chr, range(0x3001)))) + ".,;:\\"
OPTION = Pattern(r"\A\(([A-Z])\)›\n?\z")
DEGREE = Pattern(r"\^\s*\{?\s*\\circ\s*\}?|\\degree›(?:[^a-z]|\z)", needs="\\")
TRIGONOMETRY = Pattern(r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc)", needs="\\")
COMMAND = Pattern(r"\\([a-zA-Z]+)", needs="\\")
SPACING = Pattern(r"(?:\A|[^\\])‹\\(?:[!,;:> ]|q?quad›(?:[^a-z]|\z))", needs="\\")
STRAY = Pattern(r"\\\\?›(?:[^a-zA-Z{}|\\]|\z)|\\›\\[a-zA-Z]", needs="\\")
NAME = Pattern(
    rf"(?:[a-zA-Z]|\\(?:{ALPHABET}))(?:_\{{\w+\}})?'*|[A-Z]{{2,}}"
    rf"|[a-zA-Z](?:\^\{{-1\}})?'*\([^()=]*\)|dy/dx|\\frac\{{dy\}}\{{dx\}}"
)
NAMES = Pattern(r"\([a-zA-Z](?:,[a-zA-Z])+\)")
MEMBERSHIP = Pattern(rf"({NAME.pattern})\\in ?›(?:[^a-z]|\z)")
LETTERS = Pattern(r"[a-zA-Z]+")
ORDER = Pattern(r"[<>]|\\[lg]e")
DOUBTFUL = Pattern(
    r":|\d_|\d \d|\d\.\d+\.|\.\.|/\d+[a-zA-Z\\(]|\\(?:frac|sqrt)(?:[^{\[]|\z)|(?:\A|[^\\a-zA-Z{])[a-zA-Z]{4,}"
)
MAX_COMPARED_CHARS = 400
MAX_ROUNDS = 20
MAX_COMMAND_CHARS = max(map(len, COMMANDS))
WORD = Pattern(r"[a-zA-Z]+(?: [a-zA-Z]+)*")


def normalize(answer: str) -> str:
    """The shortest spelling; ``""`` when nothing is left, or no end is near. Applying it twice changes nothing."""
    text = answer.translate(UNICODE)
    parts = OR.split(text)
    if len(parts) > 1 and all(COMPARED.search(part) for part in parts):
        text = r" \cup ".join(_as_interval(_rewrite(part)) for part in parts)
    for _ in range(MAX_ROUNDS):  # every rule shortens or settles, some by one layer of many
        before, text = text, _rewrite(text)
        if text == before:
            return text
    return ""


def word(text: str) -> str | None:
    """The key that compares a verbal answer (``East`` and ``east`` are one, ``ABC`` and ``abc`` are not)."""
    if not WORD.fullmatch(text):
        return None
    squashed = text.replace(" ", "")
    return squashed.lower() if squashed[1:].islower() else squashed


def comparable(text: str) -> bool:
    r"""Whether the comparison would read it as it was meant; what is doubtful (``40_9``, ``1/2x``) is left alone.

    >>> comparable(r"\frac{\pi}{2}"), comparable("40_{9}"), comparable("1/2x"), comparable("15apples")
    (True, False, False, False)
    """
    if len(text) > MAX_COMPARED_CHARS:
        return False
    items = _split_list(text)
    repeats = len(items) != len(set(items))  # a set would swallow the double root
    interpreted = all(command in MATH for command in COMMAND.findall(text))
    return interpreted and not repeats and not DOUBTFUL.search(text)


def _rewrite(text: str) -> str:
    text = SPACING.sub(" ", text.strip(" *\t\n")).replace("~", " ")
    if "begin" not in text:  # there, \\ ends a row
        text = STRAY.sub(" ", text)
    for pattern, replacement in FIRST_RULES:
        text = pattern.sub(replacement, text)
    text = text.strip("$")
    for pattern, replacement in LAST_RULES:
        text = pattern.sub(replacement, text)
    text = OPTION.sub(r"\1", text.rstrip(TRAILING))
    if not TRIGONOMETRY.search(text):
        text = DEGREE.sub("", text)
    return _as_interval(_unname(_respace(COMMAND.sub(_split_command, text))))


def _split_command(match: Match) -> str:
    r"""``\cotx``, squashed from ``\cot x``, back into command and letters."""
    name = match[1]
    if name in COMMANDS:
        return match[0]
    longest = min(len(name) - 1, MAX_COMMAND_CHARS)
    command = next((name[:size] for size in range(longest, 1, -1) if name[:size] in COMMANDS), None)
    return match[0] if command is None else f"\\{command} {name[len(command) :]}"


def _respace(text: str) -> str:
    """Blanks stay where they separate: a command from a letter, a number from a number, a word from a word."""
    left, *parts = text.split() or [""]
    pieces = [left]
    for right in parts:
        before = left.rstrip(ascii_letters)
        if before == left:
            separates = left[-1].isdecimal() and right[0].isdecimal()
        elif before.endswith("\\"):
            separates = right[0] in ascii_letters
        else:
            separates = len(left) > len(before) + 1 and len(right) > 1 and {right[0], right[1]} <= LETTERS_ALONE
        pieces += [" ", right] if separates else [right]
        left = right
    return "".join(pieces)


def _unname(text: str) -> str:
    r"""Strip ``x=``, ``f(x)=`` or ``m+n=2+3=``. ``y=`` stays: beside ``x=`` it names another line.

    In a list, the name goes where it is the same throughout: ``a=1,b=2`` is not ``b=1,a=2``.
    """
    exact, approx, value = text.partition(r"\approx")
    if approx:
        text = value if NAME.fullmatch(exact) else exact
    if membership := MEMBERSHIP.match(text):
        return text if membership[1] == "y" else text[membership.end() :]
    items = [item.split("=") for item in _split_list(text)]
    name, values = items[0][0], ",".join(item[-1] for item in items)
    is_name = NAME.fullmatch(name) and name != "y"
    if is_name and len(items[0]) == 2 and len(items) > 1 and all(len(item) == 1 for item in items[1:]):
        return values  # x=2,3: one name for all of a list
    if any(len(item) < 2 or not all(item) for item in items) or len({item[0] for item in items}) > 1:
        return text
    sums = [item[-2] for item in items if not item[-2].startswith(OPERATORS)]  # arithmetic: "=" announces the result
    computed = not any(LETTERS.search(COMMAND.sub("", above)) or ORDER.search(above) for above in sums)
    are_names = NAMES.fullmatch(name) and sorted(name[1::2]) == list(name[1::2])
    return values if is_name or are_names or computed else text


OR = Pattern(rf"{FONT}\{{\s*or\s*\}}|(?:\A|\W)‹or›(?:\W|\z)|\\lor›(?:[^a-z]|\z)", needs="or")
COMPARED = Pattern(r"<|>|\\[lg](?:e|eq|t)›(?:[^a-z]|\z)")
OPEN_LOW, OPEN_HIGH = r"(-\infty", r"\infty)"
POINT = Pattern(r"x=([^=,]+),y=([^=,]+)(?:,z=([^=,]+))?")


def _as_interval(text: str) -> str:
    r"""``x>3`` as ``(3,\infty)``, ``0\le x<1`` as ``[0,1)``, ``x=1,y=2`` as ``(1,2)``."""
    if point := POINT.fullmatch(",".join(sorted(text.split(",")))):
        return f"({','.join(filter(None, point.groups()))})"
    signs = COMPARED.findall(text)
    sides = [side.strip() for side in COMPARED.split(text)]
    others = [side for side in sides if side != "x"]
    if not 1 <= len(signs) == len(others) <= 2 or any("x" in side or "," in side or not side for side in others):
        return text
    low = high = None
    for left, sign, right in zip(sides, signs, sides[1:], strict=False):
        is_closed, is_greater = sign.endswith("e"), sign.startswith((">", r"\g"))
        if left != "x" and right != "x":
            return text
        if is_greater == (left == "x"):
            low = ("[" if is_closed else "(") + (right if left == "x" else left)
        else:
            high = (right if left == "x" else left) + ("]" if is_closed else ")")
    if len(signs) == 2 and not (low and high):  # 0<x>1
        return text
    return f"{low or OPEN_LOW},{high or OPEN_HIGH}"


OPERATORS = (r"\int", r"\sum", r"\prod", r"\lim", r"\max", r"\min", r"\gcd", r"\det", r"\frac{d}{d")


def _split_list(text: str) -> list[str]:
    """Split at the commas that stand outside brackets."""
    items, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            items.append(text[start:index])
            start = index + 1
    return [*items, text[start:]]
