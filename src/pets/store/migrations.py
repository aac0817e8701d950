"""The steps that bring a store to this version: the tables are in migrations.sql, what rewrites data is here.

Both databases take the same steps: in PostgreSQL ``INTEGER`` becomes ``BIGINT``, ``REAL`` a double, and ``WITHOUT
ROWID`` goes.
"""

import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

from pets.errors import PetsError, StateError
from pets.prompts import Message, Sampling
from pets.store.cache import content_keys
from pets.store.database import Database


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
                REWRITES[words.removeprefix("CALL ")](transaction)


def costs_of_traces(transaction: Database) -> None:
    """What a trace cost, where the models of its run have different prices.

    Runs of before kept the prices of their models' tokens as ``rates`` of their currency.
    """
    for run, settings in transaction.execute("SELECT id, settings FROM runs").fetchall():
        try:
            rates = json.loads(settings)["currency"].get("rates", ())
            rows = [(output, prompt, cached[-1] if cached else prompt) for output, prompt, *cached in rates]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged: readers of the run are told
        for model, prices in enumerate(rows):
            transaction.execute(
                "UPDATE traces SET cost = tokens * ?1 + (prompt_tokens - cached) * ?2 + cached * ?3 "
                "WHERE run = ?4 AND model = ?5",
                (*prices, run, model),
            )


FIELDS = {
    "spending": ("budget", "policy", "max_traces", "target_consistency", "price", "overshoot"),
    "pacing": ("concurrency", "waves", "patience"),
    "serving": ("models", "headers", "rpm", "tpm", "timeout", "tries", "backoff", "batch_api", "seed"),
    "reading": ("answer", "instruct", "system", "confidence", "soft"),
    "keeping": ("keep_texts", "keep_going"),
}
"""Where the flat options of runs of before stand in their spec."""


def specs_of_runs(transaction: Database) -> None:
    """What a run was told, in the sections of one spec; before, it stood in several places and under ``more``."""
    for run, settings in transaction.execute("SELECT id, settings FROM runs").fetchall():
        try:
            record = _record_of(json.loads(settings))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged: readers of the run are told
        transaction.execute("UPDATE runs SET settings = ?1 WHERE id = ?2", (json.dumps(record), run))


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


def keys_of_questions(transaction: Database) -> None:
    """What tells the traces of a question from all others."""
    whole = (
        "SELECT id, settings FROM runs WHERE NOT EXISTS (SELECT 1 FROM states WHERE states.run = runs.id "
        "AND states.name = 'texts_deleted')"
    )
    for run, settings in transaction.execute(whole).fetchall():
        try:
            record = json.loads(settings)
            if record["verb"] != "solve" or not record["endpoints"]:
                continue
            spec = record["spec"]
            reading, sampling = spec.get("reading", {}), dict(spec.get("sampling", {}))
            if (reading.get("confidence") or reading.get("soft")) and sampling.get("top_logprobs") is None:
                sampling["top_logprobs"] = LOGPROBS_ASKED
            drawn, system, seed = Sampling(**sampling), reading.get("system"), spec.get("serving", {}).get("seed", 0)
        except (ValueError, KeyError, TypeError, AttributeError, PetsError):
            continue  # damaged: readers of the run are told
        _write_keys(transaction, run, drawn, system, seed)


def _write_keys(transaction: Database, run: int, drawn: Sampling, system: str | None, seed: int) -> None:
    instructions: list[str | None] = []

    def contents() -> Iterator[tuple[str, str | tuple[Message, ...]]]:
        rows = transaction.execute(
            "SELECT prompt, form, position FROM questions WHERE run = ?1 ORDER BY position", (run,)
        )
        for prompt, form, position in rows.fetchall():
            asked_with = next((text for text in INSTRUCTIONS if form == 1 and prompt.endswith(f"\n\n{text}")), None)
            instructions.append(asked_with)
            if form == 1:
                words = prompt if asked_with is None else prompt.removesuffix(f"\n\n{asked_with}")
                yield position, (Message("user", words),)
            else:
                yield position, prompt if form == 0 else tuple(Message(*turn) for turn in json.loads(prompt))

    try:
        keys = list(content_keys(contents(), drawn, system, seed))
    except (ValueError, TypeError):
        return  # damaged: readers of the run are told
    transaction.executemany(
        "UPDATE questions SET instruction = ?3, key = ?4 WHERE run = ?1 AND position = ?2",
        [(run, position, text, key) for text, (position, key) in zip(instructions, keys, strict=True)],
    )


REWRITES: dict[str, Callable[[Database], None]] = {
    step.__name__: step for step in (costs_of_traces, specs_of_runs, keys_of_questions)
}
_TEXT = files(__package__).joinpath("migrations.sql").read_text("utf-8")
MIGRATIONS = tuple(re.sub("^--.*$", "", step, flags=re.MULTILINE) for step in _TEXT.split("\n\n")[1:])
"""The steps of migrations.sql, which blank lines part: statements with semicolons between them."""
