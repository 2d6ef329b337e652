"""The log beside Apache Kafka, in one run: ``python -m benchmarks.log [--rounds 5] [--only rates,start]``.

Both brokers run side by side on this machine and are measured in turn, so that what disturbs one round disturbs both;
a first round that warms them up is not counted. Mainstem syncs every acknowledged record to the disk, Kafka leaves that
to the page cache: the comparison is between what each does by default. Rates are those of a load generator in C
(``benchmarks.load``); latencies go through the Python client, one record at a time. A second table has Mainstem beside
a loop that does only what cannot be left out (``benchmarks.bare_log``): what Python leaves room for.
Exit code 0 whatever was met: a benchmark informs, it does not judge.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import measures
from benchmarks.bare_log import BareLog
from benchmarks.brokers import ApacheKafka, BrokerUnderTest, Mainstem, MainstemServe
from benchmarks.load import LoadGenerator
from benchmarks.report import Comparison, Goal

GOALS = (
    Goal("100 B: produce", "records/s, acks=all", 1.3),
    Goal("1 kB: produce", "records/s, acks=all", 1.3),
    Goal("100 B: produce, flush=os", "records/s, acks=all", 1.3),
    Goal("1 kB: produce, flush=os", "records/s, acks=all", 1.3),
    Goal("100 B: consume", "records/s", 1.2),
    Goal("1 kB: consume", "records/s", 1.2),
    Goal("100 B: produce CPU", "µs of the broker a record", 0.5, at_most=True),
    Goal("1 kB: produce CPU", "µs of the broker a record", 0.5, at_most=True),
    Goal("100 B: consume CPU", "µs of the broker a record", 0.5, at_most=True),
    Goal("1 kB: consume CPU", "µs of the broker a record", 0.5, at_most=True),
    Goal("one at a time: p50", "ms end to end; of Kafka 0.75 of an fdatasync added", 1.0, at_most=True),
    Goal("one at a time: p99", "ms end to end", 0.5, at_most=True),
    Goal("one at a time, flush=os: p50", "ms end to end", 0.7, at_most=True),
    Goal("one request: produce CPU", "µs of the broker", at_most=True),
    Goal("one request: fetch CPU", "µs of the broker", at_most=True),
    Goal("start", "s of the process to the first acknowledged record", 0.15, at_most=True),
    Goal("serve: start", "s of mainstem serve to the first acknowledged record", 0.15, at_most=True),
    Goal("resident", "MB after the load", 0.2, at_most=True),
)
LIMITS = tuple(
    Goal(figure, unit, 1.15, at_most=True)
    for figure, unit in (
        ("one at a time: p50", "ms end to end"),
        ("one at a time, flush=os: p50", "ms end to end"),
        ("one request: produce CPU", "µs of the broker"),
        ("one request: fetch CPU", "µs of the broker"),
        ("100 B: produce CPU", "µs of the broker a record"),
    )
)
"""Small requests only: of larger ones the bare loop copies more than Mainstem does."""
Make = Callable[[Path], BrokerUnderTest]
_LATENCIES = 2_000
_SYNC_SHARE = 0.75
"""Of one fdatasync: what a record may take longer than in Kafka, which does not sync."""
_PARTS = ("rates", "latency", "start", "memory", "recovery")


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    parts = set(arguments.only.split(","))
    if unknown := parts - set(_PARTS):
        raise SystemExit(f"--only takes {', '.join(_PARTS)}; not {', '.join(sorted(unknown))}")
    comparison = Comparison(GOALS, ApacheKafka.name)
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", dir=arguments.directory) as root:
        place = Path(root)
        disk_mb_s: list[float] = []
        if "start" in parts:
            _starts(place, comparison, arguments.rounds)
        if parts & {"rates", "latency", "memory"}:
            disk_mb_s = _loads(place, comparison, arguments, parts)
        recovered = _recoveries(place, arguments) if "recovery" in parts else None
    sys.stdout.write(f"{_machine()}; {arguments.rounds} rounds, alternating; medians (least–greatest)\n\n")
    for table in (comparison, comparison.beside(LIMITS, BareLog.name)):
        sys.stdout.write((table.to_json() if arguments.json else table.to_text()) + "\n\n")
    if disk_mb_s:
        sys.stdout.write(f"the disk takes {median(disk_mb_s):.0f} MB/s in writes of 1 MB with a sync after each\n")
    if recovered is not None:
        sys.stdout.write(f"\n{recovered}\n")
    return 0


def _starts(place: Path, comparison: Comparison, rounds: int) -> None:
    """Each start is of a new, empty directory."""
    makes: dict[Make, tuple[str, ...]] = {Mainstem: ("",), MainstemServe: ("serve: ",), ApacheKafka: ("", "serve: ")}
    for number in range(rounds + 1):
        for make, prefixes in makes.items():
            broker = make(place / f"start-{make.__name__}-{number}")
            try:
                figures = measures.first_acknowledgement(broker)
            finally:
                broker.stop()
            if number:
                for prefix in prefixes:
                    _note(comparison, broker, prefix, figures, counts=True)


def _loads(place: Path, comparison: Comparison, arguments: argparse.Namespace, parts: set[str]) -> list[float]:
    """Measure what needs running brokers; what the disk takes in synced writes, in MB/s, once a round."""
    disk_mb_s: list[float] = []
    generator = LoadGenerator(place)
    unsynced_bare = BareLog(place / "bare-unsynced", syncs=False)
    compared: list[BrokerUnderTest] = [Mainstem(place / "mainstem"), ApacheKafka(place / "kafka")]
    brokers = [*compared, BareLog(place / "bare", syncs=True), unsynced_bare]
    try:
        for broker in brokers:
            broker.start()
        for number in range(arguments.rounds + 1):
            if "rates" in parts:
                disk_mb_s.append(measures.synced_mb_s(place))
            for broker in brokers[:-1] if "rates" in parts else ():
                for record_bytes, prefix in ((100, "100 B: "), (1_000, "1 kB: ")):
                    records = arguments.bytes // record_bytes
                    figures = measures.rates(broker, generator, record_bytes, records)
                    _note(comparison, broker, prefix, figures, counts=number > 0)
                    if broker.name == Mainstem.name:
                        figures = measures.rates(broker, generator, record_bytes, records, {"flush": "os"})
                    unsynced = {"produce, flush=os": figures["produce"]}
                    _note(comparison, broker, prefix, unsynced, counts=number > 0)
            if "latency" in parts:
                sync_ms = measures.sync_ms(place)
                for broker in brokers:
                    own_ms = _SYNC_SHARE * sync_ms if broker.name == ApacheKafka.name else 0.0
                    for prefix, figures in measures.small_requests(broker, _LATENCIES, own_ms).items():
                        if broker in compared or ("flush=os" in prefix) == (broker is unsynced_bare):
                            _note(comparison, broker, prefix, figures, counts=number > 0)
        if "memory" in parts:
            for broker in compared:
                comparison.add(broker.name, "", measures.memory(broker, arguments.memory_gb))
    finally:
        for broker in brokers:
            broker.stop()
    return disk_mb_s


def _note(
    comparison: Comparison, broker: BrokerUnderTest, prefix: str, figures: dict[str, float], *, counts: bool
) -> None:
    _say(f"{broker.name}: {prefix}" + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    if counts:
        comparison.add(broker.name, prefix, figures)


def _recoveries(place: Path, arguments: argparse.Namespace) -> str:
    """Mainstem alone: the goal is an absolute one, of seconds."""
    broker = Mainstem(place / "recovery")
    _say(f"writing {arguments.recovery_gb:g} GB")
    measures.fill(place / "recovery" / "data", arguments.recovery_gb)
    try:
        seconds = sorted(measures.recovery(broker)["recovery"] for _ in range(arguments.rounds))
    finally:
        broker.stop()
    middle = seconds[len(seconds) // 2]
    return (
        f"recovery after SIGKILL with {arguments.recovery_gb:g} GB stored, to the first acknowledged record: "
        f"{middle:.2f} s ({seconds[0]:.2f}–{seconds[-1]:.2f}); goal ≤ 2 s: {'met' if middle <= 2 else 'not met'}"
    )


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log", description="The log beside Apache Kafka.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count, after one that warms up")
    parser.add_argument("--bytes", type=int, default=300_000_000, help="of the records of a phase")
    parser.add_argument("--only", default=",".join(_PARTS), help=f"of {', '.join(_PARTS)}, separated by commas")
    parser.add_argument("--memory-gb", type=float, default=2.0, help="how much goes through before memory is looked at")
    parser.add_argument("--recovery-gb", type=float, default=10.0, help="how much is stored when the log is killed")
    parser.add_argument("--directory", help="where the brokers keep their files; a new directory in it")
    parser.add_argument("--json", action="store_true", help="a JSON object instead of each table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
