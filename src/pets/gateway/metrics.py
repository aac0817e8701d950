"""What Prometheus reads at ``/metrics``."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
OVERHEAD = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
SURENESS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class Metrics:
    """One registry a gateway: two in one process do not share their counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        to = self.registry
        self.requests = Counter("pets_requests", "Requests, by kind and status.", ["kind", "status"], registry=to)
        self.traces = Counter("pets_traces", "Upstream traces: delivered or lost.", ["came"], registry=to)
        self.tokens = Counter("pets_tokens", "Tokens of voted requests.", ["kind"], registry=to)
        self.seconds = Histogram("pets_request_seconds", "Time of a request.", ["kind"], buckets=SECONDS, registry=to)
        self.overhead = Histogram(
            "pets_overhead_seconds", "Time of a vote in which nothing was upstream.", buckets=OVERHEAD, registry=to
        )
        self.certificates = Histogram("pets_certificate", "Certificates of answers.", buckets=SURENESS, registry=to)
        self.stops = Counter("pets_stops", "Why votes ended.", ["reason"], registry=to)

    def gauge(self, name: str, says: str, value: Callable[[], float]) -> None:
        """A value that is looked up when it is read."""
        Gauge(name, says, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry)
