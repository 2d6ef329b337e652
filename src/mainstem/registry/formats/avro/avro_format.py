"""The Avro format of the schema registry: schemas as Avro's Java library reads, writes and compares them.

Clients of a registry use that library, and they find schemas by their text; so the texts here are its texts. The parts
are ``avro_reader``, ``avro_writer`` and ``avro_compatibility``; this module is what the registry sees of them.

Contract: that of ``schema_format``. A schema is immutable; threads may share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mainstem.registry.formats.avro.avro_compatibility import incompatibilities
from mainstem.registry.formats.avro.avro_reader import read_avro
from mainstem.registry.formats.avro.avro_types import AvroNode
from mainstem.registry.formats.avro.avro_writer import TooDeepError, avro_text
from mainstem.registry.formats.schema_format import Incompatibility, InvalidSchemaError, ParsedSchema, References


@dataclass(frozen=True, eq=False, slots=True)
class AvroSchema:
    """An accepted Avro schema. ``referenced`` are the full names that its references define."""

    node: AvroNode
    referenced: frozenset[str]
    canonical: str

    def normalized(self) -> str:
        """The canonical text with properties and aliases sorted, and without attributes that mean nothing."""
        return avro_text(self.node, self.referenced, normalized=True)

    def serialized(self) -> str:
        """The canonical text."""
        return self.canonical

    def portable(self) -> str:
        """As ``resolved``."""
        return self.resolved()

    def resolved(self) -> str:
        """The text with the referenced types in it; the canonical text if they would nest too deeply."""
        try:
            return avro_text(self.node)
        except TooDeepError:
            return self.canonical


class AvroFormat:
    """``AVRO``: reads and compares Avro schemas."""

    def parse(self, text: str, references: References) -> AvroSchema:
        """Read a schema. Raises InvalidSchemaError."""
        node, referenced = read_avro(text, references)
        canonical = avro_text(node, referenced)
        try:
            canonical.encode()
        except UnicodeEncodeError as error:
            raise InvalidSchemaError("the schema has half of a surrogate pair in a text: remove it") from error
        return AvroSchema(node, referenced, canonical)

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> Sequence[Incompatibility]:
        """Why data written with ``writer`` cannot be read with ``reader``."""
        if not isinstance(reader, AvroSchema) or not isinstance(writer, AvroSchema):
            raise TypeError("both schemas must be Avro schemas")
        return incompatibilities(reader.node, writer.node)


FORMAT: Final = AvroFormat()
