"""``mainstem serve``: the log and the HTTP gateway, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import note
from mainstem.errors import InputError


def serve(  # noqa: PLR0913 - a command's options are its parameters
    data: options.Data = options.DEFAULT_DATA,
    listen: options.Listen = options.DEFAULT_LISTEN,
    http: options.Http = options.DEFAULT_HTTP,
    no_http: options.NoHttp = False,
    registry: options.Registry = None,
    http_tokens: options.HttpTokens = None,
    cors_origin: options.CorsOrigins = None,
    http_name: options.HttpNames = None,
    http_tls_cert: options.HttpTlsCert = None,
    http_tls_key: options.HttpTlsKey = None,
    no_console: options.NoConsole = False,
    console_read_only: options.ConsoleReadOnly = False,
    alert_webhook: options.AlertWebhook = None,
    http_for: Annotated[
        str | None,
        typer.Option("--http-for", metavar="HOST:PORT", help="HTTP alone, for a log that runs already; no log here."),
    ] = None,
    settings: options.Settings = None,
    insecure: options.Insecure = False,
    log_format: options.LogFormat = options.DEFAULT_LOG_FORMAT,
    backup: options.BackupUrl = None,
    backup_every: options.ServedBackupEvery = options.DEFAULT_BACKUP_EVERY,
    backup_keep: options.ServedBackupKeep = options.DEFAULT_BACKUP_KEEP,
    json: options.Json = False,
) -> None:
    """Start the log and the HTTP gateway; ctrl-C stops them. With --http-for the gateway alone, for another log."""
    from mainstem.cli.apps.served_backup import ServedBackup
    from mainstem.cli.foreground import stay_up, stopping_cleanly
    from mainstem.extras import require
    from mainstem.gateway.access.limits import divided
    from mainstem.node.roles import HttpAccess, LogOutput
    from mainstem.node.stack import Stack

    if no_http and http_for is not None and registry is None:
        raise InputError("--no-http and --http-for together leave nothing to start")
    if not no_http:
        require("gateway", otherwise=", or start the log alone with --no-http")
    if registry is not None:
        require("registry")
    of_log, of_gateway = divided(settings or (), log=http_for)
    copy = ServedBackup.of(None if http_for else backup, backup_every, backup_keep)
    with stopping_cleanly(), Stack(data, note) as stack:
        output = LogOutput.parse(log_format)
        ready = {"kafka": http_for or stack.launch_log(listen, copy.added_to(of_log), insecure=insecure, output=output)}
        web = (http_tokens, tuple(cors_origin or ()), tuple(http_name or ()), http_tls_cert, http_tls_key)
        access = HttpAccess(*web, insecure, of_gateway, console_read_only, alert_webhook)
        if registry is not None:
            ready["registry"] = stack.launch_registry(ready["kafka"], registry, access)
        if not no_http:
            ready["http"] = stack.launch_gateway(ready["kafka"], http, access=access, console=not no_console)
        if http_for is None:
            stack.supervisor.wait_ready("log")
        copy.start(stack)
        if not no_http:
            stack.supervisor.wait_ready("gateway")
        if registry is not None:
            stack.supervisor.wait_ready("registry")
        stay_up(stack, ready, as_json=json)
