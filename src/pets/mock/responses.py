"""Responses in OpenAI's JSON forms, whole and as server-sent events."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pets.mock.requests import CompletionRequest
from pets.mock.traces import TraceSpec, TraceText, chat_content, completion_form, completion_logprobs

DONE = "data: [DONE]\n\n"
ERROR = (
    '{"error":{"message":"Internal server error (on purpose).","type":"InternalServerError","param":null,"code":500}}'
)


@dataclass(frozen=True, slots=True)
class CompletionResponse:
    """What goes back for one request: choices in order of their index."""

    id: str
    model: str
    created: int
    request: CompletionRequest
    choices: tuple[TraceText, ...]
    prompt_tokens: int
    top: int | None
    cached_tokens: int | None = None

    def structured(self, index: int) -> str | None:
        """The members of a message that is no prose, but a function call or JSON; ``None`` where it is, or was cut."""
        choice = self.choices[index]
        if choice.finish != "stop":
            return None
        if self.request.function is not None:
            call = {"name": self.request.function, "arguments": json_answer(choice.spec)}
            calls = [{"id": f"call_{self.id}-{index}", "type": "function", "function": call}]
            return f'"content":null,"tool_calls":{json.dumps(calls)}'
        return f'"content":{json.dumps(json_answer(choice.spec))}' if self.request.json else None

    def finish(self, index: int) -> str:
        """Why a choice ended."""
        calls = self.request.function is not None and self.structured(index) is not None
        return "tool_calls" if calls else self.choices[index].finish

    def token_ids(self, ids: Iterable[int]) -> str:
        """The member of a choice with the ids of its tokens, where the request wants them."""
        return f'"token_ids":[{",".join(map(str, ids))}],' if self.request.token_ids else ""

    def usage(self) -> str:
        """The ``usage`` object, as JSON."""
        return self._usage(sum(choice.tokens for choice in self.choices))

    def _usage(self, tokens: int) -> str:
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": tokens}
        cached = {} if self.cached_tokens is None else {"prompt_tokens_details": {"cached_tokens": self.cached_tokens}}
        return json.dumps({**usage, "total_tokens": self.prompt_tokens + tokens, **cached})

    def steps(self) -> Iterator[str]:
        """The events of a stream: one string per step, in which every choice that goes on gives one token."""
        streams = [self._events(index, choice) for index, choice in enumerate(self.choices)]
        while streams:
            pairs = [(stream, event) for stream in streams if (event := next(stream, None)) is not None]
            streams = [stream for stream, _ in pairs]
            if pairs:
                yield "".join(event for _, event in pairs)

    def last(self) -> str:
        """What ends a stream after its steps."""
        return (
            f'data: {self._head()},"choices":[],"usage":{self.usage()}}}\n\n{DONE}'
            if self.request.include_usage
            else DONE
        )

    def _head(self) -> str:
        kind = "chat.completion.chunk" if self.request.chat else "text_completion"
        return f'{{"id":"{self.id}","object":"{kind}","created":{self.created},"model":{json.dumps(self.model)}'

    def _tail(self, tokens: int) -> str:
        """The end of an event after so many tokens of its choice."""
        if self.request.continuous_usage:
            return f',"usage":{self._usage(tokens)}}}\n\n'
        return ',"usage":null}\n\n' if self.request.include_usage else "}\n\n"

    def _events(self, index: int, choice: TraceText) -> Iterator[str]:
        """One choice, one event per token; the role comes with the first token, the finish with the last."""
        tail = self._tail(choice.tokens)
        start = f'data: {self._head()},"choices":[{{"index":{index},'
        end = f'"finish_reason":"{self.finish(index)}"}}]{tail}'
        unfinished = '"finish_reason":null}]'
        going = f"{unfinished}{tail}"
        key, close = ('"delta":{"content":', "}") if self.request.chat else ('"text":', "")
        before = (
            f'{start}"delta":{{"role":"assistant","content":""}},"logprobs":null,{unfinished}{self._tail(0)}'
            if self.request.chat
            else ""
        )
        if (members := self.structured(index)) is not None:
            members = members.replace('"tool_calls":[{', '"tool_calls":[{"index":0,', 1)
            yield f'{before}{start}"delta":{{{members}}},{self.token_ids(range(choice.tokens))}"logprobs":null,{going}'
            yield f'{start}"delta":{{}},"logprobs":null,{end}'
            return
        pieces = choice.pieces
        for i, (piece, logprobs) in enumerate(zip(pieces, self._logprobs(choice, pieces), strict=True)):
            content = f"{key}{json.dumps(piece)}{close},{self.token_ids([i])}"
            here = f"{unfinished}{self._tail(i + 1)}" if self.request.continuous_usage else going
            yield f'{before}{start}{content}"logprobs":{logprobs},{here}'
            before = ""
        empty = '"delta":{}' if self.request.chat else '"text":""'
        yield f'{before}{start}{empty},"logprobs":null,{end}'

    def _logprobs(self, choice: TraceText, pieces: Sequence[str]) -> Iterator[str]:
        """The ``logprobs`` object of each token's event."""
        if self.top is None:
            yield from ("null" for _ in pieces)
        elif self.request.chat:
            for content in chat_content(choice.spec, pieces, self.top):
                yield f'{{"content":[{content}]}}'
        else:
            entries = completion_logprobs(choice.spec, pieces, self.top)
            for piece, entry, offset in zip(pieces, entries, accumulate(map(len, pieces), initial=0), strict=False):
                yield completion_form([piece], [entry], offset)


def json_answer(spec: TraceSpec) -> str:
    """The answer as an object whose keys come in either order, with a reason that varies.

    >>> json_answer(TraceSpec("7", 6, mood=0.25))
    '{"answer": "7", "reason": "mood 0.25"}'
    """
    members = [("answer", spec.answer), ("reason", f"mood {spec.mood:g}")]
    return json.dumps(dict(members if spec.mood < 0.5 else members[::-1]))


def whole_body(response: CompletionResponse) -> bytes:
    """The response as one JSON object."""
    kind = "chat.completion" if response.request.chat else "text_completion"
    choices = ",".join(_choice(response, index, choice) for index, choice in enumerate(response.choices))
    return (
        f'{{"id":"{response.id}","object":"{kind}","created":{response.created},"model":{json.dumps(response.model)},'
        f'"choices":[{choices}],"usage":{response.usage()}}}'
    ).encode()


def _choice(response: CompletionResponse, index: int, choice: TraceText) -> str:
    text, logprobs = json.dumps(choice.text), "null"
    content = response.structured(index) or f'"content":{text}'
    body = f'"message":{{"role":"assistant",{content}}}' if response.request.chat else f'"text":{text}'
    if response.top is not None:
        pieces = choice.pieces
        if response.request.chat:
            entries = ",".join(chat_content(choice.spec, pieces, response.top))
            logprobs = f'{{"content":[{entries}]}}'
        else:
            tops = completion_logprobs(choice.spec, pieces, response.top)
            logprobs = completion_form(pieces, tops)
    ids = response.token_ids(range(choice.tokens))
    return f'{{"index":{index},{body},{ids}"logprobs":{logprobs},"finish_reason":"{response.finish(index)}"}}'
