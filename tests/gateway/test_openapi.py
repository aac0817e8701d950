"""schemathesis over the gateway's own description: whatever is sent, no 5xx."""

import pytest
from hypothesis import HealthCheck, given, settings

from .conftest import run_gateway

EXAMPLES = 12


def test_no_request_breaks_it():
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    positive = schemathesis.GenerationMode.POSITIVE
    with run_gateway(total=400) as gateway:
        described = schemathesis.openapi.from_url(f"{gateway.url}/openapi.json")
        operations = [found.ok() for found in described.get_all_operations()]
        assert len(operations) == 9
        for operation in operations:
            for mode in schemathesis.GenerationMode if operation.method == "post" else (positive,):

                @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
                @given(case=operation.as_strategy(generation_mode=mode))
                def never_breaks(case):
                    response = case.call(timeout=20)
                    assert response.status_code < 500, response.text

                never_breaks()
        assert gateway.ledger.total.spent <= 400 and gateway.ledger.total.held == 0
        assert gateway.ask("easy", pets={"max_traces": 1}).status_code in (200, 429)  # it still lives
