"""Units of measure and currencies: their names in several languages, what they measure and how large they are.

>>> unit_at("5 kilometres per hour", 1)
('km/h', 21)
>>> dimension("km/h")
('length/time', Fraction(5, 18))
"""

import re
from fractions import Fraction

__all__ = ["CURRENCIES", "NAMES", "UNIT", "UNIT_WORD", "dimension", "unit_at"]

BASE_UNITS: dict[str, tuple[str, str, str]] = {
    "mm": ("length", "1/1000", "millimeter millimetre milímetro"),
    "cm": ("length", "1/100", "centimeter centimetre zentimeter centímetro"),
    "dm": ("length", "1/10", "decimeter"),
    "m": ("length", "1", "meter metre metro mètre метр 米"),
    "km": ("length", "1000", "kilometer kilometre kilómetro kilomètre quilômetro chilometro километр км 公里 千米"),
    "in": ("length", "127/5000", "inch inches zoll"),
    "ft": ("length", "381/1250", "foot feet"),
    "yd": ("length", "1143/1250", "yard"),
    "mi": ("length", "201168/125", "mile meile milla"),
    "mg": ("mass", "1/1000", "milligram"),
    "g": ("mass", "1", "gram gramm gramo gramme грамм 克"),
    "kg": ("mass", "1000", "kilogram kilogramm kilo kilogramo килограмм кг 公斤 千克"),
    "t": ("mass", "1000000", "tonne tonnen"),
    "lb": ("mass", "45359237/100000", "lbs pound"),
    "oz": ("mass", "45359237/1600000", "ounce"),
    "ms": ("time", "1/1000", "millisecond"),
    "mph": ("speed", "1", ""),
    "kph": ("speed", "1", "kmh"),
    "s": ("time", "1", "sec secs second sekunde seconde segundo secondo секунд секунды 秒"),
    "min": ("time", "60", "mins minute minuten minuto minuti минут минуты 分钟"),
    "h": ("time", "3600", "hr hrs hour stunde stunden heure hora ora ore uur час часа часов 小时 時間 시간"),
    "d": ("time", "86400", "day tag tage jour día dia giorno giorni день дня дней 天 日"),
    "wk": ("time", "604800", "week woche wochen semaine semana settimana"),
    "month": ("year", "1", "month monat monate mois mes mese месяц месяцев 个月"),
    "yr": ("year", "12", "yrs year jahr jahre an année año ano anno год года лет 年"),
    "mL": ("volume", "1/1000", "ml milliliter millilitre"),
    "cL": ("volume", "1/100", "cl"),
    "L": ("volume", "1", "l liter litre litro litri литр литров 升"),
    "gal": ("volume", "473176473/125000000", "gallon"),
    "N": ("force", "1", "newton"),
    "kN": ("force", "1000", ""),
    "J": ("energy", "1", "joule"),
    "kJ": ("energy", "1000", "kilojoule"),
    "W": ("power", "1", "watt"),
    "kW": ("power", "1000", "kilowatt"),
    "V": ("voltage", "1", "volt"),
    "Hz": ("frequency", "1", "hertz"),
    "kHz": ("frequency", "1000", ""),
    "MHz": ("frequency", "1000000", ""),
    "Pa": ("pressure", "1", "pascal"),
    "kPa": ("pressure", "1000", ""),
    "°": ("angle", "1", "degree grad grado degré градус"),
    "rad": ("radian", "1", "radian"),
    "°C": ("celsius", "1", "℃ celsius"),
    "°F": ("fahrenheit", "1", "℉ fahrenheit"),
    "%": ("percent", "1", "percent prozent"),
    "USD": ("dollar", "1", "$ us$ usd dollar dólar dollari доллар"),
    "¢": ("dollar", "1/100", "cent"),
    "EUR": ("euro", "1", "€ eur euro"),
    "GBP": ("sterling", "1", "£ gbp"),
    "JPY": ("yen", "1", "¥ yen 円"),
    "INR": ("rupee", "1", "₹ rs rupee"),
    "CNY": ("yuan", "1", "元 yuan rmb"),
}  # fmt: skip
"""By symbol: the dimension, the size in its base unit, and other names, matched in lower case but for capitals."""
RATES = {"mph": "mi/h", "kph": "km/h"}
CURRENCIES = "$€£¥₹"


def _names() -> dict[str, str]:
    """Every name of a unit -> its symbol, plurals included."""
    names = {}
    for symbol, (_, _, others) in BASE_UNITS.items():
        for name in others.split():
            names[name] = symbol
            if name[-1].isalpha() and name.isascii() and len(name) > 2:
                names.setdefault(name + "s", symbol)
                names.setdefault(name + "n", symbol)
        names[symbol] = symbol
    return names


NAMES = _names()
_ALTERNATIVES = "|".join(map(re.escape, sorted(NAMES, key=len, reverse=True)))
UNIT = re.compile(
    rf" ?-?(?:(square|sq\.?|cubic|cu\.?) ?)?({_ALTERNATIVES})(?![a-zA-Zа-я])(?:\.(?= ))?(?: ?\^ ?\{{?([23])\}}?"
    rf"| (squared|cubed)(?!\w))?"
    rf"(?:(?: ?/ ?| ?per ?| an? )({_ALTERNATIVES})(?![a-zA-Zа-я])(?: ?\^ ?\{{?([23])\}}?)?)?",
    re.I,
)
UNIT_WORD = re.compile(
    rf"(?:(?:sq(?:uare|\.)?|cubic)\s*)?(?:{_ALTERNATIVES}|units?|people|points?|times|mph|kph)(?:\s*(?:/"
    rf"|per)\s*(?:{_ALTERNATIVES}))?"
    r"(?:\^\{?[23]\}?|[²³])?",
    re.I,
)
DEGREE = re.compile(r" ?(?:\^ ?\{? ?\\circ ?\}?|\\degree(?![a-z])|°) ?([CF](?![a-zA-Z]))?")


def dimension(unit: str) -> tuple[str, Fraction]:
    """What a unit measures, and its size in the dimension's base unit."""
    unit = RATES.get(unit, unit)
    above, _, below = unit.partition("/")
    (first, size), (second, per) = _powered(above), _powered(below) if below else ("", Fraction(1))
    return f"{first}/{second}" if below else first, size / per


def _powered(unit: str) -> tuple[str, Fraction]:
    symbol, _, power = unit.partition("^")
    dimension, factor, _ = BASE_UNITS[symbol]
    return (f"{dimension}^{power}" if power else dimension), Fraction(factor) ** int(power or 1)


def unit_at(text: str, place: int, *, letters: bool = True) -> tuple[str, int]:
    """The unit that follows a number which ends at ``place``, and where the unit ends; "" where there is none.

    ``letters=False`` takes a letter that is attached to the number for a variable.
    """
    if degree := DEGREE.match(text, place):
        return "°" + (degree[1] or ""), degree.end()
    match = UNIT.match(text, place)
    if match is None:
        return "", place
    square, name, power, word_power, below, below_power = match.groups()
    alone = len(name) == 1 and name.isalpha()
    if (alone and not letters and text[place] != " ") or (alone and name.islower() and name not in NAMES):
        return "", place
    symbol = NAMES.get(name) or NAMES.get(name.lower())
    if symbol is None or (name in ("in", "a", "an", "d", "as") and not _ends_there(text, match)):
        return "", place
    if power is None and (square or word_power):
        power = "3" if (square or word_power or "").startswith("cu") else "2"
    unit = f"{symbol}^{power}" if power else symbol
    if below:
        under = NAMES.get(below) or NAMES[below.lower()]
        unit += f"/{under}" + (f"^{below_power}" if below_power else "")
    return unit, match.end()


def _ends_there(text: str, match: re.Match[str]) -> bool:
    """Whether "5 in" ends there: in prose it goes on as "5 in total"."""
    return not re.compile(r" (?!tall|long|wide|high|deep|thick|in)\w").match(text, match.end())
