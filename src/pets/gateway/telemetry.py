"""The gateway's log as JSON lines, and its requests as OpenTelemetry spans.

Spans need OpenTelemetry, whose own configuration says where they go:
pip install "pets-llm[otel]", then: opentelemetry-instrument pets serve ...
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import IO, Any

LOGGER = logging.getLogger("pets.gateway")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, message, and its ``fields``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        row = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row | getattr(record, "fields", {}), default=str)


def log_to(stream: IO[str]) -> None:
    """Write the gateway's log, and warnings of the HTTP server, to a stream; to /dev/null nothing is written, unless a
    log file takes it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    unread = getattr(stream, "name", "") == os.devnull and not logging.getLogger("pets").handlers
    for name, lowest in (("pets.gateway", "CRITICAL" if unread else "INFO"), ("uvicorn.error", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(lowest)


@contextmanager
def span(name: str, headers: Mapping[str, str], attributes: Mapping[str, Any]) -> Iterator[None]:
    """Trace one request as a child of the client's span; ``attributes`` are read when it ends."""
    propagate, trace = _opentelemetry()
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # nobody collects spans
        yield
        return
    tracer = trace.get_tracer("pets.gateway")
    parent = propagate.extract(dict(headers))
    with tracer.start_as_current_span(name, context=parent, kind=trace.SpanKind.SERVER) as current:
        try:
            yield
        finally:
            for key, value in attributes.items():
                if value is not None:
                    current.set_attribute(f"pets.{key}", value)


@cache
def _opentelemetry() -> tuple[Any, Any]:
    """OpenTelemetry's modules ``propagate`` and ``trace``, an extra; None where it is not installed."""
    with suppress(ImportError):
        return import_module("opentelemetry.propagate"), import_module("opentelemetry.trace")
    return None, None
