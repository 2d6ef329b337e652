"""The interface of schema formats: read a schema, write it in its one text form, compare two.

A schema refers to others by name. The registry looks them up and gives their texts beside the schema's own, those that
others refer to first. A format never asks the registry for anything.

Contract: pure functions of their arguments, thread-safe, no I/O that lasts. The registry bounds the length of every
text before it calls; a format bounds depth, number of types and time itself, and raises InvalidSchemaError beyond a
bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mainstem.errors import SchemaError

References = Mapping[str, str]
"""Name as the schema writes it → text of the schema that it refers to; those that others need come first."""


class InvalidSchemaError(SchemaError):
    """A text that is not a schema of its format, or whose references are missing. One line; says where and why."""


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """Why data of one schema cannot be read by another.

    ``kind`` is a constant such as ``READER_FIELD_MISSING_DEFAULT_VALUE``; ``path`` is a JSON pointer into the schema
    that reads (or, for Protobuf, the full name of a message or field); ``description`` is one sentence.
    """

    kind: str
    path: str
    description: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.path or '/'}: {self.description}"


class ParsedSchema(Protocol):
    """A schema that its format has accepted."""

    @property
    def canonical(self) -> str:
        """The text that is stored and answered. Texts of one meaning that differ in layout alone share it."""

    def normalized(self) -> str:
        """The text under ``normalize=true``: also order and spelling that mean nothing are made one."""

    def serialized(self) -> str:
        """The text under ``format=serialized``: for Protobuf a FileDescriptorProto in base64; else ``canonical``."""

    def resolved(self) -> str:
        """The text under ``format=resolved``: what it refers to stands in it; ``canonical`` where that cannot be."""

    def portable(self) -> str:
        """All that reads its values, in one text: for Protobuf base64 of a FileDescriptorSet; else ``resolved``."""


class SchemaFormat(Protocol):
    """One of AVRO, JSON and PROTOBUF."""

    def parse(self, text: str, references: References) -> ParsedSchema:
        """Read a schema. Raises InvalidSchemaError."""

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> Sequence[Incompatibility]:
        """Why ``reader`` cannot read data of ``writer``; empty when it can. Both are schemas of this format."""
