"""JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12, as a format of the registry.

``$schema`` says the draft; without it a schema is of draft 7, as Confluent's clients take it. A schema is valid against
its meta-schema, its regular expressions compile, and every ``$ref`` leads into the schema, to a reference that the
registry gives, or to a meta-schema.

Contract: pure and thread-safe. Nothing is ever fetched from a network or a file, and no instance is validated here: a
pattern that backtracks for ever is stored; ``json_schema_values`` runs it with a bound. Nesting is bounded by
``mainstem.json_depth``, the number of subschemas by ``NODES_MAX``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from mainstem.json_depth import is_too_deep
from mainstem.registry.formats.json_schema.json_schema_compatibility import incompatibilities
from mainstem.registry.formats.json_schema.json_schema_nodes import SchemaGraph, draft_of, validate
from mainstem.registry.formats.schema_format import Incompatibility, InvalidSchemaError, ParsedSchema, References

_DEFAULT_DRAFT: Final = 7
_STRING_OR_SPACE: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[ \t\r\n]+')


class JsonSchema:
    """A JSON Schema and its references, all resolved."""

    def __init__(self, text: str, references: References) -> None:
        self._tree, self._canonical = _read(text, "")
        self.draft = draft_of(self._tree, _DEFAULT_DRAFT)
        validate(self._tree, 7 if isinstance(self._tree, bool) else self.draft)
        self._references: dict[str, Any] = {}
        for name, each in references.items():
            where = f" of reference {name!r}"
            self._references[name], _ = _read(each, where)
            validate(self._references[name], draft_of(self._references[name], self.draft), where)
        self.graph: Final = SchemaGraph(self._tree, self.draft, self._references)

    @property
    def canonical(self) -> str:
        """The schema without white space; keys in their order, numbers as they are written."""
        return self._canonical

    def normalized(self) -> str:
        """The canonical text with the keys of every object sorted."""
        return _write(self._tree, sort_keys=True)

    def serialized(self) -> str:
        """The canonical text."""
        return self._canonical

    def portable(self) -> str:
        """As ``resolved``."""
        return self.resolved()

    def resolved(self) -> str:
        """The schema with its references among its definitions; each ``$ref`` stays and finds them by their ``$id``."""
        return self._bundle

    @cached_property
    def _bundle(self) -> str:
        if not self._references or isinstance(self._tree, bool):
            return self._canonical
        container = "$defs" if self.draft >= 2019 else "definitions"
        root = self._tree
        if self.draft < 2019 and "$ref" in root:  # where nothing beside $ref counts
            root = {**{key: root[key] for key in ("$schema",) if key in root}, "allOf": [self._tree]}
        identifier = "id" if self.draft == 4 else "$id"
        taken = root.get(container, {})
        bundled = {name: {identifier: name} | each for name, each in self._references.items() if isinstance(each, dict)}
        text = _write({**root, container: {**bundled, **taken}})
        try:
            JsonSchema(text, {})
        except InvalidSchemaError:  # an $id or a definition of the same name hides a reference
            return self._canonical
        return text


class JsonSchemaFormat:
    """The registry's format JSON."""

    def parse(self, text: str, references: References) -> JsonSchema:
        """Read a schema. Raises InvalidSchemaError."""
        return JsonSchema(text, references)

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> Sequence[Incompatibility]:
        """Why data that is valid under ``writer`` may be invalid under ``reader``; empty when it cannot be."""
        if not isinstance(reader, JsonSchema) or not isinstance(writer, JsonSchema):
            raise TypeError("both schemas must be JSON Schemas")
        return incompatibilities(reader.graph, writer.graph)


def _read(text: str, where: str) -> tuple[Any, str]:
    """The tree of a JSON text, and the text without white space."""
    if is_too_deep(text):
        raise InvalidSchemaError(f"the schema{where} is nested too deeply")
    repeated: list[str] = []

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated.append("")
        return found

    try:
        tree = json.loads(text, object_pairs_hook=to_object, parse_constant=_refuse_constant, parse_float=_finite)
        canonical = _write(tree) if repeated else _STRING_OR_SPACE.sub(_compact, text)
        canonical.encode()
    except UnicodeEncodeError:
        raise InvalidSchemaError(f"the schema{where} has half of a surrogate pair in a string") from None
    except ValueError as error:
        raise InvalidSchemaError(f"the schema{where} is not JSON: {' '.join(str(error).split())}") from None
    return tree, canonical


def _compact(match: re.Match[str]) -> str:
    return _write(json.loads(match[0])) if match[0][0] == '"' else ""


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"the number {text[:50]} is too large")
    return number


def _write(tree: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


FORMAT: Final = JsonSchemaFormat()
