"""The names of subjects and contexts that clients may give. ``schemas_topic.subjects`` has what they mean."""

from __future__ import annotations

import re
from typing import Final

from mainstem.registry.errors import RegistryError
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT, qualified, split_subject

EVERY_CONTEXT: Final = ":*:"
_CONTEXT: Final = re.compile(r"\.[A-Za-z0-9_.-]{0,254}")
_SUBJECT_CHARACTERS_MAX: Final = 1024
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})


def checked_context(context: str) -> str:
    """``context`` with its dot. Raises RegistryError for a name that cannot be."""
    with_dot = context if context.startswith(".") else f".{context}"
    if not _CONTEXT.fullmatch(with_dot):
        raise RegistryError(42208, f"invalid context {context[:100]!r}: use a dot, then letters, digits, '_', '-', '.'")
    return with_dot


def checked_subject(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """The subject in its one written form; one without a context of its own belongs to ``context``.

    Raises RegistryError for a name that cannot be.
    """
    if not subject.startswith(":."):
        subject = qualified(context, subject)
    of_context, name = split_subject(subject)
    checked_context(of_context)
    is_printable = all(ord(each) >= 32 and not 0xD800 <= ord(each) <= 0xDFFF for each in name)
    if not is_printable or name in _RESERVED or len(name) > _SUBJECT_CHARACTERS_MAX:
        shown = name[:100]
        raise RegistryError(42208, f"invalid subject {shown!r}: use at most 1024 characters, no control characters")
    return qualified(of_context, name)
