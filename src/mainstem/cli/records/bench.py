"""``mainstem bench``: a log's own rates through librdkafka: produce, consume, end-to-end latency."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import note, out, out_json, out_table

if TYPE_CHECKING:
    from mainstem.client.bench import BenchResult


def bench(
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="A log that runs; default: one of its own.")
    ] = None,
    records: Annotated[int, typer.Option("--records", min=1, help="To produce and consume.")] = 200_000,
    record_bytes: Annotated[
        int, typer.Option("--record-bytes", min=1, max=100_000_000, help="Of each record's value.")
    ] = 1_000,
    partitions: Annotated[int, typer.Option("--partitions", min=1)] = 1,
    data: options.Data = options.DEFAULT_DATA,
    json: options.Json = False,
) -> None:
    """Measure the log's own rates. Without --bootstrap it starts a log below --data, and removes it afterwards."""
    from mainstem.client.bench import BenchOptions
    from mainstem.client.bench import bench as measure

    wanted = BenchOptions(records=records, record_bytes=record_bytes, partitions=partitions)
    with _own_log(data) if bootstrap is None else contextlib.nullcontext(bootstrap) as address:
        result = measure(address, wanted, on_phase=None if json else note)
    if json:
        out_json(result.to_json())
    else:
        _show(result)


@contextlib.contextmanager
def _own_log(data: Path) -> Iterator[str]:
    """A log in a directory of its own, on the disk where the data would be."""
    import tempfile

    from mainstem.cli.foreground import stopping_cleanly
    from mainstem.errors import StorageError
    from mainstem.node.stack import Stack

    try:
        data.mkdir(parents=True, exist_ok=True)
        directory = tempfile.TemporaryDirectory(prefix="bench-", dir=data)
    except OSError as error:
        reason = "not a directory" if isinstance(error, FileExistsError) else (error.strerror or str(error)).lower()
        raise StorageError(f"{data}: {reason}; name another directory (--data)") from error
    with stopping_cleanly(), directory as path, Stack(Path(path), note) as stack:
        yield stack.start_log("127.0.0.1:0")


def _show(result: BenchResult) -> None:
    rates = (("produce, acks=all", result.produce), ("consume", result.consume))
    columns = ["phase", "records", "seconds", "records/s", "MB/s"]
    rows = [[name, r.records, r.seconds, round(r.records_per_second), r.megabytes_per_second] for name, r in rates]
    out_table(columns, rows, title=f"Records of {result.produce.record_bytes:,} bytes, through librdkafka")
    latency = result.latency
    out(
        f"latency, one record at a time: p50 {latency.p50_ms:.2f} ms, p99 {latency.p99_ms:.2f} ms, "
        f"max {latency.max_ms:.2f} ms ({latency.records:,} records)"
    )
