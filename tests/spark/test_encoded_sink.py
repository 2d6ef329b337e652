"""Rows of any columns into encoded topics by Spark's own writers: registered ones, and those that options describe."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.client.log import Log
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST
from mainstem.schema.infer import schema_of
from mainstem.schema.types import ENCODINGS
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.test_sink import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = "SELECT id, concat('n', id) AS name FROM range(3)"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_registered_topic_gets_its_encodings(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, encoding: str
) -> None:
    columns = schema_of("name STRING, id BIGINT, note STRING")
    register_topic(mainstem_log, mainstem_topic, columns, ("id",), encoding, encoding)
    write(spark.sql(ROWS), mainstem_broker, topic=mainstem_topic, keyColumn="id")
    codec, records = (
        Codec(mainstem_log),
        sorted(mainstem_log.read(mainstem_topic), key=lambda record: record.key or b""),
    )
    assert [codec.decode(record) for record in records] == [{"name": f"n{n}", "id": n, "note": None} for n in range(3)]
    assert [record.key for record in records] == sorted(codec.encode_keys(mainstem_topic, [b"0", b"1", b"2"]))
    with pytest.raises(Exception, match=r"there is no column more; its columns are name, id, note"):
        write(spark.sql("SELECT 1L AS id, 2 AS more"), mainstem_broker, topic=mainstem_topic, keyColumn="id")
    plain = {"valueFormat": "json", "keyFormat": "text"}
    write(spark.sql("SELECT 9L AS id"), mainstem_broker, topic=mainstem_topic, keyColumn="id", **plain)
    assert [(each.key, each.value) for each in mainstem_log.read(mainstem_topic)][-1] == (b"9", b'{"id":9}')


@pytest.mark.parametrize("framing", ["guid", "header"])
def test_options_describe_what_is_written(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, framing: str
) -> None:
    subject = f"shop.Order-{uuid.uuid4()}"
    options = {"topic": mainstem_topic, "keyColumn": "id", "valueSubject": subject, "framing": framing}
    rows = spark.sql("SELECT 7 AS id, array('a', 'b') AS tags, named_struct('city', 'Bern') AS home")
    write(rows, mainstem_broker, valueFormat="avro", keyFormat="json-schema", **options)
    [record] = mainstem_log.read(mainstem_topic)
    stored = Registry(mainstem_log).version(subject, LATEST)
    frame = record.value if framing == "guid" else dict(record.headers)["__value_schema_id"]
    assert schema_id_of(frame or b"")[0] == uuid.UUID(stored.content.guid)
    assert (record.key or b"")[5:] == b'{"id":7}'
    ddl = "id INT, tags ARRAY<STRING>, home STRUCT<city: STRING>"
    read = {"subscribe": mainstem_topic, "valueSchema": ddl, "valueFormat": "avro"}
    read["kafka.bootstrap.servers"] = mainstem_broker.bootstrap
    [row] = spark.read.format("mainstem").options(**read).load().select("id", "tags", "home").collect()
    assert row.asDict(recursive=True) == {"id": 7, "tags": ["a", "b"], "home": {"city": "Bern"}}


def test_a_stream_is_encoded(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, tmp_path: Any
) -> None:
    source = f"{mainstem_topic}-in"
    mainstem_log.create_topic(source)
    mainstem_log.append_many(source, [(str(n), {"id": n, "name": "x"}) for n in range(5)])
    where = {"kafka.bootstrap.servers": mainstem_broker.bootstrap}
    rows = spark.readStream.format("mainstem").options(**where, subscribe=source, valueSchema="id BIGINT, name STRING")
    rows = rows.option("startingOffsets", "earliest")
    writer = rows.load().select("id", "name").writeStream.format("mainstem").options(**where, topic=mainstem_topic)
    writer = writer.options(keyColumn="id", valueFormat="protobuf", checkpointLocation=str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination(120)
    register_topic(mainstem_log, mainstem_topic, schema_of("id BIGINT, name STRING"), ("id",), "protobuf")
    found = [Codec(mainstem_log).decode(record) for record in mainstem_log.read(mainstem_topic)]
    assert sorted(found, key=lambda row: row["id"]) == [{"id": n, "name": "x"} for n in range(5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "xml", "keyColumn": "id"}, "option valueFormat: unknown format 'xml': use one of json, avro"),
        ({"keyFormat": "json", "keyColumn": "id"}, "option keyFormat: unknown format 'json': use one of text, avro"),
        ({"framing": "long", "keyColumn": "id"}, "option framing: invalid value 'LONG'"),
        ({"valueFormat": "avro"}, "option valueFormat needs the option keyColumn"),
    ],
)
def test_what_cannot_be_is_one_clear_error(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        write(spark.sql("SELECT 1 AS id, 'v' AS value"), mainstem_broker, topic="t", **options)
