"""Fields of published data sets, as texts."""

from pets.errors import InputError
from pets.questions.rows import Record

__all__ = ["first_of", "level_of"]


def first_of(record: Record, *names: str, default: str | None = None) -> str:
    """The first of these fields that says something.

    >>> first_of({"id": 60, "problem": "?"}, "unique_id", "id")
    '60'
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value)
    if default is None:
        found = ", ".join(f'"{name}"' for name in list(record)[:12]) or "none"
        raise InputError(f'there is no "{names[0]}"; the fields are {found}. Is this the right set?')
    return default


def level_of(record: Record, *names: str) -> str:
    """What kind of question it is; of several kinds, all."""
    for name in names:
        value = record.get(name)
        if isinstance(value, list):
            return ", ".join(map(str, value))
        if value is not None:
            return str(value)
    return ""
