"""The versions of one view on disk: one serves, the next may be under construction beside it.

    DIRECTORY/current            the name of the version that serves
    DIRECTORY/v000003/definition.json   what it was built for
    DIRECTORY/v000003/built_from.json   where its records came from
    DIRECTORY/v000003/awaits_schema     there while it has no schema and no record: a schema may come with the first one
    DIRECTORY/v000003/store/     the store's own files
    DIRECTORY/v000003/snapshots/   copies of them from the past (`views.stores.store_snapshots`)
    DIRECTORY/v000003/past/      past states that were asked for (`views.past.historical_stores`), while the view is
    open

``current`` is replaced by a rename, so that a crash leaves either version in charge and never none; what it does not
name is left over from a crash and swept away at the next start. One process owns the directory.
"""

from __future__ import annotations

import itertools
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from mainstem.durable_files import LOCAL_FILES, FileSystem, remove_file, replace_file, sync_tree
from mainstem.errors import PositionFormatError, StorageError, ViewStoppedError
from mainstem.model import Position
from mainstem.views.status import BuiltFrom
from mainstem.views.stores.json_reader import READING_VERSION
from mainstem.views.stores.store import StoreDefinition

_CURRENT = "current"
_DEFINITION = "definition.json"
_ORIGIN = "built_from.json"
_AWAITS_SCHEMA = "awaits_schema"
_STORE = "store"
_SNAPSHOTS = "snapshots"
_PAST = "past"


class Versions:
    """The versions of one view on disk. For one thread at a time, but for ``create``."""

    def __init__(self, directory: Path, files: FileSystem = LOCAL_FILES) -> None:
        self._directory = directory
        self._files = files

    def current(self) -> Path | None:
        """The version that serves; None before the first one does. Raises StorageError when it is not there."""
        try:
            name = (self._directory / _CURRENT).read_text().strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"{self._directory / _CURRENT} cannot be read ({error}): rebuild the view") from error
        path = self._directory / name
        if not name or not path.is_dir():
            raise StorageError(f"{self._directory / _CURRENT} names {name!r}, which is not there: rebuild the view")
        return path

    @property
    def is_empty(self) -> bool:
        """Whether no version has served yet."""
        return not (self._directory / _CURRENT).exists()

    def create(self, topic: str, definition: StoreDefinition, *, awaits_schema: bool = False) -> Path:
        """A new version, empty but for its definition. Any thread may ask: each gets a version of its own.

        ``awaits_schema``: the topic has no schema yet, and the version has no record.
        """
        numbers = [int(path.name[1:]) for path in self._directory.glob("v[0-9]*")]
        self._directory.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(max(numbers, default=0) + 1):
            path = self._directory / f"v{number:06d}"
            with suppress(FileExistsError):  # a rebuild was asked for while the view was opened for the first time
                path.mkdir()
                break
        replace_file(LOCAL_FILES, path / _DEFINITION, json.dumps(_document(topic, definition), indent=1).encode())
        if awaits_schema:
            replace_file(LOCAL_FILES, path / _AWAITS_SCHEMA, b"")
        return path

    def make_current(self, path: Path) -> None:
        """Let this version serve from the next opening on: durable on return, with all that it has so far.

        The caller may then remove the former version: no power cut makes it serve again, or takes from the new
        one what the log may no longer have. Raises StorageError.
        """
        sync_tree(path)
        replace_file(self._files, self._directory / _CURRENT, f"{path.name}\n".encode())

    def remove(self, path: Path) -> None:
        """Delete a version that does not serve; one that ``current`` names stays.

        A swap that failed in its last step, the directory's sync, has named the new version already: the next start
        opens that one, so its files have to be there.
        """
        if not self.is_current(path):
            shutil.rmtree(path, ignore_errors=True)

    def is_current(self, path: Path) -> bool:
        """Whether the next start opens this version."""
        try:
            return self.current() == path
        except StorageError:
            return False

    def sweep(self) -> None:
        """Delete what a crash left over: every version but the current one. Raises StorageError as ``current`` does."""
        current = self.current()
        for path in self._directory.glob("v[0-9]*"):
            if path != current:
                self.remove(path)

    def delete(self) -> None:
        """Delete everything that is stored of the view."""
        remove_file(self._directory / _CURRENT)
        shutil.rmtree(self._directory, ignore_errors=True)


def store_path(version: Path) -> Path:
    """The directory of the version's store."""
    return version / _STORE


def note_origin(version: Path, origin: BuiltFrom) -> None:
    """Write down where the records of a version come from, before it has any."""
    replace_file(LOCAL_FILES, version / _ORIGIN, json.dumps(origin.to_json()).encode())


def awaits_schema(version: Path) -> bool:
    """Whether a version was made without a schema and has no record: it may be replaced by one with the schema."""
    return (version / _AWAITS_SCHEMA).exists()


def end_wait_for_schema(version: Path) -> None:
    """Write down, durably, that a version gets records now. Raises StorageError."""
    remove_file(version / _AWAITS_SCHEMA)


def origin_of(version: Path) -> BuiltFrom:
    """Where the records of a version came from; the log, if nothing is noted."""
    try:
        document = json.loads((version / _ORIGIN).read_text())
        return BuiltFrom(str(document["source"]), Position.parse(document["beginning"]))
    except FileNotFoundError:
        return BuiltFrom("log", Position())
    except (OSError, ValueError, KeyError, TypeError, PositionFormatError) as error:
        raise StorageError(f"{version / _ORIGIN} cannot be read ({error}): rebuild the view") from error


def made_ms(version: Path) -> int:
    """When a version was begun, by the clock of its files; 0 where that is not known."""
    return modified_ms(version / _DEFINITION) or 0


def modified_ms(path: Path) -> int | None:
    """When a file or directory was written last; None where it is not there."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def snapshots_path(version: Path) -> Path:
    """The directory of the snapshots of the version's store."""
    return version / _SNAPSHOTS


def past_path(version: Path) -> Path:
    """Where past states of the version are built."""
    return version / _PAST


def check_definition(version: Path, topic: str, definition: StoreDefinition) -> None:
    """Raises ViewStoppedError when the version was built for another definition, and says what differs."""
    try:
        stored: dict[str, Any] = json.loads((version / _DEFINITION).read_text())
    except (OSError, ValueError) as error:
        raise StorageError(f"{version / _DEFINITION} cannot be read ({error}): rebuild the view") from error
    wanted = _document(topic, definition)
    changed = sorted(name for name in wanted if stored.get(name) != wanted[name])
    if changed:
        raise ViewStoppedError(
            f"the view's {' and '.join(changed)} changed since it was built "
            f"({', '.join(_difference(name, stored.get(name), wanted[name], definition) for name in changed)}): "
            "rebuild the view"
        )


def _document(topic: str, definition: StoreDefinition) -> dict[str, Any]:
    kind, schema = definition.kind, definition.schema
    document: dict[str, Any] = {"topic": topic, "kind": kind.document(), "decimals": definition.decimals or None}
    if kind.depends_on_schema:
        document["schema"] = None if schema is None else schema.to_json()["columns"]
    if not kind.keeps_every_record:
        document["reading"] = READING_VERSION
    stored: dict[str, Any] = json.loads(json.dumps(document))  # so that it compares with what is read back
    return stored


def _difference(name: str, stored: Any, wanted: Any, definition: StoreDefinition) -> str:
    if name == "reading":
        return (
            "this release reads JSON values by one table of types (docs/reference/types.md) and may read some otherwise"
        )
    explained = definition.kind.difference(stored) if name == "kind" and isinstance(stored, dict) else None
    return explained or f"{name}: {_short(stored)} → {_short(wanted)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
