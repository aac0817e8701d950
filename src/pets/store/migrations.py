"""The tables, as an ordered list of small steps: step k brings a store from version k to k + 1.

A step that has shipped is never edited; a change is a new step at the end. Prices and amounts are whole numbers of
the currency's smallest unit, times are seconds since 1970, plain data is JSON text. Both databases take the same
steps: in PostgreSQL ``INTEGER`` becomes ``BIGINT``, ``REAL`` a double, and ``WITHOUT ROWID`` goes.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from pets.errors import PetsError
from pets.prompts import Message, Sampling
from pets.store.cache import content_keys
from pets.store.database import Database

Step = str | Callable[[Database], None]
"""Statements with semicolons between them, or a function where data is rewritten too."""


def migrate(transaction: Database, step: Step) -> None:
    """Take one step."""
    if callable(step):
        step(transaction)
    else:
        for statement in step.split(";"):
            transaction.execute(" ".join(statement.split()))


def _costs_of_traces(transaction: Database) -> None:
    """What a trace cost, where the models of its run have different prices; and which of them a batch job asks.

    Runs of before kept the prices of their models' tokens as ``rates`` of their currency.
    """
    transaction.execute("ALTER TABLE traces ADD COLUMN cost INTEGER")
    transaction.execute("ALTER TABLE batch_jobs ADD COLUMN model TEXT NOT NULL DEFAULT ''")
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


def _specs_of_runs(transaction: Database) -> None:
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


def _keys_of_questions(transaction: Database) -> None:
    """What tells the traces of a question from all others, and which run paid for a trace first."""
    for statement in (
        "ALTER TABLE questions ADD COLUMN instruction TEXT",
        "ALTER TABLE questions ADD COLUMN key TEXT",
        "ALTER TABLE traces ADD COLUMN reused INTEGER",
        "CREATE INDEX questions_by_key ON questions (key) WHERE key IS NOT NULL",
    ):
        transaction.execute(statement)
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


MIGRATIONS: tuple[Step, ...] = (
    # Runs and their questions.
    """
    CREATE TABLE runs (id INTEGER PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, finished REAL, questions
      INTEGER NOT NULL, settings TEXT NOT NULL);
    CREATE TABLE questions (run INTEGER NOT NULL REFERENCES runs, position INTEGER NOT NULL, id TEXT NOT NULL, prompt
      TEXT NOT NULL, form INTEGER NOT NULL, answer TEXT NOT NULL, gold TEXT, level TEXT NOT NULL, options INTEGER,
      PRIMARY KEY (run, position), UNIQUE (run, id))
    """,
    # A trace points at its launch. Texts stand apart: counting votes reads no gigabytes.
    """
    CREATE TABLE launches (run INTEGER NOT NULL, question INTEGER NOT NULL, number INTEGER NOT NULL, held INTEGER NOT
      NULL, PRIMARY KEY (run, question, number)) WITHOUT ROWID;
    CREATE TABLE traces (run INTEGER NOT NULL, question INTEGER NOT NULL, number INTEGER NOT NULL, answer TEXT, finish
      TEXT NOT NULL, tokens INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, mean REAL, tail REAL, lowest REAL, bottom
      REAL, measured INTEGER, error TEXT, endpoint INTEGER NOT NULL, seconds REAL NOT NULL, tries INTEGER NOT NULL,
      PRIMARY KEY (run, question, number), FOREIGN KEY (run, question, number) REFERENCES launches) WITHOUT ROWID;
    CREATE TABLE texts (run INTEGER NOT NULL, question INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
      PRIMARY KEY (run, question, number))
    """,
    # Plain data of runs, by name.
    """
    CREATE TABLE states (run INTEGER NOT NULL REFERENCES runs, name TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY
      (run, name));
    CREATE TABLE plans (name TEXT PRIMARY KEY, created REAL NOT NULL, data TEXT NOT NULL)
    """,
    # A gateway's ledger: what was held for each upstream request before it was sent, and what it cost. A row without
    # `spent` was in flight when the gateway died. Keys are there as hashes alone.
    """
    CREATE TABLE ledger (id INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL, kind TEXT
      NOT NULL, unit TEXT NOT NULL, traces INTEGER NOT NULL, held INTEGER NOT NULL, spent INTEGER, delivered INTEGER,
      tokens INTEGER, prompt_tokens INTEGER);
    CREATE TABLE api_keys (name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, created REAL NOT NULL, budget INTEGER,
      admin INTEGER NOT NULL, revoked REAL)
    """,
    # Plans are files; nothing ever wrote this table.
    "DROP TABLE plans",
    # `wasted`: tries that were charged and came to nothing; `answered`: when an answer was handed out.
    """
    ALTER TABLE traces ADD COLUMN wasted INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE questions ADD COLUMN answered REAL
    """,
    # Of a ledger row's traces: whose tokens no server told, and of which one claimed more than it was asked for.
    """
    ALTER TABLE ledger ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN claimed_more INTEGER NOT NULL DEFAULT 0
    """,
    # The unit of a key's budget; keys of before have budgets in whichever unit the gateway counts.
    "ALTER TABLE api_keys ADD COLUMN unit TEXT",
    # A digest of what a run asks and how: the same command again goes on with it. Older runs have none.
    "ALTER TABLE runs ADD COLUMN identity TEXT",
    # Gateways that share a ledger, each with the entries that it answers for, and the sums that limits apply to.
    # `beat` goes up while a replica lives; `share` is what it has taken of the common plan. A balance is of all keys
    # (`total`), of one, or of one window of time.
    """
    CREATE TABLE replicas (id INTEGER PRIMARY KEY, name TEXT NOT NULL, started REAL NOT NULL, beat INTEGER NOT NULL,
      settings TEXT NOT NULL, share TEXT NOT NULL, ended REAL);
    CREATE TABLE balances (name TEXT PRIMARY KEY, spent INTEGER NOT NULL, held INTEGER NOT NULL);
    ALTER TABLE ledger ADD COLUMN replica INTEGER;
    ALTER TABLE ledger ADD COLUMN rate_window TEXT;
    CREATE INDEX open_entries ON ledger (replica) WHERE spent IS NULL AND replica IS NOT NULL
    """,
    # Which of a run's models gave a trace, by its index among them.
    "ALTER TABLE traces ADD COLUMN model INTEGER NOT NULL DEFAULT 0",
    # Jobs of a run: written before anything of them is sent. `lines` are their requests, as JSON.
    """
    CREATE TABLE batch_jobs (run INTEGER NOT NULL REFERENCES runs, key TEXT NOT NULL, number INTEGER NOT NULL,
      endpoint TEXT NOT NULL, lines TEXT NOT NULL, created REAL NOT NULL, wave INTEGER NOT NULL, file TEXT, job TEXT,
      PRIMARY KEY (run, key))
    """,
    # Processes that share a run, and its requests: one without a worker is free, one without a reply is under way.
    """
    CREATE TABLE workers (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, name TEXT NOT NULL, width INTEGER NOT NULL,
      beat INTEGER NOT NULL);
    CREATE TABLE tasks (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, request TEXT NOT NULL, worker INTEGER, reply
      TEXT);
    CREATE INDEX tasks_of_runs ON tasks (run, worker)
    """,
    # Prompt tokens that the server had in its cache, which may cost less.
    "ALTER TABLE traces ADD COLUMN cached INTEGER NOT NULL DEFAULT 0",
    # What a trace might have said at the token that decides its answer, as JSON; most traces have none.
    "ALTER TABLE traces ADD COLUMN soft TEXT",
    _costs_of_traces,
    _specs_of_runs,
    # What else a key is held to: requests per minute, an end, and patterns of models (a JSON list).
    """
    ALTER TABLE api_keys ADD COLUMN rpm INTEGER;
    ALTER TABLE api_keys ADD COLUMN expires REAL;
    ALTER TABLE api_keys ADD COLUMN models TEXT
    """,
    _keys_of_questions,
    # An answer as its trace wrote it, where that is not its canonical form.
    "ALTER TABLE traces ADD COLUMN spelling TEXT",
    # A key's budget may be one per day, week or month; a row of the ledger counts in those of its day, by its number
    # since 1970, in UTC. Rows of before count by their time.
    """
    ALTER TABLE api_keys ADD COLUMN budget_window TEXT;
    ALTER TABLE ledger ADD COLUMN day INTEGER
    """,
    # Traces that requests of a gateway's keys have paid for, as JSON, by a digest of what was asked.
    """
    CREATE TABLE paid_traces (key TEXT NOT NULL, question TEXT NOT NULL, number INTEGER NOT NULL, trace TEXT NOT NULL,
      PRIMARY KEY (key, question, number))
    """,
    # Of a trace that was cancelled, what it counts as in thousandths of one; how many of a ledger row's were.
    """
    ALTER TABLE traces ADD COLUMN part INTEGER;
    ALTER TABLE ledger ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0
    """,
)
