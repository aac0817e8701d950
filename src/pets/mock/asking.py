"""What a request asks for: parsed, checked, and the same for both endpoints. Unknown fields are passed over."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pets.errors import PetsError

__all__ = ["Ask", "RequestError", "parse", "prompt_tokens"]

MOST = 128  # choices in a request, as OpenAI has it
MOST_LOGPROBS = 20


class RequestError(PetsError):
    """A request that is answered with an error, in OpenAI's form."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.status, self.code = message, param, status, code


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. ``top`` is how many log-probabilities a token gets; ``None`` means none at all."""

    chat: bool
    prompts: tuple[str, ...]
    n: int = 1
    seed: int | None = None
    greedy: bool = False
    limit: int | None = None
    stops: tuple[str, ...] = ()
    top: int | None = None
    stream: bool = False
    include_usage: bool = False
    token_ids: bool = False


def parse(body: bytes, model: str, chat: bool) -> Ask:
    """The request in a body, or a :class:`RequestError` that names the field."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The body is not JSON that can be read: {error or type(error).__name__}.") from None
    if not isinstance(fields, dict):
        raise RequestError("The body is not a JSON object.")
    _known_model(fields.get("model"), model)
    stream = _flag(fields, "stream")
    options = _typed(fields, "stream_options", dict, "an object") or {}
    if options and not stream:
        raise RequestError("'stream_options' is only allowed when 'stream' is true.", param="stream_options")
    temperature = _number(fields, "temperature", 0, 2)
    _number(fields, "top_p", 0, 1)
    return Ask(
        chat=chat,
        prompts=_chat_prompt(fields) if chat else _prompts(fields),
        n=_whole(fields, "n", 1, MOST) or 1,
        seed=_whole(fields, "seed", -(2**63), 2**63 - 1),
        greedy=temperature == 0,
        limit=_limit(fields, chat),
        stops=_stops(fields),
        top=_chat_top(fields) if chat else _whole(fields, "logprobs", 0, MOST_LOGPROBS),
        stream=stream,
        include_usage=_flag(options, "include_usage", "stream_options.include_usage"),
        token_ids=_flag(fields, "return_token_ids"),
    )


def prompt_tokens(prompt: str) -> int:
    """About four characters a token.

    >>> prompt_tokens("What is 2 + 2?")
    4
    """
    return max(1, -(-len(prompt) // 4))


def _known_model(asked: object, model: str) -> None:
    if asked is None:
        raise RequestError("You must provide a model parameter.", param="model")
    if asked != model:
        found = f"The model {asked!r} does not exist; this server has {model!r}."
        raise RequestError(found, param="model", status=404, code="model_not_found")


def _chat_prompt(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The last user message, or the last of all where no user spoke."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestError("'messages' is a list of at least one message.", param="messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise RequestError("Every message is an object with a 'role' and a 'content'.", param="messages")
    users = [message for message in messages if message["role"] == "user"]
    return (_content((users or messages)[-1].get("content")),)


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    raise RequestError("A message's 'content' is a string or a list of parts.", param="messages")


def _prompts(fields: Mapping[str, Any]) -> tuple[str, ...]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return (prompt,)
    if isinstance(prompt, list) and prompt and len(prompt) <= MOST and all(isinstance(one, str) for one in prompt):
        return tuple(prompt)
    raise RequestError(
        "'prompt' is a string or a list of 1 to 128 strings; token ids mean nothing here.", param="prompt"
    )


def _chat_top(fields: Mapping[str, Any]) -> int | None:
    top = _whole(fields, "top_logprobs", 0, MOST_LOGPROBS)
    if _flag(fields, "logprobs"):
        return top or 0
    if top is not None:
        raise RequestError("'top_logprobs' is only allowed when 'logprobs' is true.", param="top_logprobs")
    return None


def _limit(fields: Mapping[str, Any], chat: bool) -> int | None:
    newer = _whole(fields, "max_completion_tokens", 1, 2**53) if chat else None
    older = _whole(fields, "max_tokens", 1, 2**53)
    return older if newer is None else newer


def _stops(fields: Mapping[str, Any]) -> tuple[str, ...]:
    stop = fields.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops):
        raise RequestError("'stop' is a string or a list of strings.", param="stop")
    return tuple(one for one in stops if one)


def _typed(fields: Mapping[str, Any], name: str, kind: type, says: str) -> Any:
    value = fields.get(name)
    if value is not None and type(value) is not kind:
        raise RequestError(f"{name!r} is {json.dumps(value)[:60]}; expected {says}.", param=name)
    return value


def _flag(fields: Mapping[str, Any], name: str, full: str = "") -> bool:
    value = fields.get(name)
    if value is not None and type(value) is not bool:
        raise RequestError(f"'{full or name}' is {json.dumps(value)[:60]}; expected true or false.", param=full or name)
    return bool(value)


def _whole(fields: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = _typed(fields, name, int, "a whole number")
    if value is not None and not low <= value <= high:
        raise RequestError(f"{name!r} is {str(value)[:60]}; it lies between {low} and {high}.", param=name)
    return None if value is None else int(value)


def _number(fields: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not low <= value <= high:
        raise RequestError(f"{name!r} is {json.dumps(value)[:60]}; it lies between {low} and {high}.", param=name)
    return float(value)
