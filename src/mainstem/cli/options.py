"""Options that several commands share, with their environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

DEFAULT_DATA = Path("mainstem-data")
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_HTTP = "127.0.0.1:8080"
DEFAULT_LOG_FORMAT = "text:warning"
DEFAULT_BACKUP_EVERY = "5s"
DEFAULT_BACKUP_KEEP = "7d"

Bootstrap: TypeAlias = Annotated[
    str, typer.Option("--bootstrap", envvar="MAINSTEM_BOOTSTRAP", metavar="HOST:PORT", help="The log's address.")
]
Url: TypeAlias = Annotated[
    str, typer.Option("--url", envvar="MAINSTEM_URL", metavar="URL", help="The HTTP gateway's address.")
]
Data: TypeAlias = Annotated[
    Path, typer.Option("--data", envvar="MAINSTEM_DATA", metavar="DIR", help="The data directory.")
]
Listen: TypeAlias = Annotated[
    str,
    typer.Option(
        "--listen",
        envvar="MAINSTEM_LISTEN",
        metavar="ADDRESSES",
        help="Where the log listens: HOST:PORT or PROTOCOL://HOST:PORT, several with commas (port 0: any).",
    ),
]
Http: TypeAlias = Annotated[
    str, typer.Option("--http", envvar="MAINSTEM_HTTP", metavar="HOST:PORT", help="Where HTTP listens (0: any port).")
]
NoHttp: TypeAlias = Annotated[bool, typer.Option("--no-http", help="The log alone, without the HTTP gateway.")]
Registry: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--registry",
        envvar="MAINSTEM_REGISTRY",
        metavar="HOST:PORT",
        help="Serve the schema registry at the root of this address, too (0: any port).",
    ),
]
HttpTokens: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--http-tokens",
        envvar="MAINSTEM_HTTP_TOKENS",
        metavar="FILE",
        help="Ask each HTTP request for a token of this file (mainstem tokens).",
    ),
]
CorsOrigins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--cors-origin", metavar="ORIGIN", help="Let web pages of this origin use HTTP; repeatable."),
]
HttpNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--http-name", metavar="NAME", help="A host name that a proxy passes on to HTTP; repeatable."),
]
HttpTlsCert: TypeAlias = Annotated[
    Path | None, typer.Option("--http-tls-cert", metavar="FILE", help="HTTP over TLS: the certificate chain, PEM.")
]
HttpTlsKey: TypeAlias = Annotated[
    Path | None, typer.Option("--http-tls-key", metavar="FILE", help="The certificate's key, if in another file.")
]
ConsoleReadOnly: TypeAlias = Annotated[
    bool, typer.Option("--console-read-only", help="A console that hides and refuses every change.")
]
AlertWebhook: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--alert-webhook",
        envvar="MAINSTEM_ALERT_WEBHOOK",
        metavar="URL",
        help="Send problems that begin and end there, in the form of Alertmanager's webhooks.",
    ),
]
NoConsole: TypeAlias = Annotated[bool, typer.Option("--no-console", help="HTTP without the console at /.")]
Insecure: TypeAlias = Annotated[
    bool, typer.Option("--insecure", help="Insist on an address that is not loopback, without authentication.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the log, by Kafka's own name, or of the gateway (mainstem.gateway.…); repeatable.",
    ),
]
LogFormat: TypeAlias = Annotated[
    str,
    typer.Option(
        "--log-format",
        envvar="MAINSTEM_LOG_FORMAT",
        metavar="FORMAT[:LEVEL]",
        help="The format of the log's events: text or json, from a level on, e.g. json:info.",
    ),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="The result as one line of JSON.")]
AtLeast: TypeAlias = Annotated[
    str | None, typer.Option("--at-least", metavar="POSITION", help="Wait until the view reflects this position.")
]
MaxLag: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-lag-ms", min=0, metavar="MS", help="Reflect all that was in the log so long ago, or wait."),
]
AsOf: TypeAlias = Annotated[
    str | None, typer.Option("--as-of", metavar="MOMENT", help="As of a past position or time (ISO 8601, or ms).")
]
Timeout: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=0, max=300, metavar="SECONDS", help="How long to wait for that.")
]
BackupUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--backup",
        envvar="MAINSTEM_BACKUP",
        metavar="URL",
        help="Back the log up continuously: s3://BUCKET/PATH, gs://…, az://… or file:///PATH.",
    ),
]
BackupEvery: TypeAlias = Annotated[
    str, typer.Option("--every", metavar="DURATION", help="How often what is new is stored.")
]
BackupKeep: TypeAlias = Annotated[
    str, typer.Option("--keep", metavar="DURATION", help="How long each point in time can be restored.")
]
ServedBackupEvery: TypeAlias = Annotated[
    str, typer.Option("--backup-every", metavar="DURATION", help="With --backup: how often what is new is stored.")
]
ServedBackupKeep: TypeAlias = Annotated[
    str, typer.Option("--backup-keep", metavar="DURATION", help="With --backup: how long each point can be restored.")
]
