r"""Reads plain numbers exactly, as fractions.

>>> [show(read(text)) for text in ("073", "1,234", "-0", r"\frac12", "1.5e-3", r"1\frac{4}{5}", r"15\text{ cm}^2")]
['73', '1234', '0', '1/2', '3/2000', '9/5', '15']
>>> read("05/01/2021"), read("1/0"), read("two")
(None, None, None)
"""

import re
from fractions import Fraction

__all__ = ["UNIT", "read", "show"]

MAX_DIGITS, MAX_EXPONENT, MAX_CHARS = 4000, 1000, 10_000  # 1e999999999 is hostile, not a number to write out
MAX_LAYERS = 20  # of dressing, one around the other
END = 10**MAX_DIGITS

SIGNS = str.maketrans({**dict.fromkeys("−–‒﹣－", "-"), "＋": "+", "⁄": "/", "∕": "/", "．": ".", "，": ",", "％": "%"})
WIDE = {ord("０") + i: str(i) for i in range(10)} | dict.fromkeys(map(ord, "\u00a0\u2009\u202f\u2007"), " ")
VULGAR = {"½": " 1/2", "⅓": " 1/3", "⅔": " 2/3", "¼": " 1/4", "¾": " 3/4", "⅕": " 1/5", "⅛": " 1/8"}

UNITS = (
    r"(?:k|c|m)?m|kg|mg|lbs?|oz|ft|in|yd|mi|mph|kph|hrs?|mins?|secs?|units?|(?:centi|milli|kilo)?(?:meters?|metres?)"
    r"|inch(?:es)?|feet|foot|yards?|miles?|(?:kilo)?grams?|pounds?|ounces?|lit(?:er|re)s?|gallons?|dollars?|cents?"
    r"|euros?|seconds?|minutes?|hours?|days?|weeks?|months?|years?|degrees?|radians?|percent|people|points?|times"
)
UNIT = re.compile(
    rf"(?:(?:sq(?:uare|\.)?|cubic)\s*)?(?:{UNITS})(?:\s*(?:/|per)\s*(?:{UNITS}|s|h))?(?:\^\{{?[23]\}}?|[²³])?", re.I
)
DRESS = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|math(?:rm|bf|it)|mbox)\s*\{([^{}]*)\}")
SPACING = re.compile(r"\\[,;:> ]|\\q?quad(?![a-zA-Z])|~|\s")
# No two runs of blanks meet, and none is begun in its middle: else blanks alone would cost their square.
REMOVED = re.compile(
    r"\\!|\\(?:displaystyle|left|right)(?![a-z])|\\?[%]\s*$"
    r"|(?<!\s)\s*(?:\^\s*(?:\{\s*)?\\circ\s*(?:\}\s*)?|°\s*|\\degree\s*)$"
)
TRAILING = re.compile(rf"(?<=[\d}}])\s*(?:{UNIT.pattern}|(?<=\d)(?:th|st|nd|rd)|\^\s*\{{?(?:th|st|nd|rd)\}}?)$", re.I)
CURRENCY = re.compile(r"^([+-]?)\s*(?:\\?\$|€|£|¥)\s*")
GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,])")

PLAIN = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
POWER = r"(?:[eE]([+-]?\d+)|\s*(?:\\times|\\cdot|×|\*)\s*10\s*\^\s*(?:\{\s*([+-]?\d+)\s*\}|([+-]?\d+)))?"
DECIMAL = re.compile(rf"([+-]?)\s*({PLAIN}){POWER}")
RATIO = re.compile(r"([+-]?)\s*(?:(\d+)\s+)?([^/{}\s]+)\s*/\s*([^/{}\s]+)")
FRAC = re.compile(r"([+-]?)\s*(?:(\d+)\s*)?\\[dtc]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")


def read(text: str) -> Fraction | None:
    """The exact value of a string that is one number and nothing else but dressing; ``None`` otherwise."""
    if len(text) > MAX_CHARS:
        return None
    if (bare := _undress(text)) is None:
        return None
    value = _decimal(bare)
    if value is None and (ratio := RATIO.fullmatch(bare)):
        value = _fraction(ratio[1], ratio[2], ratio[3], ratio[4])
    if value is None and (frac := FRAC.fullmatch(bare)):
        value = _fraction(frac[1], frac[2], frac[3] or frac[4], frac[5] or frac[6])
    too_long = value is not None and max(abs(value.numerator), value.denominator) >= END
    return None if too_long else value


def show(value: Fraction) -> str:
    """``73`` or ``-1/2``."""
    return str(value)


def _decimal(text: str) -> Fraction | None:
    match = DECIMAL.fullmatch(text.strip())
    if not match or len(match[2]) > MAX_DIGITS + 1:
        return None
    exponent = match[3] or match[4] or match[5] or "0"
    if len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT:
        return None
    whole, _, decimals = match[2].replace(",", "").partition(".")
    value = Fraction(int((whole + decimals) or "0")) * Fraction(10) ** (int(exponent) - len(decimals))
    return -value if match[1] == "-" else value


def _fraction(sign: str, whole: str | None, above: str | None, below: str | None) -> Fraction | None:
    """``sign (whole + above / below)``; a mixed number has unsigned parts."""
    top, bottom = _decimal(above or ""), _decimal(below or "")
    if top is None or bottom is None or bottom == 0 or (whole and (top < 0 or bottom < 0)):
        return None
    if whole and len(whole) > MAX_DIGITS:
        return None
    value = top / bottom + int(whole or "0")
    return -value if sign == "-" else value


def _undress(text: str) -> str | None:
    """Without fonts, math marks, currency, unit, percent and degree signs; digit groups joined.

    ``None`` where more than ``MAX_LAYERS`` are around each other.
    """
    text = text.translate(SIGNS).translate(WIDE).strip()
    for sign, spelled in VULGAR.items():
        text = text.replace(sign, spelled)
    for _ in range(MAX_LAYERS):
        before = text
        text = SPACING.sub(" ", DRESS.sub(r"\1", text)).replace("{,}", ",").strip(" *_`")
        if len(text) > 2 and text[0] == text[-1] == "$":
            text = text[1:-1]
        text = TRAILING.sub("", REMOVED.sub("", text).strip().rstrip(".,;:")).strip()
        if text == before:
            break
    else:
        return None
    text = CURRENCY.sub(r"\1", text)
    return GROUPS.sub(lambda match: match[0].replace(" ", ""), text)
