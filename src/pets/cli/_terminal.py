"""The one way to a terminal: text of servers and files is made safe, so that what would steer it is shown, not obeyed.

How much a verb says: ``-v`` shows its requests and retries, ``-q`` nothing but errors, ``--log-file`` keeps both.
"""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from pets.errors import InputError

# C0 and C1 controls, line and paragraph separators, what turns the direction of writing or hides in it.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def terminal_text(text: str, keep: str = "") -> str:
    r"""Escape every character that steers a terminal, as JSON would, but for those in ``keep``.

    A line of JSON stays the same value.

    >>> print(terminal_text("\x1b[2Jgone\n\x9b31m" + chr(0x202E)))
    \u001b[2Jgone\u000a\u009b31m\u202e
    """
    return STEERING.sub(lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text)


_one_line = partial(terminal_text, keep="\t")


def echo(*lines: str) -> None:
    """Print lines of data on stdout; text of a file or server in a line ends no line and steers no terminal."""
    click.echo("\n".join(map(_one_line, lines)))


def say(*lines: str) -> None:
    """Print lines of words on stderr, as safely as :func:`echo` prints data.

    While live figures are shown, rich stands in for ``sys.stderr`` and prints above them; click by itself would find
    the stream behind it.
    """
    click.echo("\n".join(map(_one_line, lines)), file=sys.stderr)


def echo_drawing(drawing: str, *, err: bool = False) -> None:
    """Print what pets drew itself, with its colours; names in it have been made safe before."""
    click.echo(drawing, err=err)


LOGGER = logging.getLogger("pets")
ALREADY_SHOWN = ("pets.gateway", "uvicorn")  # `pets serve` writes these to stderr by itself
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.I)
USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")


MESSAGE_OPTIONS = [
    click.Option(["-v", "--verbose"], is_flag=True, help="Say more on stderr: every request and retry."),
    click.Option(["-q", "--quiet"], is_flag=True, help="Say nothing on stderr but errors."),
    click.Option(
        ["--log-file"],
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A file that requests, retries and warnings are added to, as lines of JSON without keys.",
    ),
]
"""The options that every verb has."""


@contextlib.contextmanager
def messages(verbose: bool = False, quiet: bool = False, log_file: Path | None = None) -> Iterator[None]:
    """While the block lasts, logs go where the user wants them, and with ``quiet`` nothing else goes to stderr."""
    if verbose and quiet:
        raise InputError("-v and -q exclude each other. Leave one out.")
    with contextlib.ExitStack() as stack:
        handlers: list[logging.Handler] = []
        if verbose:
            handlers.append(logging.StreamHandler(sys.stderr))
            handlers[0].setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
            handlers[0].addFilter(lambda record: not record.name.startswith(ALREADY_SHOWN))
        if log_file is not None:
            from pets.gateway.telemetry import JsonLines  # the gateway's own format

            try:
                handlers.append(logging.FileHandler(log_file, encoding="utf-8"))
            except OSError as error:
                raise InputError(f'--log-file "{log_file}" cannot be written: {error.strerror}.') from None
            handlers[-1].setFormatter(JsonLines())
        for handler in handlers:
            stack.callback(handler.close)
            handler.addFilter(_redact)
            stack.callback(LOGGER.setLevel, LOGGER.level)
            stack.callback(LOGGER.removeHandler, handler)
            LOGGER.setLevel(logging.INFO)
            LOGGER.addHandler(handler)
        if quiet:
            silence = stack.enter_context(Path(os.devnull).open("w"))
            stack.enter_context(contextlib.redirect_stderr(silence))
        yield


def _redact(record: logging.LogRecord) -> bool:
    """Remove keys from the message, and escape what steers a terminal.

    A key is whatever the environment holds under such a name, or a login in an address.
    """
    from pets.openai.headers import REDACTED, Redactor

    message = USER_IN_URL.sub(f"{REDACTED}@", record.getMessage())
    for name, value in os.environ.items():
        if SECRET_NAME.search(name):
            message = Redactor(value).text(message)
    record.msg, record.args = terminal_text(message), ()
    return True
