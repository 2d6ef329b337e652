"""The parts of ``docs/reference/settings.md`` on ``mainstem.toml`` and on environment variables.

Options of commands and their variables come from the command line itself. The tables here add what no option says. A
security option without an entry is an error; tests/house/test_environment.py finds a variable that the source reads
and no table has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from mainstem.cli.main import command_line, options_of_commands
from mainstem.cli.settings import SHARED
from mainstem.client.security import OPTIONS, variable_of

VARIABLES: Final = {
    "MAINSTEM_TOKEN": "The token for a gateway that asks for one, for commands and `ms.views()`",
    "MAINSTEM_CLIENT_CONFIG": "A file of security options, lines of `NAME=VALUE`",
    "MAINSTEM_DEBUG": "If set, a command's error shows where it came from",
    "MAINSTEM_POSTGRES_DSN": "The database of `ms.Postgres()` without `dsn`",
    "MAINSTEM_MARIADB_DSN": "The database of `ms.MariaDB()` without `dsn`",
    "MAINSTEM_VERIFY_SHARE": "The share of a processor that verifies views in the background; 0.02 unless set, 0 turns "
    "it off",
    "MAINSTEM_VIEW_MEMORY_MAX": "The bytes of memory of a view host, and of the process of each SQL and lake view; "
    "half of the machine's unless set",
}
"""Our own variables without an option."""
FOREIGN: Final = {
    "JAVA_HOME": "The Java that Spark runs with; `java` of `PATH` unless set",
    "SPARK_HOME": "A Spark to use instead of PySpark's own; both must have the same version",
    "SPARK_CONF_DIR": "Spark's configuration, `conf` of its home unless set; with a `spark-env.sh` there, a local "
    "session writes checkpoint files as Spark does, which takes longer",
    "SPARK_DIST_CLASSPATH": "What Spark adds to its JVM's class path; a local session adds a jar of Mainstem",
    "PYSPARK_GATEWAY_PORT": "`spark-submit` sets it to the port of the JVM that it has started",
    "SPARK_REMOTE": "Must not be set where a pipeline runs: its Spark is not a Spark Connect server",
    "SPARK_LOCAL_IP": "The address of a local Spark; `127.0.0.1` if this machine's name has no address",
    "SPARK_LOCAL_HOSTNAME": "The name of a local Spark, instead of `SPARK_LOCAL_IP`",
    "PYSPARK_PYTHON": "The Python of Spark's workers; it must have the driver's version",
    "PYTHONPATH": "Where Spark's workers look for modules, as everywhere in Python",
    "PYTHONHASHSEED": "The same for all of Spark's workers; 0 unless set",
    "XDG_CACHE_HOME": "The directory of caches, in which Mainstem has `mainstem`; `~/.cache` unless set",
    "PGHOST": "The host of a PostgreSQL DSN without one",
    "PGPORT": "The port of a PostgreSQL DSN without one",
    "PGPASSWORD": "The password of a PostgreSQL DSN without one",
    "PGOPTIONS": "Options of a PostgreSQL session, for a DSN without them",
    "MYSQL_PWD": "The password of a MariaDB DSN without one",
    "AWS_ENDPOINT": "The address of an S3 server that is not Amazon's, for backups",
    "AWS_ENDPOINT_URL": "The same, by another of its names",
    "AWS_ENDPOINT_URL_S3": "The same, by another of its names",
    "AZURE_ENDPOINT": "The address of a server of Azure's blobs, for backups",
    "AZURE_STORAGE_ENDPOINT": "The same, by another of its names",
    "NOTIFY_SOCKET": "Where systemd waits for the message that the node is ready",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "Where [traces](../howto/traces.md) go; without it there are none",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "The same, for traces alone",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "How long a process tries to send spans; 3 s unless set",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "The same, for traces alone",
    "OTEL_TRACES_EXPORTER": "`otlp`, or `none` for no traces",
    "OTEL_SDK_DISABLED": "`true` turns traces off",
    "OTEL_SERVICE_NAME": "One name for all processes in traces",
}
"""Variables of other programs that the source reads. Their libraries read more: obstore's AWS_…, OpenTelemetry's."""
INTERNAL: Final = frozenset({"MAINSTEM_BUILDING_CLASS_ARCHIVE", "MAINSTEM_FORK_CLIENT", "MAINSTEM_FORK_SERVER"})
"""Mainstem sets these for processes that it starts itself."""
_SHARED: Final = {
    "bootstrap": "The log's address",
    "url": "The HTTP gateway's address",
    "data": "The data directory",
    "listen": "Where the log listens",
    "http": "Where HTTP listens; not for `mainstem mcp`, whose option `--http` means another address",
}
_SECURITY: Final = {
    "security.protocol": "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    "sasl.mechanism": "`SCRAM-SHA-256`, `SCRAM-SHA-512`, `PLAIN` or `OAUTHBEARER`",
    "sasl.mechanisms": "The same, by librdkafka's other name",
    "sasl.username": "The user",
    "sasl.password": "The user's password",
    "sasl.oauthbearer.method": "`oidc`, or not set",
    "sasl.oauthbearer.token.endpoint.url": "The identity provider that gives tokens, or `file:///…` of a token",
    "sasl.oauthbearer.client.id": "The client's name at the identity provider",
    "sasl.oauthbearer.client.secret": "The client's secret there",
    "sasl.oauthbearer.scope": "The scope to ask for",
    "ssl.ca.location": "A file of the authorities that sign the log's certificate",
    "ssl.certificate.location": "A file with the client's own certificate",
    "ssl.key.location": "The key of it, if it is in another file",
    "ssl.key.password": "The password of the key",
    "ssl.endpoint.identification.algorithm": "`https`, or `none` to take a certificate of any host",
}


def settings_file_part() -> Iterator[str]:
    """The section on ``mainstem.toml``."""
    yield "\n## In mainstem.toml\n"
    yield "`mainstem.toml` in the current directory has defaults for commands ([example](commands.md#defaults)). An"
    yield "environment variable or an option on the command line wins. Any other key is an error.\n"
    yield "| key at the top | variable | meaning |"
    yield "|---|---|---|"
    for name in SHARED:
        yield f"| `{name}` | `MAINSTEM_{name.upper()}` | {_SHARED[name]} |"
    for name in OPTIONS:
        yield f"| `{name}` | `{variable_of(name)}` | {_SECURITY[name]} |"
    yield "\nA table is named after a command and takes that command's options, without their dashes. That of a group,"
    yield "such as `[topics]`, takes those of all its commands. `[topics.create]` is for one of them, and takes that"
    yield "one's. [All commands and options](cli.md) explains each.\n"
    yield "| table | keys |"
    yield "|---|---|"
    for table, keys in tables_of_settings_file().items():
        yield f"| `[{table}]` | {', '.join(f'`{key}`' for key in keys)} |"


def tables_of_settings_file() -> dict[str, list[str]]:
    """The keys of each table of ``mainstem.toml``; those of a group's commands are the group's."""
    commands = options_of_commands()
    found = {}
    for name, options in commands.items():
        within = [each for full in commands if full.startswith(f"{name}.") for each in commands[full]]
        keys = dict.fromkeys([*options, *within])
        found[name] = ["url", *keys] if name == "backup" else list(keys)
    return {name: keys for name, keys in found.items() if "." not in name}


def variables_part() -> Iterator[str]:
    """The section on environment variables."""
    variables = _variables_of_options()
    yield "\n## In the environment\n"
    yield "An option on the command line wins over its variable, and the variable over `mainstem.toml`. The variables"
    yield "of security options are [above](#in-mainstemtoml).\n"
    yield "| variable | option | meaning |"
    yield "|---|---|---|"
    for name, (options, meaning) in sorted(variables.items()):
        yield f"| `{name}` | {', '.join(f'`{option}`' for option in options)} | {meaning} |"
    for name, meaning in VARIABLES.items():
        yield f"| `{name}` |  | {meaning} |"
    yield "\nOther programs' variables that Mainstem reads:\n"
    yield "| variable | meaning |"
    yield "|---|---|"
    for name, meaning in FOREIGN.items():
        yield f"| `{name}` | {meaning} |"
    yield "\nA setting of the node may take a secret from a variable of any name: `ssl.key.password=${env:NAME}`"
    yield "([security](../operate/security.md)). Backups also take the variables of their stores, such as"
    yield "`AWS_ACCESS_KEY_ID` ([backup](../operate/backup.md)). Mainstem sets"
    yield f"{', '.join(f'`{name}`' for name in sorted(INTERNAL))} for its own processes."


def known_variables() -> set[str]:
    """Every variable that the page names."""
    return {*_variables_of_options(), *map(variable_of, OPTIONS), *VARIABLES, *FOREIGN, *INTERNAL}


def _variables_of_options() -> dict[str, tuple[list[str], str]]:
    """The variables of options, each with its options and the meaning of the first."""
    found: dict[str, tuple[list[str], str]] = {}
    for option in _all_options(typer.main.get_command(command_line())):
        if isinstance(option.envvar, str):
            text = re.sub(r"\s+", " ", option.help or "").strip().rstrip(".")
            options, _ = found.setdefault(option.envvar, ([], text.replace("|", "\\|")))
            options += [each for each in option.opts[:1] if each not in options]
    return found


def _all_options(command: Any) -> Iterator[Any]:
    yield from (each for each in command.params if hasattr(each, "envvar"))
    for inner in getattr(command, "commands", {}).values():
        yield from _all_options(inner)
