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
from mainstem.views.host.host import ViewHost
from tests.views.hosting import DDL, KINDS, REQUESTS

FLIGHTS = [
    {"origin": "A", "dest": "B", "miles": 100},
    {"origin": "A", "dest": "C", "miles": None},
    {"origin": "Zoë", "dest": "B", "miles": -5},
]


def apps(log: Log, encoding: Encoding) -> tuple[App, App]:
    """Two Apps with a view of every kind: over an encoded topic, and over one of JSON."""
    made = []
    for form in (encoding, None):
        app = App(f"app-{uuid.uuid4().hex[:8]}")
        topic = app.topic(f"flights-{uuid.uuid4()}", DDL, encoding=form)
        for name, kind in KINDS.items():
            app.view(name, topic, kind)
        deploy(app, log)
        made.append(app)
    return made[0], made[1]


def topic_of(app: App) -> str:
    """The name of the App's topic."""
    return next(iter(app.topics))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_kind_of_view_is_that_of_the_same_records_in_json(
    mainstem_log: Log, tmp_path: Path, encoding: Encoding
) -> None:
    encoded, plain = apps(mainstem_log, encoding)
    codec, topic = Codec(mainstem_log), topic_of(encoded)
    guid = uuid.UUID(Registry(mainstem_log).version(f"{topic}-value", LATEST).content.guid)
    records = []
    for number, flight in enumerate(FLIGHTS):
        value = codec.encode(topic, flight)
        assert value is not None
        header = ("__value_schema_id", b"\x01" + guid.bytes)
        records.append(NewRecord(value, number) if number else NewRecord(value[5:], number, [header]))
    ends = [
        mainstem_log.append_many(topic, [*records, (9, None)]),
        mainstem_log.append_many(topic_of(plain), [*enumerate(FLIGHTS), (9, None)]),
    ]
    with hosted(encoded, mainstem_log, tmp_path / "a") as one, hosted(plain, mainstem_log, tmp_path / "b") as other:
        for name in KINDS:
            answers = []
            for host, end in zip((one, other), ends, strict=True):
                answers.append(answer(host, name, end))
                assert host.verify(name).equal, name
            assert answers[0] == answers[1], name


def answer(host: ViewHost, name: str, end: Position) -> object:
    """What a view answers once it has all records."""
    host.wait(name, lambda status: status.position.covers(end), 60)
    return host.query(name, REQUESTS[name]).rows


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
def test_views_of_encoded_keys_are_those_of_text_keys(mainstem_log: Log, tmp_path: Path, encoding: Encoding) -> None:
    made, ends = [], []
    for form in (encoding, None):
        app = App(f"app-{uuid.uuid4().hex[:8]}")
        topic = app.topic(f"flights-{uuid.uuid4()}", DDL, "origin", encoding=form, key_encoding=form)
        for name, kind in KINDS.items():
            app.view(name, topic, kind)
        deploy(app, mainstem_log)
        made.append(app)
        codec = Codec(mainstem_log)
        records = [(codec.encode_key(topic.name, row["origin"]), codec.encode(topic.name, row)) for row in FLIGHTS]
        gone = (codec.encode_key(topic.name, "Zoë"), None)
        ends.append(mainstem_log.append_many(topic.name, [*records, gone]))
    encoded, plain = made
    with hosted(encoded, mainstem_log, tmp_path / "a") as one, hosted(plain, mainstem_log, tmp_path / "b") as other:
        for name in KINDS:
            answers = [answer(host, name, end) for host, end in zip((one, other), ends, strict=True)]
            assert one.verify(name).equal, name
            assert answers[0] == answers[1], name


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
