"""Protobuf: schemas as descriptors, with a text that is printed from the descriptor.

Contract: two schemas with equal descriptors have one canonical text, however they were written or sent.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from google.protobuf import descriptor_pb2

from mainstem.registry.formats.protobuf.protobuf_compatibility import incompatibilities_between
from mainstem.registry.formats.protobuf.protobuf_compiler import MAIN, compiled
from mainstem.registry.formats.protobuf.protobuf_text import file_text, pool_of
from mainstem.registry.formats.schema_format import Incompatibility, ParsedSchema, References


@dataclass(frozen=True)
class ProtobufSchema:
    """A Protobuf schema; ``files`` are the descriptors of what it imports, then its own; ``pool`` is made of them."""

    files: Sequence[Any]
    pool: Any

    @cached_property
    def canonical(self) -> str:
        """.proto source without comments."""
        return file_text(self.files, self.pool)

    def normalized(self) -> str:
        """The same in one order where order means nothing: of imports, fields, extensions and values of enums."""
        return file_text(self.files, self.pool, is_sorted=True)

    def serialized(self) -> str:
        """The FileDescriptorProto in base64, as Confluent's Python client reads it."""
        return base64.b64encode(self.files[-1].SerializeToString()).decode()

    def resolved(self) -> str:
        """The same as ``canonical``: a file cannot contain what it imports from other packages."""
        return self.canonical

    def portable(self) -> str:
        """The descriptors of all files as a FileDescriptorSet in base64, its own last."""
        files = descriptor_pb2.FileDescriptorSet(file=self.files)
        return base64.b64encode(files.SerializeToString()).decode()


class ProtobufFormat:
    """Protobuf, as the registry asks for it."""

    def parse(self, text: str, references: References) -> ProtobufSchema:
        """Read .proto source, or a FileDescriptorProto in base64. Raises InvalidSchemaError."""
        files = compiled(text, references)
        return ProtobufSchema(files, pool_of(files))

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> Sequence[Incompatibility]:
        """Why ``reader`` cannot read data of ``writer``, by Protobuf's wire format."""
        assert isinstance(reader, ProtobufSchema)
        assert isinstance(writer, ProtobufSchema)
        return incompatibilities_between(reader.pool.FindFileByName(MAIN), writer.pool.FindFileByName(MAIN))


FORMAT: Final = ProtobufFormat()
