"""Files loaded into encoded topics: every format, each row by the topic's schema."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from mainstem.client.log import Log
from mainstem.connectors.files import load
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import SchemaError
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST
from mainstem.schema.infer import schema_of
from mainstem.schema.types import ENCODINGS

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë", "fare": 1.5}, {"id": 2, "name": None, "fare": None}]


def topic_of(log: Log, encoding: str, key_encoding: str | None = None) -> str:
    """An encoded topic with a key."""
    topic = f"orders-{uuid.uuid4()}"
    log.create_topic(topic)
    register_topic(log, topic, schema_of("id INT, name STRING, fare DOUBLE"), ("id",), encoding, key_encoding)
    return topic


def written(directory: Path, suffix: str) -> Path:
    """A file with the rows."""
    path = directory / f"rows.{suffix}"
    if suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)))
    elif suffix == "csv":
        pyarrow.csv.write_csv(pa.Table.from_pylist(ROWS), path)
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_file_is_loaded_by_the_topics_schema(mainstem_log: Log, tmp_path: Path, encoding: str, suffix: str) -> None:
    topic, codec = topic_of(mainstem_log, encoding), Codec(mainstem_log)
    assert load(mainstem_log, written(tmp_path, suffix), topic).records == len(ROWS)
    records = list(mainstem_log.read(topic))
    stored = Registry(mainstem_log).version(f"{topic}-value", LATEST)
    assert [(record.key, codec.decode(record)) for record in records] == [(b"1", ROWS[0]), (b"2", ROWS[1])]
    assert {schema_id_of(record.value or b"")[0] for record in records} == {stored.id}


def test_rows_name_their_schema_in_a_header_where_the_topic_says_so(mainstem_log: Log, tmp_path: Path) -> None:
    topic, codec = f"orders-{uuid.uuid4()}", Codec(mainstem_log)
    mainstem_log.create_topic(topic, partitions=3)
    columns = schema_of("id INT, name STRING, fare DOUBLE")
    register_topic(mainstem_log, topic, columns, ("id",), "avro", None, "header")
    load(mainstem_log, written(tmp_path, "jsonl"), topic)
    records = list(mainstem_log.read(topic))
    assert sorted((codec.decode(record) for record in records), key=lambda row: row["id"]) == ROWS
    assert [[name for name, _ in record.headers] for record in records] == [["__value_schema_id"]] * 2


def test_keys_are_encoded_too(mainstem_log: Log, tmp_path: Path) -> None:
    topic, codec = topic_of(mainstem_log, "avro", "avro"), Codec(mainstem_log)
    load(mainstem_log, written(tmp_path, "jsonl"), topic)
    records = list(mainstem_log.read(topic))
    assert [record.key for record in records] == codec.encode_keys(topic, [b"1", b"2"])
    assert [(codec.decode_key(record), codec.decode(record)) for record in records] == [
        (b"1", ROWS[0]),
        (b"2", ROWS[1]),
    ]


def test_a_column_that_the_schema_lacks_is_refused_before_anything_is_written(
    mainstem_log: Log, tmp_path: Path
) -> None:
    topic = topic_of(mainstem_log, "avro")
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({**ROWS[0], "extra": 1}))
    with pytest.raises(SchemaError, match="has a column 'extra', which the schema of the topic lacks"):
        load(mainstem_log, path, topic)
    assert list(mainstem_log.read(topic)) == []
