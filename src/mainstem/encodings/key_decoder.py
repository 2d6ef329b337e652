"""Encoded keys as text: the keys that the same rows have in a topic of text keys.

The columns of a topic's key are read by name from the key's schema; one column is its text, several are a JSON array. A
topic that declares no key columns has all fields of the schema, in their order. A key whose schema is a scalar is that
value. A key without a frame stays as it is. So keys with equal content are equal, whatever the ids of their schemas.

Contract: pure but for the schemas, which are asked for by id; as thread-safe as they are.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.values import key_bytes
from mainstem.encodings.avro_columns import arrow_schema
from mainstem.encodings.frames import Framed, SchemaId, by_schema, with_frames
from mainstem.encodings.protobuf.protobuf_json import json_of
from mainstem.encodings.value_decoder import SchemaDecoder, Schemas
from mainstem.encodings.writer_schemas import WriterSchema
from mainstem.errors import SchemaError
from mainstem.schema.arrow_json import joint_key, lone_key
from mainstem.schema.avro import parse_avro, topic_schema_of
from mainstem.schema.types import TopicSchema
from mainstem.schemas_topic.frames import KEY_HEADER

_LONE: Final = "key"
"""The name of a scalar's field where no column is declared."""


class KeyTexts(NamedTuple):
    """The keys (binary; those that cannot be read as they are), and row → why one cannot be read."""

    keys: pa.Array
    errors: dict[int, str]


@dataclass(frozen=True, slots=True)
class KeyDecoder:
    """``columns`` are those of the topic's key; None where it declares none."""

    schemas: Schemas
    columns: TopicSchema | None = None

    def texts(self, keys: pa.Array, headers: pa.Array | None = None) -> KeyTexts:
        """The text of each key (binary, may be null); ids may stand in headers. Raises LogUnavailableError."""
        framed = keys if headers is None else with_frames(keys, headers, KEY_HEADER)
        # Each different key is read once: most keys are there many times.
        encoded = pc.dictionary_encode(framed)
        distinct, errors = self._distinct(encoded.dictionary)
        texts = distinct.take(encoded.indices)
        if not errors:
            return KeyTexts(texts, {})
        codes = np.asarray(pc.fill_null(encoded.indices, -1))
        bad = np.flatnonzero(np.isin(codes, list(errors))).tolist()
        mask = np.zeros(len(keys), np.bool_)
        mask[bad] = True
        raw = keys.filter(pa.array(mask))
        return KeyTexts(pc.replace_with_mask(texts, pa.array(mask), raw), {row: errors[int(codes[row])] for row in bad})

    def _distinct(self, keys: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        texts = keys.to_pylist()
        errors: dict[int, str] = {}
        for group in by_schema(keys):
            if group.schema_id is None:
                continue
            chosen = keys.take(pa.array(group.rows))
            found = self._of_schema(chosen, group)
            for row, text in zip(group.rows.tolist(), found, strict=True):
                if text is None:
                    errors[row] = self._reason(keys[row].as_py())
                else:
                    texts[row] = text
        return pa.array(texts, pa.binary()), errors

    def _of_schema(self, keys: pa.Array, group: Framed) -> list[bytes | None]:
        schemas = ScalarsAsFields(self.schemas, self._lone_name)
        assert group.schema_id is not None
        writer = schemas.schema(group.schema_id)
        if writer is None:
            return [None] * len(keys)
        columns = self.columns
        if columns is None and writer.schema_type == "AVRO":
            columns = _columns_of(writer.text)
        if writer.schema_type == "JSON" or columns is None:
            return [self._from_json(key[group.frame_bytes :], writer) for key in keys.to_pylist()]
        rows = SchemaDecoder(schemas).decode(keys, arrow_schema(columns))
        arrays = rows.arrow_batch.columns
        good = np.logical_and.reduce([np.asarray(array.is_valid()) for array in arrays])
        kept = [array.filter(pa.array(good)) for array in arrays]
        texts = (lone_key(kept[0]) if len(kept) == 1 else joint_key(kept)).cast(pa.binary())
        found: list[bytes | None] = texts.take(pa.array(np.cumsum(good) - 1, mask=~good)).to_pylist()
        return found

    @property
    def _lone_name(self) -> str:
        return self.columns.names[0] if self.columns is not None and len(self.columns.names) == 1 else _LONE

    def _from_json(self, data: bytes, writer: WriterSchema) -> bytes | None:
        """The text of one key that is a JSON value, or a Protobuf message as such."""
        try:
            value = json.loads(json_of(data, writer.text) if writer.schema_type == "PROTOBUF" else data)
        except (ValueError, SchemaError, RecursionError):
            return None
        if isinstance(value, dict):
            names = list(value) if self.columns is None else list(self.columns.names)
            parts = [value.get(name) for name in names]
            value = parts[0] if len(parts) == 1 else parts
            if not parts or None in parts:
                return None
        return None if value is None else key_bytes(value)

    def _reason(self, key: bytes) -> str:
        said = SchemaDecoder(ScalarsAsFields(self.schemas, self._lone_name)).reason(key).replace("the value", "the key")
        names = "" if self.columns is None else f", or lacks a column of {', '.join(self.columns.names)}"
        return f"the key cannot be read{names}: {said}"


@dataclass(frozen=True, slots=True)
class ScalarsAsFields:
    """Schemas of keys: an Avro schema of a scalar is a record of one field, whose bytes are the same."""

    schemas: Schemas
    name: str

    def schema(self, schema_id: SchemaId) -> WriterSchema | None:
        """The schema of an id; None for an unknown id."""
        found = self.schemas.schema(schema_id)
        if found is None or found.schema_type != "AVRO":
            return found
        return WriterSchema("AVRO", as_record(found.text, self.name))


@functools.lru_cache(maxsize=256)
def as_record(text: str, name: str) -> str:
    """An Avro schema as that of a record: a scalar's has one field of this name."""
    schema: Any = json.loads(text)
    if isinstance(schema, dict) and schema.get("type") == "record":
        return text
    return json.dumps({"type": "record", "name": "Key", "fields": [{"name": name, "type": schema}]})


@functools.lru_cache(maxsize=256)
def _columns_of(text: str) -> TopicSchema | None:
    try:
        return topic_schema_of(parse_avro(text))
    except SchemaError:
        return None
