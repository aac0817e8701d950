"""Requests, parsed and checked, and responses in OpenAI's JSON forms, whole and as server-sent events.

Both endpoints are the same here. Unknown fields are passed over.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any

from pets.mock.traces import TraceSpec, TraceText, chat_content, completion_form, completion_logprobs
from pets.openai.errors import ApiError
from pets.openai.fields import chat_messages, flag, json_object, number, object_field, whole_number

MAX_N = 128  # as OpenAI has it
MAX_PROMPTS = 128
MAX_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One request. ``top`` is how many log-probabilities each token gets; ``None`` means none at all."""

    chat: bool
    prompts: tuple[str, ...]
    n: int = 1
    seed: int | None = None
    greedy: bool = False
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    top: int | None = None
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False  # with every event
    token_ids: bool = False
    function: str | None = None  # that is called instead of an answer in prose
    json: bool = False


def parse_request(body: bytes, model: str, chat: bool) -> CompletionRequest:
    """Parse and check a body; an :class:`ApiError` names the field that is wrong."""
    fields = json_object(body)
    check_model(fields.get("model"), model)
    stream = flag(fields, "stream")
    options = object_field(fields, "stream_options")
    if options and not stream:
        raise ApiError("'stream_options' is only allowed when 'stream' is true.", param="stream_options")
    temperature, stop = number(fields, "temperature", 0, 2), fields.get("stop")
    number(fields, "top_p", 0, 1)
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise ApiError("'stop' is a string or a list of strings.", param="stop")
    newer = whole_number(fields, "max_completion_tokens", 1, 2**53) if chat else None
    older = whole_number(fields, "max_tokens", 1, 2**53)
    return CompletionRequest(
        chat=chat,
        prompts=_chat_prompt(fields) if chat else _prompts(fields),
        n=whole_number(fields, "n", 1, MAX_N) or 1,
        seed=whole_number(fields, "seed", -(2**63), 2**63 - 1),
        greedy=temperature == 0,
        max_tokens=older if newer is None else newer,
        stops=tuple(filter(None, stops)),
        top=_chat_top(fields) if chat else whole_number(fields, "logprobs", 0, MAX_LOGPROBS),
        stream=stream,
        include_usage=flag(options, "include_usage", "stream_options."),
        continuous_usage=flag(options, "continuous_usage_stats", "stream_options."),
        token_ids=flag(fields, "return_token_ids"),
        function=_function(fields) if chat else None,
        json=chat and object_field(fields, "response_format").get("type") in ("json_object", "json_schema"),
    )


def prompt_tokens(prompt: str) -> int:
    """About four characters per token."""
    return max(1, -(-len(prompt) // 4))


def _function(fields: Mapping[str, Any]) -> str | None:
    """The first of the functions that a chat may call; ``None`` where it may call none."""
    match fields.get("tools"):
        case [{"function": {"name": name}}, *_] if fields.get("tool_choice") != "none":
            return str(name)
    return None


def check_model(name: object, model: str) -> None:
    """Refuse a request for another model than the one there is."""
    if name is None:
        raise ApiError("You must provide a model parameter.", param="model")
    if name != model:
        message = f"The model {name!r} does not exist; this server has {model!r}."
        raise ApiError(message, param="model", status=404, code="model_not_found")


def _chat_prompt(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The last user message, or the last of all where no user spoke."""
    messages = chat_messages(fields)
    users = [message for message in messages if message["role"] == "user"]
    content = (users or messages)[-1].get("content")
    if isinstance(content, str):
        return (content,)
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return ("\n".join(map(str, texts)),)
    raise ApiError("A message's 'content' is a string or a list of parts.", param="messages")


def _prompts(fields: Mapping[str, Any]) -> tuple[str, ...]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return (prompt,)
    if isinstance(prompt, list) and 1 <= len(prompt) <= MAX_PROMPTS and all(isinstance(text, str) for text in prompt):
        return tuple(prompt)
    raise ApiError("'prompt' is a string or a list of 1 to 128 strings; token ids mean nothing here.", param="prompt")


def _chat_top(fields: Mapping[str, Any]) -> int | None:
    top, asked = whole_number(fields, "top_logprobs", 0, MAX_LOGPROBS), flag(fields, "logprobs")
    if top is not None and not asked:
        raise ApiError("'top_logprobs' is only allowed when 'logprobs' is true.", param="top_logprobs")
    return (top or 0) if asked else None


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

    @property
    def longest(self) -> int:
        """The tokens of the longest choice."""
        return max(choice.tokens for choice in self.choices)

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
        calls = self.request.function is not None and self.structured(index) is not None
        return "tool_calls" if calls else self.choices[index].finish

    def token_ids(self, ids: Iterable[int]) -> str:
        """The member of a choice with the ids of its tokens, where the request wants them."""
        return f',"token_ids":[{",".join(map(str, ids))}]' if self.request.token_ids else ""

    def usage(self, written: int | None = None) -> str:
        """The ``usage`` object, as JSON: of the whole response, or of so many tokens ``written``."""
        tokens = sum(choice.tokens for choice in self.choices) if written is None else written
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": tokens}
        cached = {} if self.cached_tokens is None else {"prompt_tokens_details": {"cached_tokens": self.cached_tokens}}
        return json.dumps({**usage, "total_tokens": self.prompt_tokens + tokens, **cached})

    def whole(self) -> bytes:
        """The response as one JSON object."""
        kind = "chat.completion" if self.request.chat else "text_completion"
        choices = ",".join(self._choice(index, choice) for index, choice in enumerate(self.choices))
        return f'{self._head(kind)},"choices":[{choices}],"usage":{self.usage()}}}'.encode()

    def steps(self) -> Iterator[str]:
        """The events of a stream: one string per step, in which every choice that goes on gives one token."""
        streams = [self._events(index, choice) for index, choice in enumerate(self.choices)]
        for events in zip_longest(*streams, fillvalue=""):
            yield "".join(events)

    def last(self) -> str:
        """What ends a stream after its steps."""
        usage = f'data: {self._head()},"choices":[],"usage":{self.usage()}}}\n\n' if self.request.include_usage else ""
        return usage + DONE

    def _head(self, kind: str | None = None) -> str:
        """The beginning of the response, or of an event."""
        kind = kind or ("chat.completion.chunk" if self.request.chat else "text_completion")
        return f'{{"id":"{self.id}","object":"{kind}","created":{self.created},"model":{json.dumps(self.model)}'

    def _choice(self, index: int, choice: TraceText) -> str:
        text, logprobs, pieces = json.dumps(choice.text), "null", choice.pieces
        content = self.structured(index) or f'"content":{text}'
        body = f'"message":{{"role":"assistant",{content}}}' if self.request.chat else f'"text":{text}'
        if self.top is not None and self.request.chat:
            logprobs = f'{{"content":[{",".join(chat_content(choice.spec, pieces, self.top))}]}}'
        elif self.top is not None:
            logprobs = completion_form(pieces, completion_logprobs(choice.spec, pieces, self.top))
        ids = self.token_ids(range(choice.tokens))
        return f'{{"index":{index},{body}{ids},"logprobs":{logprobs},"finish_reason":"{self.finish(index)}"}}'

    def _events(self, index: int, choice: TraceText) -> Iterator[str]:
        """One choice, one event per token; the role comes with the first token, the finish with the last."""
        chat, total, members = self.request.chat, choice.tokens, self.structured(index)
        start = f'data: {self._head()},"choices":[{{"index":{index},'
        usage = ',"usage":null' if self.request.include_usage else ""

        def event(member: str, written: int, logprobs: str = "null", finish: str = "null") -> str:
            end = f',"usage":{self.usage(written)}' if self.request.continuous_usage else usage
            return f'{start}{member},"logprobs":{logprobs},"finish_reason":{finish}}}]{end}}}\n\n'

        role = event('"delta":{"role":"assistant","content":""}', 0) if chat else ""
        if members is not None:
            members = members.replace('"tool_calls":[{', '"tool_calls":[{"index":0,', 1)
            yield role + event(f'"delta":{{{members}}}{self.token_ids(range(total))}', total)
        else:
            key, close = ('"delta":{"content":', "}") if chat else ('"text":', "")
            for i, (piece, logprobs) in enumerate(zip(choice.pieces, self._logprobs(choice), strict=True)):
                yield role + event(f"{key}{json.dumps(piece)}{close}{self.token_ids((i,))}", i + 1, logprobs)
                role = ""
        yield event('"delta":{}' if chat else '"text":""', total, finish=f'"{self.finish(index)}"')

    def _logprobs(self, choice: TraceText) -> Iterator[str]:
        """The ``logprobs`` object of each token's event."""
        pieces = choice.pieces
        if self.top is None:
            yield from ["null"] * len(pieces)
        elif self.request.chat:
            for content in chat_content(choice.spec, pieces, self.top):
                yield f'{{"content":[{content}]}}'
        else:
            entries = completion_logprobs(choice.spec, pieces, self.top)
            for piece, entry, offset in zip(pieces, entries, accumulate(map(len, pieces), initial=0), strict=False):
                yield completion_form([piece], [entry], offset)


def json_answer(spec: TraceSpec) -> str:
    """The answer as an object whose keys come in either order, with a reason that varies."""
    members = [("answer", spec.answer), ("reason", f"mood {spec.mood:g}")]
    return json.dumps(dict(members if spec.mood < 0.5 else members[::-1]))
