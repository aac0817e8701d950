"""``POST /v1/chat/completions``: answers by vote, or passes the request through."""

import asyncio
import random
from typing import Any

from pets.engine.submissions import VoteLimits
from pets.errors import BudgetError, BusyError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.endpoint import ApiEndpoint
from pets.gateway.ledger import RequestAccount
from pets.gateway.passthrough import PassThrough
from pets.gateway.requests import ChatRequest, VoteOptions, parse_request
from pets.gateway.responses import KEEPALIVE_EVENT, Vote, completion_body, sse_events, vote_metadata
from pets.gateway.state import GatewayState
from pets.gateway.tool_calls import ToolCallReader
from pets.gateway.upstream import api_error
from pets.openai.asgi import Exchange
from pets.prompts import Prompt, Sampling
from pets.questions import Problem

TOP_LOGPROBS = 20  # per token, for weighted votes
SEEDS = 2**31 - 4096  # llama.cpp's end below 2**32
LOGGED_OF_A_VOTE = (
    "traces", "lost", "estimated", "claimed_more", "rounds", "stopped", "seconds", "upstream_seconds",
)  # fmt: skip


class ChatCompletions(ApiEndpoint):
    """The endpoint of chats: model ``pets/NAME`` votes, any other passes through."""

    span_name = "chat"

    def __init__(self, state: GatewayState, pass_through: PassThrough) -> None:
        super().__init__(state)
        self._pass_through = pass_through

    async def _answer(self, exchange: Exchange, body: bytes, key: ApiKey, attributes: dict[str, Any]) -> None:
        state = self._state
        request = parse_request(body, exchange.headers, state.settings)
        attributes |= {"model": request.model, "voted": request.options is not None, "stream": request.stream}
        state.upstream.check(request.model, voted=request.options is not None)
        if request.options is None:
            await self._pass_through.answer(exchange, request, key, attributes["id"])
        else:
            ledger = state.ledger
            restricted, allowed = key is not ANYBODY or ledger.limited, state.settings.allow_fields
            request.check_cost(restricted=restricted, priced=not ledger.currency.counts_traces, allowed=allowed)
            await self._vote(exchange, request, request.options, key, attributes)

    async def _vote(
        self,
        exchange: Exchange,
        request: ChatRequest,
        options: VoteOptions,
        key: ApiKey,
        attributes: dict[str, Any],
    ) -> None:
        state = self._state
        keepalive = KEEPALIVE_EVENT if request.stream else None
        with state.place(state.questions, key, what="questions"):
            vote = await exchange.run_unless_gone(
                self._submit(request, options, key, attributes), state.settings.keepalive, keepalive
            )
        metadata = vote_metadata(vote, state.ledger)
        state.metrics.record_vote(vote, metadata)
        attributes |= {name: metadata[name] for name in LOGGED_OF_A_VOTE}
        if not request.stream:
            await exchange.respond(200, completion_body(vote, metadata))
            return
        await exchange.start_events()
        for event in sse_events(vote, metadata):
            await exchange.send(event)
        await exchange.send(b"", end=True)

    async def _submit(
        self, request: ChatRequest, options: VoteOptions, key: ApiKey, attributes: dict[str, Any]
    ) -> Vote:
        """The vote on a question, or an ``ApiError``."""
        state, clock, id = self._state, asyncio.get_running_loop().time, attributes["id"]
        begun = clock()
        max_tokens = request.max_tokens
        if (
            max_tokens is None and not state.ledger.currency.counts_traces
        ):  # tokens and money need an end to every trace
            limit = state.settings.limits.max_tokens
            longest = Prompt.of_body(request.upstream_fields(limit)).max_tokens
            max_tokens = state.upstream.fitting_tokens(request.model, limit, longest)
        prompt = Prompt.of_body(request.upstream_fields(max_tokens), sender=key.name)
        most = max_tokens or state.settings.limits.max_tokens, prompt.max_tokens
        account = RequestAccount(key, id, request.model, "vote", *most)
        least = min(state.least_traces, options.max_traces) * state.ledger.trace_cost(account)
        if not state.ledger.affords(key, least):
            self._give_way(account, least)
        while True:
            limits = VoteLimits(
                Sampling(max_tokens, top_logprobs=TOP_LOGPROBS if options.weighted else None),
                seed=_seed(request),
                max_traces=options.max_traces,
                deadline=begun + options.timeout,
                rounds=options.rounds,
                weighted=options.weighted,
                single=options.max_traces == 1 or account.kind == "fallback",
                reader=ToolCallReader(options.ignore) if options.tools else None,
                context=account,
                payer=key.name,
            )
            outcome = await state.submissions.submit(Problem(id, prompt, answer_type=options.answer), limits)
            attributes["retries"] = attributes.get("retries", 0) + outcome.retries  # of votes without an answer, too
            if outcome.answer is not None:
                return Vote(request, outcome, account, outcome.answer, clock() - begun)
            if isinstance(outcome.error, BudgetError):  # others were faster
                self._give_way(account, state.ledger.trace_cost(account))
            else:
                error = outcome.error or BusyError("no trace came back in time.")
                raise api_error(error, outcome.timed_out) from outcome.error

    def _give_way(self, account: RequestAccount, amount: int) -> None:
        """The budget does not pay for a vote: one trace without it, or a 429."""
        if self._state.settings.exhausted == "refuse" or account.kind == "fallback":
            raise self._state.ledger.refusal(account.key, amount) from None
        account.kind = "fallback"


def _seed(request: ChatRequest) -> int:
    seed = request.fields.get("seed")
    return random.randrange(SEEDS) if seed is None else int(seed) % SEEDS
