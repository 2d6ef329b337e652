"""``mainstem load FILE…``: CSV, JSON and Parquet files, directories of them, or a lake, into a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import out, out_json
from mainstem.cli.records.progress_bar import progress_bar
from mainstem.extras import import_arrow_alone


def load(  # noqa: PLR0913 - a command's options are its parameters
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help=".csv, .tsv, .json, .jsonl, .parquet (text also in .gz, .zst, .zip); a 'pattern*'; directory; lake.",
        ),
    ],
    topic: Annotated[str, typer.Option("--topic", help="The topic; created when it is not there.")],
    key: Annotated[list[str] | None, typer.Option("--key", metavar="COLUMN", help="A key column; repeatable.")] = None,
    derive: Annotated[
        list[str] | None,
        typer.Option(
            "--derive", metavar="COLUMN=TEMPLATE", help="A column made of others, e.g. id={carrier}-{flight}."
        ),
    ] = None,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="Of a topic that is created.")] = None,
    null: Annotated[
        list[str] | None, typer.Option("--null", help='CSV: a text that means null; default "" and NA.')
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help=r"CSV: the separator of values; default a comma. \t is a tab.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Load all rows, also if they were loaded before.")] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Load files into a topic, each row exactly once: a load that was cut short goes on when it is run again."""
    from mainstem.connectors.find_files import find_files

    find_files(files)  # a file that is not there is an error at once, before anything slow is loaded
    import_arrow_alone()
    from mainstem.client.log import Log
    from mainstem.connectors import loads
    from mainstem.connectors.files import load as load_files

    settings = loads.LoadOptions(
        key=tuple(key or ()),
        derived=dict(_derivation(text) for text in derive or ()),
        partitions=partitions,
        nulls=tuple(null) if null is not None else loads.DEFAULT_NULLS,
        again=again,
        delimiter="\t" if delimiter == r"\t" else delimiter,
    )
    name = files[0].name if len(files) == 1 else f"{len(files)} files"
    with Log(bootstrap) as log, progress_bar(name, shown=not json) as on_progress:
        loaded = load_files(log, files, topic, settings, on_progress=on_progress)
    if json:
        out_json(loaded.to_json())
    else:
        out(f"{loaded.records:,} records into {topic} in {loaded.seconds:.1f} s ({loaded.records_per_second:,.0f}/s)")
        if loaded.records_before:
            out(f"{loaded.records_before:,} were loaded before; --again loads them once more")
        if loaded.position:
            out(f"position {loaded.position}")


def _derivation(text: str) -> tuple[str, str]:
    name, separator, template = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not COLUMN=TEMPLATE", param_hint="--derive")
    return name, template
