"""Text of servers and files, made safe for a terminal: what would steer it is shown, not obeyed."""

import json
import re
import sys

import click

# C0 and C1 controls, line and paragraph separators, what turns the direction of writing or hides in it.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def terminal_text(text: str, keep: str = "") -> str:
    r"""The text with every character that steers a terminal as JSON would escape it, but for those in ``keep``.

    >>> print(terminal_text("\x1b[2Jgone\n\x9b31m" + chr(0x202E)))
    \u001b[2Jgone\u000a\u009b31m\u202e
    """
    return STEERING.sub(lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text)


def echo(*lines: str) -> None:
    """Print lines of data on stdout; text of a file or server in a line ends no line and steers no terminal."""
    click.echo("\n".join(terminal_text(line, keep="\t") for line in lines))


def say(*lines: str) -> None:
    """Print lines of words on stderr, as safely as :func:`echo` prints data.

    While live figures are shown, rich stands in for ``sys.stderr`` and prints above them; click by itself would find
    the stream behind it.
    """
    click.echo("\n".join(terminal_text(line, keep="\t") for line in lines), file=sys.stderr)


def is_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def echo_drawing(drawing: str, *, err: bool = False) -> None:
    """Print what pets drew itself, with its colours; names in it have been made safe before."""
    click.echo(drawing, err=err)


def json_line(plain: object) -> str:
    """A value as one line of JSON that is safe on a terminal, and the same value when it is read.

    >>> json_line({"id": "naïve" + chr(0x9B)})
    '{"id": "naïve\\\\u009b"}'
    """
    return terminal_text(json.dumps(plain, ensure_ascii=False))
