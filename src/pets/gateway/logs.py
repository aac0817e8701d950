"""Logs as one JSON object a line."""

import json
import logging
import time
from typing import IO

__all__ = ["LOGGER", "log_to"]

LOGGER = logging.getLogger("pets.gateway")


class JsonLines(logging.Formatter):
    """Time, level, message and whatever a record carries under ``said``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        row = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row | getattr(record, "said", {}), default=str)


def log_to(stream: IO[str], level: str = "INFO") -> None:
    """Write the gateway's log, and the server's own complaints, to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name, least in (("pets.gateway", level), ("uvicorn.error", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
