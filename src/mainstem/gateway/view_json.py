"""A view host's answers as JSON documents. Blocking; safe from any thread, as the host is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainstem.model import Position

if TYPE_CHECKING:
    from mainstem.views.host import ViewHost


def statuses(host: ViewHost) -> list[dict[str, Any]]:
    """The status of every view of the host, by name."""
    found = host.status()
    return [plain(status) for status in (found.values() if isinstance(found, Mapping) else found)]


def plain(value: Any) -> Any:
    """Dataclasses as objects, positions as their text."""
    if isinstance(value, Position):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value
