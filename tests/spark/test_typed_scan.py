"""What a task reads of a topic: rows, tables, and what stands for neither. On a real log, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import OffsetOutOfRangeError, SchemaError
from mainstem.model import TopicPartition
from mainstem.spark.options.options import LogOptions
from mainstem.spark.tasks import typed_scan
from mainstem.spark.tasks.dead_letters import create
from mainstem.spark.tasks.ranges import OffsetRange
from mainstem.spark.tasks.scan import ScanOptions, read_range
from mainstem.spark.tasks.typed_scan import TypedOptions, read_rows, read_table
from mainstem.testing.embedded import EmbeddedBroker

SCHEMA = pa.schema([("carrier", pa.string()), ("name", pa.string())])


@pytest.fixture
def client(mainstem_broker: EmbeddedBroker) -> Iterator[WireClient]:
    with WireClient(mainstem_broker.bootstrap) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    typed_scan._KEPT.clear()
    typed_scan._MISFITS.clear()


def options(mode: str = "PERMISSIVE", schema: pa.Schema = SCHEMA) -> TypedOptions:
    return TypedOptions(schema, mode, ScanOptions(frozenset()))


def whole(log: Log, topic: str) -> OffsetRange:
    tp = TopicPartition(topic, 0)
    return OffsetRange(tp, 0, log.end(topic)[tp])


def rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for arrow_batch in batches for row in arrow_batch.to_pylist()]


def airline(log: Log, topic: str, carrier: str, name: str | None) -> None:
    log.append(topic, None if name is None else {"carrier": carrier, "name": name}, key=carrier)


def test_rows_know_where_they_came_from(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    airline(mainstem_log, mainstem_topic, "UA", "United")
    schema = pa.schema([("carrier", pa.string()), ("_offset", pa.int64()), ("_partition", pa.int32())])
    read = rows(read_rows(client, whole(mainstem_log, mainstem_topic), options(schema=schema)))
    assert read == [{"carrier": "UA", "_offset": 0, "_partition": 0}]


def test_a_tombstone_is_no_row(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    airline(mainstem_log, mainstem_topic, "UA", None)
    assert rows(read_rows(client, whole(mainstem_log, mainstem_topic), options())) == []


def test_what_is_no_object_is_a_row_of_nulls(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    mainstem_log.append(mainstem_topic, b"nope")
    assert rows(read_rows(client, whole(mainstem_log, mainstem_topic), options())) == [dict.fromkeys(SCHEMA.names)]


def test_what_is_no_object_is_left_out_aloud(
    client: WireClient, mainstem_log: Log, mainstem_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mainstem_log.append(mainstem_topic, b"nope")
    airline(mainstem_log, mainstem_topic, "UA", "United")
    read = rows(read_rows(client, whole(mainstem_log, mainstem_topic), options("DROPMALFORMED")))
    assert [row["carrier"] for row in read] == ["UA"]
    assert f"{mainstem_topic}/0: the value at offset 0 is not a JSON object" in capsys.readouterr().err


def test_what_is_no_object_stops_a_strict_reader(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    mainstem_log.append(mainstem_topic, b"nope")
    with pytest.raises(SchemaError, match="the value at offset 0 is not a JSON object"):
        rows(read_rows(client, whole(mainstem_log, mainstem_topic), options("FAILFAST")))


def test_values_that_became_null_are_reported_now_and_then(
    client: WireClient,
    mainstem_log: Log,
    mainstem_topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for value in (b'{"a": 1}', b'{"a": "x", "b": "late"}', b"nope", b'{"a": null}', b'{"a": 1.5}'):
        mainstem_log.append(mainstem_topic, value)
    schema = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.date32())])
    wanted, chosen = whole(mainstem_log, mainstem_topic), options("DROPMALFORMED", schema)
    assert [row["a"] for row in rows(read_rows(client, wanted, chosen))] == [1, None, None, None]
    said = f"mainstem: {mainstem_topic}/0: records with values that do not fit their columns (a) and are null: "
    assert f"{said}2; one is at offset 1\n" in capsys.readouterr().err

    rows(read_rows(client, wanted, chosen))
    assert said not in capsys.readouterr().err
    monkeypatch.setattr(typed_scan, "_SAID_EVERY_S", 0.0)
    rows(read_rows(client, wanted, chosen))
    assert f"{said}4; one is at offset 1" in capsys.readouterr().err


def test_a_reader_who_asks_for_the_corrupt_column_needs_no_report(
    client: WireClient, mainstem_log: Log, mainstem_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mainstem_log.append(mainstem_topic, b'{"a": "x"}')
    schema = pa.schema([("a", pa.int32()), ("bad", pa.string())])
    chosen = TypedOptions(schema, "PERMISSIVE", ScanOptions(frozenset()), corrupt="bad")
    assert rows(read_rows(client, whole(mainstem_log, mainstem_topic), chosen)) == [{"a": None, "bad": '{"a": "x"}'}]
    assert capsys.readouterr().err == ""


def test_a_table_reports_values_that_became_null(
    client: WireClient, mainstem_log: Log, mainstem_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mainstem_log.append(mainstem_topic, b'{"a": "x"}', key=b"k")
    chosen = options(schema=pa.schema([("a", pa.int32())]))
    assert rows(read_table(client, "id", whole(mainstem_log, mainstem_topic), chosen)) == [{"a": None}]
    assert "do not fit their columns (a) and are null: 1; one is at offset 0" in capsys.readouterr().err


def test_the_text_of_what_does_not_parse_or_fit_is_in_the_corrupt_column(
    client: WireClient, mainstem_log: Log, mainstem_topic: str
) -> None:
    for value in (b"nope\xff", b'{"carrier":"UA","seats":"x"}', b'{"carrier":"AA"}'):
        mainstem_log.append(mainstem_topic, value)
    schema = pa.schema([("broken", pa.string()), ("carrier", pa.string()), ("seats", pa.int32())])
    asked = replace(options(schema=schema), corrupt="broken")
    read = rows(read_rows(client, whole(mainstem_log, mainstem_topic), asked))
    assert [row["broken"] for row in read] == ["nope\ufffd", '{"carrier":"UA","seats":"x"}', None]
    assert [row["carrier"] for row in read] == [None, "UA", "AA"]


def test_dead_letters_say_where_they_came_from_and_are_there_once(
    client: WireClient, mainstem_log: Log, mainstem_topic: str
) -> None:
    dead, topic = f"{mainstem_topic}.dead", f"{mainstem_topic}.old"
    mainstem_log.create_topic(topic, configs={"retention.ms": "-1"})
    create(LogOptions(mainstem_log.bootstrap), dead)
    mainstem_log.append(topic, b"nope", key="k", headers=[("h", b"1"), ("h", None)], timestamp_ms=1500)
    airline(mainstem_log, topic, "UA", "United")
    mainstem_log.append(topic, b"[1]")
    asked = replace(options("DROPMALFORMED"), dead_letters=dead)
    for start in (0, 0, 2):  # a task that is run again, and one that sees a part of it
        part = replace(whole(mainstem_log, topic), start=start)
        assert [row["carrier"] for row in rows(read_rows(client, part, asked))] == ["UA"][start // 2 :]
    letters = list(mainstem_log.read(dead))
    assert [(letter.key, letter.value) for letter in letters] == [(b"k", b"nope"), (None, b"[1]")]
    assert letters[0].headers[:2] == (("h", b"1"), ("h", None))
    said = dict(letters[0].headers[2:])
    assert said.pop("mainstem.error", b"").startswith(b"the value is not JSON")
    place = (said["mainstem.topic"], said["mainstem.partition"], said["mainstem.offset"], said["mainstem.timestamp"])
    assert place == (topic.encode(), b"0", b"0", b"1500")


def test_more_dead_letters_than_one_batch_takes_are_all_there(
    client: WireClient, mainstem_log: Log, mainstem_topic: str
) -> None:
    dead = f"{mainstem_topic}.dead"
    create(LogOptions(mainstem_log.bootstrap), dead)
    mainstem_log.append_many(mainstem_topic, [b"nope %d" % number for number in range(450)])
    asked = replace(options("DROPMALFORMED"), dead_letters=dead)
    for start, end in ((0, 300), (100, 450)):
        part = OffsetRange(TopicPartition(mainstem_topic, 0), start, end)
        assert rows(read_rows(client, part, asked)) == []
    assert sorted(r.value for r in mainstem_log.read(dead)) == sorted(b"nope %d" % number for number in range(450))


def test_a_dead_letter_does_not_make_the_next(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    mainstem_log.append(mainstem_topic, b"nope")
    asked = replace(options("DROPMALFORMED"), dead_letters=mainstem_topic)
    assert rows(read_rows(client, whole(mainstem_log, mainstem_topic), asked)) == []
    assert sum(1 for _ in mainstem_log.read(mainstem_topic)) == 1


def test_a_table_is_the_latest_value_of_each_key(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    for carrier, name in (("UA", "old"), ("AA", "American"), ("DL", "Delta"), ("UA", "United"), ("DL", None)):
        airline(mainstem_log, mainstem_topic, carrier, name)
    read = rows(read_table(client, "life", whole(mainstem_log, mainstem_topic), options()))
    assert {row["carrier"]: row["name"] for row in read} == {"AA": "American", "UA": "United"}


def test_a_table_that_was_read_before_is_brought_up(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    for carrier in ("UA", "AA", "DL"):
        airline(mainstem_log, mainstem_topic, carrier, "old")
    rows(read_table(client, "life", whole(mainstem_log, mainstem_topic), options()))
    for carrier, name in (("UA", "new"), ("DL", None), ("B6", "new")):
        airline(mainstem_log, mainstem_topic, carrier, name)
    read = rows(read_table(client, "life", whole(mainstem_log, mainstem_topic), options()))
    assert {row["carrier"]: row["name"] for row in read} == {"AA": "old", "UA": "new", "B6": "new"}


def test_a_table_is_folded_from_parts_of_any_size(
    client: WireClient, mainstem_log: Log, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {f"c{number % 7}": f"name {number}" for number in range(60)}
    mainstem_log.append_many(
        mainstem_topic,
        [(f"c{number % 7}", {"carrier": f"c{number % 7}", "name": f"name {number}"}) for number in range(60)],
    )
    airline(mainstem_log, mainstem_topic, "c3", None)
    del names["c3"]
    folds: list[int] = []

    def one_by_one(*arguments: Any) -> Iterator[Any]:
        for records in read_range(*arguments):
            yield from (records.slice(row, 1) for row in range(records.num_rows))

    def latest(records: pa.RecordBatch, latest: Any = typed_scan._latest) -> Any:
        folds.append(records.num_rows)
        return latest(records)

    monkeypatch.setattr(typed_scan, "read_range", one_by_one)
    monkeypatch.setattr(typed_scan, "_latest", latest)
    for name, size in (("_FOLD_BYTES", 200), ("_PART_BYTES_MAX", 100)):
        monkeypatch.setattr(typed_scan, name, size, raising=False)
    read = rows(read_table(client, "life", whole(mainstem_log, mainstem_topic), options()))
    assert {row["carrier"]: row["name"] for row in read} == names
    assert len(read) == 6
    assert max(folds) < 20


def test_an_earlier_table_can_be_read_again(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    airline(mainstem_log, mainstem_topic, "UA", "old")
    earlier = whole(mainstem_log, mainstem_topic)
    airline(mainstem_log, mainstem_topic, "UA", "new")
    rows(read_table(client, "life", whole(mainstem_log, mainstem_topic), options()))
    assert [row["name"] for row in rows(read_table(client, "life", earlier, options()))] == ["old"]


def test_an_empty_table_has_no_rows(client: WireClient, mainstem_log: Log, mainstem_topic: str) -> None:
    assert rows(read_table(client, "life", whole(mainstem_log, mainstem_topic), options())) == []


def test_lost_offsets_are_named(client: WireClient, mainstem_topic: str) -> None:
    beyond = OffsetRange(TopicPartition(mainstem_topic, 0), 7, 9)
    with pytest.raises(OffsetOutOfRangeError, match="has no offset 7: it was never written"):
        rows(read_range(client, beyond, ScanOptions(frozenset({"value"}))))
