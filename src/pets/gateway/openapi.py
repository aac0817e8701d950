"""The gateway's own description, at ``/openapi.json``: the file of that name, with this gateway's limits filled in."""

import json
from importlib.resources import files
from typing import Any

from pets.gateway.requests import CHAT, FORMS, IGNORED_NAME, MAX_HURRY, MAX_IGNORED
from pets.gateway.settings import Settings

ERROR_STATUSES = (400, 401, 404, 408, 413, 429, 502, 503, 504)


def description(settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1, with this gateway's limits.

    >>> sorted(description(Settings())["paths"])
    ['/healthz', '/metrics', '/readyz', '/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/models', ...]
    """
    limits = settings.limits
    values = {
        "messages": limits.messages,
        "max_tokens": limits.max_tokens,
        "n": limits.n,
        "max_traces": settings.spec.spending.max_traces,
        "max_hurry": MAX_HURRY,
        "max_ignored": MAX_IGNORED,
        "ignored_name": json.dumps(IGNORED_NAME.pattern),
    }
    page: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text("utf-8") % values)
    for path in () if settings.passthrough else FORMS.keys() - {CHAT}:
        del page["paths"][f"/v1{path}"]
    for operation in (operation for path in page["paths"].values() for operation in path.values()):
        error = {"$ref": "#/components/responses/Error"}
        operation["responses"] |= {str(status): error for status in ERROR_STATUSES}
    return page
