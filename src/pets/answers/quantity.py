r"""Reads quantities: numbers in figures or words, with their magnitude, currency and unit.

>>> [show(read(text)) for text in ("forty-two", "$2.5 billion", "5 kilometres", "12 hours and 30 minutes", "50%")]
['42', '2500000000 USD', '5 km', '12 h 30 min', '50 %']
>>> same(read("5 km"), read("5")), same(read("5 km"), read("5000 m")), same(read("$5"), read("500 cents"))
(True, False, True)
"""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from string import digits, punctuation

from pets.answers import rational
from pets.answers.phrases import TABLES, words
from pets.patterns import END, LETTER, START, Match, Pattern, escape

MAX_BEFORE_CHARS = 40
MAX_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with its unit, where it stands in a text, and as it is ``written`` there.

    In ``5 ft 10 in``, what follows the 5 is the unit.
    """

    value: Fraction
    unit: str = ""
    start: int = 0
    end: int = 0
    written: str = field(default="", compare=False)


PARTS = [*map(str.split, ("yr month wk d h min s", "mi yd ft in", "km m cm mm", "lb oz", "kg g", "L mL", "USD ¢"))]
"""Units that are written one after another, the larger first: ``5 ft 10 in``."""
CURRENCIES = "$€£¥₹₩₽₺"
CODES = "USD|EUR|GBP|JPY|INR|CNY|CAD|AUD|NZD|HKD|SGD|BRL|CHF|SEK|NOK|DKK|PLN|MXN|ZAR|KRW|RUB"


def _unit_names() -> dict[str, str]:
    """Every name of a unit -> its symbol, plurals included."""
    names = {}
    for symbol, others in TABLES["units"].items():
        for name in others.split():
            names[name] = symbol
            if name[-1].isalpha() and name.isascii() and len(name) > 2:
                names.setdefault(name + "s", symbol)
                names.setdefault(name + "n", symbol)
        names[symbol] = symbol
    return names


UNIT_NAMES = _unit_names()
_NAME = "|".join(map(escape, sorted(UNIT_NAMES, key=len, reverse=True)))
_ALONE = r"›(?:[^a-zA-Zа-я]|\z)"
_POWER = r" ?\^ ?\{?([23])\}?"
UNIT = Pattern(rf"(?i) ?-?(?:(square|sq\.?|cubic|cu\.?) ?)?({_NAME}){_ALONE}")
POWER = Pattern(rf"(?i){_POWER}| (squared|cubed){END}|([23])›(?:[^\w.,]|[.,]?\z)")
BELOW = Pattern(rf"(?i)(?: ?/ ?| ?per ?| an? )({_NAME}){_ALONE}")
BELOW_POWER = Pattern(_POWER)
UNIT_WORD = (
    rf"(?:(?:sq(?:uare|\.)?|cubic)\s*)?(?:{_NAME}|units?|people|points?|times|mph|kph)(?:\s*(?:/|per)\s*(?:{_NAME}))?"
    r"(?:\^\{?[23]\}?|[²³])?"
)
"""The pattern of a unit in prose."""
DEGREE = Pattern(r" ?(?:\^ ?\{? ?\\circ ?\}?|\\degree›(?:[^a-z]|\z)|°)")
SCALE = Pattern(rf"(?i) ?([cf])(?:elsius|ahrenheit)?{END}")
WORD_AFTER = Pattern(r" (\w+)")
MEASURED = ("tall", "long", "wide", "high", "deep", "thick", "in")  # words after which "5 in" is still 5 inches


def unit_at(text: str, index: int, *, letters: bool = True) -> tuple[str, int]:
    """The unit that follows a number which ends at ``index``, and where the unit ends; "" where there is none.

    ``letters=False`` takes a letter that is attached to the number for a variable.

    >>> unit_at("5 kilometres per hour", 1)
    ('km/h', 21)
    """
    if index == len(text):
        return "", index
    if degree := DEGREE.match(text, index):
        end = degree.end() + text.startswith(" ", degree.end())
        scale, after = text[end : end + 1], text[end + 1 : end + 2]
        named = scale in ("C", "F") and not (after.isascii() and after.isalpha())
        return "°" + scale * named, end + named
    head = UNIT.match(text, index)
    if head is None:
        return "", index
    square, name = head.groups()
    alone = len(name) == 1 and name.isalpha()
    if alone and ((not letters and text[index] != " ") or (name.islower() and name not in UNIT_NAMES)):
        return "", index
    unit, end = _symbol(name), head.end() + text.startswith(". ", head.end())
    if unit == "°" and (named_scale := SCALE.match(text, end)):
        return f"°{named_scale[1].upper()}", named_scale.end()
    if power := POWER.match(text, end):
        end = power.end()
    if raised := power[1] or power[2] or power[3] if power else square:
        unit += f"^{raised}" if raised in ("2", "3") else "^3" if raised.startswith("cu") else "^2"
    if (under := BELOW.match(text, end)) and _symbol(under[1]):
        unit, end = f"{unit}/{_symbol(under[1])}", under.end()
        if power := BELOW_POWER.match(text, end):
            unit, end = f"{unit}^{power[1]}", power.end()
    following = WORD_AFTER.match(text, end) if name in ("in", "a", "an", "d", "as") else None
    is_prose = following is not None and not following[1].startswith(MEASURED)  # "5 in" goes on as "5 in total"
    return ("", index) if is_prose or not _symbol(name) else (unit, end)


def _symbol(name: str) -> str:
    return UNIT_NAMES.get(name) or UNIT_NAMES.get(name.lower(), "")


MAGNITUDES = {name: 10 ** int(power) for power, names in TABLES["magnitudes"].items() for name in names.split()}
FACTORS = {**MAGNITUDES, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12, "dozen": 12, "dutzend": 12}
DOZEN = Pattern(r"(?i) ?(dozen|dutzend)›(?:[^a-z]|\z)")
MAGNITUDE = Pattern(rf"(?i)[ -]?({'|'.join(sorted(MAGNITUDES, key=len, reverse=True))})›(?:[^a-zà-ÿа-я]|\z)")
LETTER_MAGNITUDE = Pattern(r"([kKMBT])›(?:[^\w/^]|\z)")
SMALL_MAGNITUDE = Pattern(rf"([mb])n?{END}")
ORDINAL = Pattern(r"(?i)(?:\^ ?\{? ?)?(?:th|st|nd|rd)\}?›(?:[^a-z]|\z)")
PREFIX = Pattern(rf"([+-]?) ?(?:((?:US|CA|AU|NZ|HK|[ACSR])\$|(?:{CODES}) ?|Rs\.? ?|[{CURRENCIES}]) ?)?›[-+0-9.\\(]")
JOINT = Pattern(r",? (?:and |und |et |y |e |и )?|,? ?")


def read(text: str, *, letters: bool = True) -> Quantity | None:
    """The quantity that a string is, with nothing else but dressing and the name of what is counted.

    ``letters=False`` takes a letter that is attached to a number for a variable, not for a unit or a magnitude.
    """
    if len(text) > rational.MAX_CHARS or (bare := rational.plain(text)) is None:
        return None
    bare = bare[_after_approximately(bare) :].rstrip(" .,;:*_")
    bare = bare[1:-1] if len(bare) > 2 and bare[0] == bare[-1] == "$" else bare
    quantity = quantity_at(bare, 0, letters=letters)
    if quantity is None or BLOCKING.search(bare, quantity.end):
        return None
    counted = bare[quantity.end :]
    if letters:
        return quantity if NAME_OF_COUNTED.fullmatch(counted) else None
    is_name = LONG_NAME_OF_COUNTED.fullmatch(counted) and not any(name in counted for name in FUNCTIONS)
    return quantity if is_name else None


def show(quantity: Quantity) -> str:
    """The value, a decimal where that ends within ``MAX_DECIMALS``, else a reduced fraction; and the unit.

    >>> [show(Quantity(Fraction(*ratio))) for ratio in ((5559, 25), (-1, 2), (6, 3), (2, 3))]
    ['222.36', '-0.5', '2', '2/3']
    """
    value, scaled = str(quantity.value), quantity.value * 10**MAX_DECIMALS
    if quantity.value.denominator != 1 and scaled.denominator == 1:
        sign, figures = "-" * (scaled < 0), str(abs(scaled)).zfill(MAX_DECIMALS + 1)
        value = f"{sign}{figures[:-MAX_DECIMALS]}.{figures[-MAX_DECIMALS:].rstrip('0')}"
    return f"{value} {quantity.unit}".strip()


def parse(form: str) -> Quantity:
    """The quantity that :func:`show` wrote."""
    value, _, unit = form.partition(" ")
    return Quantity(Fraction(value), unit)


def same(first: Quantity, second: Quantity) -> bool:
    """Whether two quantities are one answer: of one unit, or one of them without."""
    units = {first.unit, second.unit}
    if units in ({"", "%"}, {"USD", "¢"}) and _in_wholes(first) == _in_wholes(second):
        return True
    is_one_unit = len(units) == 1 or ("" in units and not any(" " in unit for unit in units))
    return is_one_unit and first.value == second.value


def _in_wholes(quantity: Quantity) -> Fraction:
    return quantity.value / 100 if quantity.unit in ("%", "¢") else quantity.value


def quantity_at(text: str, start: int, *, letters: bool = True) -> Quantity | None:
    """The quantity that begins at ``start`` of a plain text, in words, or in figures with the units that follow it."""
    if number := rational.in_words(text, start):
        unit, end = unit_at(text, number[1], letters=False)
        return Quantity(number[0], unit, start, end, text[start:end])
    quantity = _single_at(text, start, letters)
    while quantity and quantity.unit:
        joint = JOINT.match(text, quantity.end)
        part = _single_at(text, joint.end(), letters) if joint and joint.end() > quantity.end else None
        larger = quantity.unit.split()[-1]
        smaller = [unit for line in PARTS if larger in line for unit in line[line.index(larger) + 1 :]]
        if part is None or part.value < 0 or part.unit not in smaller:
            break
        value, unit = quantity.value, f"{quantity.unit} {show(part)}"
        if part.unit == "¢":
            value, unit = value + _in_wholes(part), quantity.unit
        quantity = Quantity(value, unit, start, part.end, text[start : part.end])
    return quantity


def _single_at(text: str, start: int, letters: bool) -> Quantity | None:
    prefix = PREFIX.match(text, start)
    if prefix is None:
        return None
    sign, currency = prefix[1], prefix[2]
    number = rational.number_at(text, prefix.end() if currency else start)
    if number is None:
        return None
    value, end = number
    value = -value if sign == "-" and currency else value
    scales = (MAGNITUDE, (letters or currency) and LETTER_MAGNITUDE, currency and SMALL_MAGNITUDE, DOZEN)
    for pattern in filter(None, scales if end < len(text) else ()):
        if scale := pattern.match(text, end):
            value, end = value * FACTORS[scale[1].lower()], scale.end()
            break
    if max(abs(value.numerator), value.denominator) >= rational.FIRST_TOO_LARGE:
        return None
    unit, unit_end = unit_at(text, end, letters=letters)
    if currency:
        written, unit = unit, UNIT_NAMES[currency.strip(" .").lower()]
        unit_end = unit_end if written == unit else end  # $5 USD
    end = unit_end
    if not unit and end < len(text) and (ordinal := ORDINAL.match(text, end)):
        end = ordinal.end()
    return Quantity(value, unit, start, end, text[start:end]) if _ends(text, end) else None


def _ends(text: str, index: int) -> bool:
    """Whether a number may end there: nothing is attached to it."""
    after = text[index : index + 2]
    if not after:
        return True
    if after[0].isalnum() or after[0] in "_^\\{+":
        return ord(after[0]) >= 0x2E80  # unspaced writing
    return not (len(after) == 2 and after[0] in ".,:/-'" and after[1].isdigit())


# In prose


APPROXIMATELY = Pattern(rf"(?i)[~≈= ]+|\\(?:approx|sim|simeq)›(?:[^a-z]|\z)|(?:{words('approximately')}) ?")
COUNTED = rf"{LETTER}+(?:['’-]{LETTER}+)*"
NAME_OF_COUNTED = Pattern(rf"[\]}})]?(?: ?{COUNTED})?(?: {COUNTED}){{0,4}}[.!]?")
LONG_NAME_OF_COUNTED = Pattern(rf"(?: {LETTER}{{3,}}){{0,5}}[.!]?")
FUNCTIONS = tuple(f" {name}" for name in ("sin", "cos", "tan", "cot", "log", "exp", "sqrt", "mod"))
BLOCKING_WORDS = f"(?:{words('blocking')})"
BLOCKING = Pattern(rf"(?i){START}{BLOCKING_WORDS}{END}")
BLOCKED = Pattern(rf"(?i){BLOCKING_WORDS}{END}")


def _after_approximately(text: str) -> int:
    """The index after "about" and the like."""
    start = 0
    while lead := APPROXIMATELY.match(text, start):
        start = lead.end()
    return start


class AmbiguousError(Exception):
    """A passage names several quantities: alternatives, a range, a list."""


ALTERNATIVE = Pattern(
    rf"(?i)[^\w,;/~±\\-]{{0,3}}(?:{words('joints')})[^\w.]{{0,3}}(?:maybe |perhaps |possibly |even )?"
)
NUMBER_START = Pattern(
    rf"(?:\A|[^\w./^√π])‹(?:[+-] ?)?(?:US\$ ?|[{CURRENCIES}] ?)?[+-]?(?:[0-9]|\.[0-9]|\\frac|\\sqrt)"
    r"|[^\x00-\x{2e7f}]‹[0-9]"
)
FIGURES = Pattern(r"[0-9.,:/'-]*[0-9](?:[:/.,-][0-9]+)*")
FIRST_WORDS = [word for word in rational.SMALL if word not in ("one", "fourty")]
WORDS = Pattern(rf"(?i){START}(?:{'|'.join(FIRST_WORDS)}|one hundred|a hundred|a dozen|minus|negative){END}")
GOVERNED = Pattern(rf"(?i)(?:(?:\A|\W)(?:{words('governing')})|[=:≈]|是|为|為|等于|共有|有|は)[\s*_$\\(]*\z")
REDUCED = Pattern(r"(?i)(?:(?:which|that) (?:is|equals|gives|makes|means|leaves)|total of)[\s*_$\\(]*\z|i\.e\.,?\s*\z")
AN_ASIDE = Pattern(rf"(?i)(?:\A|\W)(?:{words('asides')})[\s*_$\\(]*\z")
EMPHASIS = Pattern(r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__")
FORMULA = Pattern(r"\$\$?([^$]{1,500})\$\$?›(?:\D|\z)|\\[(\[](.{1,500}?)\\[)\]]")
EXCLAMATION = Pattern(r"\d‹!›(?:\s{1,5}[A-Z]|[\s*_”]{0,10}\n?\z)", needs="!")
SECOND_NAME = Pattern(r"(?:,|;|(?:\A|\W)(?:or|and|oder|und|o|y|ou|et))\s*\\?[a-zA-Z]\w{0,2}\s*\z")
EQUALS = Pattern(r"=|≈|\\(?:approx|simeq)›(?:[^a-z]|\z)")
COEFFICIENT = Pattern(r"\d\s?[a-zA-Z]\s*\z")
SENTENCE = Pattern(rf"(?:{LETTER}|_)\.‹\s+|\d\.‹\s+›[A-Z]|[。！？]‹|[!?]\s")
CONDITION = Pattern(
    r"(?i),?\s(?:attained|achieved|reached|occurring|which occurs|when|where|if|for which|provided)\s›[^.]*="
)
COMPARED = Pattern(
    r"(?i)(?:\A|[^-=<>])[<>](?:[^<>]|\z)|[≤≥≠]|\\(?:[lg]eq?|ne)(?:[^a-z]|\z)"
    r"|(?:\A|\W)(?:more|less|fewer|greater|higher|lower) than \d"
)
SPAN = Pattern(r"(?:\A|[^\w.,])\d+ ?- \d+(?:[^\w.,]|\z)", needs="- ")
PLUS_MINUS = Pattern(r"±|\\pm(?:[^a-z]|\z)")
CONSEQUENCE = Pattern(
    r"(?i)[,;]?\s(?:(?:so|thus|therefore|hence|which means|giving|leaving|making|then)\s"
    r"|and ›(?:their|the (?:sum|total|product)))"
)
CLAUSE = Pattern(
    r" (?:and |but )?not | rather than | instead of |[.;!?。；]›(?:\s|\z)|,\s|，|\n| \(|because|since|weil|porque|parce"
)


def quantities(text: str) -> list[Quantity]:
    """The quantities of a plain text, from left to right: those in figures, or, where there are none, in words."""
    numbers, index = list[Quantity](), 0
    while start := NUMBER_START.search(text, index):
        if quantity := quantity_at(text, start.end() - len(start[0].lstrip())):
            numbers.append(quantity)
            index = quantity.end
        else:
            figures = FIGURES.match(text, start.end() - 1)
            index = max(start.end(), figures.end() if figures else 0)
    if numbers:
        return numbers
    index = 0
    while (start := WORDS.search(text, index)) and (quantity := quantity_at(text, start.start())):
        numbers.append(quantity)
        index = quantity.end
    return numbers  # none from "nineteen eighty-four" on


def stated(passage: str) -> Quantity | None:
    """The quantity that a passage after "the answer is" begins with, or the only one of its first clause.

    Raises :class:`AmbiguousError` where it goes on with another one ("7 or 8").
    """
    if (formula := FORMULA.match(passage.lstrip(" *_"))) and (inner := equated(formula[1] or formula[2])):
        return inner
    text = _prose(passage)
    if text is None:
        return None
    quantity = quantity_at(text, _after_approximately(text))
    if quantity is None:
        return _concluded_in(CLAUSE.split(text, maxsplit=1)[0]) or _concluded_in(text)
    _refuse_alternative(text, quantity)
    clause = CLAUSE.split(text[quantity.end :], maxsplit=1)[0]
    others = quantities(clause)
    if others and not AN_ASIDE.search(clause[: others[0].start].rstrip()):
        return _concluded_in(text)
    return None if BLOCKED.match(clause.lstrip()) else quantity


def concluded(line: str) -> Quantity | None:
    """The quantity that a line comes to: what is bold, equated or said of something, if that is one.

    Raises :class:`AmbiguousError` where it offers several.
    """
    bold = [next(filter(None, groups)) for groups in EMPHASIS.findall(line)]
    readings = [reading for span in bold if (reading := equated(span)) is not None]
    if len({show(reading) for reading in readings}) == 1:
        return readings[0]
    formulas = [first or second for first, second in FORMULA.findall(line)]
    if formulas and (last := equated(formulas[-1])) and len(formulas) == 1:
        return last
    for sentence in reversed(SENTENCE.split(without_condition(line))):
        text = _prose(sentence)
        if text and ((quantity := _concluded_in(text)) or quantities(text)):
            return quantity
    return None


def without_condition(line: str) -> str:
    """The line up to "attained when x = 2" and the like, if it says something before."""
    head = CONDITION.split(line, maxsplit=1)[0]
    return head if any(map(str.isdecimal, head)) else line


def equated(text: str) -> Quantity | None:
    """The quantity that a formula is, or that it equates something to; none for "x = 2 or x = 3"."""
    sides = EQUALS.split(text)
    several = len(sides) > 2 and SECOND_NAME.search(sides[-2])
    closes = len(sides) > 1 and "$" in sides[0]  # a formula, whose last dollar is no money
    return None if several else read(sides[-1].rstrip(" .*_").removesuffix("$") if closes else sides[-1])


def _prose(text: str) -> str | None:
    """A plain text without the marks of emphasis and formulas."""
    text = EMPHASIS.sub(lambda match: match[1] or match[2], text)
    text = FORMULA.sub(lambda match: f" {match[1] or match[2]} ", EXCLAMATION.sub(".", text))
    return rational.plain(text)


def _concluded_in(text: str) -> Quantity | None:
    """The quantity of one plain sentence: after its last equals sign, else governed by a verb, else the only one."""
    if PLUS_MINUS.search(text) or COMPARED.search(text) or (SPAN.search(text) and not EQUALS.search(text)):
        raise AmbiguousError
    numbers = quantities(text)
    if not numbers:
        return None
    consequence = list(CONSEQUENCE.finditer(text))
    start = consequence[-1].end() if consequence else 0
    if sides := list(EQUALS.finditer(text)):
        concluded = _concluded_in(text[start:]) if start > sides[-1].end() else None
        return concluded or _after_equals(text, numbers, sides)
    governed = [number for number in numbers if _precedes(GOVERNED, text, number)]
    chosen = (
        [number for number in governed if _precedes(REDUCED, text, number)][-1:]
        or [number for number in governed if number.start >= start]
        or governed
        or (numbers if len(numbers) == 1 else [number for number in numbers if not _precedes(AN_ASIDE, text, number)])
        or [number for number in numbers if number.unit]
    )
    starts = {number.start for number in chosen}
    for number, following in pairwise([*numbers, numbers[-1]]):
        if number.start in starts or following.start in starts:
            _refuse_alternative(text, number)
    last = chosen[-1] if len({show(number) for number in chosen}) == 1 else None
    return last if last and not BLOCKED.match(text[last.end :].lstrip()) else None


def _after_equals(text: str, numbers: list[Quantity], sides: list[Match]) -> Quantity | None:
    """The quantity that the last equals sign is followed by; "x = 2, y = 3" has two."""
    after = [number for number in numbers if number.start >= sides[-1].end()]
    between = text[sides[-1].end() : after[0].start] if after else ""
    if not after or between.strip(" *_$\\([") or COEFFICIENT.search(text[: sides[-1].start()]):
        return None
    if len(sides) > 1 and SECOND_NAME.search(text[sides[-2].end() : sides[-1].start()]):
        raise AmbiguousError
    _refuse_alternative(text, after[0])
    return after[0]


def _precedes(pattern: Pattern, text: str, number: Quantity) -> bool:
    before = text[max(0, number.start - MAX_BEFORE_CHARS) : number.start]
    return pattern.search(APPROXIMATE_END.sub("", before)) is not None


FIRST_OF_NUMBER = tuple("-0123456789")


def _refuse_alternative(text: str, quantity: Quantity) -> None:
    """Raise where another quantity follows as an alternative; "3/4 or 0.75" is none."""
    index = quantity.end + 1
    if text[quantity.end : index] == " " and text[index : index + 1] in FIRST_OF_NUMBER and quantity_at(text, index):
        raise AmbiguousError
    joint = ALTERNATIVE.match(text, quantity.end)
    other = quantity_at(text, joint.end()) if joint else None
    if other is not None and not same(quantity, other):
        raise AmbiguousError


APPROXIMATE_END = Pattern(rf"(?i)(?:\s*(?:{words('approximating')}|[~≈]|\\approx))+[\s*_]*\z")

# Decimal commas


TOKEN = Pattern(r"(?:\A|[^\w.,])‹\d[\d.,]*\d›(?:\z|[^\d.,]|[.,](?:\D|\z))")
DOTTED = Pattern(r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?")
COMMA = Pattern(r"\d+,\d+")
UNDECIDABLE = Pattern(r"[1-9]\d{0,2},\d{3}")
BETWEEN_WORDS = str.maketrans(dict.fromkeys(punctuation + digits + "\t\n\r“”„«»‘’—–…¿¡。，：；", " "))
COMMA_WORDS, POINT_WORDS = (frozenset(words(f"decimal_{sign}").split("|")) for sign in ("comma", "point"))
MAX_LANGUAGE_CHARS = 2000


def writes_decimal_commas(text: str) -> bool:
    """Whether the end of a text is in a language that writes 3,5 for three and a half.

    >>> writes_decimal_commas("La respuesta es 3,5"), writes_decimal_commas("The answer is 3,5")
    (True, False)
    """
    words = text[-MAX_LANGUAGE_CHARS:].lower().translate(BETWEEN_WORDS).split()
    if any("а" <= word[0] <= "я" for word in words):
        return True
    return sum(word in COMMA_WORDS for word in words) > sum(word in POINT_WORDS for word in words)


def with_points(text: str) -> str:
    """A passage of a language that writes 1.000,5 with its numbers as English writes them.

    >>> with_points("3,5 oder 1.000 oder 1.234,56 oder 2.5 oder 1,234")
    '3.5 oder 1000 oder 1234.56 oder 2.5 oder ?'
    """

    def rewrite(match: Match) -> str:
        token = match[0]
        if DOTTED.fullmatch(token):
            return token.replace(".", "").replace(",", ".")
        if UNDECIDABLE.fullmatch(token):
            return "?"
        return token.replace(",", ".") if COMMA.fullmatch(token) else token

    return TOKEN.sub(rewrite, text)
