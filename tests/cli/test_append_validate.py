"""``mainstem append --validate``: what does not fit the topic's schema is refused, with the error of the gateway."""

from __future__ import annotations

import io
import sys

import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.errors import SchemaError
from mainstem.pipelines.deploy import deploy
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from tests.cli.commands import Commands
from tests.support.type_matrix import DDL, as_read, fitting, value_of, wrong_cells

TOPIC = "append-validated"


@pytest.fixture
def topic(mainstem_log: Log) -> str:
    app = ms.App("append-validate")
    app.topic(TOPIC, schema="id STRING NOT NULL, n INT", key="id")
    deploy(app, mainstem_log)
    return TOPIC


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('{"id": "a", "n": "many"}', "column 'n': \"many\" is not INT"),
        ('{"n": 1}', "column 'id' is null or missing"),
        ("not json", "JSON"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--idempotency-key", "once")])
def test_a_value_that_does_not_fit_is_refused_and_not_appended(
    command: Commands, topic: str, mainstem_log: Log, value: str, says: str, more: tuple[str, ...]
) -> None:
    before = mainstem_log.end(topic)
    done = command.run("append", topic, value, "--validate", *more)
    assert done.code == 1
    assert says in done.error
    with pytest.raises(SchemaError) as caught:
        ms.Validator(mainstem_log).require(topic, value)
    assert done.error == str(caught.value), "the same words as in Python and over HTTP"
    assert mainstem_log.end(topic) == before


def test_a_value_that_fits_is_appended(command: Commands, topic: str) -> None:
    assert command.run("append", topic, '{"id": "a", "n": 1}', "--key", "a", "--validate").code == 0
    assert command.run("append", topic, "--key", "a", "--tombstone", "--validate").code == 0


def test_what_the_table_of_types_takes_is_appended(
    command: Commands, mainstem_topic: str, mainstem_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(mainstem_log, mainstem_topic, schema_of(DDL))
    taken = fitting("Validator")
    lines = io.TextIOWrapper(io.BytesIO(b"".join(value_of(case) + b"\n" for case in taken)))
    monkeypatch.setattr(sys, "stdin", lines)
    assert command.run("append", mainstem_topic, "--validate").code == 0
    records = mainstem_log.read(mainstem_topic)
    found = [(case, as_read(case, record.value)) for case, record in zip(taken, records, strict=True)]
    assert wrong_cells("Validator", found) == []


def test_a_line_that_does_not_fit_is_named(command: Commands, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.TextIOWrapper(io.BytesIO(b'{"id": "a"}\n{"id": "b"}\n{"id": 3, "n": []}\n'))
    monkeypatch.setattr(sys, "stdin", lines)
    done = command.run("append", topic, "--validate")
    assert done.code == 1
    assert done.error.startswith(f"line 3: topic {topic}: column 'n'")
    assert done.error.endswith("; the lines before it may have been appended")


def test_a_topic_without_a_schema_says_what_to_do(command: Commands, mainstem_topic: str) -> None:
    assert "has no schema to validate by: declare one" in command.run("append", mainstem_topic, "1", "--validate").error
