"""Logs of a process: one line an event, as text or as JSON, with fields that can be searched.

An event's text says what happened; its fields have the same for programs. The arguments of
``extra=fields(connection=…, api=…)`` become fields; so do a topic partition and an error among the text's arguments::

    _LOG.warning("%s takes no writes: %s", topic_partition, error)

sets ``topic``, ``partition`` and ``error``. Quiet by default: a warning should be looked at, an error needs action;
INFO has the process's main steps, DEBUG every request. Secrets are never logged: no keys, values, passwords or tokens.
Line ends inside a message are escaped, because clients choose some of the text.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from mainstem.errors import MainstemError
from mainstem.model import TopicPartition

FORMATS: Final = ("text", "json")
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_FIELDS: Final = "mainstem_fields"
_ESCAPES: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\x1b": "\\x1b"})


def configure(log_format: str, level: str) -> None:
    """Send this process's events to standard error in one of ``FORMATS``, from ``level`` (of ``LEVELS``) on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def fields(**values: object) -> dict[str, Any]:
    """The ``extra`` argument of a logger call that gives the event these fields."""
    return {_FIELDS: values}


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """An event's fields: its own, and the arguments of its text."""
    found: dict[str, object] = {}
    arguments = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    for argument in arguments:
        if isinstance(argument, TopicPartition):
            found["topic"], found["partition"] = argument.topic, argument.partition
        elif isinstance(argument, MainstemError):
            found["error"] = type(argument).__name__
    return {**found, **getattr(record, _FIELDS, {})}


class TextFormatter(logging.Formatter):
    """``time LEVEL logger: text field=value …``; a traceback follows on lines of its own, each set in by two spaces."""

    def format(self, record: logging.LogRecord) -> str:
        """The event's line."""
        line = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}"
        for name, value in fields_of(record).items():
            text = str(value)
            line += f" {name}={json.dumps(text) if not text or ' ' in text or '=' in text else text}"
        line = line.translate(_ESCAPES)
        if record.exc_info and record.exc_info[0] is not None:
            line += "".join(f"\n  {each}" for each in self.formatException(record.exc_info).splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``event``, the fields, and a ``traceback`` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The event's line."""
        event: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    """UTC with milliseconds, e.g. ``2026-01-02T03:04:05.678Z``."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"
