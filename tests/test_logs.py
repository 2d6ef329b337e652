"""A process's events: one line each, with fields, and nothing secret."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from mainstem.errors import StorageError
from mainstem.logs import FORMATS, JsonFormatter, TextFormatter, configure, fields
from mainstem.model import TopicPartition


def event(text: str, *arguments: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("mainstem.broker", logging.WARNING, "x.py", 1, text, arguments, None)
    record.created, record.msecs = 1_767_323_045.678, 678.0
    record.__dict__.update(fields(**extra) if extra else {})
    return record


def test_a_line_of_text_says_when_who_what_and_the_fields() -> None:
    record = event("connection closed: %s", "too slow", connection="127.0.0.1:5", client_id="my client")
    assert TextFormatter().format(record) == (
        "2026-01-02T03:04:05.678Z WARNING mainstem.broker: connection closed: too slow "
        'connection=127.0.0.1:5 client_id="my client"'
    )


def test_a_line_of_json_holds_the_same() -> None:
    record = event("connection closed: %s", "too slow", connection="127.0.0.1:5", ms=1.5)
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "2026-01-02T03:04:05.678Z",
        "level": "WARNING",
        "logger": "mainstem.broker",
        "event": "connection closed: too slow",
        "connection": "127.0.0.1:5",
        "ms": 1.5,
    }


def test_topic_partition_and_error_are_fields_without_being_told_to() -> None:
    record = event("%s takes no writes: %s", TopicPartition("t", 3), StorageError("the disk is full"))
    told = json.loads(JsonFormatter().format(record))
    assert (told["topic"], told["partition"], told["error"]) == ("t", 3, "StorageError")
    assert "the disk is full" in told["event"]


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=FORMATS)
def test_an_event_is_one_line_whatever_a_client_put_into_it(formatter: logging.Formatter) -> None:
    line = formatter.format(event("unknown topic %r %s", "a\nb", "c\nd\r\x1b[2J", client_id="e\nf"))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


def test_a_traceback_is_told_too() -> None:
    try:
        raise ValueError("oops")
    except ValueError:
        record = event("a request failed", api="FETCH")
        record.exc_info = sys.exc_info()
    assert "ValueError: oops" in json.loads(JsonFormatter().format(record))["traceback"]
    first, *others = TextFormatter().format(record).splitlines()
    assert first.endswith("a request failed api=FETCH")
    assert all(line.startswith("  ") for line in others)


def test_events_go_to_standard_error_from_a_level_on(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure("json", "WARNING")
        logging.getLogger("mainstem.test").info("quiet")
        logging.getLogger("mainstem.test").warning("loud")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [json.loads(line)["event"] for line in captured.err.splitlines()] == ["loud"]
