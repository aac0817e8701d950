"""The gateway's own description, at ``/openapi.json``."""

from typing import Any

from pets.gateway.requests import CHAT, FORMS, IGNORED_NAME, MAX_HURRY, MAX_IGNORED
from pets.gateway.settings import Settings

ERROR = {"description": "An error, in OpenAI's form.", "content": {"application/json": {"schema": {
    "type": "object", "required": ["error"], "properties": {"error": {
        "type": "object", "required": ["message", "type", "param", "code"]}}}}}}  # fmt: skip
ERRORS = {str(status): ERROR for status in (400, 401, 404, 408, 413, 429, 502, 503, 504)}


def description(settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1, with this gateway's limits.

    >>> sorted(description(Settings())["paths"])
    ['/healthz', '/metrics', '/readyz', '/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/models', ...]
    """
    plain_paths = [path for path in FORMS if settings.passthrough and path != CHAT]
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "PETS gateway", "version": "1", "description": "Answers by vote; speaks OpenAI."},
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            f"/v1{CHAT}": {"post": _chat(settings)},
            **{f"/v1{path}": {"post": _plain(path, settings)} for path in plain_paths},
            "/v1/models": {"get": {"responses": _responses("application/json")}},
            "/v1/models/{model}": {"get": {"parameters": [model], "responses": _responses("application/json")}},
            "/healthz": {"get": {"responses": _responses("application/json")}},
            "/readyz": {"get": {"responses": _responses("application/json")}},
            "/metrics": {"get": {"responses": _responses("text/plain")}},
        },
    }


def _chat(settings: Settings) -> dict[str, Any]:
    limits = settings.limits
    tokens = {"type": "integer", "minimum": 1, "maximum": limits.max_tokens}
    message = {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}, "content": {}}}
    options = {
        "answer": {"type": "string"},
        "max_traces": {"type": "integer", "minimum": 1, "maximum": settings.spec.spending.max_traces},
        "hurry": {"type": "number", "minimum": 0, "maximum": MAX_HURRY},
        "weighted": {"type": "boolean"},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
        "ignore": {
            "type": "array",
            "maxItems": MAX_IGNORED,
            "items": {"type": "string", "pattern": IGNORED_NAME.pattern},
        },
    }
    fields = {
        "model": {"type": "string", "minLength": 1, "maxLength": 256},
        "messages": {"type": "array", "minItems": 1, "maxItems": limits.messages, "items": message},
        "n": {"type": "integer", "minimum": 1, "maximum": limits.n},
        "seed": {"type": "integer"},
        "stream": {"type": "boolean"},
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "max_tokens": tokens,
        "max_completion_tokens": tokens,
        "pets": {"type": "object", "properties": options, "additionalProperties": False},
    }
    return _operation("messages", fields)


def _plain(path: str, settings: Settings) -> dict[str, Any]:
    """A path that only passes through."""
    form, limits = FORMS[path], settings.limits
    fields: dict[str, Any] = {
        "model": {"type": "string", "minLength": 1, "maxLength": 256},
        form.content: {"type": "string", "minLength": 1},
        "n": {"type": "integer", "minimum": 1, "maximum": limits.n},
        "stream": {"type": "boolean"},
    }
    for name in form.token_limits:
        fields[name] = {"type": "integer", "minimum": 1, "maximum": limits.max_tokens}
    return _operation(form.content, fields)


def _operation(content: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A POST whose body has these fields, of which the model and the content are required."""
    body = {"type": "object", "required": ["model", content], "properties": fields}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _responses("application/json", "text/event-stream"),
    }


def _responses(*media_types: str) -> dict[str, Any]:
    return {"200": {"description": "OK.", "content": {name: {} for name in media_types}}} | ERRORS
