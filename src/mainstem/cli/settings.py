"""``mainstem.toml`` in the current directory: defaults for options, so that a command line can stay short.

    bootstrap = "kafka1:9092"        # for every command that has --bootstrap
    security.protocol = "SASL_SSL"   # Kafka's security options, for every command and what it starts
    sasl.username = "alice"
    [serve]
    data = "/var/lib/mainstem"       # for one command
    set = ["num.partitions=4"]
    [backup]
    url = "s3://backups/orders"      # serve and run start it; mainstem backup takes it for its URL
    keep = "30d"
    [topics]
    bootstrap = "kafka2:9092"        # for all commands of a group
    [topics.create]
    partitions = 3                   # for one of them

An option or a ``MAINSTEM_…`` variable wins over the file.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from mainstem.errors import ConfigError

FILE_NAME = "mainstem.toml"
SECURITY = ("security", "sasl", "ssl")
SHARED = ("bootstrap", "url", "data", "listen", "http")
_NOT_SHARED = {"mcp": "http"}
"""Options that mean another thing in a command: the address of the gateway is not the address of the MCP server."""


def defaults(commands: Mapping[str, Mapping[str, str]], path: Path = Path(FILE_NAME)) -> dict[str, Any]:
    """The defaults for each command, in typer's form. Raises ConfigError for a file that is wrong.

    ``commands`` has the options of each command, with typer's names of them; a command of a group is GROUP.COMMAND.
    """
    if not path.is_file():
        return {}
    document = _read(path)
    backup_url = _share_backup(path, document)
    unknown = [name for name in document if name not in (*SHARED, *SECURITY) and name not in commands]
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]!r} is neither a command nor one of {', '.join(SHARED)}")
    shared = {name: document[name] for name in SHARED if name in document}
    found: dict[str, Any] = {}
    for name in [name for name in commands if "." not in name]:
        table = _table(path, name, document.get(name, {}))
        within = {each.partition(".")[2]: each for each in commands if each.startswith(f"{name}.")}
        known = set().union(commands[name], *(commands[full] for full in within.values()))
        own = {each: _own_table(path, full, table, each in known) for each, full in within.items()}
        _require_known(path, name, table, known)
        own_shared = {each: value for each, value in shared.items() if each != _NOT_SHARED.get(name)}
        found[name] = own_shared | _renamed(table, commands[name])
        for each, full in within.items():
            _require_known(path, full, own[each], commands[full])
            found[name][each] = shared | _renamed(table | own[each], commands[full])
    if backup_url is not None and "to" in found.get("backup", {}):
        found["backup"]["to"]["store_url"] = backup_url
    return found


def _share_backup(path: Path, document: dict[str, Any]) -> Any:
    """Give ``[backup]`` to the commands that start a backup beside their log; its URL is an argument."""
    table = _table(path, "backup", document.get("backup", {}))
    url = table.pop("url", None)
    if url is not None:
        served = {"backup": url, **{f"backup-{name}": table[name] for name in ("every", "keep") if name in table}}
        for command in ("serve", "run"):
            document[command] = served | _table(path, command, document.get(command, {}))
    if "backup" in document:
        document["backup"] = table
    return url


def _own_table(path: Path, full: str, table: dict[str, Any], is_option: bool) -> dict[str, Any]:
    """Take the table of one command out of its group's. A value under the name of an option, too, stays as that."""
    name = full.partition(".")[2]
    if is_option and not isinstance(table.get(name), dict):
        return {}
    return _table(path, full, table.pop(name, {}))


def _require_known(path: Path, name: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for option in table:
        if option not in known:
            raise ConfigError(
                f"{path}: [{name}] has no option {option!r}; see mainstem {name.replace('.', ' ')} --help"
            )


def _renamed(table: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The options that a command has, by typer's names."""
    return {names[option]: value for option, value in table.items() if option in names}


def export_security(path: Path = Path(FILE_NAME), client_config: str = "") -> None:
    """Put security options into the environment, where this command and what it starts look for them.

    A variable that is set wins over ``client_config`` (a properties file of NAME=VALUE lines), and that over the
    settings file. Raises ConfigError.
    """
    found = _security_of_toml(path) if path.is_file() else {}
    if client_config:
        found.update(properties(Path(client_config), "; MAINSTEM_CLIENT_CONFIG names it"))
    if found:
        from mainstem.client.security import OPTIONS, variable_of

        for name, value in found.items():
            if name not in OPTIONS:
                raise ConfigError(f"unknown security option {name!r}; there are {', '.join(OPTIONS)}")
            os.environ.setdefault(variable_of(name), value)


def _security_of_toml(path: Path) -> dict[str, str]:
    document = _read(path)
    return dict(_flattened({name: document[name] for name in SECURITY if name in document}))


def _flattened(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, str(value)


def properties(path: Path, hint: str = "") -> dict[str, str]:
    """The options in a file of NAME=VALUE lines, without addresses. Raises ConfigError."""
    lines = _text(path, hint).splitlines()
    pairs = [line.split("=", 1) for line in lines if line.strip() and not line.lstrip().startswith(("#", "!"))]
    if any(len(pair) < 2 for pair in pairs):
        raise ConfigError(f"{path}: write lines of NAME=VALUE")
    return {name.strip(): value.strip() for name, value in pairs if name.strip() != "bootstrap.servers"}


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def _text(path: Path, hint: str = "") -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}{hint}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text{hint}") from error


def _table(path: Path, name: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: write a table, [{name}], not {name} = …")
    return {option.replace("_", "-"): value for option, value in table.items()}
