"""Avro: schemas in the text form of Avro's Java library, which other registries store.

Contract: ``parse(canonical).canonical == canonical``. What a schema refers to stays a name in its text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mainstem.registry.formats.avro_compatibility import incompatibilities_between
from mainstem.registry.formats.avro_types import (
    MISSING,
    PRIMITIVES,
    AvroType,
    Container,
    Named,
    Primitive,
    RecordField,
    Union,
    read_types,
)
from mainstem.registry.formats.schema_format import Incompatibility, ParsedSchema, References

_DEPTH_MAX: Final = 250


@dataclass(frozen=True)
class AvroSchema:
    """An Avro schema; ``referenced`` are the named types of its references."""

    type: AvroType
    referenced: dict[str, Named]

    @cached_property
    def canonical(self) -> str:
        """As ``Schema.toString`` of Avro's Java library writes it."""
        return _text(_Writer(set(self.referenced)).written(self.type))

    def normalized(self) -> str:
        """With unknown attributes and aliases in the order of their names."""
        return _text(_Writer(set(self.referenced), is_sorted=True).written(self.type))

    def serialized(self) -> str:
        """The same as ``canonical``."""
        return self.canonical

    def resolved(self) -> str:
        """With the types of the references where they are used first."""
        try:
            return _text(_Writer(set()).written(self.type))
        except _TooDeepError:
            return self.canonical


class AvroFormat:
    """Avro, as the registry asks for it."""

    def parse(self, text: str, references: References) -> AvroSchema:
        """Read a schema. Raises InvalidSchemaError."""
        return AvroSchema(*read_types(text, references))

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> Sequence[Incompatibility]:
        """Why ``reader`` cannot read data of ``writer``, by Avro's schema resolution."""
        assert isinstance(reader, AvroSchema)
        assert isinstance(writer, AvroSchema)
        return incompatibilities_between(reader.type, writer.type)


FORMAT: Final = AvroFormat()


class _TooDeepError(Exception):
    """References in references, deeper than the encoder can write."""


class _Writer:
    """Writes types as JSON; a named type as a whole at its first use, then as a name."""

    def __init__(self, written: set[str], *, is_sorted: bool = False) -> None:
        self._written = written
        self._is_sorted = is_sorted

    def written(self, kind: AvroType, namespace: str = "", depth: int = 0) -> Any:
        if depth > _DEPTH_MAX:
            raise _TooDeepError
        if isinstance(kind, Primitive):
            return {"type": kind.kind, **self._extras(kind.extras)} if kind.extras else kind.kind
        if isinstance(kind, Union):
            return [self.written(branch, namespace, depth + 1) for branch in kind.branches]
        if isinstance(kind, Container):
            content = "items" if kind.kind == "array" else "values"
            items = self.written(kind.items, namespace, depth + 1)
            return {"type": kind.kind, content: items, **self._extras(kind.extras)}
        if kind.full_name in self._written:
            is_near = kind.namespace == namespace and kind.name not in PRIMITIVES
            return kind.name if is_near else kind.full_name
        self._written.add(kind.full_name)
        return self._definition(kind, namespace, depth)

    def _definition(self, kind: Named, enclosing: str, depth: int) -> dict[str, Any]:
        document: dict[str, Any] = {"type": kind.kind, "name": kind.name}
        if kind.namespace != enclosing:
            document["namespace"] = kind.namespace
        if kind.doc is not None:
            document["doc"] = kind.doc
        if kind.kind == "fixed":
            document["size"] = kind.size
        elif kind.kind == "enum":
            document["symbols"] = kind.symbols
            if kind.default is not None:
                document["default"] = kind.default
        else:
            document["fields"] = [self._field(each, kind.namespace, depth) for each in kind.fields]
        document.update(self._extras(kind.extras))
        if kind.aliases:
            near = kind.namespace + "."
            document["aliases"] = self._names(
                [alias.removeprefix(near) if "." not in alias.removeprefix(near) else alias for alias in kind.aliases]
            )
        return document

    def _field(self, field: RecordField, namespace: str, depth: int) -> dict[str, Any]:
        document: dict[str, Any] = {"name": field.name, "type": self.written(field.type, namespace, depth + 1)}
        if field.doc is not None:
            document["doc"] = field.doc
        if field.default is not MISSING:
            document["default"] = field.default
        if field.order != "ascending":
            document["order"] = field.order
        if field.aliases:
            document["aliases"] = self._names(field.aliases)
        return {**document, **self._extras(field.extras)}

    def _extras(self, extras: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(extras.items())) if self._is_sorted else extras

    def _names(self, names: list[str]) -> list[str]:
        return sorted(names) if self._is_sorted else names


def _text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
