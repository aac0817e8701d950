"""Requests that are answered with an error, in OpenAI's form."""

import json

from pets.errors import PetsError

__all__ = ["RefusalError"]

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class RefusalError(PetsError):
    """``again`` says whether trying again can help; ``retry_after`` when.

    >>> RefusalError("There is no field 'x'.", param="x").body()
    b'{"error": {"message": "There is no field \\'x\\'.", "type": "invalid_request_error", "param": "x", "code": null}}'
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        again: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code
        self.retry_after, self.again = retry_after, again

    def plain(self) -> dict[str, object]:
        """The error as an OpenAI client expects it."""
        kind = TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def body(self) -> bytes:
        """The same as JSON."""
        return json.dumps(self.plain()).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Whether and when to come back; OpenAI's clients read both."""
        found = []
        if self.retry_after is not None:
            found.append((b"retry-after", b"%d" % max(1, round(self.retry_after))))
        if self.again is not None:
            found.append((b"x-should-retry", b"true" if self.again else b"false"))
        if self.status == 401:
            found.append((b"www-authenticate", b'Basic realm="pets"'))
        return found
