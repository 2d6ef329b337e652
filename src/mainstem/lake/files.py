"""How pyiceberg reads and writes a lake's files: in the lake's own directory, and on the disk when they are closed.

An Iceberg table names its files by absolute paths. Of such a name only the end counts here, ``data/…`` or
``metadata/…``: the file is the one of that name in the directory in which the lake was opened. So however the path to a
lake is spelled, and wherever it was moved or copied to, its own files are read and written, and never those of the lake
that it was copied from.

pyiceberg's own file access does not sync. Because it writes in the order data, manifest, manifest list, metadata and
only then changes the catalog, files that are durable when they are closed make the whole commit durable: the catalog
never names what a power cut could take away. Safe from any thread.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from mainstem.durable_files import make_directory, sync_directory

DURABLE_FILES = f"{__name__}.DurableFiles"
"""The name by which pyiceberg finds the class."""
DIRECTORY: Final = "mainstem.lake.directory"
"""The catalog's property that tells it the lake's directory."""
TABLE_FILES: Final = "table"
_PARTS: Final = ("data", "metadata")


class _Synced(io.FileIO):
    """A file that is written once, and is on the disk, with its name, when it is closed."""

    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
            super().close()
            sync_directory(Path(os.fsdecode(self.name)).parent)


class _Local:
    """The common part of files to read and to write."""

    def __init__(self, location: str, path: Path) -> None:
        super().__init__(location)  # type: ignore[call-arg]  # of InputFile or OutputFile
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.exists()


class _In(_Local, InputFile):
    def open(self, seekable: bool = True) -> InputStream:
        stream: Any = self._path.open("rb")
        return stream  # type: ignore[no-any-return]  # it reads, seeks and closes as an InputStream does


class _Out(_Local, OutputFile):
    def to_input_file(self) -> InputFile:
        return _In(self.location, self._path)

    def create(self, overwrite: bool = False) -> OutputStream:
        stream: Any = create(self._path, overwrite=overwrite)
        return stream  # type: ignore[no-any-return]


class DurableFiles(FileIO):
    """The implementation of pyiceberg's file interface for a lake's directory."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._directory = Path(properties[DIRECTORY])

    def new_input(self, location: str) -> InputFile:
        return _In(location, own_path(self._directory, location))

    def new_output(self, location: str) -> OutputFile:
        return _Out(location, own_path(self._directory, location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        own_path(self._directory, name).unlink(missing_ok=True)


def own_path(directory: Path, location: str) -> Path:
    """The file that a table's name for it means in the lake in ``directory``. Raises ValueError for another's name."""
    named = Path(location)
    part = named.parent.name
    if part not in _PARTS or named.name in {"", ".."}:
        raise ValueError(f"invalid name of a lake's file: {location}")
    return directory / TABLE_FILES / part / named.name


def make_parts(directory: Path) -> None:
    """Make the directories of a table's files in the lake in ``directory``, durably. Raises StorageError."""
    for part in _PARTS:
        make_directory(directory / TABLE_FILES / part)
    sync_directory(directory / TABLE_FILES)  # a process that was killed may have made them, and not synced this
    sync_directory(directory)


def create(path: Path, *, overwrite: bool = False) -> BinaryIO:
    """A new file that is on the disk when it is closed. Raises FileExistsError unless it may be replaced."""
    make_directory(path.parent)
    return io.BufferedWriter(_Synced(str(path), "wb" if overwrite else "xb"))
