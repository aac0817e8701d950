"""Mocks of other servers: strict hosts, vLLM with a reasoning parser, llama.cpp.

OpenAI's reasoning models, Mistral and Gemini refuse what they do not know, each in its own words, as their users report
them; they count tokens in their own ways, and OpenAI's and Gemini's keep the model's thoughts to themselves.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, Literal

from pets.mock import MockModel
from pets.mock.completions import CompletionResponse
from pets.openai.errors import ApiError
from pets.openai.fields import json_object

Flavour = Literal["openai", "mistral", "gemini"]
COMMON = {"model", "messages", "prompt", "n", "stop", "stream", "temperature", "top_p", "response_format", "tools"}
KNOWN: Mapping[Flavour, set[str]] = {
    "openai": COMMON
    | {"seed", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty", "logprobs", "user"}
    | {"top_logprobs", "stream_options", "reasoning_effort", "logit_bias"},
    "mistral": COMMON | {"max_tokens", "random_seed", "presence_penalty", "frequency_penalty", "reasoning_effort"},
    "gemini": COMMON | {"max_tokens", "max_completion_tokens", "stream_options", "reasoning_effort"},
}
# Fields that OpenAI knows, but not with a reasoning model.
NOT_WITH_REASONING = ("logprobs", "top_logprobs", "stop", "presence_penalty", "frequency_penalty", "top_p")


class StrictRefusalError(ApiError):
    """A refusal whose body has the host's own form."""

    def __init__(self, status: int, data: object) -> None:
        super().__init__(json.dumps(data), status=status)
        self._data = data

    def body(self) -> bytes:
        """The error as the host writes it."""
        return json.dumps(self._data).encode()


def check_fields(fields: Mapping[str, Any], flavour: Flavour) -> None:
    """Refuse a request that the host would refuse for one of its fields."""
    unknown = sorted(fields.keys() - KNOWN[flavour])
    if flavour == "openai":
        _check_openai(fields, unknown)
    elif unknown and flavour == "mistral":
        detail = [
            {
                "type": "extra_forbidden",
                "loc": ["body", name],
                "msg": "Extra inputs are not permitted",
                "input": fields[name],
            }
            for name in unknown
        ]
        message = {"detail": detail}
        refusal = {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": None}
        raise StrictRefusalError(422, refusal)
    elif unknown:
        words = [f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.' for name in unknown]
        status = {"code": 400, "message": "\n".join(words), "status": "INVALID_ARGUMENT"}
        raise StrictRefusalError(400, [{"error": status}])


def _check_openai(fields: Mapping[str, Any], unknown: list[str]) -> None:
    if unknown:
        arguments = "argument" if len(unknown) == 1 else "arguments"
        raise ApiError(f"Unrecognized request {arguments} supplied: {', '.join(unknown)}")
    if "max_tokens" in fields:
        raise ApiError(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
            "instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if fields.get("temperature", 1) != 1:
        raise ApiError(
            f"Unsupported value: 'temperature' does not support {fields['temperature']} with this model. Only the "
            "default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        )
    for name in NOT_WITH_REASONING:
        if name in fields:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            raise ApiError(message, param=name, code="unsupported_parameter")


class HostMock(MockModel):
    """A mock whose responses are of a type of its own."""

    response_type = CompletionResponse

    def respond(self, request, spoiled=False):
        response, late = super().respond(request, spoiled)
        kind = self.response_type if request.chat else CompletionResponse
        return kind(**{field.name: getattr(response, field.name) for field in fields(response)}), late


class StrictMock(HostMock):
    """A mock that is as strict as the host of its flavour."""

    def __init__(self, *args: Any, flavour: Flavour, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.flavour = flavour
        self.response_type = {"openai": OpenAIResponse, "gemini": GeminiResponse}.get(flavour, CompletionResponse)

    def parse(self, body, chat):
        check_fields(json_object(body), self.flavour)
        return super().parse(body, chat)


class ThoughtsApartResponse(CompletionResponse):
    """A chat's response with the thoughts in ``reasoning``; one that never closed them has no content."""

    __slots__ = ()

    def thoughts_apart(self, index: int) -> dict[str, str | None]:
        """The members of a choice's message."""
        text = self.choices[index].text
        if not text.startswith("<think>"):
            return {"reasoning": None, "content": text}
        thoughts, closed, content = text.removeprefix("<think>").partition(" </think>")
        return {"reasoning": thoughts, "content": content if closed else None}

    def structured(self, index: int) -> str | None:
        return super().structured(index) or json.dumps(self.thoughts_apart(index))[1:-1]


class HiddenThoughtsResponse(ThoughtsApartResponse):
    """A chat's response whose thoughts are counted and not shown."""

    __slots__ = ()

    @property
    def thoughts(self) -> int:
        """The tokens of all choices but for those that close them."""
        return sum(choice.tokens - (choice.finish == "stop") for choice in self.choices)

    def thoughts_apart(self, index: int) -> dict[str, str | None]:
        return {"content": super().thoughts_apart(index)["content"]}


class OpenAIResponse(HiddenThoughtsResponse):
    """Thoughts are part of the completion's tokens, and told apart in its details."""

    __slots__ = ()

    def usage(self) -> str:
        details = {"completion_tokens_details": {"reasoning_tokens": self.thoughts}}
        return json.dumps(json.loads(super().usage()) | details)


class GeminiResponse(HiddenThoughtsResponse):
    """Thoughts are part of the total alone."""

    __slots__ = ()

    def usage(self) -> str:
        usage = json.loads(super().usage())
        return json.dumps(usage | {"completion_tokens": usage["completion_tokens"] - self.thoughts})


class ReasoningParserMock(HostMock):
    """vLLM with a reasoning parser."""

    response_type = ThoughtsApartResponse


class UsageOfOneResponse(CompletionResponse):
    """The usage counts the first choice alone."""

    __slots__ = ()

    def usage(self) -> str:
        return json.dumps(json.loads(super().usage()) | {"completion_tokens": self.choices[0].tokens})


class LlamaCppMock(HostMock):
    """llama.cpp, as it counts tokens."""

    response_type = UsageOfOneResponse


class RefusingMock(MockModel):
    """A server that answers prompts about some questions with 400, as one does whose context is too short for them."""

    def __init__(self, *args: Any, refused_questions: Collection[str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.refused_questions = refused_questions

    def admit(self, request):
        super().admit(request)
        if any(prompt.endswith(f" {id}") for prompt in request.prompts for id in self.refused_questions):
            raise ApiError("This prompt is too long (on purpose).", code="context_length_exceeded")
