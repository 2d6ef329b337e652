"""Schemas by the ids that stand in values, from the schema registry in the log itself; no gateway has to run.

A schema never changes under its id, so each process asks once. An id that is not there is asked for again after
``_ASK_AGAIN_S``. Contract: thread-safe; a call may block on the log and raise LogUnavailableError.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final

from mainstem.encodings.frames import SchemaId
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import Registry
from mainstem.schemas_topic.records import AVRO
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT

_ASK_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """The schema that a value was written with: AVRO, JSON or PROTOBUF, and its text, references resolved.

    That of Protobuf is base64 of a FileDescriptorSet, its own file last.
    """

    schema_type: str
    text: str


class WriterSchemas:
    """The schemas of a registry by id. The module's docstring has the contract."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._known: dict[SchemaId, WriterSchema] = {}
        self._unknown: dict[SchemaId, float] = {}

    def schema(self, schema_id: SchemaId) -> WriterSchema | None:
        """The schema of this id; None when the registry has none that can be read."""
        with self._lock:
            known = self._known.get(schema_id)
            asked_s = self._unknown.get(schema_id)
        if known is not None or (asked_s is not None and time.monotonic() - asked_s < _ASK_AGAIN_S):
            return known
        found = self._ask(schema_id)
        with self._lock:
            if found is None:
                self._unknown[schema_id] = time.monotonic()
            else:
                self._known[schema_id] = found
                self._unknown.pop(schema_id, None)
        return found

    def _ask(self, schema_id: SchemaId) -> WriterSchema | None:
        try:
            if isinstance(schema_id, int):
                stored = self._registry.with_id(DEFAULT_CONTEXT, schema_id)
            else:
                stored = self._registry.with_guid(str(schema_id))
            content = stored[0].content
            is_plain = content.schema_type == AVRO and not content.references
            return WriterSchema(
                content.schema_type, content.text if is_plain else self._registry.parsed(content).portable()
            )
        except RegistryError:
            return None
