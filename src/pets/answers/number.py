r"""Numbers, exactly: ``073`` is ``73``, ``3.0`` is ``3``, ``1/2`` and ``\frac12`` are ``0.5``.

Units and currencies are kept; a number without one is the same as with it, because voters on one question differ in
writing the unit far more often than in meaning another number. So is ``5%`` the same as ``5`` and as ``0.05``. Units
are not converted: ``5 km`` is not ``5000 m``, but a dollar is 100 cents. There are no floats: ``0.333`` is not ``1/3``.
"""

from contextlib import suppress
from dataclasses import dataclass

from pets.answers import quantity
from pets.answers.base import AnswerType, Classes, Reading
from pets.answers.final import Place, places, strip_openers
from pets.patterns import Pattern

EXCLAMATION = Pattern(r"(?:\A|[^!])‹!{1,5}[*_\s]{0,10}›\n?\z", needs="!")
IN_OTHER_UNITS = Pattern(r"\d[^\s()]{0,20}(?: [^\s()]{1,20})?‹ \(([^()]{1,60})\)›[*_]*[.!]?\s*\z")  # "8 km (5 miles)"


@dataclass(frozen=True, slots=True)
class Number(AnswerType):
    """An integer, a decimal or a reduced fraction, with its unit if it has one.

    >>> Number().canonical("1,234.50"), Number().canonical("m+n=127"), Number().canonical("many")
    ('1234.5', '127', None)
    >>> Number().extract("3 bags of 14 make 42 apples.")
    '42'
    """

    operator_only = False
    reads_at_once = True
    instruction = 'End with "The answer is N.", where N is a number.'

    def canonical(self, answer: str) -> str | None:
        """The value after the last equals sign, if that is a number or a quantity."""
        value = quantity.equated(answer)
        return None if value is None else quantity.show(value)

    def read(self, text: str) -> Reading | None:
        """The number in a box, a tag or a JSON field, else of the last statement, else what the last line comes to."""
        comma = quantity.writes_decimal_commas(text)
        passages = [(place, quantity.with_points(passage) if comma else passage) for place, passage in places(text)]
        first = next((passage for place, passage in passages if place == "first"), "")
        with suppress(quantity.AmbiguousError):
            for place, passage in passages:
                if (value := _read(place, passage, first)) is not None:
                    return Reading(quantity.show(value), value.written.strip())
        return None

    def same(self, first: str, second: str) -> bool:
        try:
            return first == second or quantity.same(quantity.parse(first), quantity.parse(second))
        except ValueError:  # a tool call's form
            return False

    def classes(self) -> Classes:
        """A number without a unit joins one with it, and never makes ``5 km`` and ``5 m`` one."""
        return Classes(self.same, whole=True)

    def same_at_once(self, first: str, second: str) -> bool | None:
        return self.same(first, second)


def _read(place: Place, passage: str, first: str) -> quantity.Quantity | None:
    """The number of a passage; a first line that is one outweighs what a last line comes to."""
    if place in ("boxed", "first"):
        return quantity.equated(passage) if place == "boxed" else None
    bare = strip_openers(EXCLAMATION.sub("", passage.strip("*_ ")))
    if (other := IN_OTHER_UNITS.search(bare)) and (value := quantity.read(other[1])) and value.unit:
        bare = passage = bare[: other.start()]
    if value := quantity.equated(bare):
        return value
    if place == "line":
        return quantity.read(first) or quantity.concluded(passage)
    return quantity.stated(bare)
