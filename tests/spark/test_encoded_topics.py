"""Pipelines over encoded topics: they read one, derive another, and bury what cannot be read."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.client.records import NewRecord
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.topic_values import Codec
from mainstem.errors import DefinitionError
from mainstem.pipelines.deploy import deploy
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import ENCODINGS, Encoding
from mainstem.spark.source import MainstemDataSource
from tests.spark.flights_app import Flights
from tests.spark.test_verification import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DDL = (
    "id BIGINT, name STRING, price DECIMAL(20,2), paid BOOLEAN, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "data BINARY, small SMALLINT, ratio FLOAT"
)
NESTED = ", tags ARRAY<STRING>, home STRUCT<city: STRING, days: MAP<STRING, DATE>>"
ROW: dict[str, Any] = {
    "id": 2**60,
    "name": "Zoë",
    "price": "-1.50",
    "paid": False,
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00.000001Z",
    "local": "2024-02-29T12:00:00Z",
    "data": "AAE=",
    "small": -3,
    "ratio": 0.5,
}
HOME: dict[str, Any] = {"tags": ["a", None], "home": {"city": "Bern", "days": {"x": "2024-01-01"}}}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_pipeline_reads_and_writes_encoded_topics(world: Flights, encoding: Encoding, is_nested: bool) -> None:
    row = {**ROW, **HOME} if is_nested else ROW
    source = world.app.topic(f"{world.prefix}.in", DDL + NESTED * is_nested, "id", encoding=encoding)
    copies = world.app.topic(f"{world.prefix}.copies", None, "id", encoding=encoding)
    world.app.pipeline(source, into=copies, name=f"{world.prefix}.copy")(lambda orders: orders.drop("_key"))
    deploy(world.app, world.log)
    codec = Codec(world.log)
    rows: list[dict[str, Any]] = [row, {**dict.fromkeys(row), "id": 1}]
    if encoding == "protobuf" and is_nested:  # which has no null array, and no null in one
        rows = [{**row, "tags": ["a", "b"]}, {**rows[1], "tags": []}]
    world.log.append_many(source.name, [(each["id"], codec.encode(source.name, each)) for each in rows])
    world.run_once()
    records = list(world.log.read(copies.name))
    assert [codec.decode(record) for record in records] == rows
    stored = Registry(world.log).version(f"{copies.name}-value", LATEST)
    assert {schema_id_of(record.value or b"")[0] for record in records} == {stored.id}
    registered = lookup(world.log, copies.name)
    assert registered is not None
    assert registered.encoding == encoding


def test_a_pipeline_names_schemas_in_headers_where_its_topic_says_so(world: Flights) -> None:
    source = world.app.topic(f"{world.prefix}.in", DDL, "id", encoding="avro", framing="header")
    copies = world.app.topic(f"{world.prefix}.copies", None, "id", encoding="protobuf", framing="header")
    others = world.app.topic(f"{world.prefix}.others", None, "id", encoding="avro", framing="guid")
    copy = f"{world.prefix}.copy"
    world.app.pipeline(source, into=(copies, others), name=copy)(lambda orders: (orders.drop("_key"),) * 2)
    deploy(world.app, world.log)
    headers: list[tuple[str, bytes | None]] = []
    codec = Codec(world.log)
    value = codec.encode(source.name, ROW, headers)
    world.log.append_many(source.name, [NewRecord(value, key=ROW["id"], headers=headers)])
    world.run_once()
    for topic, has_header in ((copies, True), (others, False)):
        [record] = world.log.read(topic.name)
        guid = uuid.UUID(Registry(world.log).version(f"{topic.name}-value", LATEST).content.guid)
        frame = dict(record.headers)["__value_schema_id"] if has_header else record.value
        assert (frame or b"")[:17] == b"\x01" + guid.bytes
        assert codec.decode(record) == ROW
    assert verify(world, copy).is_equal


def test_values_that_cannot_be_read_are_dead_letters_with_the_reason(world: Flights) -> None:
    source = world.app.topic(f"{world.prefix}.in", DDL, encoding="avro")
    into = f"{world.prefix}.copies"
    world.app.pipeline(source, into=into, name=into)(lambda orders: orders)
    deploy(world.app, world.log)
    good = Codec(world.log).encode(source.name, ROW)
    assert good is not None
    guid = uuid.UUID(Registry(world.log).version(f"{source.name}-value", LATEST).content.guid)
    header = ("__value_schema_id", b"\x01" + guid.bytes)
    bad = [b"\x00\x7f\x00\x00\x00", good[:-1], b"\x05"]
    truncated = NewRecord(good[5:-1], headers=[header])
    world.log.append_many(source.name, [*bad, truncated, good, NewRecord(good[5:], headers=[header]), ROW])
    world.run_once()
    assert [row["id"] for row in world.rows(into)] == [ROW["id"]] * 3
    letters = list(world.log.read(f"__mainstem_dead_letters.{world.prefix}.{into}"))
    assert [letter.value for letter in letters] == [*bad, good[5:-1]]
    said = [(dict(letter.headers)["mainstem.error"] or b"").decode()[:37] for letter in letters]
    assert said == [
        "the schema registry has no schema 213",
        "the value is not an Avro record of it",
        "the value begins with no schema id, a",
        "the value is not an Avro record of it",
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoded_topic_is_a_table_and_a_batch(world: Flights, spark: SparkSession, encoding: Encoding) -> None:
    topic = world.app.topic(f"{world.prefix}.in", DDL, "id", encoding=encoding)
    deploy(world.app, world.log)
    codec = Codec(world.log)
    for name in ("first", "last"):
        world.log.append(topic.name, codec.encode(topic.name, {**ROW, "name": name}), key=ROW["id"])
    spark.dataSource.register(MainstemDataSource)
    options = {"kafka.bootstrap.servers": world.bootstrap, "subscribe": topic.name, "valueSchema": "registered"}
    read = spark.read.format("mainstem").options(**options)
    assert [row["name"] for row in read.load().sort("_offset").collect()] == ["first", "last"]
    assert [row["name"] for row in read.option("table", "true").load().collect()] == ["last"]


def test_a_changed_column_is_refused_before_the_pipeline_starts(world: Flights) -> None:
    world.app.topic(f"{world.prefix}.in", "a INT", encoding="avro")
    deploy(world.app, world.log)
    other = Flights(world.spark, world.broker, world.log, world.checkpoints)
    other.app.topic(f"{world.prefix}.in", "a STRING", encoding="avro")
    with pytest.raises(DefinitionError, match=r"test_encoded_topics.py:\d+: topic .* the schema registry refuses"):
        deploy(other.app, world.log)


@pytest.mark.parametrize(
    ("ddl", "encoding", "reason"),
    [
        ("`a b` INT", "avro", r"column 'a b' cannot be a field in Avro: use letters"),
        ("`a b` INT", "protobuf", r"column 'a b' cannot be a field in Protobuf: use letters"),
        ("a ARRAY<ARRAY<INT>>", "protobuf", r"column 'a': Protobuf has no arrays or maps directly inside of arrays"),
        ("a INT", "xml", "unknown encoding 'xml' of topic"),
    ],
)
def test_what_cannot_be_encoded_is_refused_by_its_line(world: Flights, ddl: str, encoding: Any, reason: str) -> None:
    def declare() -> None:
        world.app.topic(f"{world.prefix}.in", ddl, encoding=encoding)
        deploy(world.app, world.log)

    with pytest.raises(DefinitionError, match=rf"test_encoded_topics.py:\d+: .*{reason}"):
        declare()


@pytest.mark.parametrize(
    ("encoding", "framing", "reason"),
    [("avro", "long", "unknown framing 'long' of topic .*use one of id, guid, header"), (None, "guid", "no encoding")],
)
def test_a_framing_that_is_none_is_refused_by_its_line(
    world: Flights, encoding: Any, framing: Any, reason: str
) -> None:
    with pytest.raises(DefinitionError, match=rf"test_encoded_topics.py:\d+: .*{reason}"):
        world.app.topic(f"{world.prefix}.in", "a INT", encoding=encoding, framing=framing)


def test_a_row_that_protobuf_has_no_form_of_is_a_dead_letter_with_the_column(world: Flights) -> None:
    source = world.app.topic(f"{world.prefix}.in", DDL + NESTED, "id")
    copies = world.app.topic(f"{world.prefix}.copies", None, "id", encoding="protobuf")
    name = f"{world.prefix}.copy"
    world.app.pipeline(source, into=copies, name=name)(lambda orders: orders)
    deploy(world.app, world.log)
    home = {"city": "Bern", "days": {"x": None}}
    bad = [{**ROW, **HOME, "home": home}, {**ROW, "id": 2, "tags": [], "home": home}]
    good = {**ROW, "id": 3, "tags": ["a"], "home": {"city": None, "days": {}}}
    world.log.append_many(source.name, [(row["id"], row) for row in (*bad, good)])
    world.run_once()
    codec = Codec(world.log)
    assert [codec.decode(record) for record in world.log.read(copies.name)] == [good]
    letters = list(world.log.read(f"__mainstem_dead_letters.{world.prefix}.{name}"))
    assert [json.loads(letter.value or b"")["id"] for letter in letters] == [ROW["id"], 2]
    assert [dict(letter.headers)["mainstem.error"] for letter in letters] == [
        b"column 'tags' cannot be written as Protobuf: an array has a null in it, which Protobuf does not have",
        b"column 'home' cannot be written as Protobuf: a map has a null in it, which Protobuf does not have",
    ]
    assert verify(world, name).is_equal


@pytest.mark.parametrize("encoding", ["avro", "protobuf"])
def test_a_pipeline_into_an_encoded_topic_is_verified(world: Flights, encoding: Encoding) -> None:
    source = world.app.topic(f"{world.prefix}.in", DDL + NESTED, "id", encoding=encoding)
    copies = world.app.topic(f"{world.prefix}.copies", None, "id", encoding=encoding)
    name = f"{world.prefix}.copy"
    world.app.pipeline(source, into=copies, name=name)(lambda orders: orders)
    deploy(world.app, world.log)
    codec = Codec(world.log)
    row = {**ROW, **HOME, **({"tags": ["a"]} if encoding == "protobuf" else {})}
    world.log.append(source.name, codec.encode(source.name, row), key=ROW["id"])
    world.run_once()
    assert verify(world, name).is_equal
    world.log.append(copies.name, codec.encode(copies.name, {**ROW, "name": "other"}), key=ROW["id"])
    world.log.append(source.name, codec.encode(source.name, {**ROW, "id": 2}), key=2)
    world.run_once()
    (topic,) = verify(world, name).topics
    assert not topic.is_equal


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_keys_of_pipelines_and_tables_are_encoded(world: Flights, spark: SparkSession, encoding: Encoding) -> None:
    prices = world.app.topic(f"{world.prefix}.prices", "id BIGINT, price INT", "id", key_encoding=encoding)
    sales = world.app.topic(f"{world.prefix}.sales", "id BIGINT, day DATE", "id")
    sold = world.app.topic(f"{world.prefix}.sold", None, ("id", "day"), key_encoding=encoding, encoding=encoding)
    name = f"{world.prefix}.sell"
    world.app.pipeline(sales, prices.table(), into=sold, name=name)(lambda s, p: s.join(p, "id"))
    deploy(world.app, world.log)
    codec = Codec(world.log)
    key = codec.encode_key(prices.name, 1)
    world.log.append_many(prices.name, [(key, {"id": 1, "price": 5}), (b"1", {"id": 1, "price": 6})])
    world.log.append_many(prices.name, [(codec.encode_key(prices.name, 2), {"id": 2, "price": 7})])
    world.log.append_many(sales.name, [(str(n), {"id": n, "day": "2024-02-29"}) for n in (1, 2)])
    world.run_once()
    records = sorted(world.log.read(sold.name), key=lambda record: codec.decode(record)["id"])
    assert [codec.decode(record)["price"] for record in records] == [6, 7]
    texts = [b'[1,"2024-02-29"]', b'[2,"2024-02-29"]']
    assert [codec.decode_key(record) for record in records] == texts
    assert [record.key for record in records] == codec.encode_keys(sold.name, texts)
    assert verify(world, name).is_equal
    spark.dataSource.register(MainstemDataSource)
    options = {"kafka.bootstrap.servers": world.bootstrap, "subscribe": sold.name, "keyFormat": encoding}
    rows = spark.read.format("mainstem").options(**options).load().select("key").collect()
    assert sorted(bytes(row.key) for row in rows) == texts
