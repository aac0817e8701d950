"""Units of measure and currencies: their names in several languages, what they measure and how large they are.

>>> unit_at("5 kilometres per hour", 1)
('km/h', 21)
>>> dimension("km/h")
('length/time', Fraction(5, 18))
"""

from fractions import Fraction

from pets.patterns import END, Pattern, escape

__all__ = ["CURRENCIES", "NAMES", "UNIT_WORD", "dimension", "name_at", "unit_at"]

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
_ALTERNATIVES = "|".join(map(escape, sorted(NAMES, key=len, reverse=True)))
_ALONE = r"›(?:[^a-zA-Zа-я]|\z)"
_POWER = r" ?\^ ?\{?([23])\}?"
UNIT = Pattern(rf"(?i) ?-?(?:(square|sq\.?|cubic|cu\.?) ?)?({_ALTERNATIVES}){_ALONE}")
POWER = Pattern(rf"(?i){_POWER}| (squared|cubed){END}")
BELOW = Pattern(rf"(?i)(?: ?/ ?| ?per ?| an? )({_ALTERNATIVES}){_ALONE}")
BELOW_POWER = Pattern(_POWER)
UNIT_WORD = (
    rf"(?:(?:sq(?:uare|\.)?|cubic)\s*)?(?:{_ALTERNATIVES}|units?|people|points?|times|mph|kph)(?:\s*(?:/"
    rf"|per)\s*(?:{_ALTERNATIVES}))?"
    r"(?:\^\{?[23]\}?|[²³])?"
)
"""The pattern of a unit in prose."""
DEGREE = Pattern(r" ?(?:\^ ?\{? ?\\circ ?\}?|\\degree›(?:[^a-z]|\z)|°)")
STAYS_A_WORD = Pattern(r" (\w+)")
MEASURED = ("tall", "long", "wide", "high", "deep", "thick", "in")


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
    if place == len(text):
        return "", place
    if degree := DEGREE.match(text, place):
        end = degree.end() + text.startswith(" ", degree.end())
        scale = text[end : end + 1]
        after = text[end + 1 : end + 2]
        named = scale in ("C", "F") and not (after.isascii() and after.isalpha())
        return "°" + scale * named, end + named
    written = _unit_at(text, place)
    if written is None:
        return "", place
    square, name, power, word_power, below, below_power, end = written
    alone = len(name) == 1 and name.isalpha()
    if (alone and not letters and text[place] != " ") or (alone and name.islower() and name not in NAMES):
        return "", place
    symbol = _symbol(name)
    if symbol is None or (name in ("in", "a", "an", "d", "as") and not _ends_there(text, end)):
        return "", place
    if power is None and (square or word_power):
        power = "3" if (square or word_power or "").startswith("cu") else "2"
    unit = f"{symbol}^{power}" if power else symbol
    if below:
        unit += f"/{_symbol(below)}" + (f"^{below_power}" if below_power else "")
    return unit, end


def name_at(text: str, place: int) -> tuple[str, int]:
    """The name of the unit that begins there, in lower case, and where the unit ends; "" where there is none."""
    written = _unit_at(text, place)
    return ("", place) if written is None else (written[1].lower(), written[-1])


_Written = tuple[str | None, str, str | None, str | None, str | None, str | None, int]


def _unit_at(text: str, place: int) -> _Written | None:
    """A unit as it is written: square, name, power in figures or words, unit below with its power; and its end."""
    head = UNIT.match(text, place) if place < len(text) else None
    if head is None:
        return None
    end = head.end() + text.startswith(". ", head.end())
    powers: tuple[str | None, ...] = (None, None)
    if power := POWER.match(text, end):
        powers, end = power.groups(), power.end()
    below = below_power = None
    if (under := BELOW.match(text, end)) and _symbol(under[1]):
        below, end = under[1], under.end()
        if power := BELOW_POWER.match(text, end):
            below_power, end = power[1], power.end()
    return head[1], head[2], powers[0], powers[1], below, below_power, end


def _symbol(name: str) -> str | None:
    return NAMES.get(name) or NAMES.get(name.lower())


def _ends_there(text: str, end: int) -> bool:
    """Whether "5 in" ends there: in prose it goes on as "5 in total"."""
    following = STAYS_A_WORD.match(text, end)
    return following is None or following[1].startswith(MEASURED)
