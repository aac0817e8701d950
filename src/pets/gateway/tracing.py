"""Spans for OpenTelemetry, where it is installed; where they go is its own configuration's business.

pip install "pets[otel]", then: opentelemetry-instrument pets serve ...
"""

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["span"]

HERE = importlib.util.find_spec("opentelemetry") is not None


@contextmanager
def span(name: str, headers: Mapping[str, str], said: Mapping[str, Any]) -> Iterator[None]:
    """One request as a span, child of the client's own; ``said`` is what is known of it at its end."""
    if not HERE:
        yield
        return
    propagate, trace = _part("propagate"), _part("trace")
    tracer = trace.get_tracer("pets.gateway")
    parent = propagate.extract(dict(headers))
    with tracer.start_as_current_span(name, context=parent, kind=trace.SpanKind.SERVER) as current:
        try:
            yield
        finally:
            for key, value in said.items():
                if value is not None:
                    current.set_attribute(f"pets.{key}", value)


def _part(name: str) -> Any:
    """A part of OpenTelemetry, imported when it is used: it is an extra."""
    return importlib.import_module(f"opentelemetry.{name}")
