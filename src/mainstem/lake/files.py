"""How pyiceberg reads and writes a lake's files: local paths, and every written file is on the disk when it is closed.

pyiceberg's own file access does not sync. Because it writes in the order data, manifest, manifest list, metadata and
only then changes the catalog, files that are durable when they are closed make the whole commit durable: the catalog
never names what a power cut could take away. Safe from any thread.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, BinaryIO

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

DURABLE_FILES = f"{__name__}.DurableFiles"
"""The name by which pyiceberg finds the class."""


class _Synced(io.FileIO):
    """A file that is written once, and is on the disk, with its name, when it is closed."""

    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
            super().close()
            sync_directory(Path(os.fsdecode(self.name)).parent)


class _In(InputFile):
    def __len__(self) -> int:
        return Path(self.location).stat().st_size

    def exists(self) -> bool:
        return Path(self.location).exists()

    def open(self, seekable: bool = True) -> InputStream:
        stream: Any = Path(self.location).open("rb")  # noqa: SIM115
        return stream  # type: ignore[no-any-return]  # it reads, seeks and closes as an InputStream does


class _Out(OutputFile):
    def __len__(self) -> int:
        return Path(self.location).stat().st_size

    def exists(self) -> bool:
        return Path(self.location).exists()

    def to_input_file(self) -> InputFile:
        return _In(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:
        stream: Any = create(Path(self.location), overwrite=overwrite)
        return stream  # type: ignore[no-any-return]


class DurableFiles(FileIO):
    """pyiceberg's port to files; see the module."""

    def new_input(self, location: str) -> InputFile:
        return _In(location)

    def new_output(self, location: str) -> OutputFile:
        return _Out(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        path = location if isinstance(location, str) else location.location
        Path(path).unlink(missing_ok=True)


def create(path: Path, *, overwrite: bool = False) -> BinaryIO:
    """A new file that is on the disk when it is closed. Raises FileExistsError unless it may be replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return io.BufferedWriter(_Synced(str(path), "wb" if overwrite else "xb"))


def sync_directory(path: Path) -> None:
    """Let the names in a directory be on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
