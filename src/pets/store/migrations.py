"""The steps that bring a store to this version: the tables are in migrations.sql, what rewrites data is here.

Both databases take the same steps: in PostgreSQL ``INTEGER`` becomes ``BIGINT``, ``REAL`` a double, and ``WITHOUT
ROWID`` goes.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

from pets.errors import StateError
from pets.prompts import Message, Sampling
from pets.store.cache import content_keys
from pets.store.database import Database
from pets.store.records import BAD_VALUES, TEXT, USER


def refuse_newer(database: Database, version: int, name_another: str) -> None:
    """Refuse a store that a newer pets has written, before anything in it is changed."""
    if version > len(MIGRATIONS):
        raise StateError(
            f"{database.name} was written by a newer pets (its version is {version}, this pets reads up to "
            f"{len(MIGRATIONS)}). Update pets, or name another{name_another}."
        )


def migrate(transaction: Database, version: int) -> None:
    """Take the steps that a store of that version lacks."""
    for step in MIGRATIONS[version:]:
        for statement in step.split(";"):
            words = " ".join(statement.split())
            if not words.startswith("CALL "):
                transaction.execute(words)
            elif version:  # a new store holds nothing to rewrite
                rewrite = REWRITES[words.removeprefix("CALL ")]
                for run, settings in transaction.execute("SELECT id, settings FROM runs").fetchall():
                    with suppress(*BAD_VALUES):  # damaged: readers of the run are told
                        rewrite(transaction, run, json.loads(settings))


def costs_of_traces(transaction: Database, run: int, settings: dict[str, Any]) -> None:
    """Write what each trace cost, where the currency has ``rates``: the prices of several models' tokens."""
    rates = settings["currency"].get("rates", ())
    rows = [(output, prompt, cached[-1] if cached else prompt) for output, prompt, *cached in rates]
    cost = "tokens * ?1 + (prompt_tokens - cached) * ?2 + cached * ?3"
    statement = f"UPDATE traces SET cost = {cost} WHERE run = ?4 AND model = ?5"
    transaction.executemany(statement, [(*prices, run, model) for model, prices in enumerate(rows)])


FIELDS = {
    "spending": ("budget", "policy", "max_traces", "target_consistency", "price", "overshoot"),
    "pacing": ("concurrency", "waves", "patience"),
    "serving": ("models", "headers", "rpm", "tpm", "timeout", "tries", "backoff", "batch_api", "seed"),
    "reading": ("answer", "instruct", "system", "confidence", "soft"),
    "keeping": ("keep_texts", "keep_going"),
}
"""Where the flat options of runs of before stand in their spec."""


def specs_of_runs(transaction: Database, run: int, settings: dict[str, Any]) -> None:
    """Write the options of a run in the sections of one spec; before, they were in several places and in ``more``."""
    transaction.execute("UPDATE runs SET settings = ?1 WHERE id = ?2", (json.dumps(_record_of(settings)), run))


def _record_of(old: dict[str, Any]) -> dict[str, Any]:
    """The record of a run of before: of this version's forerunners, or of version 0.1.0."""
    more = old["more"]
    plan = {"budget": old["budget"], "policy": old["policy"], "seed": old["seed"], "instruct": False, "sampling": {}}
    plan |= {"max_traces": old["cap"], "confidence": old["confidence"], "concurrency": old["concurrency"]}
    plan |= more.get("plan", {})
    plan["max_traces"] = plan.pop("max_per_question", plan["max_traces"])
    spec = {section: {name: plan[name] for name in names if name in plan} for section, names in FIELDS.items()}
    window = None
    if (stream := more.get("stream")) is not None:
        window = stream["budget"]["window"]
        spec["spending"] |= {"policy": stream["policy"], "max_traces": stream["budget"]["cap"]}
        spec["spending"] |= {"horizon": stream["horizon"], "budget_window": window and window[0]}
        spec["pacing"]["open_questions"] = stream["open_questions"]
        spec["reading"]["answer_sizes"] = stream["options"]
    return {
        "total": old["total"],
        "currency": _currency_of(old["currency"]),
        "spec": {**spec, "sampling": plan["sampling"]},
        "verb": "solve" if stream is None else "stream",
        "window": window,
        **{name: old[name] for name in ("model", "endpoints", "name", "version")},
        "answer_type": more.get("answer_type"),
    }


def _currency_of(currency: dict[str, Any]) -> dict[str, Any]:
    """A currency as it is kept; of ``rates`` for several models, as they once were, the dearest of each kind.

    >>> _currency_of({"unit": "picodollars", "per_trace": 0, "rates": [[5, 2, 1], [9, 1]]})["per_prompt_token"]
    2
    """
    rates = currency.pop("rates", ())
    if rates:
        output, prompt, cached = (max(kind) for kind in zip(*((row[0], row[1], row[-1]) for row in rates), strict=True))
        currency |= {"per_token": output, "per_prompt_token": prompt, "per_cached_token": cached}
    return currency


INSTRUCTIONS = (
    "Put your final answer within \\boxed{}.",
    "Answer with JSON alone.",
    'End with "The answer is N.", where N is a number.',
    'End with "The answer is ...", in a few words at most.',
    'End with "The answer is yes." or "The answer is no."',
    'End with "The answer is (X).", where X is the letter of your choice.',
    'End with "The answer is ...".',
)
"""What stands at the end of prompts of before, where an answer type put it there."""
LOGPROBS_ASKED = 20


def keys_of_questions(transaction: Database, run: int, settings: dict[str, Any]) -> None:
    """Write the key of each question, which tells its traces from all others, and its instruction."""
    deleted = "SELECT 1 FROM states WHERE run = ?1 AND name = 'texts_deleted'"
    if settings["verb"] != "solve" or not settings["endpoints"] or transaction.execute(deleted, (run,)).fetchone():
        return
    spec = settings["spec"]
    reading, sampling = spec.get("reading", {}), dict(spec.get("sampling", {}))
    if (reading.get("confidence") or reading.get("soft")) and sampling.get("top_logprobs") is None:
        sampling["top_logprobs"] = LOGPROBS_ASKED
    questions = "SELECT position, prompt, form FROM questions WHERE run = ?1 ORDER BY position"
    parts = [(place, *_parts_of(prompt, form)) for place, prompt, form in transaction.execute(questions, (run,))]
    contents = ((place, content) for place, content, _ in parts)
    keys = content_keys(contents, Sampling(**sampling), reading.get("system"), spec.get("serving", {}).get("seed", 0))
    transaction.executemany(
        "UPDATE questions SET instruction = ?3, key = ?4 WHERE run = ?1 AND position = ?2",
        [(run, place, instruction, key) for (place, _, instruction), (_, key) in zip(parts, keys, strict=True)],
    )


def _parts_of(prompt: str, form: int) -> tuple[str | tuple[Message, ...], str | None]:
    """What a prompt says, and the instruction that an answer type put at its end."""
    if form == USER:
        instruction = next((text for text in INSTRUCTIONS if prompt.endswith(f"\n\n{text}")), None)
        words = prompt if instruction is None else prompt.removesuffix(f"\n\n{instruction}")
        return (Message("user", words),), instruction
    return prompt if form == TEXT else tuple(Message(*turn) for turn in json.loads(prompt)), None


REWRITES: dict[str, Callable[[Database, int, Any], None]] = {
    step.__name__: step for step in (costs_of_traces, specs_of_runs, keys_of_questions)
}
_TEXT = files(__package__).joinpath("migrations.sql").read_text("utf-8")
MIGRATIONS = tuple(re.sub("^--.*$", "", step, flags=re.MULTILINE) for step in _TEXT.split("\n\n")[1:])
"""The steps of migrations.sql, which blank lines part: statements with semicolons between them."""
