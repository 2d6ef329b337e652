"""Readers that say whether bytes are a value of a schema: by Avro's, Protobuf's and JSON Schema's own rules.

Unlike the decoders they know no columns: a schema of any type will do, and everything that a value holds is read.
Contract: pure but for the caches of parsed schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from mainstem.encodings.protobuf.protobuf_messages import message_class, split_place
from mainstem.errors import SchemaError
from mainstem.registry.errors import RegistryError
from mainstem.registry.parsing import parse_content, reference_texts
from mainstem.schema.avro import parse_type, read_value
from mainstem.schemas_topic.state import RegistryState

ValueReader: TypeAlias = Callable[[bytes], str | None]
"""Why the bytes after a frame are no value of the schema; None when they are one."""


def reader_of(guid: str, records: Iterable[tuple[str, str]]) -> ValueReader:
    """The reader of a schema; ``records`` are those of a registry, of it and of what it refers to.

    Raises MissingDependencyError. A schema that cannot be read gives a reader that refuses all.
    """
    state = RegistryState()
    for key, value in records:
        state.apply(key.encode(), value.encode(), 0)
    try:
        content = state.with_guid(guid)[0].content
        parsed = parse_content(content, reference_texts(state, content.references))
        if content.schema_type == "JSON":
            from mainstem.registry.formats.json_schema.json_schema_values import json_value_check  # needs its library

            return json_value_check(parsed)
        if content.schema_type == "PROTOBUF":
            return _of_protobuf(parsed.portable())
        return _of_avro(parsed.portable())
    except (RegistryError, SchemaError, IndexError) as error:
        text = f"its schema cannot be read here: {error}"
        return lambda _: text


def _of_avro(text: str) -> ValueReader:
    kind = parse_type(text)

    def misfit(data: bytes) -> str | None:
        try:
            read_value(data, kind)
        except SchemaError as error:
            return str(error)
        return None

    return misfit


def _of_protobuf(text: str) -> ValueReader:
    from google.protobuf.message import DecodeError  # where the registry's format is loaded, this is installed

    def misfit(data: bytes) -> str | None:
        try:
            place, at = split_place(data)
            message_class(text, place).FromString(data[at:])
        except SchemaError as error:
            return str(error)
        except (DecodeError, UnicodeDecodeError) as error:
            return " ".join(str(error).split())
        return None

    return misfit
