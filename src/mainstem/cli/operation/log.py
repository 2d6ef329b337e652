"""``mainstem log``: read a data directory itself, without a running log: verify all of it, or dump one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.output import out, out_json
from mainstem.errors import InputError
from mainstem.exit_codes import DONE, NO

app = typer.Typer(help="Verify a data directory, and dump its files.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def verify(data: options.Data = options.DEFAULT_DATA, json: options.Json = False) -> int:
    """Prove every record batch, index and seal of a data directory, stopped or running. Exit code 5 on damage."""
    from mainstem.log.files.disk import OsDisk
    from mainstem.log.files.names import META_PROPERTIES
    from mainstem.log.recovery.verify import verify_directory

    if not data.is_dir():
        raise InputError(f"{data} is not a data directory: name one with --data")
    report = verify_directory(OsDisk(), data)
    if not report.partitions and not (data / META_PROPERTIES).is_file():
        raise InputError(
            f"{data} is not a data directory, it has neither {META_PROPERTIES} nor partitions: name one with --data"
        )
    counts = {
        "partitions": report.partitions,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.size_bytes,
        "cut_files": report.cut_files,
    }
    if json:
        damages = [damage._asdict() for damage in report.damages]
        out_json({"ok": not damages, **counts, "remote_segments": report.remote_segments, "damages": damages})
    else:
        for damage in report.damages:
            place = "" if damage.file_position is None else f", file position {damage.file_position}"
            offset = "" if damage.offset is None else f", offset {damage.offset}"
            cure = "" if damage.loses_records else " (rebuilt when the partition is opened)"
            out(f"{damage.file}{place}{offset}: {damage.text}{cure}")
        out(", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items()))
        if report.remote_segments:
            out(f"{report.remote_segments:,} segments are in the store of the backup alone: mainstem backup verify URL")
        out(f"{len(report.damages)} damages" if report.damages else "no damage")
    return NO if report.damages else DONE


@app.command()
def dump(
    what: Annotated[str, typer.Argument(metavar="FILE|TOPIC-PARTITION")],
    data: options.Data = options.DEFAULT_DATA,
    headers_only: Annotated[bool, typer.Option("--headers-only", help="Batches without their records.")] = False,
    json: options.Json = False,
) -> None:
    """The batches and records of a .log file, the entries of an index, the producers of a snapshot, one a line."""
    from mainstem.log.files.disk import OsDisk
    from mainstem.log.recovery.dump import dump_file

    disk = OsDisk()
    for path in _files(what, data):
        named = json
        for item in dump_file(disk, path, records=not headers_only):
            if not named:  # after the first item: a file of another kind is an error alone
                out(f"{path}:")
                named = True
            if json:
                out_json({"file": str(path), **item})
            else:
                for line in _lines(item):
                    out(line)
        if not named:  # an empty file
            out(f"{path}:")


def _files(what: str, data: Path) -> list[Path]:
    """The one file, or all ``.log`` files of the partition."""
    if Path(what).is_file():
        return [Path(what)]
    directory = Path(what) if Path(what).is_dir() else data / what
    found = sorted(directory.glob("*.log"))
    if not found:
        raise InputError(f"{what} is neither a file nor a partition with records in {data}, such as flights-0")
    return found


def _lines(item: dict[str, Any]) -> Iterator[str]:
    """A value as ``name: value`` pairs; records indented below their batch."""
    records = item.pop("records", [])
    yield "  " + " ".join(f"{name}: {value}" for name, value in item.items())
    for record in records:
        yield "    " + " ".join(f"{name}: {value}" for name, value in record.items())
