"""What README.md and docs/ tell people to type is understood: every ``pets ...`` line parses."""

import re
import shlex
from itertools import dropwhile
from pathlib import Path

import click
import pytest

from pets.cli.main import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SHELLS = ("", "sh", "bash", "shell", "console")
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.M)
SPAN = re.compile(r"`([^`\n]*\bpets\s[^`]+)`")
PLACEHOLDER = re.compile(r"<([\w-]+)>")  # <name>; a redirection has a space or no end
OPERATORS = re.compile(r"[|&;<>()]+")
WRAPPER = re.compile(r"\w+=.*|opentelemetry-instrument")


def commands(text, *, comments=True):
    """The words after ``pets`` of each command in some lines of shell."""
    text = PLACEHOLDER.sub(r"\1", text.replace("\\\n", " "))
    for line in filter(re.compile(r"\bpets\s").search, text.splitlines()):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#" if comments else ""
        command = []
        words = iter([*lexer, ";"])
        for word in words:
            if not OPERATORS.fullmatch(word):
                command.append(word)
            elif set(word) <= set("<>&") and set(word) & set("<>"):
                next(words)  # a file
            else:
                command = list(dropwhile(WRAPPER.fullmatch, command))
                if command[:1] == ["pets"]:
                    yield command[1:]
                command = []


def block_commands(page):
    """Of the page's blocks of shell."""
    blocks = [body for language, body in FENCE.findall(page) if language in SHELLS]
    blocks += [re.sub(r"^ {4}", "", block, flags=re.M) for block in INDENTED.findall(FENCE.sub("", page))]
    return [words for block in blocks if ">>>" not in block for words in commands(block)]


def span_commands(page):
    """Of the page's sentences, where a command may break off."""
    prose = INDENTED.sub("", FENCE.sub("", page))
    return [words for span in SPAN.findall(prose) for words in commands(span.replace("\n", " "), comments=False)]


def parse(words):
    """Parse a command without running it; ``...`` stands for what everybody fills in."""
    words = [word for at, word in enumerate(words) if word != "..." or (at and words[at - 1].startswith("-"))]
    command, name = cli, "pets"
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(click.Context(command), words)
    try:
        command.make_context(name, list(words))
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        return  # --version, --help, and a group by itself


def check(words, *, whole):
    """Raise what is wrong with a command; files need not be there, and one that is not ``whole`` may break off."""
    try:
        parse(words)
    except click.MissingParameter:
        if whole:
            raise
    except click.BadOptionUsage:
        if whole or not words[-1].startswith("-"):
            raise
    except click.BadParameter as error:
        if not isinstance(getattr(error.param, "type", None), click.Path | click.File):
            raise


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_parses(path):
    page = path.read_text("utf-8")
    wrong = []
    for words, whole in [(w, True) for w in block_commands(page)] + [(w, False) for w in span_commands(page)]:
        try:
            check(words, whole=whole and "..." not in words)
        except click.UsageError as error:
            wrong.append(f"pets {shlex.join(words)}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)


def test_commands_are_found_in_every_notation():
    page = (
        "Run `pets runs\nshow 3` first.\n\n"
        "    pets a --x 1 \\\n        --y 2   # pets not\n"
        "    PETS_KEY=k pets b < in.jsonl > out.jsonl && pets c | grep pets\n"
        "    opentelemetry-instrument pets d $E '<word>'; echo pets\n\n"
        "```sh\npets e 2> log <file>\n```\n\n"
        "```python\npets = 1\n```\n"
    )
    assert span_commands(page) == [["runs", "show", "3"]]
    assert sorted(block_commands(page)) == [
        ["a", "--x", "1", "--y", "2"],
        ["b"],
        ["c"],
        ["d", "$E", "word"],
        ["e", "2", "file"],
    ]


def test_there_are_commands_to_check():
    pages = [path.read_text("utf-8") for path in PAGES]
    assert sum(len(block_commands(page)) for page in pages) > 30
    assert sum(len(span_commands(page)) for page in pages) > 10


@pytest.mark.parametrize("line", ["demo --policy okg", "sing", "solve q.jsonl --budgets 16x", "keys add"])
def test_what_does_not_exist_is_found(line):
    with pytest.raises(click.UsageError):
        check(line.split(), whole=True)
