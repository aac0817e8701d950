"""The mock without its socket: settings, books, and how a request becomes a reply."""

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping

from pets.errors import InputError
from pets.mock.asking import Ask, prompt_tokens
from pets.mock.book import Book
from pets.mock.faults import Bend, Faults, Spoiler, draw_bends, draw_spoiler
from pets.mock.finding import Finder
from pets.mock.speech import Spoken, speak
from pets.mock.stats import Stats
from pets.mock.wire import Reply
from pets.openai.errors import ApiError

__all__ = ["Mock"]


class Mock:
    """A server that answers from a book. ``seed`` drives the faults and the requests that bring no seed.

    ``prompts`` are whole prompts that hold no id, each with its question; questions that the book does not have are
    passed over. ``puzzled`` hears the first prompt that names no question.

    >>> from pets.mock import Known
    >>> mock = Mock(Known({"q": {"A": 1.0}}), faults=Faults(hang=0.02), tokens_per_second=50)
    >>> mock.stats.traces
    0
    """

    def __init__(
        self,
        book: Book,
        *,
        model: str = "mock",
        tokens_per_second: float = 0.0,
        faults: Faults | None = None,
        n_limit: int | None = None,
        api_key: str | None = None,
        seed: int = 0,
        prompts: Mapping[str, str] | None = None,
        puzzled: Callable[[str], None] = lambda prompt: None,
    ) -> None:
        if not 0 <= tokens_per_second < math.inf:
            raise InputError(f"tokens per second are 0 (at once) or more; got {tokens_per_second}.")
        if n_limit is not None and n_limit < 1:
            raise InputError(f"a limit on n is at least 1; got {n_limit}.")
        if not model or api_key == "":
            raise InputError("the model's name and the API key are not empty; leave the key out to need none.")
        self.book, self.model, self.tokens_per_second = book, model, tokens_per_second
        self.faults, self.n_limit, self.api_key = faults or Faults(), n_limit, api_key
        self.stats = Stats()
        self._finder, self._puzzled = Finder(book.ids(), prompts), puzzled
        self._faults, self._seeds = random.Random(f"faults {seed}"), random.Random(f"seeds {seed}")
        self._numbers = itertools.count(1)

    def admit(self, ask: Ask) -> None:
        """Refuse more choices than there are slots."""
        if self.n_limit is not None and ask.n > self.n_limit:
            self.stats.faults["n_refused"] += 1
            raise ApiError(f"'n' is {ask.n}; this server has {self.n_limit} slots.", param="n")

    def spoiler(self) -> Spoiler | None:
        """The fault that spoils the next reply, counted."""
        found = draw_spoiler(self.faults, self._faults)
        if found is not None:
            self.stats.faults[found] += 1
        return found

    def reply(self, ask: Ask, spoiled: bool = False) -> tuple[Reply, bool]:
        """What to send for a request, bent as the faults have it unless it is spoiled anyway; whether it comes late."""
        bends = frozenset() if spoiled else draw_bends(self.faults, self._faults)
        n = self._count(ask.n, bends)
        base = self._seeds.getrandbits(62) if ask.seed is None else ask.seed
        counts = ask.include_usage or not ask.stream
        found = [self._find(prompt) for prompt in ask.prompts]
        choices = tuple(self._choice(ask, question, base + at) for question in found for at in range(n))
        reply = Reply(
            id=f"{'chatcmpl' if ask.chat else 'cmpl'}-{next(self._numbers)}",
            model=self.model,
            created=int(time.time()),
            ask=ask,
            choices=choices,
            prompt_tokens=sum(map(prompt_tokens, ask.prompts)),
            top=None if self._happens("no_logprobs", bends, ask.top is not None) else ask.top,
            extra=self._happens("extra_logprob", bends, bool(ask.top) and "no_logprobs" not in bends),
            apart=self._happens("reasoning_apart", bends, ask.chat),
            usage_of_one=self._happens("usage_of_one", bends, counts and len(choices) > 1),
        )
        return reply, self._happens("slow", bends, True)

    def seconds(self, choice: Spoken) -> float:
        """How long a trace takes."""
        return choice.tokens / self.tokens_per_second if self.tokens_per_second else 0.0

    def served(self, reply: Reply) -> None:
        """Count a reply that went out whole."""
        self.stats.traces += len(reply.choices)
        self._charge(reply)
        per_prompt = len(reply.choices) // len(reply.ask.prompts)
        for prompt in reply.ask.prompts:
            self.stats.questions[self._finder.find(prompt)[0]] += per_prompt

    def lost(self, reply: Reply, abandoned: bool = False) -> None:
        """Count a reply that did not reach the client whole."""
        self.stats.lost += len(reply.choices)
        self.stats.abandoned += abandoned
        self._charge(reply)

    def _charge(self, reply: Reply) -> None:
        self.stats.prompt_tokens += reply.prompt_tokens
        self.stats.completion_tokens += sum(choice.tokens for choice in reply.choices)

    def _find(self, prompt: str) -> str:
        """The prompt's question; one that it does not name is counted, and the first of them told."""
        question, named = self._finder.find(prompt)
        if not named:
            self.stats.unmatched += 1
            if self.stats.unmatched == 1:
                self._puzzled(prompt)
        return question

    def _choice(self, ask: Ask, question: str, seed: int) -> Spoken:
        said = self.book.modal(question) if ask.greedy else self.book.draw(question, seed)
        return speak(said, ask.limit, ask.stops)

    def _count(self, n: int, bends: frozenset[Bend]) -> int:
        if self._happens("one_choice", bends, n > 1):
            return 1
        if self._happens("fewer_choices", bends, n > 1):
            return self._faults.randint(1, n - 1)
        return n

    def _happens(self, name: Bend, bends: frozenset[Bend], matters: bool) -> bool:
        """Whether a fault was drawn and changes something; then it is counted."""
        happens = name in bends and matters
        if happens:
            self.stats.faults[name] += 1
        return happens
