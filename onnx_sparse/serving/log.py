"""The server's log on stderr: a line for each event, as text or as JSON."""

from __future__ import annotations

import json
import logging

#: The attribute of an event with its values by name, for programs that read the log.
VALUES = "values"


class _JsonLines(logging.Formatter):
    """An object for each event: time, level, process, message, and the event's own values."""

    def format(self, record: logging.LogRecord) -> str:
        """The event as a line."""
        document = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03}",
            "level": record.levelname.lower(),
            "process": record.process,
            "message": record.getMessage(),
            **getattr(record, VALUES, {}),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document)


def log_to_stderr(style: str, level: str) -> None:
    """Write what the server reports to stderr.

    Args:
        style: `text` or `json`.
        level: The least level that is written, `info`.
    """
    log = logging.getLogger("onnx_sparse.serving")
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s [%(process)d] %(levelname)s %(message)s")
    handler.setFormatter(_JsonLines() if style == "json" else text)
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
