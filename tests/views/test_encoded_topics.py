"""Views of encoded topics: every kind has what it has of the same records in JSON; poison is what cannot be read."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.encodings.topic_values import Codec
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.schema.types import ENCODINGS, Encoding
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.views.hosting import DDL, KINDS, REQUESTS

FLIGHTS = [
    {"origin": "A", "dest": "B", "miles": 100},
    {"origin": "A", "dest": "C", "miles": None},
    {"origin": "Zoë", "dest": "B", "miles": -5},
]


def deployed(log: Log, encoding: Encoding | None, key_encoding: Encoding | None, key: str | None) -> tuple[App, str]:
    """An App with a view of every kind of a topic, and the topic's name."""
    app = App(f"app-{uuid.uuid4().hex[:8]}")
    topic = app.topic(f"flights-{uuid.uuid4()}", DDL, key, encoding=encoding, key_encoding=key_encoding)
    for name, kind in KINDS.items():
        app.view(name, topic, kind)
    deploy(app, log)
    return app, topic.name


def verified(app: App, log: Log, directory: Path, end: Position) -> dict[str, object]:
    """What each view answers once it has all records; each is verified."""
    with hosted(app, log, directory) as host:
        for name in KINDS:
            host.wait(name, lambda status: status.position.covers(end), 60)
            assert host.verify(name).equal, name
        return {name: host.query(name, REQUESTS[name]).rows for name in KINDS}


@pytest.fixture(scope="module")
def of_json(mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What views of the flights in JSON answer."""
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        app, topic = deployed(log, None, None, None)
        end = log.append_many(topic, [*enumerate(FLIGHTS), (9, None)])
        return verified(app, log, tmp_path_factory.mktemp("json"), end)


@pytest.fixture(scope="module")
def of_text_keys(mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What views of the flights in JSON answer where the origin is the key, as text."""
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        app, topic = deployed(log, None, None, "origin")
        end = append_by_origin(log, topic)
        return verified(app, log, tmp_path_factory.mktemp("text"), end)


def append_by_origin(log: Log, topic: str) -> Position:
    """Append the flights in the topic's encodings, the origin as the key, and delete the last."""
    codec = Codec(log)
    records = [(codec.encode_key(topic, row["origin"]), codec.encode(topic, row)) for row in FLIGHTS]
    return log.append_many(topic, [*records, (codec.encode_key(topic, "Zoë"), None)])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_kind_of_view_is_that_of_the_same_records_in_json(
    mainstem_log: Log, tmp_path: Path, encoding: Encoding, of_json: dict[str, object]
) -> None:
    app, topic = deployed(mainstem_log, encoding, None, None)
    codec = Codec(mainstem_log)
    guid = uuid.UUID(Registry(mainstem_log).version(f"{topic}-value", LATEST).content.guid)
    records = []
    for number, flight in enumerate(FLIGHTS):
        value = codec.encode(topic, flight)
        assert value is not None
        header = ("__value_schema_id", b"\x01" + guid.bytes)
        records.append(NewRecord(value, number) if number else NewRecord(value[5:], number, [header]))
    end = mainstem_log.append_many(topic, [*records, (9, None)])
    assert verified(app, mainstem_log, tmp_path, end) == of_json


def hosted(app: App, log: Log, directory: Path) -> ViewHost:
    """A host of the App's views."""
    return ViewHost(tuple(app.views.values()), log.bootstrap, directory)


def test_values_that_cannot_be_read_are_poison_with_the_reason(mainstem_log: Log, tmp_path: Path) -> None:
    app = App(f"app-{uuid.uuid4().hex[:8]}")
    topic = app.topic(f"flights-{uuid.uuid4()}", DDL, encoding="avro")
    view = app.view("sql", topic, KINDS["sql"])
    app.view("kv", topic, KINDS["kv"])
    deploy(app, mainstem_log)
    good = Codec(mainstem_log).encode(topic.name, FLIGHTS[0])
    assert good is not None
    bad = [good[:-1], b"\x00\x7f\x00\x00\x00", b"\x07", b"\x00"]
    end = mainstem_log.append_many(topic.name, [("good", good), *((f"bad-{n}", value) for n, value in enumerate(bad))])
    with hosted(app, mainstem_log, tmp_path) as host:
        for name in ("sql", "kv"):
            status = host.wait(name, lambda status: status.position.covers(end), 60)
            assert status.dead_letters == len(bad)
    letters = list(mainstem_log.read(view.dead_letter_topic))
    assert [letter.value for letter in letters] == bad
    said = [dict(letter.headers)["mainstem.error"] for letter in letters]
    assert [text.decode()[:35] for text in said if text] == [
        "the value is not an Avro record of ",
        "the schema registry has no schema 2",
        "the value begins with no schema id,",
        "the value begins with no schema id,",
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_views_of_encoded_keys_are_those_of_text_keys(
    mainstem_log: Log, tmp_path: Path, encoding: Encoding, of_text_keys: dict[str, object]
) -> None:
    app, topic = deployed(mainstem_log, encoding, encoding, "origin")
    assert verified(app, mainstem_log, tmp_path, append_by_origin(mainstem_log, topic)) == of_text_keys


def test_keys_of_other_schemas_are_one_key_and_one_that_cannot_be_read_is_a_dead_letter(
    mainstem_log: Log, tmp_path: Path
) -> None:
    app = App(f"app-{uuid.uuid4().hex[:8]}")
    topic = app.topic(f"flights-{uuid.uuid4()}", DDL, "miles", key_encoding="avro")
    view = app.view("kv", topic, KINDS["kv"])
    app.view("metrics", topic, KINDS["metrics"])
    deploy(app, mainstem_log)
    registry, keys = Registry(mainstem_log), []
    for name in ("Key", "Other"):  # two schemas of one content: the bytes of a key differ
        text = f'{{"type": "record", "name": "{name}", "fields": [{{"name": "miles", "type": "long"}}]}}'
        keys.append(
            b"\0" + registry.register(f"{name}-{topic.name}", SchemaRequest("AVRO", text)).id.to_bytes(4, "big")
        )
    bad = (keys[0], None)
    rows = [(keys[0] + b"\x02", FLIGHTS[0]), (keys[1] + b"\x02", FLIGHTS[1]), (keys[0] + b"\x04", FLIGHTS[2])]
    end = mainstem_log.append_many(topic.name, [*rows, (keys[1] + b"\x04", None), bad])
    with hosted(app, mainstem_log, tmp_path) as host:
        status = host.wait("kv", lambda status: status.position.covers(end), 60)
        assert status.dead_letters == 1
        found = host.query("kv", REQUESTS["kv"]).rows
        assert found == [{"_key": "1", **FLIGHTS[1]}]
        # Where keys do not matter, a record is read whatever its key is.
        assert host.wait("metrics", lambda status: status.position.covers(end), 60).dead_letters == 0
    [letter] = mainstem_log.read(view.dead_letter_topic)
    assert letter.key == keys[0]
    assert (dict(letter.headers)["mainstem.error"] or b"").startswith(b"the key cannot be read, or lacks a column")
