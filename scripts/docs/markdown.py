"""Texts that were written for a terminal, as Markdown."""

import html
import inspect
import re
from collections.abc import Iterable, Sequence

KEPT = re.compile(r"(``.+?``|`[^`]+`|(?<!\w)\*\*(?=\S)[^*]+(?<=\S)\*\*(?!\w))", re.S)  # code and bold words
ROLE = re.compile(r":(?:py:)?[a-z]+:`~?([^`]+)`")
MARKUP = re.compile(r"([*_\\\[\]])")
DOCTEST = re.compile(r"(?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*", re.M)
INDENTED = re.compile(r"(?:^ {4}.*\n?(?:^\s*\n(?= {4}))*)+", re.M)


def plain_text(text: str) -> str:
    """A text in which code in backticks and bold words have a meaning; everything else is shown as it is written."""
    parts = KEPT.split(ROLE.sub(r"`\1`", text))
    return "".join(part.replace("``", "`") if at % 2 else _shown(part) for at, part in enumerate(parts))


def _shown(text: str) -> str:
    """A text without markup: Markdown knows no escape of the angle brackets, but HTML's own."""
    return MARKUP.sub(r"\\\1", html.escape(text, quote=False))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell stays in it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def docstring(text: str) -> str:
    """A docstring: its examples and indented lines are blocks of code, the rest is text."""
    blocks: list[str] = []

    def keep(language: str, block: str) -> str:
        blocks.append(f"```{language}\n{inspect.cleandoc(block)}\n```")
        return f"\x00{len(blocks) - 1}\x00\n"

    text = inspect.cleandoc(text) + "\n"
    text = DOCTEST.sub(lambda match: keep("pycon", match[0]), text)
    text = INDENTED.sub(lambda match: keep("text", match[0]), text)
    text = re.sub(r"\x00(\d+)\x00", lambda match: f"\n\n{blocks[int(match[1])]}\n\n", plain_text(text))
    return re.sub(r"\n{3,}", "\n\n", text).strip()
