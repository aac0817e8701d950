"""A mock with one more model for each misbehaviour of a hostile or broken server: ``hostile/NAME``.

    python -m tests.hostile_server [--answers FILE] [--tokens-per-second X] [--port N]

Where :mod:`pets.mock.faults` spoils some of the replies of a good server, here every reply of a model is wrong in its
one way: bodies, choices, usages, texts, statuses, headers, or the time that they take. ``GET /v1/models`` lists them.
"""

import argparse
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pets.mock import DistributionAnswers, MockModel, app, serve
from pets.openai.asgi import JSON, ClientGoneError, Exchange

HOSTILE_PREFIX = "hostile/"
MAX_BODY_BYTES = 32 << 20
TEXT_CHARACTERS = 10_000  # of the texts that are hard to read
BLOCK_BYTES = 1 << 16
HUGE_BYTES = 100 << 20  # of what has an end
ENDLESS_BYTES = 4 << 30  # of what has none that a client should wait for
DRIP_S = 1.0  # per byte
ECHOED_STATUSES = (400, 401, 403, 404, 405, 408, 409, 413, 415, 418, 422, 425, 429, 451, 500, 501, 502, 503, 504, 529)
Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """A request to a misbehaviour: its name, the headers and fields, and whether it is a chat."""

    name: str
    headers: Mapping[str, str]
    fields: Mapping[str, Any]
    chat: bool

    @property
    def echo(self) -> str:
        """The request's headers, its key among them."""
        return json.dumps(dict(self.headers))

    def choices(self, text: str = r"The answer is \boxed{4}.") -> list[dict[str, Any]]:
        """As many good choices as were asked for."""
        n = self.fields.get("n")
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        count = n if isinstance(n, int) and 0 < n <= 128 else 1
        return [{"index": at, **content, "finish_reason": "stop", "logprobs": None} for at in range(count)]

    def body(self, **changes: Any) -> bytes:
        """A good reply but for these fields."""
        usage = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
        reply = {"id": "cmpl-1", "object": "chat.completion", "created": 0, "model": self.name}
        return json.dumps({**reply, "choices": self.choices(), "usage": usage, **changes}).encode()

    def body_with_choice(self, **changes: Any) -> bytes:
        """A good reply but for these fields of every choice."""
        return self.body(choices=[{**choice, **changes} for choice in self.choices()])

    def body_with_text(self, text: str) -> bytes:
        """A reply that is good in form, with this text."""
        return self.body(choices=self.choices(text))


@dataclass(frozen=True, slots=True)
class HostileReply:
    """What is sent: a body, whole or in parts; then the end, nothing more while the client waits, or a hang-up."""

    body: bytes | Iterator[bytes] = b""
    status: int = 200
    headers: tuple[Header, ...] = field(default=(JSON,))
    then: Literal["end", "hang", "drop"] = "end"
    part_s: float = 0.0  # between two parts


Misbehaviour = Callable[[HostileRequest], HostileReply]


def hostile_request(content: bytes, headers: Mapping[str, str], chat: bool) -> HostileRequest | None:
    """The request for a misbehaviour that a body is, if it is one."""
    try:
        fields = json.loads(content)
        name = str(fields["model"]).removeprefix(HOSTILE_PREFIX)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return HostileRequest(name, headers, fields, chat) if name in MISBEHAVIOURS and name != fields["model"] else None


class HostileServer:
    """The ASGI application of a mock that also misbehaves, by the model that a request names."""

    def __init__(self, mock: MockModel) -> None:
        self._mock, self._app = mock, app(mock)

    async def __call__(self, scope, receive, send) -> None:
        exchange = Exchange(scope, receive, send)
        if scope["path"] == "/v1/models":
            names = [self._mock.model, *(HOSTILE_PREFIX + name for name in MISBEHAVIOURS)]
            models = [{"id": name, "object": "model"} for name in names]
            await exchange.respond(200, json.dumps({"object": "list", "data": models}).encode())
            return
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            content = await exchange.body(MAX_BODY_BYTES)
        except ClientGoneError:
            return
        request = hostile_request(content, exchange.headers, scope["path"].endswith("/chat/completions"))
        if request is not None:
            await misbehave(exchange, request)
            return
        parts = [{"type": "http.request", "body": content}]

        async def receive_again():
            return parts.pop() if parts else await receive()

        await self._app(scope, receive_again, send)


async def misbehave(exchange: Exchange, request: HostileRequest) -> None:
    """Send the reply of a misbehaviour; a stream gets a whole body as one event."""
    reply = MISBEHAVIOURS[request.name](request)
    if request.name == "disconnect":
        await exchange.drop()
        return
    if request.name == "hang":
        await exchange.wait_gone()
        return
    headers, body = list(reply.headers), reply.body
    if request.fields.get("stream") is True and reply.status == 200 and JSON in headers and isinstance(body, bytes):
        headers[headers.index(JSON)] = (b"content-type", b"text/event-stream")
        body = b"data: " + body.replace(b"\n", b" ") + b"\n\ndata: [DONE]\n\n"
    await exchange.start(reply.status, headers)
    for part in [body] if isinstance(body, bytes) else body:
        await exchange.send(part)
        if (reply.part_s or not isinstance(body, bytes)) and not await exchange.wait(reply.part_s):
            return
    if reply.then == "hang":
        await exchange.wait_gone()
    elif reply.then == "drop":
        await exchange.drop()
    else:
        await exchange.send(b"", end=True)


def _whole(make: Callable[[HostileRequest], bytes]) -> Misbehaviour:
    return lambda request: HostileReply(make(request))


def _always(body: bytes) -> Misbehaviour:
    return lambda request: HostileReply(body)


def _choices_with(changes: Mapping[str, Any]) -> Misbehaviour:
    return lambda request: HostileReply(request.body_with_choice(**changes))


def _text(text: str) -> Misbehaviour:
    return lambda request: HostileReply(request.body_with_text(text))


def _hard_formulas(request: HostileRequest) -> HostileReply:
    """Choices none of which any other equals, as takes longest to find out."""
    seed = request.fields.get("seed")
    first = seed % 1_000_000 if isinstance(seed, int) else 0
    texts = (rf"\boxed{{10^{{10^{{10}}}}+x^{{{first + at}}}}}" for at in range(len(request.choices())))
    return HostileReply(
        request.body(choices=[{**request.choices(text)[0], "index": at} for at, text in enumerate(texts)])
    )


def _with_headers(*headers: Header, status: int = 200) -> Misbehaviour:
    return lambda request: HostileReply(request.body(), status, (JSON, *headers))


def _echo(status: int) -> Misbehaviour:
    def reply(request: HostileRequest) -> HostileReply:
        error = dict.fromkeys(("message", "type", "param", "code"), request.echo)
        return HostileReply(json.dumps({"error": error, "detail": request.echo}).encode(), status)

    return reply


def _echo_everywhere(request: HostileRequest) -> HostileReply:
    """A good status, and the headers in every field."""
    echo = request.echo
    content = {"content": echo, "reasoning": echo, "role": "assistant", "tool_calls": [echo], "refusal": echo}
    text: dict[str, Any] = {"message": content} if request.chat else {"text": echo}
    choices = [{**choice, **text, "stop_reason": echo, "extra": {echo: echo}} for choice in request.choices()]
    headers = tuple((name, echo.encode("latin-1", "replace")) for name in (b"content-type", b"x-echo", b"retry-after"))
    fields = dict.fromkeys(("id", "object", "model", "system_fingerprint", "service_tier"), echo)
    return HostileReply(request.body(choices=choices, **fields), headers=headers)


def _echo_escaped(request: HostileRequest) -> HostileReply:
    escaped = "".join(f"\\u{ord(character):04x}" for character in request.echo)
    return HostileReply(request.body_with_text("TEXT").replace(b"TEXT", escaped.encode()))


def _echo_in_stream(request: HostileRequest) -> HostileReply:
    """Events in parts of 7 bytes: the key lies across their borders."""
    events = b"".join(b"data: " + part + b"\n\n" for part in (request.body_with_text(request.echo), b"[DONE]"))
    parts = (events[at : at + 7] for at in range(0, len(events), 7))
    return HostileReply(parts, headers=((b"content-type", b"text/event-stream"),))


def _usage(**usage: Any) -> Misbehaviour:
    return _whole(lambda request: request.body(usage={"prompt_tokens": 5, "completion_tokens": 9, **usage}))


def _logprobs(value: Any) -> Misbehaviour:
    return _whole(lambda request: request.body_with_choice(logprobs=value))


def _packed(encoding: bytes, make: Callable[[HostileRequest], bytes]) -> Misbehaviour:
    return lambda request: HostileReply(make(request), headers=(JSON, (b"content-encoding", encoding)))


def _endless(start: bytes, block: bytes, most: int = ENDLESS_BYTES) -> Iterator[bytes]:
    yield start
    for _ in range(most // len(block)):
        yield block


@lru_cache(maxsize=1)
def _bomb() -> bytes:
    """1 GB of blanks in a few MB."""
    packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    return b"".join(packer.compress(b" " * (1 << 20)) for _ in range(1024)) + packer.flush()


def _drip(request: HostileRequest) -> HostileReply:
    body = request.body()
    return HostileReply((body[at : at + 1] for at in range(len(body))), part_s=DRIP_S)


def _retry_after(value: bytes) -> Misbehaviour:
    body = b'{"error": {"message": "Slow down."}}'
    return lambda request: HostileReply(body, 429, (JSON, (b"retry-after", value)))


def _nested(opening: str, closing: str) -> str:
    depth = TEXT_CHARACTERS // (len(opening) + len(closing))
    return opening * depth + "4" + closing * depth


def _repeated(words: str) -> str:
    return words * (TEXT_CHARACTERS // len(words))


WRONG_BODIES: Mapping[str, bytes] = {
    "empty": b"",
    "blank": b" \r\n\t" * 100,
    "html": b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>",
    "not_json": b"I am a teapot",
    "null": b"null",
    "true": b"true",
    "number": b"-0.0",
    "string": b'"choices"',
    "array": b"[]",
    "array_of_nulls": b"[null, null]",
    "object": b"{}",
    "nan": b'{"choices": NaN}',
    "infinity": b'{"choices": [{"index": -Infinity}]}',
    "choices_null": b'{"choices": null}',
    "choices_empty": b'{"choices": []}',
    "choices_string": b'{"choices": "four"}',
    "choices_number": b'{"choices": 4}',
    "choices_object": b'{"choices": {"0": {"text": "4"}}}',
    "choices_nulls": b'{"choices": [null]}',
    "choices_strings": b'{"choices": ["4"]}',
    "choices_nested": b'{"choices": [[{"text": "4"}]]}',
    "error_null": b'{"error": null}',
    "error_string": b'{"error": "no"}',
    "error_number": b'{"error": 7}',
    "error_list": b'{"error": [{"message": "no"}]}',
    "error_code_500": b'{"error": {"message": "no", "code": 500}}',
    "error_code_huge": b'{"error": {"message": "no", "code": 1e300}}',
    "deep_array": b"[" * 100_000 + b"]" * 100_000,
    "deep_object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep_unclosed": b'{"choices": ' + b"[" * 100_000,
    "long_number": b'{"choices": ' + b"9" * 10_000 + b"}",
    "long_exponent": b'{"choices": 1e' + b"9" * 4_000 + b"}",
    "bad_utf8": b'{"choices": [{"text": "\xff\xfe\xc0\x80"}]}',
    "utf16": '{"choices": []}'.encode("utf-16"),
    "nul_bytes": b"\x00" * 1_000,
    "escapes": b"\x1b]0;owned\x07\x1b[2J\x1b[31m \xc2\x9b31m \xe2\x80\xaegnp.exe",
    "event_only": b'data: {"choices": []}\n\ndata: [DONE]\n\n',
    "two_documents": b"{}{}",
}

CHANGED_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "message_null": {"message": None, "text": None},
    "message_string": {"message": "4", "text": None},
    "message_list": {"message": ["4"], "text": None},
    "content_null": {"message": {"content": None}, "text": None},
    "content_number": {"message": {"content": 4}, "text": 4},
    "content_bool": {"message": {"content": True}, "text": True},
    "content_list": {"message": {"content": [{"type": "text", "text": "4"}]}, "text": ["4"]},
    "content_object": {"message": {"content": {"4": 4}}, "text": {"4": 4}},
    "content_empty": {"message": {"content": ""}, "text": ""},
    "content_surrogate": {"message": {"content": "half \ud83d \udc00 pair"}, "text": "half \ud83d \udc00 pair"},
    "content_controls": {"message": {"content": "".join(map(chr, range(160)))}, "text": "".join(map(chr, range(160)))},
    "reasoning_number": {"message": {"content": "4", "reasoning": 4}},
    "finish_missing": {"finish_reason": None},
    "finish_number": {"finish_reason": 7},
    "finish_list": {"finish_reason": ["stop"]},
    "finish_abort": {"finish_reason": "abort"},
    "finish_unknown": {"finish_reason": "\x1b[2J"},
    "index_null": {"index": None},
    "index_negative": {"index": -1},
    "index_huge": {"index": 2**70},
    "index_float": {"index": 0.5},
    "index_string": {"index": "zero"},
    "index_repeated": {"index": 0},
    "token_ids_number": {"token_ids": 4},
}

HARD_TEXTS: Mapping[str, str] = {
    "blanks": " " * TEXT_CHARACTERS,
    "blanks_in_box": r"\boxed{1" + " " * TEXT_CHARACTERS + "^" + " " * TEXT_CHARACTERS + "x}",
    "line_breaks": "\n" * TEXT_CHARACTERS,
    "carriage_returns": "\r\n" * TEXT_CHARACTERS,
    "tabs": "\t" * TEXT_CHARACTERS + "4",
    "dollars": "$" * TEXT_CHARACTERS + "4" + "$" * TEXT_CHARACTERS,
    "open_braces": r"\boxed{" + "{" * TEXT_CHARACTERS,
    "nested_braces": r"\boxed" + _nested("{", "}"),
    "nested_boxes": _nested(r"\boxed{", "}"),
    "many_boxes": _repeated(r"\boxed{4}"),
    "open_boxes": _repeated(r"\boxed{"),
    "nested_text": _nested(r"\text{", "}"),
    "nested_fractions": r"\boxed{" + _nested(r"\frac{1}{", "}") + "}",
    "nested_roots": r"\boxed{" + _nested(r"\sqrt{", "}") + "}",
    "parentheses": r"\boxed{" + _nested("(", ")") + "}",
    "many_cues": _repeated("The answer is "),
    "many_hashes": _repeated("#### "),
    "many_verdicts": "The answer is " + _repeated("correct ") + "correct1",
    "noun_and_blanks": "option which" + " " * TEXT_CHARACTERS,
    "many_thinks": _repeated("<think>"),
    "unclosed_think": "<think>" + _repeated("so "),
    "long_integer": rf"\boxed{{{'9' * TEXT_CHARACTERS}}}",
    "long_decimal": rf"\boxed{{0.{'3' * TEXT_CHARACTERS}}}",
    "long_fraction": rf"\boxed{{{'9' * 5_000}/{'7' * 4_000}}}",
    "power_tower": r"\boxed{9^{9^{9^{9^{9^{9}}}}}}",
    "large_exponent": r"\boxed{1e999999999}",
    "factorial": r"\boxed{" + "9" * 9 + "!" * 50 + "}",
    "commas": r"\boxed{" + "1," * (TEXT_CHARACTERS // 2) + "}",
    "percents": r"\boxed{4" + "%" * TEXT_CHARACTERS + "}",
    "backslashes": "\\" * TEXT_CHARACTERS,
    "circles": r"\boxed{" + _repeated(r"^\circ ") + "}",
    "letters": _repeated("A B C D "),
    "stars": "*" * TEXT_CHARACTERS + "A" + "*" * TEXT_CHARACTERS,
    "zero_width": "\u200b" * TEXT_CHARACTERS,
    "bidi": "\u202e" * 1_000 + r"\boxed{4}",
    "digits_of_the_world": "\\boxed{٤२४四}",
    "emoji": "😀" * TEXT_CHARACTERS,
    "html_text": "<script>alert(1)</script>" * 100,
    "escape_sequences": "\x1b[2J\x1b]0;owned\x07\x9b31m" * 100 + r"\boxed{4}",
    "event_in_text": "\n\ndata: [DONE]\n\n",
}

RETRY_AFTERS: Mapping[str, bytes] = {
    "overflow_date": b"Mon, 01 Jan 2024 00:00:00 +9999999999999999",
    "last_date": b"Fri, 31 Dec 9999 23:59:59 GMT",
    "past_date": b"Thu, 01 Jan 1970 00:00:00 GMT",
    "no_date": b"Mon, 99 Foo 99999 99:99:99 GMT",
    "negative": b"-1",
    "nan": b"nan",
    "infinite": b"inf",
    "huge": b"1e99",
    "long": b"9" * 4_000,
    "blank": b"",
    "words": b"later, perhaps",
    "minute": b"60",
}

MISBEHAVIOURS: Mapping[str, Misbehaviour] = {
    **{name: _always(body) for name, body in WRONG_BODIES.items()},
    **{name: _choices_with(changes) for name, changes in CHANGED_CHOICES.items()},
    **{f"text_{name}": _text(text) for name, text in HARD_TEXTS.items()},
    **{f"retry_after_{name}": _retry_after(value) for name, value in RETRY_AFTERS.items()},
    **{f"echo_{status}": _echo(status) for status in ECHOED_STATUSES},
    **{f"redirect_{status}": _with_headers((b"location", b"/v1/models"), status=status) for status in (301, 307)},
    "text_hard_formulas": _hard_formulas,
    "echo_200": _echo_everywhere,
    "echo_escaped": _echo_escaped,
    "echo_stream": _echo_in_stream,
    "echo_text": _whole(lambda request: request.echo.encode()),
    "status_201": _with_headers(status=201),
    "status_204": lambda request: HostileReply(status=204),
    "status_206": _with_headers(status=206),
    "status_299": _with_headers(status=299),
    "unsupported_field": lambda request: HostileReply(b"Unsupported parameter: '%s!'" % (b"a" * 1_000), 400),
    "html_500": lambda request: HostileReply(WRONG_BODIES["html"], 500, ((b"content-type", b"text/html"),)),
    "empty_500": lambda request: HostileReply(status=500),
    "half": lambda request: HostileReply(
        request.body()[:-40], headers=(JSON, (b"content-length", b"%d" % len(request.body()))), then="drop"
    ),
    "half_whole": _whole(lambda request: request.body()[:-40]),
    "garbage_after": _whole(lambda request: request.body() + b"}]"),
    "byte_order_mark": _whole(lambda request: b"\xef\xbb\xbf" + request.body()),
    "duplicate_keys": _whole(lambda request: request.body()[:-1] + b', "choices": null}'),
    "fewer_choices": _whole(lambda request: request.body(choices=request.choices()[:1])),
    "more_choices": _whole(lambda request: request.body(choices=request.choices() * 200)),
    "usage_missing": _whole(lambda request: request.body(usage=None)),
    "usage_string": _whole(lambda request: request.body(usage="many")),
    "usage_list": _whole(lambda request: request.body(usage=[9])),
    "usage_empty": _whole(lambda request: request.body(usage={})),
    "usage_nested": _usage(completion_tokens={"n": 9}),
    "usage_zero": _usage(completion_tokens=0, prompt_tokens=0),
    "usage_negative": _usage(completion_tokens=-1),
    "usage_float": _usage(completion_tokens=9.5),
    "usage_nan": _usage(completion_tokens=float("nan")),
    "usage_infinite": _usage(completion_tokens=float("inf")),
    "usage_bool": _usage(completion_tokens=True),
    "usage_digits": _usage(completion_tokens="9"),
    "usage_largest": _usage(completion_tokens=2**53),
    "usage_larger": _usage(completion_tokens=2**53 + 1),
    "usage_largest_prompt": _usage(prompt_tokens=2**53),
    "usage_500_digits": _usage(completion_tokens=10**500),
    "logprobs_string": _logprobs("high"),
    "logprobs_list": _logprobs([1]),
    "logprobs_content_string": _logprobs({"content": "none"}),
    "logprobs_nan": _logprobs({"content": [{"top_logprobs": [{"logprob": float("nan")}]}]}),
    "logprobs_string_value": _logprobs({"content": [{"top_logprobs": [{"logprob": "-1"}]}]}),
    "logprobs_positive": _logprobs({"content": [{"top_logprobs": [{"logprob": 1e300}]}]}),
    "logprobs_summary": _logprobs({"confidence_summary": {"mean": -1, "tail": float("inf"), "bottom": "low"}}),
    "ratelimit_garbage": _with_headers(
        (b"x-ratelimit-limit-requests", b"-1"),
        (b"x-ratelimit-remaining-requests", b"9" * 400),
        (b"x-ratelimit-reset-requests", b"99999999999d"),
        (b"x-ratelimit-reset-tokens", b"1" * 4_000 + b"ms"),
    ),
    "content_type_wrong": lambda request: HostileReply(request.body(), headers=((b"content-type", b"image/png"),)),
    "charset_wrong": lambda request: HostileReply(
        request.body(), headers=((b"content-type", b"application/json; charset=no-such-thing"),)
    ),
    "cookie": _with_headers((b"set-cookie", b"session=1; Domain=localhost")),
    "long_header": _with_headers((b"x-long", b"a" * 60_000)),
    "many_headers": _with_headers(*((b"x-%d" % at, b"a") for at in range(1_000))),
    "long_headers": _with_headers(*((b"x-%d" % at, b"a" * 5_000) for at in range(200))),
    "gzip_lie": _packed(b"gzip", lambda request: request.body()),
    "gzip_cut": _packed(b"gzip", lambda request: gzip.compress(request.body())[:-20]),
    "gzip_twice": _packed(b"gzip, gzip", lambda request: gzip.compress(gzip.compress(request.body()))),
    "gzip_good": _packed(b"gzip", lambda request: gzip.compress(request.body())),
    "encoding_unknown": _packed(b"rot13", lambda request: request.body()),
    "hang": lambda request: HostileReply(),
    "hang_after_headers": lambda request: HostileReply(then="hang"),
    "hang_in_body": lambda request: HostileReply(request.body()[:30], then="hang"),
    "disconnect": lambda request: HostileReply(),
    "disconnect_after_headers": lambda request: HostileReply(then="drop"),
    "drip": _drip,
    "bomb": _packed(b"gzip", lambda request: _bomb()),
    "huge_body": lambda request: HostileReply(_endless(b'{"choices": "', b"a" * BLOCK_BYTES, HUGE_BYTES)),
    "huge_text": _whole(lambda request: request.body_with_text("so we look again " * (HUGE_BYTES // 200))),
    "huge_error": lambda request: HostileReply(_endless(b'{"error": "', b"a" * BLOCK_BYTES, HUGE_BYTES), 400),
    "endless_line": lambda request: HostileReply(_endless(b"data: ", b"a" * BLOCK_BYTES)),
    "endless_events": lambda request: HostileReply(_endless(b"", b": still here\n\n" * 1_000)),
    "endless_blanks": lambda request: HostileReply(_endless(b"", b" " * BLOCK_BYTES)),
}
"""What each name does, given the request."""

BIG = frozenset(name for name in MISBEHAVIOURS if name.startswith(("bomb", "huge", "endless")))
"""Those that send more than 50 MB where the client lets them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, help="A JSON file of known answers, as `pets mock` takes it.")
    parser.add_argument("--tokens-per-second", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    answers = json.loads(args.answers.read_bytes()) if args.answers else {"q": {"4": 1.0}}
    mock = MockModel(DistributionAnswers(answers), tokens_per_second=args.tokens_per_second)
    serve(HostileServer(mock), port=args.port, ready=lambda url: sys.stderr.write(f"{url}\n"))


if __name__ == "__main__":
    main()
