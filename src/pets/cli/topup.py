"""``pets top-up``: more budget for a run that has spent its own."""

import os
from pathlib import Path

import click

from pets.cli.solving import check_output, run_engine
from pets.engine import Engine

__all__ = ["top_up"]


@click.command("top-up", short_help="Give a run more budget and go on.")
@click.argument("run", metavar="RUN")
@click.option("--budget", required=True, metavar="+AMOUNT", help="+2000, +4x, +1Mtok, +2usd: in the run's currency.")
@click.option("--store", required=True, type=click.Path(dir_okay=False), help="The file that holds the run.")
@click.option("--endpoint", multiple=True, metavar="URL", help="Other servers than the run began with.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Traces in flight.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Results as JSONL; else stdout.")
def top_up(
    run: str, budget: str, store: str, endpoint: tuple[str, ...], concurrency: int | None, output: Path | None
) -> None:
    """Give RUN (its number, or "last") more budget and go on; nothing that was paid for is sampled again.

    \b
    pets top-up last --budget +2000 --store runs.db
    """
    check_output(output)
    engine = Engine.resume(
        store,
        run,
        endpoint=endpoint or None,
        key=os.environ.get("OPENAI_API_KEY"),
        concurrency=concurrency,
        top_up=budget,
    )
    run_engine(engine, output)
