"""Votes anew over the texts that a store holds, for nothing: a new run whose traces are all reused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pets.arguments import checked
from pets.engine.question import UNREAD, Answer, answer_type_of
from pets.engine.reading import read_again
from pets.engine.resume import restored, results
from pets.errors import InputError, StateError
from pets.prompts import is_cut
from pets.registry import as_answer_type
from pets.store import RunView, Store, StoredTrace
from pets.store.database import DEFAULT_STORE

TRACES_PER_WRITE = 1000


def reread_run(store: Store, run: int | str, answer: str) -> RunView:
    """The new run of the store that reads what another run's traces said as ``answer``; that run stays as it is."""
    view = store.view(run)
    reader = as_answer_type(answer)
    if reader.asks_model or reader.chosen_from_traces:
        raise InputError(
            f"--answer {answer} needs more than the texts: `pets solve` with the questions of run {view.id} and that "
            "answer type reuses its traces."
        )
    settings = view.settings
    if not settings.keeps_texts or not any(trace.text for trace in view.traces()):
        raise StateError(f"run {view.id} of {store.name} kept no texts (--no-texts), or they were deleted.")
    reading = {**settings.spec.get("reading", {}), "answer": answer}
    record = replace(settings, spec={**settings.spec, "reading": reading}, answer_type=None)
    with store.create(record, view.problems(), keys=view.keys()) as new:
        traces = _read_anew(view, answer)
        while some := [trace for _, trace in zip(range(TRACES_PER_WRITE), traces, strict=False)]:
            new.write([trace.launch for trace in some], some)
        if view.summary().state == "finished":
            new.finish()
    return store.view(new.id, code=answer)


def _read_anew(view: RunView, answer: str) -> Iterator[StoredTrace]:
    """The traces of a run as another answer type reads them."""
    types = {problem.id: answer_type_of(problem, answer) for problem in view.problems()}
    for trace in view.traces():
        finish = "stop" if trace.finish == UNREAD else trace.finish
        origin = trace.reused_from or view.id
        blank = replace(trace, answer=None, spelling=None, finish=finish, soft=None, reused_from=origin)
        if trace.error is None and not is_cut(finish):
            unread = replace(blank, finish=UNREAD)
            read = read_again(types[trace.question], unread)
            blank = unread if read is unread else replace(read, finish=finish)
        yield blank


@checked
def reread(run: int | str = "last", *, answer: str, store: str | Path = DEFAULT_STORE) -> list[Answer]:
    """The answers of a stored run, its texts read as ``answer`` says: a new run of the store, and nothing is paid.

    pets.reread("last", answer="number")
    """
    with Store.open(store, create=False) as opened:
        view = reread_run(opened, run, answer)
        return list(results(view, restored(view)))
