"""Reads a date that is written with the name of its month, or year first, into one form.

>>> [iso_date(text) for text in ("may 1, 2021", "1st of may 2021", "2021-05-01", "may 1", "saturday, may 1, 2021")]
['2021-05-01', '2021-05-01', '2021-05-01', '--05-01', '2021-05-01']

Day and month in figures are never guessed, but for their zeros:

>>> iso_date("05/01/2021"), iso_date("5/1/2021"), iso_date("2/30/2021 or so")
('5/1/2021', '5/1/2021', None)
"""

from calendar import month_abbr, month_name
from datetime import date

from pets.patterns import END, START, Pattern

__all__ = ["dates_in", "iso_date"]

MAX_CHARS = 60
MONTHS = {name.lower(): number for names in (month_name, month_abbr) for number, name in enumerate(names) if name}
MONTHS |= {"sept": 9}
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
WEEKDAY = r"(?:(?:on )?(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?"
DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
MONTH_FIRST = Pattern(rf"{WEEKDAY}({MONTH})\.? (?:the )?{DAY}(?:,? (?:of )?(\d{{4}}))?")
DAY_FIRST = Pattern(rf"{WEEKDAY}(?:the )?{DAY}(?: of)?[ -]({MONTH})\.?(?:,?[ -](\d{{4}}))?")
YEAR_FIRST = Pattern(r"(\d{4})([-/.])(\d{1,2})([-/.])(\d{1,2})")
FIGURES = Pattern(r"(\d{1,2})([/.-])(\d{1,2})([/.-])(\d{4})")
FULL = Pattern(
    rf"{START}(?:(?:{MONTH})\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{MONTH})\.?,? \d{{4}}"
    rf"|\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{1,2}}/\d{{1,2}}/\d{{4}}){END}"
)
PARTIAL = Pattern(r"--(\d\d)-(\d\d)")
LEAP_YEAR = 2000


def iso_date(text: str) -> str | None:
    """``2021-05-01`` or ``--05-01`` for a date in lower case; figures alone keep their order."""
    try:
        return None if len(text) > MAX_CHARS else _iso_date(text)
    except ValueError:  # there is no such day
        return None


def dates_in(text: str) -> list[str]:
    """The dates with day, month and year that stand in a text in lower case, as they are written.

    >>> dates_in("it was on july 20th, 1969, not on 04/26/1969")
    ['july 20th, 1969', '04/26/1969']
    """
    return [match[0] for match in FULL.finditer(text)]


def _iso_date(text: str) -> str | None:
    if (match := YEAR_FIRST.fullmatch(text)) and match[2] == match[4]:
        return _iso(int(match[1]), int(match[3]), int(match[5]))
    if match := MONTH_FIRST.fullmatch(text):
        return _iso(int(match[3] or 0), MONTHS[match[1]], int(match[2]))
    if match := DAY_FIRST.fullmatch(text):
        return _iso(int(match[3] or 0), MONTHS[match[2]], int(match[1]))
    if (match := FIGURES.fullmatch(text)) and match[2] == match[4]:
        return f"{int(match[1])}/{int(match[3])}/{match[5]}"
    return text if PARTIAL.fullmatch(text) else None


def _iso(year: int, month: int, day: int) -> str:
    return date(year or LEAP_YEAR, month, day).isoformat() if year else f"--{date(LEAP_YEAR, month, day):%m-%d}"
