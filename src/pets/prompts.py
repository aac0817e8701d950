"""What a model is asked, how its traces are drawn, and a trace as it came back."""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pets.arguments import Interval, check_fields, setting
from pets.confidence import Confidence
from pets.core.money import Currency
from pets.errors import InputError
from pets.types import Usage

Role = Literal["system", "user", "assistant"]

TEMPLATE_TOKENS = 64  # that a chat template may add to a prompt
MESSAGE_TOKENS = 8  # that it may add to each message
# What servers say of a trace that they ended: at its token limit, by a filter, or because it went round in circles.
CUT_FINISHES = frozenset({"length", "max_tokens", "model_length", "content_filter", "repetition"})
OWN_FIELDS = {
    "model", "prompt", "messages", "n", "seed", "stream", "stream_options", "logprobs", "top_logprobs", "temperature",
    "top_p", "stop", "max_tokens", "max_completion_tokens", "reasoning_effort",
}  # fmt: skip
DRAWING_VERBS = ("solve", "batch", "stream", "sample", "doctor")
UNLIMITED_TOKENS = 1 << 24  # that a server may say of a trace that has no limit
SHORTEST_DECODING_S = 0.1  # by which a trace's pace can be told
CLOSING_S, UNTOLD_S = 0.1, 1.0  # until a server stops after a connection is closed; where its chunks may hold more


def _drawing(default: Any, text: str, within: Interval | None = None, *, rare: bool = True, **more: Any) -> Any:
    """A setting of how traces are drawn: of every verb that draws any."""
    return setting(default, text, DRAWING_VERBS, within, rare=rare, **more)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads: the text that it goes on with, or the messages of a chat that it answers.

    ``body`` is a whole chat request in OpenAI's form, as a client of the gateway wrote it, which goes to the server as
    it is; ``Sampling`` then adds log-probabilities at most. See :meth:`of_body`. ``sender`` is that client: what a
    server refuses one says nothing of the others' requests.

    >>> Prompt("2 + 2 =").is_chat, Prompt.chat("What is 2 + 2?", system="Be brief.").is_chat
    (False, True)
    """

    content: str | tuple[Message, ...]
    body: Mapping[str, Any] | None = field(default=None, hash=False)
    bare: bool = field(default=False, compare=False, repr=False)  # a question's text alone: see Prompt.question
    sender: str = field(default="", compare=False, repr=False)
    instruction: str = field(default="", compare=False, repr=False)  # that stands under the question's own words
    _max_tokens: int = field(default=0, init=False, compare=False, repr=False)  # 0: not counted yet

    def __post_init__(self) -> None:
        if not self.content:
            raise InputError("the prompt is empty; a model needs a text or at least one message.")

    @classmethod
    def chat(cls, user: str, system: str | None = None) -> Self:
        """One user message, after a system message if one is given."""
        first = () if system is None else (Message("system", system),)
        return cls((*first, Message("user", user)))

    @classmethod
    def question(cls, text: str) -> Self:
        """A question's text alone, without a word on how to answer: :meth:`instructed` adds one.

        >>> Prompt.question("2 + 2?") == Prompt.chat("2 + 2?")
        True
        """
        if not text.strip():
            raise InputError("the question is empty. Write one, or leave it out.")
        return cls((Message("user", text),), bare=True)

    def instructed(self, instruction: str) -> Self:
        r"""The prompt with the instruction under the question; a prompt that is more than a question's text stays.

        >>> Prompt.question("2 + 2?").instructed("Be brief.").content
        (Message(role='user', content='2 + 2?\n\nBe brief.'),)
        """
        if not (self.bare and instruction) or isinstance(self.content, str):
            return self
        *others, last = self.content
        content = (*others, Message(last.role, f"{last.content}\n\n{instruction}"))
        return type(self)(content, instruction=instruction)

    @property
    def own(self) -> Self:
        """The prompt without its instruction."""
        if not self.instruction or isinstance(self.content, str):
            return self
        *others, last = self.content
        words = last.content.removesuffix(f"\n\n{self.instruction}")
        return type(self)((*others, Message(last.role, words)), bare=True)

    @classmethod
    def of_body(cls, body: Mapping[str, Any], sender: str = "") -> Self:
        """The prompt of a chat request, without its ``n``, ``seed`` and ``stream``; a token limit is the body's own.

        >>> Prompt.of_body({"model": "m", "messages": [{"role": "user", "content": "2 + 2?"}], "temperature": 0.6})
        Prompt(content=(Message(role='user', content='2 + 2?'),), body={'model': 'm', ...})
        """
        contents = ((message["role"], message.get("content") or "") for message in body["messages"])
        messages = (Message(role, text if isinstance(text, str) else json.dumps(text)) for role, text in contents)
        return cls(tuple(messages), body, sender=sender)

    @property
    def is_chat(self) -> bool:
        """Whether the model's chat template applies."""
        return not isinstance(self.content, str)

    @property
    def max_tokens(self) -> int:
        """The most tokens that a server can count for it: its bytes (a token has one or more) and the chat template's.

        >>> Prompt("2 + 2 =").max_tokens, Prompt.chat("2 + 2?").max_tokens
        (71, 78)
        """
        if self._max_tokens:
            return self._max_tokens
        if self.body is not None:  # other fields may get into the prompt too, such as a schema
            size = text_bytes(json.dumps(self.body, ensure_ascii=False))
        elif isinstance(self.content, str):
            size = text_bytes(self.content)
        else:
            size = 0
            for message in self.content:
                size += text_bytes(message.content) + MESSAGE_TOKENS
        object.__setattr__(self, "_max_tokens", size + TEMPLATE_TOKENS)
        return self._max_tokens


@dataclass(frozen=True, slots=True)
class Sampling:
    """How traces are drawn. As it stands, from the model's own distribution: nothing cut off, nothing penalized.

    ``top_logprobs`` asks for the log-probabilities of that many tokens at each place; with them every trace has a
    confidence, its groups ``window`` tokens wide. Without ``max_tokens`` the server's own limit holds; every other
    field is sent with every request: servers' own defaults truncate. ``extra_body`` holds more fields of the request,
    in the server's own words.

    >>> Sampling(max_tokens=64, stop=["\\n\\n"], top_logprobs=20, window=8).stop
    ('\\n\\n',)
    """

    title: ClassVar = "Sampling"

    max_tokens: int | None = _drawing(
        None,
        "After how many tokens a trace is cut, which then casts no vote; the server's own limit if not given, unless "
        "the question set says otherwise. Budgets in tokens and money hold as much for each trace, else the server's "
        "context.",
        Interval(1),
        rare=False,
    )
    temperature: float = _drawing(
        1.0,
        "The temperature; 1, the model's own distribution, unless the question set says otherwise.",
        Interval(0),
        rare=False,
    )
    top_p: float = _drawing(
        1.0,
        "Draw from the likeliest tokens that have this share together; 1, all of them, if not given.",
        Interval(0, 1, open="("),
    )
    top_k: int = _drawing(0, "Draw from this many of the likeliest tokens; 0, all of them, if not given.", Interval(0))
    min_p: float = _drawing(
        0.0,
        "Draw from tokens with at least this share of the likeliest one's chance; 0, all of them, if not given.",
        Interval(0, 1),
    )
    reasoning_effort: str | None = _drawing(None, "How long a reasoning model thinks: low, medium, high, ...")
    extra_body: Mapping[str, Any] = _drawing(
        MISSING,
        'More fields of every request, as JSON: \'{"chat_template_kwargs": {"enable_thinking": false}}\'.',
        factory=dict,
        metavar="JSON",
        hashed=False,
    )
    stop: tuple[str, ...] = _drawing((), "A text that ends a trace; give it again for more.")
    window: int = setting(
        2048,
        "How many tokens a group of a trace's confidence has; 2048 if not given.",
        within=Interval(1),
        flags=("--confidence-window",),
        verbs=("solve", "batch", "stream", "sample"),
        rare=True,
    )
    top_logprobs: int | None = setting(None, within=Interval(1), verbs=DRAWING_VERBS)

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        object.__setattr__(self, "stop", tuple(stop) if isinstance(stop, list) else stop)
        check_fields(self)
        if not all(self.stop):
            raise InputError("a stop sequence is empty; it would end every trace at once.")
        if own := sorted(OWN_FIELDS & self.extra_body.keys()):
            raise InputError(
                f"extra_body may not hold {', '.join(own)}, which is sent anyway or has an option of its own."
            )

    @property
    def token_limit(self) -> int:
        """The most tokens that a server may say of a trace."""
        return UNLIMITED_TOKENS if self.max_tokens is None else self.max_tokens


class TokenAlternatives(NamedTuple):
    """A token of a trace, and the log-probabilities of the tokens that might have stood in its place."""

    token: str
    logprobs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Completion:
    """One trace as it came back.

    ``finish`` is ``"stop"`` (by itself or a stop sequence), ``"length"`` (cut at its token limit) or what else the
    server said. ``tokens`` is its share of the usage that a server counts for all traces of a request, ``None`` where
    it does not say; ``confidence`` is ``None`` without log-probabilities. ``raw`` is the choice as the server gave it,
    for prompts with a body alone. ``size`` is the bytes of all that a server sent of it, thoughts and tool calls too.
    ``claimed_more``: its usage was over what the request allows, and the tokens are what it allows. ``cached_tokens``
    of the prompt's came from the server's cache. ``alternatives`` are what might have stood at each of its first
    tokens. ``surplus`` choices came with it unasked; their tokens are among its own. Of several models ``model`` gave
    it, by its place among them; ``currency`` says what it cost where their prices differ.
    """

    text: str
    finish: str
    tokens: int | None
    prompt_tokens: int | None = None
    confidence: Confidence | None = None
    raw: Mapping[str, Any] | None = field(default=None, hash=False)
    size: int | None = None
    claimed_more: bool = False
    cached_tokens: int = 0
    alternatives: tuple[TokenAlternatives, ...] = field(default=(), hash=False)
    surplus: int = 0
    model: int = 0
    currency: Currency | None = None
    reused_from: int | None = None  # the run that paid for it, where that was another

    @property
    def usage(self) -> Usage:
        """The usage that is known, with its cost where its model has a price of its own."""
        usage = Usage(tokens=self.tokens or 0, prompt_tokens=self.prompt_tokens or 0, cached_tokens=self.cached_tokens)
        return usage if self.currency is None else replace(usage, cost=self.currency.cost(usage))


@dataclass(slots=True)
class Written:
    """The progress of a streamed trace.

    ``tokens`` were seen, or told by the server (``told``), from ``begun_at`` to ``seen_at`` by the event loop's clock;
    a trace that is not streamed is not ``seen``. One that has ``ended`` was cancelled, and its server closed the
    connection after all that it had written.
    """

    seen: bool = False
    tokens: int = 0
    told: bool = False
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    begun_at: float | None = None
    seen_at: float = 0.0
    ended: bool = False

    def tokens_by(self, now: float) -> int:
        """The tokens to pay for where the trace is cancelled now: those told, if the server has ended it; else those
        told or seen, and those that come at its pace until the server has noticed, which may take a second.

        >>> told, seen = (Written(True, 41, told, begun_at=0.0, seen_at=2.0) for told in (True, False))
        >>> told.tokens_by(2.0), told.tokens_by(2.5), seen.tokens_by(2.0)
        (43, 53, 61)
        """
        if self.ended and self.told:
            return self.tokens
        if self.begun_at is None:
            return max(1, self.tokens)
        pace = (self.tokens - 1) / max(self.seen_at - self.begun_at, SHORTEST_DECODING_S)
        late = now - self.seen_at + (CLOSING_S if self.told else UNTOLD_S)
        return self.tokens + max(1, math.ceil(pace * late - 1e-9))


TOOL_CALLS = "tool_calls"
"""The finish of a trace that calls functions: the last line of its text is a JSON list of them."""


def is_cut(finish: str) -> bool:
    """Whether a server ended a trace before its end, so that it casts no vote."""
    return finish.lower() in CUT_FINISHES


def text_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
