"""``Registry``: the operations of the schema registry, over one topic of a log.

Contract: thread-safe; every call may block on the log. A subject is in its one written form (``names``). Each method
raises RegistryError as its name in ``errors`` says, and LogUnavailableError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from mainstem.client.log import Log
from mainstem.registry import associations, deletion, errors, registration, settings
from mainstem.registry.associations import AssociationFilter, AssociationRequest
from mainstem.registry.formats.schema_format import ParsedSchema
from mainstem.registry.parsing import (
    SPELLINGS_MAX,
    parse_content,
    parse_if_readable,
    parse_request,
    reference_texts,
    resolved_references,
)
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.registry.store import Records, Store
from mainstem.schemas_topic.records import SCHEMAS_TOPIC, Content, Document, StoredSchema
from mainstem.schemas_topic.state import RegistryState
from mainstem.schemas_topic.subjects import GLOBAL


class Registry:
    """A schema registry. The module's docstring has the contract."""

    def __init__(self, log: Log, topic: str = SCHEMAS_TOPIC) -> None:
        self._store = Store(log, topic)
        self.settings = RegistrySettings(self._store)
        """Contexts, configs and modes."""
        self.associations = RegistryAssociations(self._store, self.register)
        """Which subject a topic's keys or values belong to."""

    # ---- registering

    def register(
        self, subject: str, request: SchemaRequest, *, normalize: bool = False, must_be_new: bool = False
    ) -> StoredSchema:
        """Make a schema a version of a subject. If the subject has it already, that version is returned.

        ``must_be_new``: refuse a subject that has a version.
        """
        self._prepare(subject, request)

        def step(state: RegistryState) -> tuple[Records, StoredSchema]:
            if must_be_new and state.versions(state.aliased(subject)):
                raise errors.subject_exists(subject)
            return registration.register(state, state.aliased(subject), request, normalize=normalize)

        return self._store.write(step)

    def look_up(
        self,
        subject: str,
        request: SchemaRequest,
        *,
        normalize: bool = False,
        deleted: bool = False,
        any_references: bool = False,
    ) -> StoredSchema:
        """The version of a subject that has this schema.

        ``any_references``: the request leaves the references out, so a version with the same text is preferred.
        """
        if any_references:
            with self._store.reading() as state:
                found = registration.with_text(state, state.aliased(subject), request)
            if found is not None:
                return found
        self._prepare(subject, request)
        with self._store.borrowing() as state:
            return registration.look_up(state, state.aliased(subject), request, normalize=normalize, deleted=deleted)

    def compare(
        self, subject: str, request: SchemaRequest, version: int | None = None, *, normalize: bool = False
    ) -> list[str]:
        """Why a schema would break the subject's compatibility level; empty when it would not."""
        self._prepare(subject, request)
        with self._store.borrowing() as state:
            return registration.compare(state, state.aliased(subject), request, version, normalize=normalize)

    def _prepare(self, subject: str, request: SchemaRequest) -> None:
        """Parse outside of the lock what a step will need: the step finds it among what was parsed lately."""
        with self._store.reading() as state:
            texts = reference_texts(state, resolved_references(state, request.references))
            latest = [each.content for each in state.versions(state.aliased(subject))[-SPELLINGS_MAX:]]
            stored = [(each, reference_texts(state, each.references)) for each in latest]
        canonical = parse_request(request, texts).canonical
        if all(content.text != canonical for content, _ in stored):
            for content, of_content in stored:
                parse_if_readable(content, of_content)

    # ---- subjects and versions

    def subjects(
        self, context: str | None, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False
    ) -> list[str]:
        """The subjects of a context (None: of every one) that begin with ``prefix``."""
        with self._store.reading() as state:
            wanted = deleted or deleted_only
            found = dict.fromkeys(each.subject for each in state.all_versions(prefix, context, deleted=wanted))
            return [each for each in found if not (deleted_only and state.versions(each))]

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> list[int]:
        """The numbers of a subject's versions."""
        with self._store.reading() as state:
            every = state.versions(state.aliased(subject), deleted=deleted or deleted_only)
            if not every:
                raise errors.subject_not_found(subject)
            return [each.version for each in every if each.is_deleted or not deleted_only]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema:
        """One version of a subject."""
        with self._store.reading() as state:
            every = state.versions(state.aliased(subject), deleted=deleted)
            if not every:
                raise errors.subject_not_found(subject)
            if version == LATEST:
                return every[-1]
            for each in every:
                if each.version == version:
                    return each
        raise errors.version_not_found(version)

    def latest_with(self, subject: str, wanted: dict[str, str], *, deleted: bool = False) -> StoredSchema:
        """The latest version whose metadata has these properties."""
        with self._store.reading() as state:
            every = state.versions(state.aliased(subject), deleted=deleted)
        if not every:
            raise errors.subject_not_found(subject)
        for each in reversed(every):
            properties = (each.content.to_json().get("metadata") or {}).get("properties") or {}
            if wanted.items() <= properties.items():
                return each
        raise errors.schema_not_found()

    def schemas(
        self,
        context: str | None,
        prefix: str = "",
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        latest_only: bool = False,
    ) -> list[StoredSchema]:
        """All versions of all subjects, or the latest of each."""
        with self._store.reading() as state:
            found = list(state.all_versions(prefix, context, deleted=deleted or deleted_only))
        found = [each for each in found if each.is_deleted or not deleted_only]
        return list({each.subject: each for each in found}.values()) if latest_only else found

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[StoredSchema]:
        """The versions that refer to one."""
        stored = self.version(subject, version, deleted=True)
        with self._store.reading() as state:
            return [each for each in state.referrers(stored.place) if deleted or not each.is_deleted]

    def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Delete one version."""
        return self._store.write(lambda state: deletion.delete_version(state, subject, version, permanent=permanent))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject."""
        return self._store.write(lambda state: deletion.delete_subject(state, subject, permanent=permanent))

    # ---- ids

    def with_id(self, context: str, schema_id: int) -> list[StoredSchema]:
        """The versions with an id, at least one. The content of an id never changes, so a known id asks no log."""
        with self._store.known() as state:
            found = state.with_id(context, schema_id)
        return found or self.users_of(context, schema_id)

    def users_of(self, context: str, schema_id: int) -> list[StoredSchema]:
        """The versions that have an id now, soft-deleted ones included."""
        with self._store.reading() as state:
            found = state.with_id(context, schema_id)
        if not found:
            raise errors.schema_not_found(schema_id)
        return found

    def with_guid(self, guid: str) -> list[StoredSchema]:
        """The versions whose content has a global id, at least one."""
        with self._store.reading() as state:
            found = state.with_guid(guid)
        if not found:
            raise errors.schema_not_found(guid[:100])
        return found

    # ---- parsed schemas

    def parsed(self, content: Content) -> ParsedSchema:
        """A stored content, parsed with its references."""
        with self._store.known() as state:
            texts = reference_texts(state, content.references)
        return parse_content(content, texts)


class RegistrySettings:
    """The contexts, configs and modes of a registry; ``Registry.settings`` is one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def greatest_id(self, context: str) -> int:
        """The greatest id of a context."""
        with self._store.reading() as state:
            return state.greatest_id(context)

    def contexts(self) -> list[str]:
        """All contexts, the default one first."""
        with self._store.reading() as state:
            return state.contexts()

    def delete_context(self, context: str) -> None:
        """Remove a context that is empty."""
        self._store.write(lambda state: settings.delete_context(state, context))

    def config(self, subject: str = GLOBAL, *, default_to_global: bool = False) -> Document:
        """The config of a subject, a context or the registry."""
        with self._store.reading() as state:
            return settings.config_of(state, subject, default_to_global=default_to_global)

    def set_config(self, subject: str, changes: Document) -> Document:
        """Change a config; the result is all that is set."""
        return self._store.write(lambda state: settings.set_config(state, subject, changes))

    def delete_config(self, subject: str) -> Document:
        """Take a config back; the result is what it was."""
        return self._store.write(lambda state: settings.delete_config(state, subject))

    def mode(self, subject: str = GLOBAL, *, default_to_global: bool = False) -> str:
        """The mode of a subject, a context or the registry."""
        with self._store.reading() as state:
            return settings.mode_of(state, subject, default_to_global=default_to_global)

    def set_mode(self, subject: str, mode: str, *, force: bool = False) -> str:
        """Set a mode."""
        return self._store.write(lambda state: settings.set_mode(state, subject, mode, force=force))

    def delete_mode(self, subject: str, *, recursive: bool = False) -> str:
        """Take a mode back; the result is what it was."""
        return self._store.write(lambda state: settings.delete_mode(state, subject, recursive=recursive))


class RegistryAssociations:
    """The associations of a registry; ``Registry.associations`` is one."""

    def __init__(self, store: Store, register: Callable[..., StoredSchema]) -> None:
        self._store = store
        self._register = register

    def find(self, step: Callable[[RegistryState], list[Document]]) -> list[Document]:
        """The associations that a step of ``associations`` finds."""
        with self._store.reading() as state:
            return step(state)

    def associate(
        self, request: AssociationRequest, *, replaces: bool, dry_run: bool = False
    ) -> list[tuple[Document, StoredSchema | None]]:
        """Make associations, and register the schemas that come with them; the result has both."""
        schemas = [
            None
            if each.schema is None or dry_run
            else self._register(each.subject, each.schema, normalize=each.normalize)
            for each in request.associations
        ]

        def step(state: RegistryState) -> tuple[Records, list[Document]]:
            records, result = associations.associate(state, request, replaces=replaces)
            return [] if dry_run else records, result

        return list(zip(self._store.write(step), schemas, strict=True))

    def delete(self, resource_id: str, wanted: AssociationFilter, *, cascades: bool, dry_run: bool = False) -> None:
        """Remove associations of a resource."""

        def step(state: RegistryState) -> tuple[Records, None]:
            records, result = associations.delete_associations(state, resource_id, wanted, cascades=cascades)
            return [] if dry_run else records, result

        self._store.write(step)


@functools.lru_cache(maxsize=4)
def registry_of(log: Log) -> Registry:
    """The registry of a log that its readers and writers share: it reads the schemas topic once."""
    return Registry(log)
