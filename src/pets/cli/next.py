"""``pets next``: what is uncertain in a run and why, what would settle it, and the command that does."""

from collections import Counter

import click

from pets.cli._groups import verb
from pets.cli._output import FORMAT, Format, count, print_rows, print_table
from pets.cli._terminal import say
from pets.cli.forecast import played_on
from pets.cli.options import STORE
from pets.engine.progress import CERTAIN, doubt_of, doubt_words, vote_words
from pets.engine.resume import restored, results, spec_of_run
from pets.report.tables import make_table
from pets.store import Store
from pets.store.database import DEFAULT_STORE

TARGETS = (0.95, 0.99)
SHOWN = 20


@verb()
@click.argument("run", default="last")
def next(run: str, store: str | None = STORE, form: Format | None = FORMAT) -> None:  # noqa: A001 (the verb's name)
    """Say what is uncertain in RUN and why, and what to do next.

    \b
    pets next last
    pets next 3 --store runs.db --format csv

    A question is uncertain if its certificate is under 0.95: because its traces were cut or could not be read, because
    its votes are split between spellings, at --max-traces, in a near tie, or for want of traces. They are printed, the
    least certain first. What self-consistency 0.95 and 0.99 cost is forecast as by `pets forecast`, with the `pets
    resume` line to paste.
    """
    path = store or DEFAULT_STORE
    with Store.open(path, create=False) as opened:
        view = opened.view(run)
        allocator, spec = restored(view), spec_of_run(view.settings)
        cap = allocator.budget.cap
        answers = results(view, allocator, texts=False)
        doubted = [(doubt, answer) for answer in answers if (doubt := doubt_of(answer, cap)) is not None]
        doubted.sort(key=lambda row: row[1].certificate)
        source = played_on(view, allocator, path, targets=TARGETS)
        id = view.id
    columns = ("id", "certificate", "answer", "votes", "traces")
    rows = [{"why": why} | {name: answer.to_plain()[name] for name in columns} for why, answer in doubted]

    def print_people() -> None:
        cells = [
            [answer.id, why, answer.answer or "", vote_words(answer), f"{answer.certificate:.3f}", f"{answer.traces:,}"]
            for why, answer in doubted[:SHOWN]
        ]
        caption = f"and {len(doubted) - SHOWN:,} more: --format jsonl" if len(doubted) > SHOWN else None
        print_table(make_table(["id", "why", "answer", "votes"], ["certificate", "traces"], cells, caption=caption))

    say(f"{len(doubted):,} of {count(source.questions, 'question')} with a certificate under {CERTAIN:g}.")
    for doubt, number in Counter(doubt for doubt, _ in doubted).most_common():
        say(f"  {number:,}: {doubt_words(doubt, spec.sampling.max_tokens, cap, id)}.")
    say(*source.budgets(TARGETS)[1])
    print_rows(rows, form, print_people)
