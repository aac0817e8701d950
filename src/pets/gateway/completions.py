"""Chats with a model ``pets/NAME``: answered by vote."""

import asyncio
import random
from functools import lru_cache
from typing import Any

from pets.engine.question import TraceReader, reading_of
from pets.engine.submissions import VoteLimits
from pets.errors import BudgetError, BusyError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.ledger import RequestAccount
from pets.gateway.requests import ApiRequest
from pets.gateway.responses import KEEPALIVE_EVENT, AnsweredVote, completion_body, sse_events, vote_metadata
from pets.gateway.state import GatewayState
from pets.gateway.upstream import api_error
from pets.openai.asgi import Exchange
from pets.prompts import Prompt, Sampling
from pets.questions import Problem

TOP_LOGPROBS = 20  # per token, for weighted votes
SEEDS = 2**31 - 4096  # llama.cpp's end below 2**32
SEED_DIGITS = 12  # of a digest
LOGGED_OF_A_VOTE = (
    "traces", "lost", "estimated", "cancelled", "claimed_more", "stopped", "seconds", "upstream_seconds",
)  # fmt: skip

sampling_of = lru_cache(maxsize=256)(Sampling)  # whose checks take longer than the rest of a request's preparation


async def answer_by_vote(
    state: GatewayState, exchange: Exchange, request: ApiRequest, key: ApiKey, attributes: dict[str, Any]
) -> None:
    """Answer one request, or raise an :class:`~pets.openai.errors.ApiError`; ``attributes`` are the log's."""
    ledger = state.ledger
    restricted, allowed = key is not ANYBODY or ledger.limited, state.settings.allow_fields
    request.check_cost(restricted=restricted, priced=not ledger.currency.counts_traces, allowed=allowed)
    keepalive = KEEPALIVE_EVENT if request.stream else None
    with state.place(state.questions, key, what="questions"):
        submitted = _submit(state, request, key, attributes)
        vote = await exchange.run_unless_gone(submitted, keepalive, state.settings.keepalive)
    metadata = vote_metadata(vote, ledger)
    state.metrics.record_vote(vote, metadata)
    attributes |= {name: metadata[name] for name in LOGGED_OF_A_VOTE}
    if not request.stream:
        await exchange.respond(200, completion_body(vote, metadata))
        return
    await exchange.start_events()
    for event in sse_events(vote, metadata):
        await exchange.send(event)
    await exchange.send(b"", end=True)


async def _submit(state: GatewayState, request: ApiRequest, key: ApiKey, attributes: dict[str, Any]) -> AnsweredVote:
    """The vote on a question, or an ``ApiError``."""
    assert request.options is not None  # it is voted on
    options, clock, id = request.options, asyncio.get_running_loop().time, attributes["id"]
    begun, limit = clock(), state.token_limit(request)
    # Tokens and money need an end to every trace.
    max_tokens = request.max_tokens if state.ledger.currency.counts_traces else limit
    prompt = Prompt.of_body(request.sent_fields(max_tokens), sender=key.name)
    account = RequestAccount(key, id, request.model, "vote", limit, prompt.max_tokens)
    sampling = sampling_of(max_tokens, top_logprobs=TOP_LOGPROBS if options.weighted else None)
    client_seed, held = request.fields.get("seed"), {}
    seed = random.randrange(SEEDS) if client_seed is None else int(client_seed) % SEEDS
    if (paid := state.ledger.paid) is not None:
        account.question = paid.digest(prompt, sampling, client_seed)
        seed = int(account.question[:SEED_DIGITS], 16) % SEEDS  # launch numbers have the same seeds every time
        held = await paid.find(key.name, account.question)
    least = max(0, min(state.least_traces, options.max_traces) - len(held)) * state.ledger.trace_cost(account)
    if (left := state.ledger.left(key)) is not None and least > left:
        _give_way(state, account, least)
    while True:
        limits = VoteLimits(
            sampling,
            seed=seed,
            max_traces=options.max_traces,
            deadline=begun + options.timeout,
            hurry=options.hurry,
            weighted=options.weighted,
            single=options.max_traces == 1 or account.kind == "fallback",
            reader=_reader(options.ignore) if options.tools else None,
            context=account,
            payer=key.name,
            held=held,
        )
        outcome = await state.submissions.submit(Problem(id, prompt, answer_type=options.answer), limits)
        attributes["retries"] = attributes.get("retries", 0) + outcome.retries  # of votes without an answer, too
        if outcome.answer is not None:
            return AnsweredVote(request, outcome, account, outcome.answer, clock() - begun)
        if isinstance(outcome.error, BudgetError):  # others were faster
            _give_way(state, account, state.ledger.trace_cost(account))
        else:
            error = outcome.error or BusyError("no trace came back in time.")
            raise api_error(error, outcome.timed_out) from outcome.error


def _give_way(state: GatewayState, account: RequestAccount, amount: int) -> None:
    """The budget does not pay for a vote: one trace without it, or a 429."""
    if state.settings.over_budget == "refuse" or account.kind == "fallback":
        raise state.ledger.refusal(account.key, amount) from None
    account.kind = "fallback"


def _reader(ignore: tuple[str, ...]) -> TraceReader:
    """Reads calls without the fields to ``ignore``; texts as the vote's answer type does."""
    return lambda completion, answer_type: reading_of(answer_type, completion.text, completion.finish, ignore)
