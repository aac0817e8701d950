"""The mock without its socket: settings, statistics, and how a request becomes a response."""

import hashlib
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pets.errors import InputError
from pets.mock.answers import AnswerSource
from pets.mock.completions import CompletionRequest, CompletionResponse, parse_request, prompt_tokens
from pets.mock.faults import FATAL_FAULTS, FatalFault, Faults, RequestLimit, ResponseFault
from pets.mock.traces import render
from pets.openai.errors import ApiError


@dataclass(slots=True)
class MockStats:
    """Counts since the start, for a client that wants to check its own.

    ``traces`` went out in whole responses; ``lost`` in responses that were cut, garbled or given up by the client: a
    server would charge for those too, for as many tokens as were written. ``running`` requests are under way.
    """

    requests: int = 0
    running: int = 0
    refused: int = 0
    traces: int = 0
    lost: int = 0
    abandoned: int = 0
    unmatched: int = 0
    batches: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)

    def to_plain(self, questions: bool = False) -> dict[str, Any]:
        """The counts as JSON has them; with ``questions`` also the traces served per question."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("faults", "questions")}
        plain["faults"] = dict(self.faults)
        return plain | ({"questions": dict(self.questions)} if questions else {})


class MockModel:
    """A model that answers from a source of known answers. ``seed`` drives the faults and the requests without a seed.

    A fault befalls a request for what it is, its prompts and seed, and how many like it came before, not for when it
    comes: a client that asks the same meets the same faults, in whatever order its requests arrive.
    ``prompts`` are whole prompts that hold no id, each with its question; questions that the source does not have
    are passed over. ``on_unmatched`` is called with the first prompt that names no question. Requests for more
    tokens than ``max_model_len`` leaves beside the prompt get 400, those beyond the ``request_limit`` 429. With a
    ``prompt_cache`` the usage tells how many tokens of prompts came before. A subclass may refuse more requests
    (:meth:`parse`, :meth:`admit`) or answer otherwise (:meth:`respond`).

    >>> from pets.mock import DistributionAnswers
    >>> mock = MockModel(DistributionAnswers({"q": {"A": 1.0}}), faults=Faults(hang=0.02), tokens_per_second=50)
    >>> mock.stats.traces
    0
    """

    stops = True  # writing when a client has gone

    def __init__(
        self,
        answers: AnswerSource,
        *,
        model: str = "mock",
        tokens_per_second: float = 0.0,
        faults: Faults | None = None,
        n_limit: int | None = None,
        max_model_len: int | None = None,
        request_limit: RequestLimit | None = None,
        api_key: str | None = None,
        prompt_cache: bool = False,
        seed: int = 0,
        prompts: Mapping[str, str] | None = None,
        on_unmatched: Callable[[str], None] = lambda prompt: None,
    ) -> None:
        if not 0 <= tokens_per_second < math.inf:
            raise InputError(f"tokens per second are 0 (at once) or more; got {tokens_per_second}.")
        if n_limit is not None and n_limit < 1:
            raise InputError(f"a limit on n is at least 1; got {n_limit}.")
        if max_model_len is not None and max_model_len < 2:
            raise InputError(f"a context holds at least 2 tokens, of prompt and trace; got {max_model_len}.")
        if not model or api_key == "":
            raise InputError("the model's name and the API key are not empty; leave the key out to need none.")
        self.answers, self.model, self.tokens_per_second = answers, model, tokens_per_second
        self.faults, self.n_limit, self.api_key = faults or Faults(), n_limit, api_key
        self.max_model_len, self.seed = max_model_len, seed
        self.stats = MockStats()
        self._cached_prompts: set[str] | None = set() if prompt_cache else None
        self._request_limit = request_limit
        self._matcher, self._on_unmatched = QuestionMatcher(answers.ids(), prompts), on_unmatched
        self._seeds, self._alike = random.Random(f"seeds {seed}"), Counter[int]()
        self._numbers = itertools.count(1)

    def rate_limit_headers(self) -> list[tuple[bytes, bytes]]:
        """The ``x-ratelimit-*`` headers of the next response; none where requests are not limited."""
        return [] if self._request_limit is None else self._request_limit.headers()

    def parse(self, body: bytes, chat: bool) -> CompletionRequest:
        """The request that a body is; what is wrong with it raises an :class:`ApiError`."""
        return parse_request(body, self.model, chat)

    def admit(self, request: CompletionRequest) -> None:
        """Refuse a request that comes too soon, or wants more choices than there are slots or tokens than there are."""
        if self._request_limit is not None and (wait_s := self._request_limit.take()) > 0:
            self.stats.faults["request_limit"] += 1
            raise ApiError("Rate limit reached.", status=429, code="rate_limit_exceeded", retry_after=wait_s)
        if self.n_limit is not None and request.n > self.n_limit:
            self.stats.faults["n_refused"] += 1
            raise ApiError(f"'n' is {request.n}; this server has {self.n_limit} slots.", param="n")
        limit, length = self.max_model_len, max(map(prompt_tokens, request.prompts))
        if limit is not None and length + (request.max_tokens or 1) > limit:  # in vLLM's words
            words = f"'max_tokens' or 'max_completion_tokens' is too large: {request.max_tokens}. This model's maximum "
            words += f"context length is {limit} tokens and your request has {length} input tokens."
            raise ApiError(words, param="max_tokens")

    def fatal_fault(self, request: CompletionRequest) -> FatalFault | None:
        """The fault that spoils the response, counted: always one draw, so that rates do not shift each other."""
        self._alike[hash((request.prompts, request.seed))] += 1
        rates = [getattr(self.faults, name) for name in FATAL_FAULTS]
        chances = [*rates, max(0.0, 1 - math.fsum(rates))]
        fault = self._random("fatal", request).choices([*FATAL_FAULTS, None], chances)[0]
        if fault is not None:
            self.stats.faults[fault] += 1
        return fault

    def respond(self, request: CompletionRequest, spoiled: bool = False) -> tuple[CompletionResponse, bool]:
        """The response, changed as the faults have it unless it is spoiled anyway; and whether it comes late."""
        rng = None if spoiled else self._random("response", request)
        n = 1 if self._happens("one_choice", rng, request.n > 1) else request.n
        seed = self._seeds.getrandbits(62) if request.seed is None else request.seed
        questions = [self._question(prompt) for prompt in request.prompts]
        room = [None if self.max_model_len is None else self.max_model_len - prompt_tokens(p) for p in request.prompts]
        draw = (lambda question, _: self.answers.greedy(question)) if request.greedy else self.answers.draw
        choices = tuple(
            render(draw(question, seed + i), most if request.max_tokens is None else request.max_tokens, request.stops)
            for question, most in zip(questions, room, strict=True)
            for i in range(n)
        )
        cached_tokens = None
        if (cached := self._cached_prompts) is not None:
            cached_tokens = sum(prompt_tokens(prompt) for prompt in request.prompts if prompt in cached)
            cached.update(request.prompts)
        response = CompletionResponse(
            id=f"{'chatcmpl' if request.chat else 'cmpl'}-{next(self._numbers)}",
            model=self.model,
            created=int(time.time()),
            request=request,
            choices=choices,
            prompt_tokens=sum(map(prompt_tokens, request.prompts)),
            top=None if self._happens("no_logprobs", rng, request.top is not None) else request.top,
            cached_tokens=cached_tokens,
        )
        return response, self._happens("slow", rng, True)

    def _random(self, what: str, request: CompletionRequest) -> random.Random:
        number = self._alike[hash((request.prompts, request.seed))]
        return random.Random(f"{what} {self.seed} {number} {request.seed} {request.prompts}")

    def seconds(self, response: CompletionResponse) -> float:
        """How long a response takes: its choices run side by side."""
        return response.longest / self.tokens_per_second if self.tokens_per_second else 0.0

    def count_served(self, response: CompletionResponse) -> None:
        """Count a response that went out whole."""
        self.stats.traces += len(response.choices)
        self._charge(response)
        per_prompt = len(response.choices) // len(response.request.prompts)
        for prompt in response.request.prompts:
            self.stats.questions[self._matcher.find(prompt)[0]] += per_prompt

    def count_lost(self, response: CompletionResponse, abandoned: bool = False, written: float = math.inf) -> None:
        """Count a response that did not reach the client whole; so many tokens of each choice were ``written``."""
        self.stats.lost += len(response.choices)
        self.stats.abandoned += abandoned
        self._charge(response, written)

    def _charge(self, response: CompletionResponse, written: float = math.inf) -> None:
        self.stats.prompt_tokens += response.prompt_tokens
        self.stats.cached_tokens += response.cached_tokens or 0
        self.stats.completion_tokens += int(sum(min(choice.tokens, written) for choice in response.choices))

    def _question(self, prompt: str) -> str:
        """The prompt's question; a prompt that names none is counted, and the first of them reported."""
        question, named = self._matcher.find(prompt)
        if not named:
            self.stats.unmatched += 1
            if self.stats.unmatched == 1:
                self._on_unmatched(prompt)
        return question

    def _happens(self, name: ResponseFault, rng: random.Random | None, matters: bool) -> bool:
        """Draw whether a fault befalls a response that is not spoiled; one that changes something is counted."""
        rate = getattr(self.faults, name)
        happens = rng is not None and rate > 0 and rng.random() < rate and matters
        if happens:
            self.stats.faults[name] += 1
        return happens


class QuestionMatcher:
    """Finds the question that a prompt asks: the longest id that is a word of its own in it, the last of equals.

    Prompts without an id can be given whole, each with its question. Any other one gets the question that its hash
    picks: always the same one. A prompt of W words is looked up W times per length of ids, however many there are.

    >>> matcher = QuestionMatcher(["q1", "q12", "Capital of France?"], {"Q: 1 + 1?": "q1"})
    >>> matcher.find("Q: q1. And now q12:"), matcher.find("What is the Capital of France? One word.")
    (('q12', True), ('Capital of France?', True))
    >>> matcher.find("Q: 1 + 1?"), matcher.find("q123")
    (('q1', True), ('q12', False))
    """

    def __init__(self, ids: Iterable[str], prompts: Mapping[str, str] | None = None) -> None:
        self._ids = list(ids)
        self._known = set(self._ids)
        whole = {text: id for text, id in (prompts or {}).items() if id in self._known}
        self._prompts = whole | {id: id for id in self._ids}
        self._lengths = sorted({len(id) for id in self._ids}, reverse=True)
        self.find = lru_cache(maxsize=1024)(self._find)

    def _find(self, prompt: str) -> tuple[str, bool]:
        """The question, and whether the prompt names it."""
        if (whole := self._prompts.get(prompt)) is not None:
            return whole, True
        starts = [i for i, letter in enumerate(prompt) if not (letter.isspace() or (i and _in_word(prompt[i - 1])))]
        for length in self._lengths:
            for start in reversed(starts):
                end = start + length
                is_cut = _in_word(prompt[end - 1 : end]) and _in_word(prompt[end : end + 1])  # a word runs across it
                if prompt[start:end] in self._known and end <= len(prompt) and not is_cut:
                    return prompt[start:end], True
        digest = hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return self._ids[int.from_bytes(digest, "big") % len(self._ids)], False


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
