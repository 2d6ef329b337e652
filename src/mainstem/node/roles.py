"""The roles of supervised processes: log, backup, gateway, registry, view host, capture, pipelines.

A role is a command line and how to run it: the ready line, how long the start and a clean stop may take, and its rank
in the order of stopping (lower ranks first; equal ranks together). The log stops late, so that the other processes can
still append their last records; only the backup, which reads the log's files, stops after it. Pure data.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mainstem.errors import ConfigError
from mainstem.exit_codes import FINAL
from mainstem.logs import FORMATS, LEVELS

WEBHOOK_VARIABLE = "MAINSTEM_ALERT_WEBHOOK"
"""The gateway gets the webhook's URL by it: others on the machine see a command line, and the URL may be secret."""
RANK_GATEWAY, RANK_APPLIERS, RANK_LOG, RANK_BACKUP = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Role:
    """A process to supervise. Its standard output has one line that starts with ``ready_prefix`` once it is up.

    ``refusal_codes``: the exit codes by which it says that what it was asked for is wrong: it is not started again.
    """

    name: str
    argv: tuple[str, ...]
    ready_prefix: str
    ready_timeout_s: float = 30.0
    grace_s: float = 10.0
    stop_rank: int = RANK_GATEWAY
    environment: Mapping[str, str] = field(default_factory=dict)
    refusal_codes: frozenset[int] = FINAL


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    # -P: a file in the current directory must not stand in for a library's module
    return (sys.executable, "-P", "-m", module, *arguments, "--stop-with-parent")


@dataclass(frozen=True)
class LogOutput:
    """How the log process writes its events."""

    format: str = "text"
    level: str = "WARNING"

    @classmethod
    def parse(cls, text: str) -> LogOutput:
        """``json``, or ``json:info``. Raises ConfigError."""
        log_format, _, level = text.partition(":")
        output = cls(log_format, level.upper() or cls.level)
        if output.format not in FORMATS or output.level not in LEVELS:
            raise ConfigError(
                f"invalid log format {text!r}: give {' or '.join(FORMATS)}, then a colon and one of {', '.join(LEVELS)}"
            )
        return output


def log_role(
    data: Path,
    listen: str,
    metrics: Path,
    settings: Sequence[str] = (),
    *,
    insecure: bool = False,
    output: LogOutput = LogOutput(),  # immutable
) -> Role:
    """The log process. ``settings`` are NAME=VALUE by Kafka's names."""
    arguments = ["--data", str(data), "--listen", listen, *(["--insecure"] if insecure else [])]
    arguments += ["--metrics-socket", str(metrics)]
    arguments += ["--log-format", output.format, "--log-level", output.level]
    for setting in settings:
        arguments += ["--set", setting]
    argv = _python("mainstem.broker.process", *arguments)
    return Role("log", argv, "ready: kafka ", 120.0, 30.0, RANK_LOG)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The gateway's options: tokens, pages of other origins, TLS, limits, a console that only reads, where problems are
    sent to, and the names that a proxy has for it.
    """

    tokens: Path | None = None
    origins: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    settings: tuple[str, ...] = ()
    console_read_only: bool = False
    alert_webhook: str | None = None

    def __post_init__(self) -> None:
        if self.tls_key is not None and self.tls_cert is None:
            raise ConfigError("--http-tls-key needs --http-tls-cert: without a certificate HTTP would go without TLS")

    def arguments(self) -> list[str]:
        """The arguments of the gateway process."""
        files = {"--tokens": self.tokens, "--tls-cert": self.tls_cert, "--tls-key": self.tls_key}
        words = [word for name, path in files.items() if path is not None for word in (name, str(path.absolute()))]
        words += [word for origin in self.origins for word in ("--cors-origin", origin)]
        words += [word for name in self.host_names for word in ("--host-name", name)]
        words += [word for setting in self.settings for word in ("--set", setting)]
        words += ["--console-read-only"] if self.console_read_only else []
        return [*words, "--insecure"] if self.insecure else words


def gateway_role(
    bootstrap: str,
    http: str,
    metrics: Sequence[Path] = (),
    view_hosts: Sequence[Path] = (),
    access: HttpAccess = HttpAccess(),  # immutable
    *,
    console: bool = False,
) -> Role:
    """The gateway process, in front of the view hosts' sockets; with the console or not.

    ``metrics``: the socket of the log's metrics, the supervisor's file and the history's, where they are.
    """
    arguments = ["--bootstrap", bootstrap, "--http", http]
    for name, path in zip(("--metrics-socket", "--supervisor-metrics", "--history"), metrics, strict=False):
        arguments += [name, str(path)]
    for socket in view_hosts:
        arguments += ["--view-host", str(socket)]
    arguments += access.arguments()
    module = "mainstem.console.process" if console else "mainstem.gateway.server.process"
    secrets = {WEBHOOK_VARIABLE: access.alert_webhook} if access.alert_webhook else {}
    return Role("gateway", _python(module, *arguments), "ready: http ", ready_timeout_s=180.0, environment=secrets)


def registry_role(bootstrap: str, http: str, access: HttpAccess) -> Role:
    """The schema registry, alone at an address of its own."""
    arguments = ["--registry", "--bootstrap", bootstrap, "--http", http, *access.arguments()]
    return Role("registry", _python("mainstem.gateway.server.process", *arguments), "ready: http ")


def view_host_role(app: Path, bootstrap: str, data: Path, socket: Path) -> Role:
    """One view host for all views of an App."""
    arguments = ("--app", str(app), "--bootstrap", bootstrap, "--data", str(data), "--socket", str(socket))
    argv = _python("mainstem.gateway.server.view_host_process", *arguments)
    return Role("views", argv, "ready: views ", ready_timeout_s=180.0, grace_s=20.0, stop_rank=RANK_APPLIERS)


def capture_role(app: Path, bootstrap: str, capture: str) -> Role:
    """One capture of a database."""
    arguments = ("--app", str(app), "--bootstrap", bootstrap, "--capture", capture)
    argv = _python("mainstem.postgres.process", *arguments)
    prefix = "ready: postgres "
    return Role(f"postgres-{capture}", argv, prefix, ready_timeout_s=180.0, grace_s=20.0, stop_rank=RANK_APPLIERS)


def backup_role(data: Path, url: str, every_s: float, keep_s: float) -> Role:
    """The continuous backup of a data directory. Nothing that it says ends the node: it is always started again."""
    arguments = ("--data", str(data), "--url", url, "--every", f"{every_s:g}", "--keep", f"{keep_s:g}")
    argv = _python("mainstem.backup.process", *arguments)
    return Role("backup", argv, "ready: backup ", grace_s=10.0, stop_rank=RANK_BACKUP, refusal_codes=frozenset())


def pipelines_role(
    app: Path, bootstrap: str, master: str, checkpoints: Path, *, once: bool = False, changed: Sequence[str] = ()
) -> Role:
    """The Spark driver, which runs all pipelines of an App. ``changed``: what becomes of changed ones."""
    arguments = ["--app", str(app), "--bootstrap", bootstrap, "--master", master, "--checkpoints", str(checkpoints)]
    if once:
        arguments.append("--once")
    for choice in changed:
        arguments += ["--changed", choice]
    argv = _python("mainstem.spark.process", *arguments)
    return Role("pipelines", argv, "ready: pipelines", ready_timeout_s=180.0, grace_s=20.0, stop_rank=RANK_APPLIERS)
