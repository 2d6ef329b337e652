"""Folds: functions ``state = f(state, record)`` that turn the records of each key into a state. Definitions only.

A fold must depend only on its two arguments: no clock, no randomness, no I/O. When a view is rebuilt or verified, the
fold is called again for the same records and must return the same state.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mainstem.pipelines.function_digest import digest


class FoldRecord(NamedTuple):
    """One record of a key, as a fold gets it. ``value`` is the record's JSON object, read; NaN and Infinity are None.

    ``timestamp_ms`` is milliseconds since the epoch, -1 when the record has none.
    """

    key: str
    value: dict[str, Any]
    timestamp_ms: int
    partition: int
    offset: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


Fold: TypeAlias = Callable[[Any, FoldRecord], Any]
"""Takes the state before (initially ``initial``) and a record; returns the state after, or None to delete the key."""


def place_of(function: Fold) -> str:
    """The function's name and its place in the source: ``balance (bank.py:12)``."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return name if code is None else f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def fault_of(function: Any, initial: Any) -> str | None:
    """The fault of a fold and its initial state; None when they are valid."""
    if function is None:
        return None if initial is None else "initial= is the state that a fold begins with: give fold= too"
    if not callable(function):
        return f"fold= is a function of a state and a record, not {function!r}"
    if inspect.iscoroutinefunction(function):
        return f"the fold {place_of(function)} is async; it has to return the state itself"
    if not _is_json(initial):
        return f"initial={initial!r} is not JSON: use the state that the fold begins with"
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        return f"the fold {place_of(function)} cannot be called with a state and a record: {error}"
    except ValueError:  # a built-in function without a readable signature
        return None
    return None


def document_of(function: Fold, initial: Any) -> dict[str, Any]:
    """A fold as JSON: a digest of its code. Bytecode can be compared within a minor version of Python only."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"fold": {"code": digest(function, own=_package(function)), "python": python}, "initial": initial}


def _package(function: Fold) -> str:
    """The package that the function is part of: all of it is the user's code, wherever it is installed."""
    return str(getattr(function, "__module__", None) or "").partition(".")[0]


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
