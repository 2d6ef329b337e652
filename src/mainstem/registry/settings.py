"""Configs and modes: of the whole registry, of a context, of a subject.

Steps over a state; each returns the records to write and its result. The empty subject is the whole registry.
"""

from __future__ import annotations

from mainstem.registry import errors
from mainstem.registry.store import Records
from mainstem.schemas_topic import records
from mainstem.schemas_topic.records import Document, context_key, json_text, subject_key
from mainstem.schemas_topic.state import RegistryState
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT, GLOBAL, context_subject, split_subject


def config_of(state: RegistryState, subject: str, *, default_to_global: bool) -> Document:
    """The config of a subject. Raises RegistryError 40408 when it has none of its own and no default is asked for."""
    if subject == GLOBAL or default_to_global:
        return state.config(subject)
    if subject not in state.configs:
        raise errors.config_not_found(subject)
    return state.configs[subject]


def set_config(state: RegistryState, subject: str, changes: Document) -> tuple[Records, Document]:
    """Change what ``changes`` names (None takes it back). The result is the config that is set."""
    config = {**state.configs.get(subject, {}), **changes}
    config = {name: value for name, value in config.items() if value is not None}
    value = json_text({"subject": subject or None, **config}).encode()
    return [(subject_key(records.CONFIG, subject), value)], config


def delete_config(state: RegistryState, subject: str) -> tuple[Records, Document]:
    """Take a config back; the result is what it was. Raises RegistryError 40401 when the subject has none."""
    config = state.configs.get(subject)
    if config is None and subject != GLOBAL:
        raise errors.subject_not_found(subject)
    records_ = [] if config is None else [(subject_key(records.CONFIG, subject), None)]
    return records_, config or state.config(GLOBAL)


def mode_of(state: RegistryState, subject: str, *, default_to_global: bool) -> str:
    """The mode of a subject. Raises RegistryError 40409 when it has none of its own and no default is asked for."""
    if subject != GLOBAL and not default_to_global and subject not in state.modes:
        raise errors.mode_not_found(subject)
    return state.mode(subject)


def set_mode(state: RegistryState, subject: str, mode: str, *, force: bool) -> tuple[Records, str]:
    """Set a mode. Raises RegistryError 42205 for IMPORT where there are schemas already, unless forced."""
    if mode == "IMPORT" and not force and state.mode(subject) != "IMPORT" and _has_schemas(state, subject):
        raise errors.not_permitted("Cannot import since found existing subjects: delete them, or send force=true")
    value = json_text({"subject": subject or None, "mode": mode}).encode()
    return [(subject_key(records.MODE, subject), value)], mode


def delete_mode(state: RegistryState, subject: str, *, recursive: bool) -> tuple[Records, str]:
    """Take a mode back (``recursive``: of the context's subjects, too); the result is what it was.

    Raises RegistryError 40401 when the subject has none.
    """
    if subject != GLOBAL and subject not in state.modes and not recursive:
        raise errors.subject_not_found(subject)
    scopes = {subject} & state.modes.keys()
    if recursive:
        scopes |= {scope for scope in state.modes if _is_within(scope, subject)}
    return [(subject_key(records.MODE, scope), None) for scope in sorted(scopes)], state.mode(subject)


def delete_context(state: RegistryState, context: str) -> tuple[Records, None]:
    """Remove a context that is empty. Raises RegistryError 42211 for one that is not."""
    if any(split_subject(subject)[0] == context for subject in state.subjects):
        raise errors.RegistryError(42211, f"Context '{context}' is not empty: delete its subjects for good first")
    return [(context_key(context), None)], None


def _has_schemas(state: RegistryState, subject: str) -> bool:
    return any(state.versions(each) for each in state.subjects if each == subject or _is_within(each, subject))


def _is_within(subject: str, scope: str) -> bool:
    """Whether a subject belongs to ``scope``: a context, or the whole registry."""
    context = split_subject(subject)[0]
    return scope == GLOBAL or (context != DEFAULT_CONTEXT and scope == context_subject(context))
