"""Errors as an OpenAI-compatible server answers them."""

import json
import math
from dataclasses import KW_ONLY, dataclass

from pets.errors import PetsError

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


@dataclass(eq=False, repr=False)
class ApiError(PetsError):
    """A request that is answered with an error; ``should_retry`` says whether trying again can help.

    ``retry_after`` says when, in seconds. OpenAI's clients go by both.

    >>> ApiError("There is no field 'x'.", param="x").body()
    b'{"error": {"message": "There is no field \\'x\\'.", "type": "invalid_request_error", "param": "x", "code": null}}'
    """

    message: str
    _: KW_ONLY
    status: int = 400
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None
    should_retry: bool | None = None

    def body(self) -> bytes:
        """The error object that an OpenAI client expects, as JSON."""
        kind = TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that say whether and when to come back."""
        headers = []
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after))))
        if self.should_retry is not None:
            headers.append((b"x-should-retry", b"true" if self.should_retry else b"false"))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="pets"'))
        return headers
