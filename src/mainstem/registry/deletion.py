"""Deleting versions and subjects: first softly, so that data can still be read by id, then for good.

Steps over a state; each returns the records to write and its result.

Contract: a schema that another one refers to stays. Before an id goes for good, the greatest id is kept in a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mainstem.registry import errors
from mainstem.registry.registration import require_writable
from mainstem.registry.requests import LATEST
from mainstem.registry.store import Records
from mainstem.schemas_topic import records
from mainstem.schemas_topic.records import (
    StoredSchema,
    greatest_ids_record,
    json_text,
    schema_key,
    schema_record,
    subject_key,
)
from mainstem.schemas_topic.state import RegistryState


def delete_version(state: RegistryState, subject: str, version: int, *, permanent: bool) -> tuple[Records, int]:
    """Delete one version; the result is its number. Raises RegistryError: 40401, 40402, 40406, 40407, 42205, 42206."""
    _require_deletable(state, subject)
    every = state.versions(subject, deleted=True)
    if not every:
        raise errors.subject_not_found(subject)
    if version == LATEST:
        candidates = every if permanent else state.versions(subject)
        version = candidates[-1].version if candidates else LATEST
    found = next((each for each in every if each.version == version), None)
    if found is None:
        raise errors.version_not_found(version)
    if not permanent and found.is_deleted:
        raise errors.version_soft_deleted(subject, version)
    if permanent and not found.is_deleted:
        raise errors.version_not_soft_deleted(subject, version)
    _require_unreferenced(state, [found])
    if not permanent:
        return [schema_record(replace(found, is_deleted=True))], version
    return _removed(state, subject, [found], is_last=len(every) == 1), version


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> tuple[Records, list[int]]:
    """Delete all versions; the result is their numbers. Raises RegistryError: 40401, 40404, 40405, 42205, 42206."""
    _require_deletable(state, subject)
    every, active = state.versions(subject, deleted=True), state.versions(subject)
    if not every:
        raise errors.subject_not_found(subject)
    if permanent and active:
        raise errors.subject_not_soft_deleted(subject)
    if not permanent and not active:
        raise errors.subject_soft_deleted(subject)
    chosen = every if permanent else active
    _require_unreferenced(state, chosen)
    numbers = [each.version for each in chosen]
    if permanent:
        return _removed(state, subject, every, is_last=True), numbers
    value = json_text({"subject": subject, "version": numbers[-1]}).encode()
    return [(subject_key(records.DELETE_SUBJECT, subject), value)], numbers


def _removed(state: RegistryState, subject: str, schemas: Sequence[StoredSchema], *, is_last: bool) -> Records:
    """The records that remove versions for good; with the last one the subject's own settings go."""
    written: list[tuple[bytes, bytes | None]] = [greatest_ids_record(state.greatest_ids())]
    written += [(schema_key(subject, each.version), None) for each in schemas]
    if is_last:
        written.append((subject_key(records.DELETE_SUBJECT, subject), None))
        if subject in state.configs:
            written.append((subject_key(records.CONFIG, subject), None))
        if subject in state.modes:
            written.append((subject_key(records.MODE, subject), None))
    return written


def _require_deletable(state: RegistryState, subject: str) -> None:
    if state.mode(subject) != "IMPORT":
        require_writable(state, subject)


def _require_unreferenced(state: RegistryState, schemas: Sequence[StoredSchema]) -> None:
    for schema in schemas:
        if any(not each.is_deleted or schema.is_deleted for each in state.referrers(schema.place)):
            raise errors.referenced(*schema.place)
