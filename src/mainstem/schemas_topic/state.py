"""The state that the schemas topic gives, folded record by record: subjects, versions, ids, configs, modes.

Contract: the state depends on the records and their order alone. Not thread-safe; its owner locks. What it holds is
immutable or replaced as a whole, so a ``copy`` shares it.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mainstem.schemas_topic import records
from mainstem.schemas_topic.records import Content, Document, StoredSchema, read_schema
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT, GLOBAL, context_subject, qualified, split_subject

_LOG = logging.getLogger(__name__)
_DEFAULT_CONFIG: Final[Mapping[str, Any]] = {"compatibilityLevel": "BACKWARD"}
_DEFAULT_MODE: Final = "READWRITE"


class _Ids:
    """The ids of one context. An id belongs to one content, in any number of subjects."""

    def __init__(self) -> None:
        self.greatest = 0
        self.of_content: dict[Content, int] = {}
        self.uses: dict[int, dict[tuple[str, int], StoredSchema]] = {}

    def copy(self) -> _Ids:
        copied = _Ids()
        copied.greatest, copied.of_content = self.greatest, dict(self.of_content)
        copied.uses = {schema_id: dict(uses) for schema_id, uses in self.uses.items()}
        return copied


class RegistryState:
    """The registry's state. The module's docstring has the contract."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, StoredSchema]] = {}
        self.configs: dict[str, Document] = {}
        self.modes: dict[str, str] = {}
        self.associations: dict[bytes, Document] = {}
        """By the keys of their records."""
        self._spellings: dict[bytes, set[bytes]] = {}
        self._contexts: set[str] = set()
        self._ids: dict[str, _Ids] = defaultdict(_Ids)
        self.guids: dict[str, set[tuple[str, int]]] = {}
        """The subjects and versions of each global id, soft-deleted ones included."""
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
        self._appliers: Mapping[str, Callable[[Document, Document | None, int], None]] = {
            records.SCHEMA: self._apply_schema,
            records.CONFIG: self._apply_config,
            records.MODE: self._apply_mode,
            records.DELETE_SUBJECT: self._apply_delete_subject,
            records.CLEAR_SUBJECT: self._apply_clear_subject,
            records.CONTEXT: self._apply_context,
            records.ASSOCIATION: self._apply_association,
            records.NOOP: self._apply_greatest_ids,
        }

    def copy(self) -> RegistryState:
        """A state of its own with the same content: what is folded into one is not seen in the other."""
        copied = RegistryState()
        copied.subjects = {subject: dict(versions) for subject, versions in self.subjects.items()}
        copied.configs, copied.modes, copied.associations = (
            dict(self.configs),
            dict(self.modes),
            dict(self.associations),
        )
        copied._contexts = set(self._contexts)
        copied._ids.update((context, ids.copy()) for context, ids in self._ids.items())
        for name in ("guids", "_referrers", "_spellings"):
            getattr(copied, name).update((key, set(found)) for key, found in getattr(self, name).items())
        return copied

    # ---- asking

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """The versions of a subject in their order; with ``deleted`` also those that are soft-deleted."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].is_deleted]

    def all_versions(self, prefix: str, context: str | None, *, deleted: bool) -> Iterator[StoredSchema]:
        """The versions of all subjects of a context (None: of every one) that begin with ``prefix``, in order."""
        for subject in sorted(self.subjects):
            of_context, name = split_subject(subject)
            if context in (None, of_context) and name.startswith(prefix):
                yield from self.versions(subject, deleted=deleted)

    def aliased(self, subject: str) -> str:
        """The subject that is meant: a config may make one name an alias of another in the same context."""
        alias = self.configs.get(subject, {}).get("alias")
        return qualified(split_subject(subject)[0], str(alias)) if alias else subject

    def with_id(self, context: str, schema_id: int) -> list[StoredSchema]:
        """The versions that have this id, soft-deleted ones included, in order."""
        ids = self._ids.get(context)
        return [] if ids is None else [use for _, use in sorted(ids.uses.get(schema_id, {}).items())]

    def with_guid(self, guid: str) -> list[StoredSchema]:
        """The versions whose content has this global id, in order."""
        return [self.subjects[subject][version] for subject, version in sorted(self.guids.get(guid, ()))]

    def id_of(self, context: str, content: Content) -> int | None:
        """The id of a content in a context; None when it has none."""
        ids = self._ids.get(context)
        return None if ids is None else ids.of_content.get(content)

    def greatest_id(self, context: str) -> int:
        """The greatest id that a context has ever had; 0 before the first."""
        ids = self._ids.get(context)
        return 0 if ids is None else ids.greatest

    def greatest_ids(self) -> dict[str, int]:
        """The greatest id of each context."""
        return {context: ids.greatest for context, ids in sorted(self._ids.items())}

    def referrers(self, place: tuple[str, int]) -> list[StoredSchema]:
        """The versions that refer to a version, in order."""
        return [self.subjects[subject][version] for subject, version in sorted(self._referrers.get(place, ()))]

    def contexts(self) -> list[str]:
        """All contexts, the default one first."""
        found = self._contexts | {split_subject(subject)[0] for subject in self.subjects}
        return [DEFAULT_CONTEXT, *sorted(found - {DEFAULT_CONTEXT})]

    def config(self, subject: str) -> Document:
        """The config that holds for a subject: its own, else its context's, else the registry's."""
        found = dict(_DEFAULT_CONFIG)
        for scope in reversed(_scopes(subject)):
            found.update(self.configs.get(scope, {}))
        return found

    def mode(self, subject: str) -> str:
        """The mode that holds for a subject."""
        if self.modes.get(GLOBAL) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((self.modes[scope] for scope in _scopes(subject) if scope in self.modes), _DEFAULT_MODE)

    def spellings(self, key: bytes) -> list[bytes]:
        """All keys of records that mean what ``key`` means, itself included.

        Another registry may write the fields of a key in another order. Compaction takes that for another key, so a
        record under one of them alone would be forgotten before the other.
        """
        return [*sorted(self._spellings.get(key, ())), key]

    # ---- folding

    def apply(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Take in one record. One that cannot be read is left out, and logged."""
        try:
            of_key = json.loads(key or b"")
            of_value = json.loads(value) if value else None  # Karapace removes a schema by an empty value
            applier = self._appliers.get(of_key["keytype"])
            self._note_spelling(key or b"", of_key, is_tombstone=of_value is None)
            if applier is not None and (of_value is None or isinstance(of_value, dict)):
                applier(of_key, of_value, timestamp_ms)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
            _LOG.warning(
                "a record of the schemas topic cannot be read, and is left out: %r: %r", (key or b"")[:200], error
            )

    def _note_spelling(self, key: bytes, of_key: Document, *, is_tombstone: bool) -> None:
        ours = records.own_spelling(of_key)
        if ours is None or ours == key:
            return
        if is_tombstone:
            self._spellings.get(ours, set()).discard(key)
        else:
            self._spellings.setdefault(ours, set()).add(key)

    def _apply_schema(self, key: Document, value: Document | None, timestamp_ms: int) -> None:
        schema = None if value is None else read_schema(key, value, timestamp_ms)
        self._remove(str(key["subject"]), int(key["version"]))
        if schema is not None:
            self._add(schema)

    def _add(self, schema: StoredSchema) -> None:
        self.subjects.setdefault(schema.subject, {})[schema.version] = schema
        ids = self._ids[split_subject(schema.subject)[0]]
        ids.greatest = max(ids.greatest, schema.id)
        ids.of_content.setdefault(schema.content, schema.id)
        ids.uses.setdefault(schema.id, {})[schema.place] = schema
        self.guids.setdefault(schema.content.guid, set()).add(schema.place)
        for reference in schema.content.references:
            self._referrers[reference.subject, reference.version].add(schema.place)

    def _remove(self, subject: str, version: int) -> None:
        versions = self.subjects.get(subject, {})
        schema = versions.pop(version, None)
        if schema is None:
            return
        if not versions:
            del self.subjects[subject]
        ids = self._ids[split_subject(subject)[0]]
        uses = ids.uses[schema.id]
        del uses[schema.place]
        if not uses:
            del ids.uses[schema.id]
            if ids.of_content.get(schema.content) == schema.id:
                del ids.of_content[schema.content]
        _discard(self.guids, schema.content.guid, schema.place)
        for reference in schema.content.references:
            _discard(self._referrers, (reference.subject, reference.version), schema.place)

    def _apply_delete_subject(self, key: Document, value: Document | None, _: int) -> None:
        subject, last = str(key["subject"]), int((value or {}).get("version", 0))
        for schema in self.versions(subject):
            if schema.version <= last:
                self._remove(*schema.place)
                self._add(replace(schema, is_deleted=True))

    def _apply_clear_subject(self, key: Document, value: Document | None, _: int) -> None:
        for schema in self.versions(str(key["subject"]), deleted=True) if value is not None else ():
            if schema.is_deleted:
                self._remove(*schema.place)

    def _apply_config(self, key: Document, value: Document | None, _: int) -> None:
        scope = str(key.get("subject") or GLOBAL)
        self.configs.pop(scope, None)
        if value is not None:
            self.configs[scope] = {
                name: entry for name, entry in value.items() if name != "subject" and entry is not None
            }

    def _apply_mode(self, key: Document, value: Document | None, _: int) -> None:
        scope = str(key.get("subject") or GLOBAL)
        self.modes.pop(scope, None)
        if value is not None:
            self.modes[scope] = str(value["mode"])

    def _apply_context(self, key: Document, value: Document | None, _: int) -> None:
        self._contexts.discard(str(key["context"]))
        if value is not None:
            self._contexts.add(str(key["context"]))

    def _apply_association(self, key: Document, value: Document | None, _: int) -> None:
        place = records.association_key(*(str(key[name]) for name in ("resourceType", "resourceId", "associationType")))
        self.associations.pop(place, None)
        if value is not None:
            self.associations[place] = value

    def _apply_greatest_ids(self, _: Document, value: Document | None, __: int) -> None:
        for context, greatest in ((value or {}).get("greatestIds") or {}).items():
            ids = self._ids[str(context)]
            ids.greatest = max(ids.greatest, int(greatest))


def _scopes(subject: str) -> list[str]:
    """Where a subject's settings are looked for, the nearest first."""
    return [subject, context_subject(split_subject(subject)[0]), GLOBAL]


def _discard(index: dict[Any, set[tuple[str, int]]], key: Any, place: tuple[str, int]) -> None:
    places = index.get(key, set())
    places.discard(place)
    if not places:
        index.pop(key, None)
