"""What an OpenAI-compatible server answers: whole bodies and streams become completions, errors become exceptions.

Both forms of log-probabilities are read wherever they come: ``content[].top_logprobs`` (chat, and llama.cpp
everywhere) and ``top_logprobs`` as one mapping per token (completions). Where a server parts a model's thoughts from
its answer (``reasoning``, or ``reasoning_content`` of older ones, beside ``content``), the text is the answer; a trace
that has nothing but thoughts is its thoughts, as vLLM sends the answers of a model that did not think at all. Functions
that a trace calls are the last line of its text.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import Any

from pets.confidence import KINDS, Confidence, Meter
from pets.errors import BusyError, RefusedError, ReplyError, SamplerError
from pets.openai.headers import retry_after_s
from pets.prompts import TOOL_CALLS, Completion, Sampling, TokenAlternatives, Written, text_bytes

MAX_CHARACTERS_PER_TOKEN = 8  # on average; a usage that makes it more has not counted the whole text
MAX_BYTES_PER_WRITTEN_TOKEN = 4  # where a stream's chunks hold several tokens
FEW_CHARACTERS = 64  # that may be of one token, or two
MAX_CLAIMED_TOKENS = 1 << 53  # that a server may claim: what JSON's numbers hold
ABANDONED = {"abort", "error"}  # finish reasons of traces that the server itself gave up, half-way
# What reading another form than OpenAI's raises.
MALFORMED = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
DONE = b"[DONE]"  # the last event of a stream
PARSED_BYTES = 1 << 16  # of a stream's events, which are parsed together: one by one they take three times as long
MAX_IDLE_BYTES = 1 << 20  # of a stream between two events: comments that keep the connection open
MAX_CONTAINERS = 100_000  # in a reply without log-probabilities: a choice has a handful
MAX_NUMBERS = 2_000_000  # in all, as of token ids
ALTERNATIVE_TOKENS = 32  # at the beginning of a trace, whose alternatives are kept
TEXT_FIELDS = frozenset({"role", "content", "reasoning", "reasoning_content"})
LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")  # of a stream of /responses
ENDED = ("completed", "incomplete")
SAID = ("text", "refusal", "arguments", "input")  # fields of a reply of /responses that a model wrote


class ChoiceReader:
    """One trace while it comes in, whole or in the chunks of a stream; ``keep_raw`` keeps all of it.

    >>> reader = ChoiceReader(Sampling(), keep_raw=True)
    >>> for word in ("It", " is"):
    ...     reader.add({"index": 0, "delta": {"role": "assistant", "content": word}})
    >>> reader.add({"index": 0, "delta": {}, "finish_reason": "stop"})
    >>> reader.raw()
    {'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': 'It is'}}
    """

    def __init__(self, sampling: Sampling, *, keep_raw: bool = False) -> None:
        self.texts: dict[str, list[str]] = {}  # of the message, by field, in parts
        self.calls: dict[int, dict[str, Any]] = {}
        self.characters = 0  # of text and thoughts
        self.bytes = 0  # of all that came, tool calls too
        self.finish: str | None = None
        self.logprob_tokens = 0  # counted where log-probabilities came
        self.token_ids = 0  # counted where token ids came
        self.usage: int | None = None  # what a stream says of this choice alone
        self.alternatives: list[TokenAlternatives] = []
        self.meter = Meter(sampling.window, sampling.top_logprobs) if sampling.top_logprobs else None
        self.summary: dict[str, Any] | None = None  # confidences that the server has worked out itself
        self.chunks = 0  # that said something
        self._raw: dict[str, Any] | None = {} if keep_raw else None
        self._raw_message: dict[str, Any] | None = None  # of a stream
        self._raw_texts: dict[str, list[str]] = {}  # of that, by field, in parts
        self._raw_logprobs: list[Any] = []

    def add(self, part: dict[str, Any]) -> None:
        """Take in a whole choice or a chunk of one."""
        if self._raw is not None:
            self._keep(self._raw, part)
        size = self.bytes
        message = part.get("message") or part.get("delta") or {}
        content = part["text"] if part.get("text") is not None else message.get("content")
        if content:
            self._append("content", content)
        if thoughts := message.get("reasoning") or message.get("reasoning_content"):
            self._append("reasoning", thoughts)
        if calls := message.get("tool_calls"):
            self._add_calls(calls if isinstance(calls, list) else [calls], whole="message" in part)
        if not message.keys() <= TEXT_FIELDS:
            others = {name: value for name, value in message.items() if value and name not in TEXT_FIELDS}
            self.bytes += len(json.dumps(others)) if others else 0
        self.chunks += self.bytes > size
        if part.get("finish_reason") is not None:
            self.finish = str(part["finish_reason"])
        self.token_ids += len(part.get("token_ids") or ())
        if logprobs := part.get("logprobs"):
            self._add_logprobs(logprobs)

    def _add_logprobs(self, logprobs: dict[str, Any]) -> None:
        self.summary = logprobs.get("confidence_summary") or self.summary
        if self.meter is not None and len(self.alternatives) < ALTERNATIVE_TOKENS:
            self.alternatives += token_alternatives(logprobs, ALTERNATIVE_TOKENS - len(self.alternatives))
        for top in top_logprobs(logprobs):
            self.logprob_tokens += 1
            if top and self.meter is not None:
                self.meter.add(top)
            elif not top:
                self.meter = None  # a confidence of some of the tokens would be none

    def _add_calls(self, calls: list[Any], *, whole: bool) -> None:
        """Take in tool calls, or chunks of them, in which a call is known by its index."""
        for position, call in enumerate(calls):
            part = call if isinstance(call, dict) else {}
            index = position if whole else int(part.get("index", position))
            known, more = self.calls.setdefault(index, {"function": {"arguments": ""}}), part.get("function")
            own, function = part.keys() - {"index", "function"}, known["function"]
            known |= {name: value for name, value in part.items() if name in own and value is not None}
            for name, value in more.items() if isinstance(more, dict) else ():
                if value and (name == "arguments" or function.get(name) != value):  # some repeat the name in each chunk
                    words = value if isinstance(value, str) else json.dumps(value)
                    function[name] = function.get(name, "") + words

    def _append(self, field: str, words: object) -> None:
        if not isinstance(words, str):
            raise TypeError(f"a text is {excerpt(str(words))}")
        self.texts.setdefault(field, []).append(words)
        self.characters += len(words)
        self.bytes += text_bytes(words)

    def whole_text(self) -> str:
        """What was said, else what was thought, and in a line of its own what was called."""
        said = "".join(self.texts.get("content", ()))
        text = said if said.strip() else "".join(self.texts.get("reasoning", ()))
        if not self.calls:
            return text
        functions = [call["function"] for _, call in sorted(self.calls.items())]
        calls = [{name: function.get(name, "") for name in ("name", "arguments")} for function in functions]
        return "\n".join(filter(None, [text, json.dumps(calls, ensure_ascii=False)]))

    def _keep(self, raw: dict[str, Any], part: Mapping[str, Any]) -> None:
        """Keep a part as the server gave it; the chunks of a stream are joined as they come."""
        if "delta" not in part:
            raw |= part
            return
        raw |= {name: value for name, value in part.items() if name not in ("delta", "logprobs")}
        self._raw_logprobs += (part.get("logprobs") or {}).get("content") or ()
        message = self._raw_message = self._raw_message or {}
        for name, value in part["delta"].items():
            if name != "role" and isinstance(value, str):
                self._raw_texts.setdefault(name, []).append(value)
            if value is not None or name not in message:
                message[name] = value

    def raw(self) -> dict[str, Any] | None:
        """The choice as the server gave it, or as a whole body would have it; ``None`` where that is not kept."""
        if self._raw is None or self._raw_message is None:
            return self._raw
        message = self._raw_message | {name: "".join(words) for name, words in self._raw_texts.items()}
        if self.calls:
            message["tool_calls"] = [call for _, call in sorted(self.calls.items())]
        logprobs = {"logprobs": {"content": self._raw_logprobs}} if self._raw_logprobs else {}
        return self._raw | {"message": message} | logprobs

    @property
    def tokens(self) -> int | None:
        """The tokens that were counted for this choice alone, if any; 0 is no count, nor is one of a part of it."""
        count = self.logprob_tokens or self.token_ids or self.usage or None
        return None if count is None or is_too_few(count, self.characters) else count

    def confidence(self, tokens: int | None) -> Confidence | None:
        """The server's own summary where it sent one, else what its log-probabilities come to."""
        if self.summary is not None:
            return summarized(self.summary, tokens or 0)
        return self.meter.result() if self.meter else None


def summarized(summary: dict[str, Any], tokens: int) -> Confidence:
    """Read a server's ``confidence_summary``, by the paper's names (``tail_2048_mean_conf``, ...) or ours.

    The bottom 10 % stands in for a lowest group that is missing: it is never below it.

    >>> summarized({"mean_confidence": 9.0, "tail_2048_mean_conf": 8.0, "bottom_0.1_sliding_2048_mean_conf": 5.0}, 70)
    Confidence(mean=9.0, tail=8.0, lowest=5.0, bottom=5.0, tokens=70)
    """
    kinds = {kind: float(value) for name, value in summary.items() for kind in KINDS if name.startswith(kind)}
    if missing := {"mean", "tail", "bottom"} - set(kinds):
        raise KeyError(f"confidence_summary has no {sorted(missing)[0]}")
    if not all(0.0 <= value < math.inf for value in kinds.values()):
        raise ValueError(f"confidence_summary is {summary}")
    return Confidence(kinds["mean"], kinds["tail"], kinds.get("lowest", kinds["bottom"]), kinds["bottom"], tokens)


def token_count(usage: object, name: str) -> int | None:
    """A count of a usage; ``None`` where it is missing, or more than any trace can have taken."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count <= MAX_CLAIMED_TOKENS else None


def is_too_few(tokens: int, characters: int) -> bool:
    """Whether a text is too long to consist of these tokens alone.

    >>> is_too_few(1, 20), is_too_few(1, 8000)
    (False, True)
    """
    return tokens * MAX_CHARACTERS_PER_TOKEN + FEW_CHARACTERS < characters


def top_logprobs(logprobs: dict[str, Any]) -> Iterator[list[float]]:
    """For each token the log-probabilities at its place; empty where the server left them out."""
    if logprobs.get("content") is not None:
        for token in logprobs["content"]:
            yield [candidate["logprob"] for candidate in token.get("top_logprobs") or ()]
    else:
        for mapping in logprobs.get("top_logprobs") or [None] * len(logprobs.get("tokens") or ()):
            yield list(mapping.values()) if mapping else []


def token_alternatives(logprobs: dict[str, Any], most: int) -> Iterator[TokenAlternatives]:
    """The first tokens, at most ``most``, each with its alternatives."""
    if logprobs.get("content") is not None:
        for entry in logprobs["content"][:most]:
            others = {str(other.get("token")): other["logprob"] for other in entry.get("top_logprobs") or ()}
            own = {str(entry.get("token")): entry["logprob"]} if entry.get("logprob") is not None else {}
            yield TokenAlternatives(str(entry.get("token")), others | own)
    else:
        tokens, mappings = logprobs.get("tokens") or (), logprobs.get("top_logprobs") or ()
        for token, mapping in zip(tokens[:most], mappings, strict=False):
            yield TokenAlternatives(str(token), mapping or {})


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole parts proportional to ``weights``; they add up to it exactly.

    Largest remainder: each part is rounded down, and what is left goes by ones to the largest fractions, the first of
    equal ones first. Equal parts where all weights are 0.

    >>> shares(10, [1, 1, 1]), shares(7, [0, 3]), shares(3, [0, 0])
    ([4, 3, 3], [0, 7], [2, 1])
    """
    weights = weights if any(weights) else [1] * len(weights)
    whole = sum(weights)
    parts, remainders = map(list, zip(*[divmod(total * weight, whole) for weight in weights], strict=True))
    for i in sorted(range(len(parts)), key=lambda i: -remainders[i])[: total - sum(parts)]:
        parts[i] += 1
    return parts


def check_size(body: bytes) -> None:
    """Refuse a body with far more objects, lists and numbers than a reply has: they take time and memory to read.

    What stands in texts does not count, as its quotes are escaped. Takes a few milliseconds per megabyte.

    >>> check_size(b'{"choices": [{"text": "[[[{{{"}]}')
    >>> check_size(b"[" + b"[]," * 1_000_000)
    Traceback (most recent call last):
    pets.errors.ReplyError: the server's reply has over 100000 objects and lists, or 2000000 numbers.
    """
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if (strings := bare.count(b'"')) <= 4 * MAX_CONTAINERS:
        bare = b"".join(bare.split(b'"')[::2])
    containers, commas = bare.count(b"[") + bare.count(b"{"), bare.count(b",")
    if max(containers, strings // 4) > MAX_CONTAINERS or commas > MAX_NUMBERS:
        raise ReplyError(f"the server's reply has over {MAX_CONTAINERS} objects and lists, or {MAX_NUMBERS} numbers.")


class ResponseReader:
    """Collects the answer to one request for ``n`` traces; ``keep_raw`` keeps the choices as the server gave them.

    ``usage_of_one`` says that this server's usage counts one choice of several. No more tokens are believed than the
    request allows: ``sampling.max_tokens`` for each trace, ``prompt_limit`` for its prompt. A usage that is missing, 0,
    negative or of a part of the text says nothing.

    >>> reader = ResponseReader(2, Sampling(max_tokens=5))
    >>> reader.read('{"choices": [{"index": 1, "text": " 4", "finish_reason": "stop"}]}')
    >>> [trace] = reader.completions()
    >>> trace.text, trace.finish, trace.tokens
    (' 4', 'stop', None)
    """

    def __init__(
        self,
        n: int,
        sampling: Sampling,
        *,
        keep_raw: bool = False,
        usage_of_one: bool = False,
        prompt_limit: int | None = None,
    ) -> None:
        self._n, self._sampling, self._keep_raw, self._usage_of_one = n, sampling, keep_raw, usage_of_one
        self._prompt_limit = MAX_CLAIMED_TOKENS if prompt_limit is None else n * prompt_limit
        self._choices: dict[int, ChoiceReader] = {}
        self._usage: Mapping[str, Any] = {}  # the last that was told
        self._event_usage: object = None  # the last event's

    def read(self, text: str | bytes) -> None:
        """Take in a whole body, or the data of one event of a stream."""
        self._take(json_reply(text), text)

    def read_events(self, events: Sequence[bytes]) -> None:
        """Take in the data of several events, in one reading of JSON where all of them can be read."""
        parsed = list[Any]()
        with suppress(ValueError, RecursionError):
            parsed = json.loads(b"[%b]" % b",".join(events))
        for data, event in zip(parsed if len(parsed) == len(events) else map(json_reply, events), events, strict=True):
            self._take(data, event)

    def _take(self, data: Any, text: str | bytes) -> None:
        try:
            if "choices" not in data and ("error" in data or data.get("object") == "error"):
                raise self._error_event(data)
            choices, usage = data["choices"], data.get("usage")
            for position, part in enumerate(choices):
                index = int(part.get("index", position))
                if (choice := self._choices.get(index)) is None:
                    choice = self._choices[index] = ChoiceReader(self._sampling, keep_raw=self._keep_raw)
                choice.add(part)
                if len(choices) == 1 and part.get("finish_reason") and usage:
                    choice.usage = token_count(usage, "completion_tokens")
            self._event_usage = usage
            if usage and isinstance(usage, dict):
                self._usage = usage
            self._usage_of_one = self._usage_of_one or "timings" in data  # llama.cpp's own
        except MALFORMED as error:
            raise ReplyError(f"the server's reply has not OpenAI's form ({error}): {excerpt(text)}") from error

    def note_written(self, written: Written, now: float) -> None:
        """Say how much of a single choice has come: by the usage where a server tells it on the way, else by its log-
        probabilities, token ids, chunks or bytes, whichever are most."""
        written.seen = True
        if not self._choices:
            return
        choice = next(iter(self._choices.values()))
        told, prompt_tokens, cached_tokens = self._used()
        written.told = token_count(self._event_usage, "completion_tokens") is not None
        seen = (choice.logprob_tokens, choice.token_ids, choice.chunks, -(-choice.bytes // MAX_BYTES_PER_WRITTEN_TOKEN))
        written.tokens = max(written.tokens, *([told or 0] if written.told else seen))
        if written.tokens and written.begun_at is None:
            written.begun_at = now
        written.seen_at = now
        if prompt_tokens:
            written.prompt_tokens, written.cached_tokens = prompt_tokens, cached_tokens

    def _used(self) -> tuple[int | None, int, int]:
        """Tokens of the choices together, of their prompt, and of that from a cache, as the last usage tells; those of
        a prompt are at most its limit."""
        usage = self._usage
        told, prompt = token_count(usage, "completion_tokens"), token_count(usage, "prompt_tokens")
        total = token_count(usage, "total_tokens")
        if told is not None and total is not None and prompt is not None:
            told = max(told, total - prompt)  # some servers count hidden reasoning in the total alone
        prompt = min(prompt or 0, self._prompt_limit)
        return told, prompt, min(prompt, token_count(usage.get("prompt_tokens_details"), "cached_tokens") or 0)

    def _error_event(self, data: dict[str, Any]) -> SamplerError:
        """An error inside a reply whose status was good: vLLM looks at some parameters after it has begun to stream."""
        error = data.get("error") or data
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and 400 <= code < 600 and not is_transient(code) and not self._choices:
            return RefusedError(f"the server says {code}: {error_message(data)}", status=code)
        return ReplyError(f"the server broke off: {error_message(data)}")

    @property
    def usage_of_one(self) -> bool:
        """Whether the usage was shown to count fewer tokens than came: llama.cpp's counts one choice only."""
        counted = sum([choice.logprob_tokens or choice.token_ids for choice in self._choices.values()])
        told, _, _ = self._used()
        return told is not None and told < counted

    def completions(self, *, surplus: bool = False) -> list[Completion]:
        """The traces, in the order of their seeds; with ``surplus`` also those beyond the request's ``n``."""
        if not self._choices:
            raise ReplyError("the server's reply has no choices; at least one was expected.")
        try:
            return self._finished(len(self._choices) if surplus else self._n)
        except MALFORMED as error:
            raise ReplyError(f"the server's reply has not OpenAI's form ({error}).") from error

    def _finished(self, most: int) -> list[Completion]:
        choices = list(map(self._choices.__getitem__, sorted(self._choices)))
        counts, limit = list(map(attrgetter("tokens"), choices)), self._sampling.token_limit
        told, prompt_tokens, cached_tokens = self._used()
        longest = max(max(filter(None, counts), default=0), -(-(told or 0) // len(choices)))
        told_prompt = token_count(self._usage, "prompt_tokens") or 0
        claimed_more = told_prompt > self._prompt_limit or longest > limit
        traces: list[Completion] = []
        for choice, tokens in zip(choices, self._shared(told, choices, counts, limit), strict=True):
            if len(traces) == most:  # beyond n, and sampled all the same: the first one pays for it
                first = traces[0]
                both = None if first.tokens is None or tokens is None else first.tokens + tokens  # None: estimated
                size = (first.size or 0) + choice.bytes
                traces[0] = replace(first, tokens=both, size=size, surplus=first.surplus + 1)
                continue
            if choice.finish is None:
                raise ReplyError("a choice breaks off without a finish_reason; the connection ended early.")
            if choice.finish in ABANDONED:
                raise ReplyError(f'a choice was given up by the server (finish_reason "{choice.finish}").')
            traces.append(
                Completion(
                    choice.whole_text(),
                    # Of a function that was asked for by name, OpenAI's finish is "stop".
                    TOOL_CALLS if choice.calls and choice.finish == "stop" else choice.finish,
                    tokens,
                    prompt_tokens or None,  # none has 0
                    choice.confidence(tokens),
                    choice.raw() if self._keep_raw else None,
                    choice.bytes,
                    claimed_more,
                    cached_tokens,
                    tuple(choice.alternatives),
                )
            )
        return traces

    def _shared(
        self, total: int | None, choices: Sequence[ChoiceReader], counts: Sequence[int | None], most: int
    ) -> Sequence[int | None]:
        """Per choice: its share of the usage, by what was counted of it or else by its length; else unknown.

        The shares add up to the usage. One that cannot be the sum of all choices says nothing of any of them, nor does
        one of 0 tokens: then what was counted of each holds.
        """
        counts = [None if count is None else min(count, most) for count in counts]
        sizes, silent = list(map(attrgetter("characters"), choices)), not any(map(attrgetter("bytes"), choices))
        if total is None or is_too_few(total, sum(sizes)) or not (total or silent):
            return counts
        if len(choices) == 1:
            return [max(min(total, most), counts[0] or 0)]
        unknown = [size for size, count in zip(sizes, counts, strict=True) if count is None]
        counted = sum(filter(None, counts))
        rest = min(total, len(choices) * most) - counted
        if rest < 0 or self._usage_of_one or rest * MAX_CHARACTERS_PER_TOKEN < sum(unknown):
            return counts
        if not unknown:  # what is left is hidden reasoning, or a token that ends each
            return shares(rest + counted, [count or 0 for count in counts])
        estimates = iter(shares(rest, unknown))
        return [next(estimates) if count is None else count for count in counts]


class EventReader:
    """Reads a stream of server-sent events for ``reader``, PARSED_BYTES at a time; no event is over ``max_bytes`` long,
    and no more than MAX_IDLE_BYTES come between two.

    How much is ``written`` of a trace is known from its first token on, and then whenever :meth:`parse` was called.

    >>> written = Written()
    >>> events = EventReader(ResponseReader(1, Sampling()), 1000, written)
    >>> events.add(b'data: {"choices": [{"delta": {"content": "It is"}}]}\\n\\ndata: {"choices"', now=1.0)
    False
    >>> written.seen, written.tokens, events.add(b': []}\\n\\ndata: [DONE]\\n\\n', now=2.0), written.seen_at
    (True, 2, True, 2.0)
    """

    def __init__(self, reader: ResponseReader, max_bytes: int, written: Written | None = None) -> None:
        self._reader, self._max_bytes, self._written = reader, max_bytes, written
        self._content = bytearray()  # that is not parsed
        self._idle_bytes = 0  # that were parsed since the last event
        self._came_at = 0.0  # when the last event did
        self._urgent = False  # an error has come, or the end
        self.done = False  # whether the last event was read

    def add(self, part: bytes, now: float) -> bool:
        """Take in what has come; whether that is all."""
        self._content += part
        if b"data:" in part:
            self._came_at = now
        end = self._content[-len(part) - len(DONE) :]
        self._urgent = self._urgent or DONE in end or b'"error"' in end
        begins, size = self._written is not None and self._written.begun_at is None, len(self._content)
        idles = size > MAX_IDLE_BYTES and not self._content.startswith(b"data:")
        if size > self._max_bytes or idles or (b"\n" in part and (self._urgent or begins or size > PARSED_BYTES)):
            self.parse()
        return self.done

    def parse(self, *, ended: bool = False) -> None:
        """Parse the events that have come; where the stream has ended, the last one whatever it ends with."""
        size, lines = len(self._content), bytes(self._content).split(b"\n")  # U+2028 may stand within JSON
        self._content = bytearray() if ended else bytearray(lines.pop())
        self._urgent = False
        events = [line[5:].strip() for line in lines if line.startswith(b"data:")]
        if DONE in events:
            self.done = True
            del events[events.index(DONE) :]
        try:
            self._reader.read_events(events)
        finally:  # what came before an event that fails was written, too
            if self._written is not None and (events or self.done):
                self._reader.note_written(self._written, self._came_at)
        if len(self._content) > self._max_bytes:
            raise ReplyError(f"the server's stream has a line of over {self._max_bytes} bytes; the rest was not read.")
        self._idle_bytes = 0 if events else self._idle_bytes + size - len(self._content)
        idle = self._idle_bytes + (0 if self._content.startswith(b"data:") else len(self._content))
        if idle > MAX_IDLE_BYTES:
            raise ReplyError(f"the server's stream has over {MAX_IDLE_BYTES} bytes between two events.")


class UsageReader(ResponseReader):
    """Reads a reply without choices as one trace: that of ``/responses``, whole or as a stream, and of ``/embeddings``,
    which says nothing (``speaks=False``).

    >>> reader = UsageReader(max_tokens=50, prompt_limit=9)
    >>> reader.read('{"status": "completed", "output": [], "usage": {"input_tokens": 5, "output_tokens": 7}}')
    >>> [trace] = reader.completions()
    >>> trace.tokens, trace.prompt_tokens
    (7, 5)
    """

    def __init__(self, *, max_tokens: int, prompt_limit: int, stream: bool = False, speaks: bool = True) -> None:
        super().__init__(1, Sampling(max(1, max_tokens)), prompt_limit=prompt_limit)
        self._stream, self._speaks = stream, speaks

    def read(self, text: str | bytes) -> None:
        """Take in a whole body, or the data of one event of a stream, whose last one holds the whole reply."""
        reply = json_reply(text)
        if self._stream and isinstance(reply, dict):
            reply = reply.get("response") if reply.get("type") in LAST_EVENTS else None
        if not isinstance(reply, dict):
            return
        self._choices.clear()
        usage = reply.get("usage")
        if reply and (usage is not None or reply.get("status", "completed") in ENDED):
            told: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
            chat_usage = {
                "completion_tokens": (told.get("output_tokens") or None) if self._speaks else 0,
                "prompt_tokens": told.get("input_tokens") or told.get("prompt_tokens"),
                "prompt_tokens_details": told.get("input_tokens_details"),
            }
            choice = {"text": "".join(_said(reply.get("output"))), "finish_reason": "stop"}
            self._take({"choices": [choice], "usage": chat_usage}, text)


def json_reply(text: str | bytes) -> Any:
    """What a server's JSON says; anything else is a ``ReplyError``."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"the server's reply is not JSON: {excerpt(text)}") from error


def _said(output: object) -> Iterator[str]:
    """What the items of a reply of ``/responses`` say: texts, and arguments of calls."""
    stack = [output]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            yield from (text for name in SAID if isinstance(text := part.get(name), str))
            stack += part.values()
        elif isinstance(part, list):
            stack += part


def is_transient(status: int) -> bool:
    """Whether a status speaks of now, not of the request."""
    return status in {408, 409, 425, 429} or status >= 500


def error_from(status: int, headers: Mapping[str, str], content: bytes) -> SamplerError:
    """The exception for a response whose status is not 200; ``headers`` is asked for lower-case names.

    >>> error_from(429, {"retry-after": "3"}, b'{"error": {"message": "Slow down."}}')
    BusyError('the server says 429: Slow down.')
    >>> error_from(403, {}, b"403: Forbidden")
    RefusedError('the server says 403: Forbidden')
    """
    words = excerpt(content, 300)
    with suppress(ValueError, RecursionError):
        words = error_message(json.loads(content))
    if status in {404, 405} and "model" not in words.lower():
        words += " (is the address right? It usually ends in /v1)"
    words = words.removeprefix(f"{status}: ")  # some say it twice
    kind = BusyError if is_transient(status) else RefusedError
    return kind(f"the server says {status}: {words}", status=status, retry_after=retry_after_s(headers))


def error_message(data: object) -> str:
    """The words of an error, or the beginning of what came instead.

    OpenAI's form is ``{"error": {"message"}}``; older vLLM leaves out the outer one, frameworks say ``{"detail"}``.

    >>> error_message({"object": "error", "message": "No."}), error_message({"detail": "Not Found"})
    ('No.', 'Not Found')
    """
    error = (data.get("error") or data.get("detail") or data) if isinstance(data, dict) else data
    words = error.get("message") or error if isinstance(error, dict) else error
    return excerpt(str(words), 300)


def excerpt(text: str | bytes, most: int = 200) -> str:
    """A reply's beginning, on one line."""
    words = text if isinstance(text, str) else text.decode("utf-8", "replace")
    line = " ".join(words.split())
    return (line[:most] + " ...") if len(line) > most else line or "(nothing)"
