"""The published stopping rules, each over all that can be set of it; thresholds are swept by the lab."""

__all__ = ["RIVALS", "UNRANKED_RIVALS", "ZONE_RIVALS"]

UNRANKED_RIVALS = [
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
]
"""Those that ask for nothing but traces."""

RIVALS = [*UNRANKED_RIVALS, "dsc", "dsc:window=2", "dsc:window=8"]
"""With dsc, to which the lab gives a ranking of the questions by 32 further traces of each, free of charge."""

ZONE_RIVALS = ["asc:zone=0.1", "asc:form=dirichlet,zone=0.1", "boinf:zone=0.1"]
"""Those that can be made aware of an indifference zone of 0.1, made aware of it."""
