"""Read the texts of a stored run by another answer type: a new run whose traces are all reused, for nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pets.arguments import checked
from pets.engine.question import UNREAD, Answer, answer_type_of, chosen_for, traces_of_each
from pets.engine.reading import read_again
from pets.engine.resume import restored, results, with_said
from pets.errors import InputError, StateError
from pets.prompts import is_cut
from pets.questions import Problem
from pets.questions.files import AUTO
from pets.registry import answer_types
from pets.store import RunView, Store, StoredTrace
from pets.store.database import DEFAULT_STORE

TRACES_PER_WRITE = 1000


def reread_run(store: Store, run: int | str, answer: str) -> RunView:
    """A new run of the store that reads the texts of another as ``answer``; that run stays as it is."""
    view = store.view(run)
    reader = answer_types().accept(answer)
    if reader.asks_model:
        raise InputError(
            f"--answer {answer} needs more than the texts: `pets solve` with the questions of run {view.id} and that "
            "answer type reuses its traces."
        )
    settings = view.settings
    if not settings.keeps_texts or not any(trace.text for trace in view.traces()):
        raise StateError(f"run {view.id} of {store.name} kept no texts (--no-texts), or they were deleted.")
    record = replace(with_said(settings, "reading", answer=answer), answer_type=None)
    problems = list(_chosen(view, answer))
    with store.create(record, problems, keys=view.keys()) as new:
        traces = _read_anew(view, problems, answer)
        while some := list(islice(traces, TRACES_PER_WRITE)):
            new.write([trace.launch for trace in some], some)
        if view.summary().state == "finished":
            new.finish()
    return store.view(new.id, code=answer)


def _chosen(view: RunView, answer: str) -> Iterator[Problem]:
    """The questions of a run; ``auto`` chooses their answer types anew, from their first traces."""
    problems = list(view.problems())
    for problem, traces in zip(problems, traces_of_each(problems, view.traces()), strict=True):
        texts = [trace.text for trace in traces if trace.error is None and not is_cut(trace.finish)]
        named = problem.answer_type.partition(":")[0]
        yield chosen_for(replace(problem, answer_type=AUTO) if named == AUTO else problem, texts, answer)


def _read_anew(view: RunView, problems: Iterable[Problem], answer: str) -> Iterator[StoredTrace]:
    """The traces of a run as another answer type reads them."""
    types = {problem.id: answer_type_of(problem, answer) for problem in problems}
    for trace in view.traces():
        finish = "stop" if trace.finish == UNREAD else trace.finish
        origin = trace.reused_from or view.id
        blank = replace(trace, answer=None, spelling=None, finish=finish, soft=None, reused_from=origin)
        if trace.error is None and trace.part is None and not is_cut(finish):
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
