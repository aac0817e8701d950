"""Spans, where OpenTelemetry is installed."""

import pytest

from .conftest import run_gateway

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_vote_is_a_span_of_its_clients_trace():
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    with run_gateway() as gateway:
        about = gateway.ask("torn", headers={"traceparent": PARENT}).json()["pets"]
        assert gateway.ask("torn", n=2).status_code == 400
    voted, refused = kept.get_finished_spans()
    assert voted.attributes["pets.traces"] == about["traces"] and voted.attributes["pets.voted"]
    assert f"{voted.context.trace_id:032x}" == PARENT.split("-")[1]
    assert "pets.traces" not in refused.attributes
