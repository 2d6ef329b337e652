"""``mainstem.toml`` in the current directory: defaults for options, so that a command line can stay short.

    bootstrap = "kafka1:9092"        # for every command that has --bootstrap
    [serve]
    data = "/var/lib/mainstem"       # for one command
    set = ["num.partitions=4"]

What stands on the command line or in a ``MAINSTEM_…`` variable wins over the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mainstem.errors import ConfigError

FILE_NAME = "mainstem.toml"
SHARED = ("bootstrap", "url", "data", "listen", "http")


def defaults(commands: Iterable[str], path: Path = Path(FILE_NAME)) -> dict[str, Any]:
    """The defaults for each command, in typer's form. Raises ConfigError for a file that is wrong."""
    if not path.is_file():
        return {}
    import tomllib

    try:
        document = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error
    names = set(commands)
    unknown = [name for name in document if name not in SHARED and name not in names]
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]!r} is neither a command nor one of {', '.join(SHARED)}")
    shared = {name: document[name] for name in SHARED if name in document}
    return {name: {**shared, **_table(path, name, document.get(name, {}))} for name in names}


def _table(path: Path, name: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: write a table, [{name}], not {name} = …")
    return {option.replace("-", "_"): value for option, value in table.items()}
