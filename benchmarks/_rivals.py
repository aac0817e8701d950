"""The published stopping rules, each over all that can be set of it; thresholds are swept by the lab."""

__all__ = ["RIVALS", "ZONE_RIVALS"]

RIVALS = [
    "asc",
    "asc:form=dirichlet",
    "lead",
    "esc",
    "boinf",
    "boinf:unknown=0",
    "boinf:unknown=1",
    "its_adaptive",
    "its_adaptive:start=4",
    "its_adaptive:start=8",
    "dsc",
    "dsc:window=2",
    "dsc:window=8",
]

ZONE_RIVALS = ["asc:zone=0.1", "asc:form=dirichlet,zone=0.1", "boinf:zone=0.1"]
"""Those that can be made aware of an indifference zone of 0.1, made aware of it."""
