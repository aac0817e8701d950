"""``pets report``: one page of HTML about a run, or about what a replay found."""

from pathlib import Path

import click

from pets.cli._groups import option, verb
from pets.cli._output import check_output, write_page
from pets.cli._terminal import say
from pets.cli.options import CODE, STORE
from pets.report.replay_report import read_rows, replay_page
from pets.report.run_report import run_page
from pets.report.style import charts_library
from pets.store import Store
from pets.store.database import DEFAULT_STORE


@verb()
@click.argument("what", default="last", metavar="RUN|ROWS")
def report(
    what: str,
    store: str | None = STORE,
    answer: str | None = CODE,
    output: Path = option("The page to write.", Path("report.html"), flags=("-o", "--output")),
) -> None:
    """Write a page about RUN, a number of `pets runs` or "last", or about ROWS, a file that `pets replay -o` wrote.

    \b
    pets report last -o report.html
    pets replay starter -o rows.jsonl && pets report rows.jsonl

    The page is one file that needs nothing else: what was bought and what it saved, where the budget went, how sure
    the answers are, the questions to look at, and how to make it again. Of a replay: the policies side by side.
    """
    charts_library()
    check_output(output, what)
    if Path(what).suffix:
        html = replay_page(read_rows(Path(what)))
    else:
        with Store.open(store or DEFAULT_STORE, create=False) as runs:
            html = run_page(runs.view(what, code=answer))
    write_page(output, html, "-o")
    say(f"{output} written ({len(html.encode()) / 1e6:.1f} MB): open it in a browser.")
