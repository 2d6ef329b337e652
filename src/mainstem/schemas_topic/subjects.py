"""Subjects and their contexts.

A context is a world of subjects and ids of its own, such as ``.lab``; the default one is ``.``. A subject of another
context than the default one is written ``:.lab:orders-value``, and ``:.lab:`` alone means the context itself.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_CONTEXT: Final = "."
GLOBAL: Final = ""
"""The name of the whole registry in configs and modes."""
_QUALIFIED: Final = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)


def split_subject(subject: str) -> tuple[str, str]:
    """The context, and the name in it."""
    match = _QUALIFIED.fullmatch(subject)
    return (match[1], match[2]) if match else (DEFAULT_CONTEXT, subject)


def qualified(context: str, name: str) -> str:
    """The subject ``name`` of ``context`` as it is written everywhere."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def context_subject(context: str) -> str:
    """The name of a context itself in configs and modes."""
    return GLOBAL if context == DEFAULT_CONTEXT else f":{context}:"
