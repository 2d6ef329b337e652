"""Captured topics in Avro, JSON Schema and Protobuf: the same rows as in JSON, for all readers."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

import mainstem as ms
from mainstem.errors import DefinitionError, SchemaError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_registry_app
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.pipelines.deploy import deploy
from mainstem.schema.types import ENCODINGS
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import SqlQuery
from tests.gateway.served import served
from tests.postgres.conftest import Shop

DDL = """
CREATE TABLE orders (
  id bigint PRIMARY KEY, name text, price numeric(12,2), day date, at timestamptz, local timestamp, data bytea,
  flag boolean, small smallint, ratio double precision, single real, tags jsonb, numbers int[], free numeric
);
ALTER TABLE orders ALTER name SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL;
"""
ROWS = """
INSERT INTO orders VALUES
  (1, 'Zoë "x"', 1.50, '2024-02-29', '2024-01-02 03:04:05.000001+02', '2024-01-02 03:04:05', '\\x00ff', true, -3, 0.1,
   0.5, '{"a": [1, null]}', '{1,2}', 123456789012345678901234567890.5),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', NULL),
  (3, repeat('n', 9000), 'NaN', 'infinity', '-infinity', '0044-03-15 BC', '', false, 0, 'NaN', 'Infinity', '3', '{}',
   'NaN')
"""
"""Row 3 has values without a form in their columns' types."""


def codec_rows(shop: Shop) -> list[tuple[str, Any]]:
    """Keys and rows of the topic, as our own codec decodes them."""
    codec = ms.Codec(shop.log)
    return [
        ((each.key or b"").decode(), None if each.value is None else codec.decode(each))
        for each in shop.log.read(f"{shop.name}.orders")
    ]


def folded(rows: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: row for key, row in dict(rows).items() if row is not None}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoded_topic_has_the_rows_of_one_in_json(shop: Shop, encoding: str) -> None:
    plain = Shop(shop.log, shop.database, f"{shop.name}-json")
    shop.execute(DDL)
    shop.execute(ROWS)
    with shop.capture(encoding=encoding) as capture, plain.capture() as other:
        for each in (capture, other):
            each.caught_up(shop.database)
        shop.execute("INSERT INTO orders SELECT n, 'n' || n, n FROM generate_series(100, 400) n")
        shop.execute("UPDATE orders SET price = price + 1 WHERE id < 200")  # leaves large values out
        shop.execute("UPDATE orders SET id = 99 WHERE id = 2")
        shop.execute("DELETE FROM orders WHERE id = 150")
        shop.execute("ALTER TABLE orders ADD COLUMN added int")
        shop.execute("UPDATE orders SET added = 7 WHERE id IN (1, 3)")
        for each in (capture, other):
            each.caught_up(shop.database)
    with shop.capture(encoding=encoding) as capture, plain.capture() as other:  # which remember nothing
        shop.execute("UPDATE orders SET flag = NOT flag WHERE id IN (1, 3)")
        for each in (capture, other):
            each.caught_up(shop.database)
    rows, wanted = folded(codec_rows(shop)), plain.fold()
    assert rows.keys() == wanted.keys()
    for key, row in wanted.items():
        beside = row.pop("_postgres", None)
        found = rows[key]
        assert (found.pop("_postgres") is None) == (beside is None)
        json_text = row["tags"]
        assert (found.pop("tags") is None) == (json_text is None)
        row.pop("tags")
        if encoding == "protobuf" and row["numbers"] is None:
            row["numbers"] = []  # it has no null array
        if found["local"] is not None:  # a time without a zone, as UTC
            found["local"] = found["local"].removesuffix("Z")
        assert {name: value for name, value in found.items() if value is not None} == {
            name: value for name, value in row.items() if value is not None
        }
    assert len(rows["3"]["name"]) == 9_000
    assert [key for key, _ in codec_rows(shop)] == [key for key, _ in plain.records()]


def test_confluents_client_reads_a_captured_topic(shop: Shop) -> None:
    shop.execute(DDL)
    shop.execute(ROWS)
    with shop.capture(encoding="avro") as capture:
        capture.caught_up(shop.database)
    topic = f"{shop.name}.orders"
    records = {record.key: record.value for record in shop.log.read(topic)}
    with (
        served(create_registry_app(shop.log, GatewayLimits())) as http,
        SchemaRegistryClient({"url": str(http.base_url)}) as client,
    ):
        deserializer = AvroDeserializer(client)
        rows = {
            key: deserializer(value, SerializationContext(topic, MessageField.VALUE)) for key, value in records.items()
        }
    first = rows[b"1"]
    assert first["price"] == decimal.Decimal("1.50")
    assert first["day"] == datetime.date(2024, 2, 29)
    assert first["at"] == datetime.datetime(2024, 1, 2, 1, 4, 5, 1, datetime.UTC)
    assert first["data"] == b"\x00\xff"
    assert (first["name"], first["flag"], first["numbers"]) == ('Zoë "x"', True, [1, 2])
    assert first["_postgres"] is None
    assert rows[b"3"]["at"] is None
    assert '"-infinity"' in rows[b"3"]["_postgres"]


def test_a_view_of_an_encoded_topic(shop: Shop, tmp_path: Path) -> None:
    shop.execute(DDL)
    shop.execute(ROWS)
    app = ms.App("encoded")
    captured = app.postgres(shop.name, dsn=shop.database.dsn, tables=["public.orders"], encoding="avro")
    app.view("orders", captured["orders"], ms.SQL())
    deploy(app, shop.log)
    with shop.capture(encoding="avro") as capture:
        capture.caught_up(shop.database)
        views, captures = tuple(app.views.values()), tuple(app.captures.values())
        with ViewHost(views, shop.log.bootstrap, tmp_path, captures=captures) as host:
            end = shop.log.end(f"{shop.name}.orders")
            select = 'SELECT sum(price) AS total, count("at") AS n FROM orders'
            answer = host.query("orders", SqlQuery(select), ReadOptions(at_least=end))
            assert answer.rows == [{"total": "1.50", "n": 1}]


def test_a_schema_that_the_registry_refuses_ends_the_capture(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    shop.execute("INSERT INTO orders VALUES (1, '5')")
    with shop.capture(encoding="avro") as capture:
        capture.caught_up(shop.database)
        shop.execute("ALTER TABLE orders ALTER item TYPE int USING item::int")
        shop.execute("UPDATE orders SET item = 6")
        error = capture.failed()
    assert isinstance(error, SchemaError)
    assert "compatibility level" in str(error)
    assert [key for key, _ in codec_rows(shop)] == ["1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encoding": "xml"}, "encoding is one of avro, "),
        ({"encoding": "avro", "envelope": "debezium"}, "envelope row"),
    ],
)
def test_an_encoding_that_cannot_be_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        CaptureSettings.of("shop", "dbname=d", ("orders",), **options)  # type: ignore[arg-type]
