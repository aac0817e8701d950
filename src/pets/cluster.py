"""A Ray cluster: connect to it, count the room on its nodes, spread a function over them (extra ``pets-llm[ray]``).

Ray places, restarts and queues; nothing of that is done here.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from pets._extras import require
from pets.errors import InputError, PetsError

CONNECT_TIMEOUT_S = 5.0  # Ray itself tries for minutes
LOCAL = "local"  # Ray's own word for a cluster that lives as long as this process, on this machine

Task = TypeVar("Task")
Result = TypeVar("Result")


class RayCluster(AbstractContextManager["RayCluster"]):
    """A connection to a Ray cluster; ``with RayCluster("10.0.0.1:6379") as cluster:``

    Without an address Ray takes the cluster that runs on this machine, else it starts one here, which ends with the
    connection; ``local`` always starts one. A connection that the process has already is used and left as it is.
    """

    def __init__(self, address: str = "") -> None:
        self.ray: Any = require("ray", "ray")
        self._owned = not self.ray.is_initialized()
        if not self._owned:
            return
        _check_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here sends no reports
        options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
        try:
            self.ray.init(address=address or None, **options)
        except (OSError, RuntimeError, ValueError) as error:
            name = f"the Ray cluster at {address}" if address else "Ray"
            raise InputError(f"{name} cannot be used: {first_line(error)}") from None
        # It would print what it has to say of lost nodes to stdout, among the answers, whatever the settings above.
        self.ray._private.worker._worker_logs_enabled = False

    def __exit__(self, *exception: object) -> None:
        if self._owned:
            self.ray.shutdown()

    @property
    def nodes(self) -> list[dict[str, float]]:
        """The resources of each node that is alive, such as ``{"CPU": 16.0, "GPU": 2.0, ...}``."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    @property
    def cores(self) -> int:
        """The processor cores of all nodes, as Ray counts them; at least 1."""
        return max(1, int(sum(node.get("CPU", 0.0) for node in self.nodes)))

    def spread(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """``function`` of each task on a core of the cluster, as they end; what a lost node had is run again."""
        ray = self.ray
        remote = ray.remote(num_cpus=1, max_retries=-1)(function)
        pending = {remote.remote(task): task for task in tasks}
        try:
            while pending:
                for reference in ray.wait(list(pending))[0]:
                    yield pending.pop(reference), ray.get(reference)
        except ray.exceptions.RayError as error:
            raise InputError(f"the Ray cluster failed: {first_line(error)}") from None
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


def first_line(error: Exception) -> str:
    """What an error of Ray, or the one that it brings from a node, says: without the traces and hints under it."""
    if isinstance(cause := getattr(error, "cause", None), Exception):
        return first_line(cause) if isinstance(cause, PetsError) else f"{type(cause).__name__}: {first_line(cause)}"
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _check_address(address: str) -> None:
    """Refuse an address without a server; "auto" and "local" are Ray's own words."""
    if address in ("", "auto", LOCAL):
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not (colon and host and port.isdecimal()):
        raise InputError(
            f'"{address}" is no address of a Ray cluster. Give HOST:PORT of its head node, such as 10.0.0.1:6379; '
            "pets runs on one of its machines."
        )
    try:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"nobody answers at {address}, the Ray cluster's address: {why}.") from None
