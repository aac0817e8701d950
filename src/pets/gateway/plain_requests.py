"""Requests to the paths that only pass through: completions, embeddings, responses.

Checked as far as counting and budgets need it; what else is in them is between client and server.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pets.gateway.requests import FORWARDED_FIELDS, ask_operator, check_fields
from pets.gateway.settings import Limits, Settings
from pets.openai.errors import ApiError
from pets.openai.fields import flag, json_object, object_field, whole_number

MAX_PROMPTS = 2048  # of one request, as OpenAI has it for embeddings
TEXT_TYPES = frozenset({
    "message", "text", "input_text", "output_text", "function", "function_call", "function_call_output", "reasoning",
    "summary_text", "json_schema", "json_object", "object",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainPath:
    """What counts in the requests of one path: the text, the limit of tokens, and what else may be sent for money."""

    content: str
    token_limit: str | None
    fields: frozenset[str]
    repeats: bool = False  # whether several prompts, each n times, come in one request


PLAIN_PATHS: Mapping[str, PlainPath] = {
    "/completions": PlainPath("prompt", "max_tokens", FORWARDED_FIELDS | {"suffix", "echo"}, repeats=True),
    "/embeddings": PlainPath("input", None, frozenset({"encoding_format", "dimensions", "user", "truncate"})),
    "/responses": PlainPath(
        "input",
        "max_output_tokens",
        frozenset({
            "instructions", "temperature", "top_p", "reasoning", "text", "tools", "tool_choice", "parallel_tool_calls",
            "metadata", "user", "safety_identifier", "prompt_cache_key", "include", "store", "truncation",
            "top_logprobs",
        }),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """One request to a path of :data:`PLAIN_PATHS`: ``fields`` is the body as it came, which counts as ``traces``."""

    path: str
    model: str
    fields: Mapping[str, Any]
    stream: bool
    include_usage: bool
    traces: int
    max_tokens: int | None

    def check_cost(self, *, restricted: bool, priced: bool, allowed: Collection[str] = ()) -> None:
        """Refuse what no budget can hold, as of chats."""
        form = PLAIN_PATHS[self.path]
        shared = {"model", "stream", "stream_options", "n", "seed", form.content, form.token_limit or form.content}
        check_fields(self.fields, form.fields | shared, "A plain request under a budget", restricted, allowed)
        for kind in _types_in(self.fields) if priced else ():
            if kind not in TEXT_TYPES and kind not in allowed:
                message = "Images, sounds, files and tools of the server cannot be paid for in this gateway's unit."
                raise ApiError(f"{message} Send texts and functions alone. {ask_operator(kind)}", param=form.content)

    def token_limit(self, limits: Limits) -> int:
        """The most tokens that each of its traces may have."""
        return 0 if PLAIN_PATHS[self.path].token_limit is None else self.max_tokens or limits.max_tokens

    def bounded_fields(self, max_tokens: int) -> dict[str, Any]:
        """What is sent where tokens are paid for: with the limit that was held, and a stream that tells its usage."""
        fields = {name: value for name, value in self.fields.items() if value is not None}
        if (name := PLAIN_PATHS[self.path].token_limit) is not None:
            fields[name] = max_tokens
        if self.stream and self.path == "/completions":
            fields["stream_options"] = {**(self.fields.get("stream_options") or {}), "include_usage": True}
        return fields


def parse_plain_request(path: str, body: bytes, settings: Settings) -> PlainRequest:
    """Parse and check a body; an :class:`ApiError` names the field that is wrong."""
    fields, form, limits = json_object(body), PLAIN_PATHS[path], settings.limits
    model = fields.get("model")
    if not isinstance(model, str) or not model or len(model) > 256:
        raise ApiError("'model' is the name of a model.", param="model")
    if model.startswith(settings.prefix):
        message = f"{settings.prefix}NAME votes at /v1/chat/completions; here, ask for NAME."
        raise ApiError(message, param="model")
    content = fields.get(form.content)
    if not isinstance(content, str | list) or not content:
        raise ApiError(f"{form.content!r} is a text, or a list.", param=form.content)
    prompts = len(content) if isinstance(content, list) and not isinstance(content[0], int) else 1
    if prompts > MAX_PROMPTS:
        raise ApiError(f"{form.content!r} is a list of at most {MAX_PROMPTS}.", param=form.content)
    n = whole_number(fields, "n", 1, limits.n) or 1
    limit = None if form.token_limit is None else whole_number(fields, form.token_limit, 1, limits.max_tokens)
    return PlainRequest(
        path,
        model,
        fields,
        flag(fields, "stream"),
        flag(object_field(fields, "stream_options"), "include_usage", "stream_options."),
        n * prompts if form.repeats else 1,
        limit,
    )


def _types_in(value: Any) -> Iterator[str]:
    """Every "type" that the parts of a body have."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            if isinstance(kind := part.get("type"), str):
                yield kind
            stack += [item for name, item in part.items() if name not in ("parameters", "schema", "metadata")]
        elif isinstance(part, list):
            stack += part
