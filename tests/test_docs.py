"""What README.md and docs/ tell people to type is understood, what they link to is there, the site has all of it."""

import ast
import json
import re
import shlex
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import dropwhile

import click
import pytest
from click.testing import CliRunner
from scripts.docs.cli_reference import cli_page, commands
from scripts.docs.figures import write_figures
from scripts.docs.markdown import docstring, plain_text, table
from scripts.docs.pages import PROJECT_PAGES, ROOT, nav_pages
from scripts.docs.python_reference import REFERENCE_PAGES, reference_page, undocumented_names

import pets
from pets.cli.main import cli
from pets.mock import MockModel, PoolAnswers, running
from pets.pools import load, write_pool
from pets.questions import question_set

from .browser import check_looks, open_page
from .command import run_briefly

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, *(ROOT / name for name in PROJECT_PAGES)]
GENERATED = {"examples.md", "reference/cli.md", *PROJECT_PAGES.values(), *REFERENCE_PAGES}
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?)(?: *\{.*\})?$", re.M)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SHELLS = ("", "sh", "bash", "shell", "console")
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.M)
SPAN = re.compile(r"`([^`\n]*\bpets\s[^`]+)`")
PLACEHOLDER = re.compile(r"<([\w-]+)>")  # <name>; a redirection has a space or no end
OPERATORS = re.compile(r"[|&;<>()]+")
WRAPPER = re.compile(r"\w+=.*|opentelemetry-instrument")


def shell_commands(text, *, comments=True):
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
    return [words for block in blocks if ">>>" not in block for words in shell_commands(block)]


def span_commands(page):
    """Of the page's sentences, where a command may break off."""
    prose = INDENTED.sub("", FENCE.sub("", page))
    return [words for span in SPAN.findall(prose) for words in shell_commands(span.replace("\n", " "), comments=False)]


def parse(words):
    """Parse a command without running it; ``...`` stands for what everybody fills in."""
    words = [word for at, word in enumerate(words) if word != "..." or (at and words[at - 1].startswith("-"))]
    command, name = cli, "pets"
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        for flag in getattr(command, "common", ()):
            if flag in words:
                del words[words.index(flag) : words.index(flag) + 2]
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


FASTER = {
    "replay": ("--repetitions", "1", "--pool-size", "4", "--workers", "1", "--policy", "uniform"),
    "forecast": ("--max-budget", "16x"),
}  # of commands that would take minutes, which the pages say
CHEAPER = {"5usd": "0.001usd", "+2usd": "+0.0001usd", "16x": "6x", "60": "12"}


def on_the_mock(words, url):
    """A command of a page, its server and model those of the tests."""
    changed = [url if re.match(r"https?://(localhost|127)", word) else word for word in words]
    changed = [CHEAPER.get(word, word) for word in changed]
    changed = ["mock" if changed[at - 1] == "--model" else word for at, word in enumerate(changed)]
    more = FASTER.get(changed[0], ())
    return [*changed, *(() if set(more) <= set(changed) else more)]


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_every_command_of_the_first_hour_works_on_the_mock(name, tmp_path, monkeypatch):
    pytest.importorskip("vl_convert")
    pool = load("starter")
    chosen = pool.questions[:6]
    monkeypatch.chdir(tmp_path)
    questions = "".join(json.dumps({"id": each.id, "question": f"About {each.id}?"}) + "\n" for each in chosen)
    (tmp_path / "questions.jsonl").write_text(questions)
    prompts = {problem.prompt.content: problem.id for problem in question_set("starter").problems}
    lines = block_commands((ROOT / name).read_text("utf-8"))
    commands = [words for words in lines if words]
    assert {"mock", "serve"} < {words[0] for words in commands}
    run_briefly(monkeypatch, f"About {chosen[0].id}?")
    mock = MockModel(PoolAnswers(pool), prompts=prompts, max_model_len=400)
    with running(mock) as url:
        for words in commands:
            if words[:2] == ["replay", "answers.jsonl"]:  # recorded answers of one's own
                write_pool(replace(pool, questions=chosen), tmp_path / "answers.jsonl")
            done = CliRunner().invoke(cli, on_the_mock(words, url), input=questions)
            assert done.exit_code == 0, f"pets {shlex.join(words)}\n{done.output}"


def anchors(path):
    """The anchors of a page's headings, as the site has them."""
    from markdown.extensions.toc import slugify, unique

    names = set()
    for heading in HEADING.findall(FENCE.sub("", path.read_text("utf-8"))):
        unique(slugify(heading.replace("`", ""), "-"), names)
    return names


def broken_links(path):
    """The links of a page to files and headings that are not there."""
    prose = INDENTED.sub("", FENCE.sub("", path.read_text("utf-8")))
    for link in LINK.findall(prose):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if re.match(r"https?:", link):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("path", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert list(broken_links(path)) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `name`\n\n[x](#a-name) [y](#b) [z](gone.md) [u](https://example.com/gone)\n")
    assert list(broken_links(page)) == ["#b", "gone.md"]


def test_the_figures_of_docs_are_those_that_are_drawn(tmp_path):
    pytest.importorskip("vl_convert")
    write_figures(tmp_path)
    for figure in sorted(tmp_path.iterdir()):
        assert (ROOT / "docs" / "figures" / figure.name).read_bytes() == figure.read_bytes(), (
            "python -m scripts.docs.figures"
        )


def test_every_page_is_in_the_navigation_once():
    pages = list(nav_pages((ROOT / "zensical.toml").read_text("utf-8")))
    files = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES[1:]}
    assert len(pages) == len(set(pages))
    assert files | GENERATED == set(pages), "the nav of zensical.toml has a line for every page"


def test_texts_for_a_terminal_become_markdown():
    assert plain_text("a <b> with ``x*y`` and :func:`~pets.solve`") == "a &lt;b&gt; with `x*y` and `pets.solve`"
    assert plain_text("2**32, **one rule**, 3**2") == r"2\*\*32, **one rule**, 3\*\*2"
    assert docstring("Add.\n\n>>> 1 + 1\n2\n\nDone.") == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nDone."
    assert docstring("So\n\n    U = max_m p\n\nit is.") == "So\n\n```text\nU = max_m p\n```\n\nit is."
    assert table(("a", "b"), [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |"


def test_every_option_is_documented():
    page = cli_page()
    for path, command in commands():
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        assert [option.name for option in options if not option.help] == [], path
        section = page.partition(f"# {path}\n")[2].partition("\n## ")[0] + page.partition("## Every command")[2]
        assert [option.opts[-1] for option in options if option.opts[-1] not in section] == [], path


def test_every_public_name_is_documented():
    assert undocumented_names() == []
    page = reference_page("reference/pets.md")
    names = set(pets.__all__) - {"__version__"}
    assert {name for name in names if f"\n### {name}\n" not in page} == set()


def source_texts():
    """Every text of the source, with a gap where a value is put in."""
    for path in (ROOT / "src" / "pets").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_source():
    texts = "\n".join(" ".join(text.split()) for text in source_texts())
    rows = re.findall(r"^\| (`.+?) \| ", (ROOT / "docs" / "troubleshooting.md").read_text("utf-8"), re.M)
    messages = [message for row in rows for message in re.findall(r"`([^`]{20,})`", row)]
    assert len(messages) > 20
    # Values are figures, names in quotes and addresses; what stands between them is the source's own.
    parts = [part.strip() for text in messages for part in re.split(r"\.\.\.|\S*[\d'\"/]\S*", text)]
    assert [part for part in parts if len(part.split()) > 2 and part not in texts] == []


def test_the_site_builds_without_a_warning(site):
    pages = nav_pages((site.parent / "zensical.toml").read_text("utf-8"))
    assert {page for page in pages if not (site / page).with_suffix(".html").exists()} == set()
    for page in site.rglob("*.html"):
        targets = re.findall(r'(?:href|src)="(?!https?:|data:|/)([^"#?]+)', page.read_text("utf-8"))
        assert {target for target in targets if not (page.parent / target).exists()} == set(), page.name


@pytest.mark.parametrize("name", ["index", "method", "troubleshooting"])
def test_the_site_in_a_browser(site_url, browser, screenshots, name):
    opened = open_page(browser, f"{site_url}/{name}.html")
    check_looks(opened, screenshots, f"docs-{name.replace('/', '-')}")
    assert opened.complaints == []
    assert opened.outside(site_url) == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly, in a folder of its own."""
    folder = tmp_path_factory.mktemp("docs")
    build = subprocess.run(
        [sys.executable, "-m", "scripts.docs", "--output", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return folder / "site"


@pytest.fixture
def site_url(site):
    """The site over HTTP."""
    handler = partial(QuietHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_):
        pass
