"""Requests: parsed, checked, and the same for both endpoints. Unknown fields are passed over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pets.openai.errors import ApiError
from pets.openai.fields import flag, json_object, number, object_field, whole_number

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
    temperature = number(fields, "temperature", 0, 2)
    number(fields, "top_p", 0, 1)
    return CompletionRequest(
        chat=chat,
        prompts=_chat_prompt(fields) if chat else _prompts(fields),
        n=whole_number(fields, "n", 1, MAX_N) or 1,
        seed=whole_number(fields, "seed", -(2**63), 2**63 - 1),
        greedy=temperature == 0,
        max_tokens=_max_tokens(fields, chat),
        stops=_stops(fields),
        top=_chat_top(fields) if chat else whole_number(fields, "logprobs", 0, MAX_LOGPROBS),
        stream=stream,
        include_usage=flag(options, "include_usage", "stream_options."),
        continuous_usage=flag(options, "continuous_usage_stats", "stream_options."),
        token_ids=flag(fields, "return_token_ids"),
        function=_function(fields) if chat else None,
        json=chat and object_field(fields, "response_format").get("type") in ("json_object", "json_schema"),
    )


def prompt_tokens(prompt: str) -> int:
    """About four characters per token.

    >>> prompt_tokens("What is 2 + 2?")
    4
    """
    return max(1, -(-len(prompt) // 4))


def _function(fields: Mapping[str, Any]) -> str | None:
    """The first of the functions that a chat may call; ``None`` where it may call none."""
    tools = fields.get("tools")
    if not isinstance(tools, list) or not tools or fields.get("tool_choice") == "none":
        return None
    function = tools[0].get("function") if isinstance(tools[0], dict) else None
    return str(function.get("name")) if isinstance(function, dict) else None


def check_model(name: object, model: str) -> None:
    """Refuse a request for another model than the one there is."""
    if name is None:
        raise ApiError("You must provide a model parameter.", param="model")
    if name != model:
        message = f"The model {name!r} does not exist; this server has {model!r}."
        raise ApiError(message, param="model", status=404, code="model_not_found")


def _chat_prompt(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The last user message, or the last of all where no user spoke."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError("'messages' is a list of at least one message.", param="messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError("Every message is an object with a 'role' and a 'content'.", param="messages")
    users = [message for message in messages if message["role"] == "user"]
    return (_content((users or messages)[-1].get("content")),)


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    raise ApiError("A message's 'content' is a string or a list of parts.", param="messages")


def _prompts(fields: Mapping[str, Any]) -> tuple[str, ...]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return (prompt,)
    if (
        isinstance(prompt, list)
        and prompt
        and len(prompt) <= MAX_PROMPTS
        and all(isinstance(text, str) for text in prompt)
    ):
        return tuple(prompt)
    raise ApiError("'prompt' is a string or a list of 1 to 128 strings; token ids mean nothing here.", param="prompt")


def _chat_top(fields: Mapping[str, Any]) -> int | None:
    top = whole_number(fields, "top_logprobs", 0, MAX_LOGPROBS)
    if flag(fields, "logprobs"):
        return top or 0
    if top is not None:
        raise ApiError("'top_logprobs' is only allowed when 'logprobs' is true.", param="top_logprobs")
    return None


def _max_tokens(fields: Mapping[str, Any], chat: bool) -> int | None:
    newer = whole_number(fields, "max_completion_tokens", 1, 2**53) if chat else None
    older = whole_number(fields, "max_tokens", 1, 2**53)
    return older if newer is None else newer


def _stops(fields: Mapping[str, Any]) -> tuple[str, ...]:
    stop = fields.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise ApiError("'stop' is a string or a list of strings.", param="stop")
    return tuple(filter(None, stops))
