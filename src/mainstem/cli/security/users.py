"""``mainstem users``: list, add, remove.

A password comes from a prompt or from standard input, never in an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import confirm, out, out_json, out_rows
from mainstem.errors import InputError, UnknownUserError

app = typer.Typer(help="List, add and remove the log's users.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME")]
Stopped = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The data directory of a log that is not running: how to begin."),
]
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@app.command("list")
def list_users(
    data: Stopped = None, bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False
) -> None:
    """Every user, with the mechanisms by which it can log in."""
    if data is not None:
        from mainstem.broker.security.local_users import local_credentials

        with local_credentials(_existing(data)) as credentials:
            found = {user: sorted(credentials.of(user)) for user in credentials.users()}
    else:
        with connect(bootstrap) as log:
            found = log.access_admin.users()
    rows = [{"user": user, "mechanisms": ", ".join(mechanisms)} for user, mechanisms in found.items()]
    if json:
        out_json({"users": [{"user": user, "mechanisms": mechanisms} for user, mechanisms in found.items()]})
    elif rows:
        out_rows(rows)
    else:
        out("no users yet; add one with: mainstem users add NAME")


@app.command()
def add(
    name: Name,
    mechanism: Annotated[
        list[str] | None, typer.Option("--mechanism", help=f"{' or '.join(_MECHANISMS)}; default: both.")
    ] = None,
    data: Stopped = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Add a user, or give it a new password: from a prompt, or the first line of standard input."""
    mechanisms = list(dict.fromkeys(mechanism or _MECHANISMS))
    for each in mechanisms:
        if each not in _MECHANISMS:
            raise typer.BadParameter(f"{each!r} is neither {' nor '.join(_MECHANISMS)}", param_hint="--mechanism")
    password = _password()
    if data is not None:
        from mainstem.broker.security.local_users import local_credentials
        from mainstem.protocol.scram import make_credential

        with local_credentials(data) as credentials:
            changes = {(name, each): make_credential(each, password) for each in mechanisms}
            for (user, each), credential in changes.items():
                credentials.check(user, each, credential)
            credentials.change(changes)
    else:
        with connect(bootstrap) as log:
            log.access_admin.put_user(name, password, mechanisms)
    if json:
        out_json({"user": name, "mechanisms": mechanisms})
    else:
        out(f"added {name}")


@app.command()
def remove(
    name: Name,
    data: Stopped = None,
    yes: options.Yes = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Remove a user. Connections that it has stay until they end."""
    if not yes:
        confirm(f"Remove user {name}?")
    if data is not None:
        from mainstem.broker.security.local_users import local_credentials

        with local_credentials(_existing(data)) as credentials:
            held = credentials.of(name)
            if not held:
                raise UnknownUserError(f"user {name!r} does not exist")
            credentials.change({(name, mechanism): None for mechanism in held})
    else:
        with connect(bootstrap) as log:
            log.access_admin.remove_user(name)
    if json:
        out_json({"removed": name})
    else:
        out(f"removed {name}")


def _existing(data: Path) -> Path:
    """A directory that is there; only ``add`` makes one."""
    if not data.exists():
        raise InputError(f"{data}: no such data directory; mainstem users add makes it, or name another (--data)")
    return data


def _password() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InputError("the first line of standard input is the password; it is empty")
    return password
