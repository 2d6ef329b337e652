"""``mainstem keys``: the keys that sign the checkpoints of verifiable topics: made, shown, rotated, retired.

They work on the file alone, which the log process reads (its setting ``mainstem.signing.keys``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import note, out, out_json

app = typer.Typer(
    help="Make, show and rotate the keys that sign checkpoints.", no_args_is_help=True, rich_markup_mode=None
)

DEFAULT_FILE = Path("signing-keys.txt")
File = Annotated[
    Path, typer.Option("--file", envvar="MAINSTEM_SIGNING_KEYS", metavar="FILE", help="The file of signing keys.")
]


@app.command()
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Under which the node is known, such as log.example.com.")
    ],
    file: File = DEFAULT_FILE,
    json: options.Json = False,
) -> None:
    """Make a file with one key. Prints the public key, which verifiers need."""
    from mainstem.tlog.key_file import create_keys

    key = create_keys(file, name)
    _show([str(key.verifier())], as_json=json)
    note(f"the secret key is in {file}: start the log with --set mainstem.signing.keys={file.absolute()}")


@app.command()
def show(
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="ORIGIN", help="As the key of one log: the first line of its checkpoint."),
    ] = None,
    file: File = DEFAULT_FILE,
    json: options.Json = False,
) -> None:
    """The public keys, the newest first; with --origin under the name that other tools expect."""
    from mainstem.tlog.key_file import read_keys

    verifiers = [key.verifier() for key in read_keys(file)]
    _show([str(each if origin is None else each.named(origin)) for each in verifiers], as_json=json)


@app.command()
def rotate(file: File = DEFAULT_FILE, json: options.Json = False) -> None:
    """Add a new key. The old one signs, too, until it is retired, so verifiers have time to learn the new one."""
    from mainstem.tlog.key_file import rotate_keys

    _show([str(rotate_keys(file).verifier())], as_json=json)


@app.command()
def retire(
    key_id: Annotated[str, typer.Argument(metavar="KEYID", help="The eight digits between the + of a public key.")],
    file: File = DEFAULT_FILE,
    json: options.Json = False,
) -> None:
    """Remove an old key: it signs nothing from now on, and what it has signed stays valid."""
    from mainstem.tlog.key_file import retire_key

    retire_key(file, key_id)
    if json:
        out_json({"retired": key_id})
    else:
        out(f"retired {key_id}")


def _show(keys: list[str], *, as_json: bool) -> None:
    if as_json:
        out_json({"keys": keys})
        return
    for key in keys:
        out(key)
