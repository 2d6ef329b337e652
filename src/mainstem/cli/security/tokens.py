"""``mainstem tokens``: create, list, revoke. They are for HTTP (``--http-tokens FILE``), and work on the file alone.

A token is shown once, when it is created; the file has its hash. A gateway that runs looks at the file every second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import confirm, note, out, out_json, out_rows

app = typer.Typer(help="Create, list and revoke tokens for HTTP.", no_args_is_help=True, rich_markup_mode=None)

DEFAULT_FILE = Path("tokens.json")
File = Annotated[
    Path, typer.Option("--file", envvar="MAINSTEM_HTTP_TOKENS", metavar="FILE", help="The file of tokens.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]
Patterns = list[str] | None
_WHAT = "topic:NAME, view:NAME, either with * at the end, or * for everything; repeatable."


@app.command()
def create(
    name: Name,
    read: Annotated[Patterns, typer.Option("--read", metavar="WHAT", help=f"May read {_WHAT}")] = None,
    write: Annotated[Patterns, typer.Option("--write", metavar="WHAT", help=f"May append to {_WHAT}")] = None,
    admin: Annotated[Patterns, typer.Option("--admin", metavar="WHAT", help=f"May do anything with {_WHAT}")] = None,
    file: File = DEFAULT_FILE,
    json: options.Json = False,
) -> None:
    """Make a token with scopes. It is printed once, and cannot be seen again."""
    from mainstem.gateway.access.tokens import add_token, grants_of, new_token

    token, text = new_token(name, grants_of(read or (), write or (), admin or ()))
    add_token(file, token, make_file=True)
    if json:
        out_json({"name": name, "token": text})
    else:
        out(text)
        note(f"this is the token of {name}; it is not kept, {file} has only its hash")


@app.command("list")
def list_tokens(file: File = DEFAULT_FILE, json: options.Json = False) -> None:
    """Every token's name and scopes."""
    from mainstem.gateway.access.tokens import read_tokens

    tokens = read_tokens(file).values()
    rows = [
        {
            "name": token.name,
            "read": list(token.grants.read),
            "write": list(token.grants.write),
            "admin": list(token.grants.admin),
        }
        for token in tokens
    ]
    if json:
        out_json({"tokens": rows})
    elif rows:
        out_rows(
            [
                {name: " ".join(value) if isinstance(value, list) else value for name, value in row.items()}
                for row in rows
            ]
        )
    else:
        out("no tokens; make one with: mainstem tokens create NAME --read topic:orders")


@app.command()
def revoke(name: Name, file: File = DEFAULT_FILE, yes: options.Yes = False, json: options.Json = False) -> None:
    """Revoke a token: the gateway refuses it within a second."""
    from mainstem.gateway.access.tokens import revoke_token

    if not yes:
        confirm(f"Revoke token {name}?")
    revoke_token(file, name)
    if json:
        out_json({"revoked": name})
    else:
        out(f"revoked {name}")
