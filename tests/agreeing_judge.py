"""A mock that finds every new answer to mean the first one."""

from dataclasses import replace

from pets.mock import MockModel, synthetic
from pets.mock.traces import TraceSpec, TraceText


class AgreeingJudge(MockModel):
    """Says 1, whatever it is asked."""

    def __init__(self):
        super().__init__(synthetic(1, strength=0.5), model="judge")

    def respond(self, request, spoiled=False):
        response, late = super().respond(request, spoiled)
        choices = (TraceText(TraceSpec(None, 1), ("1",), "stop"),) * len(response.choices)
        return replace(response, choices=choices), late
