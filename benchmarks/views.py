"""Views beside what a user would write by hand, and reads of one's own writes: ``python -m benchmarks.views``.

*apply*: a topic of flights, read from its beginning into a view and, in turn, into the same store by a hand-written
confluent-kafka loop (`benchmarks.by_hand`); in between, what the store alone took of that loop. *reads*: a record is
appended, and read back over HTTP with ``at_least``, through the gateway's and the view host's processes, while another
process appends 10,000 records a second; before that, out of such a loop by hand in the reader's own process, without
HTTP. Exit code 0 whatever was met: a benchmark informs, it does not judge.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import by_hand
from benchmarks.brokers import Mainstem
from benchmarks.report import Comparison, Goal, judgement, load_line, machine_load
from mainstem.client.http.views import ViewClient, views
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Kind, Search
from mainstem.views.host.host import ViewHost

PEER = "by hand"
DDL = ", ".join(f"{name} {'DOUBLE' if name in by_hand.FLOATS else 'STRING'}" for name in by_hand.COLUMNS)
KINDS: dict[str, Kind] = {
    "key-value": KeyValue(),
    "sql": SQL(),
    "search": Search("carrier", "tailnum", "origin", "dest"),
    "graph": Graph(source="origin", target="dest"),
}
GOALS_MS = {"key-value": 8, "graph": 15, "sql": 25, "search": 40}
_OF_BARE_STORE = 0.8
_PARTITIONS = 4
_PARTS = ("apply", "reads")
_BACKGROUND_PER_S = 10_000
_GOES_PER_S = 100
_WARM_UP = 20


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.append_to:
        return _append_for_ever(*arguments.append_to)
    parts, kinds = set(arguments.only.split(",")), arguments.kinds.split(",")
    if (unknown := parts - set(_PARTS)) or (unknown := set(kinds) - set(KINDS)):
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}")
    sys.setswitchinterval(1e-4)
    load = machine_load()
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", dir=arguments.directory) as root:
        text = [f"{load_line(load)}; {arguments.rounds} rounds, alternating; medians"]
        if "apply" in parts:
            text.append(_applies(Path(root), kinds, arguments, load))
        if "reads" in parts:
            text += [_reads(Path(root), kind, arguments.reads, load) for kind in kinds]
    sys.stdout.write("\n".join(text) + "\n")
    return 0


def _applies(root: Path, kinds: list[str], arguments: argparse.Namespace, load: float) -> str:
    goals = [
        Goal(f"{kind}: {what}", "records/s", 1.5 if what == "apply" else _OF_BARE_STORE)
        for kind in kinds
        for what in _ROWS
    ]
    comparison = Comparison(goals, PEER, load)
    broker = Mainstem(root / "log")
    try:
        broker.start()
        for kind in kinds:
            records = arguments.records // (5 if kind == "search" else 1)
            with Log(broker.bootstrap, timeout_s=60) as log:
                app = _app(kind)
                deploy(app, log)
                end = log.append_many(kind, _flights(records))
            for number in range(arguments.rounds + 1):
                figures = _apply_once(root / f"{kind}-{number}", broker.bootstrap, app, kind, (records, end))
                _say(f"{kind} {number}: {figures}")
                for who, rate in figures.items() if number else ():
                    comparison.add("Mainstem" if who == "view" else PEER, f"{kind}: ", {_ROW_OF[who]: rate})
                    if who == "view":
                        comparison.add("Mainstem", f"{kind}: ", {_ROW_OF["bare store"]: rate})
    finally:
        broker.stop()
    return comparison.to_text()


_ROW_OF = {"view": "apply", "by hand": "apply", "bare store": "apply, beside the bare store"}
_ROWS = tuple(dict.fromkeys(_ROW_OF.values()))


def _apply_once(place: Path, bootstrap: str, app: App, kind: str, load: tuple[int, Position]) -> dict[str, float]:
    """Records a second of the view, of the loop, and of what the store took of the loop."""
    records, end = load
    begin_s = time.perf_counter()
    with ViewHost(tuple(app.views.values()), bootstrap, place / "view") as host:
        host.wait(kind, lambda status: status.position.covers(end), 300)
        view_s = time.perf_counter() - begin_s
    sink = by_hand.SINKS[kind](place / "by-hand")
    loop_s, store_s = by_hand.run(bootstrap, kind, records, sink)
    sink.close()
    return {"view": records / view_s, "by hand": records / loop_s, "bare store": records / store_s}


def _reads(root: Path, kind: str, count: int, load: float) -> str:
    """The latencies of reading one's own writes over HTTP, of one kind, and of a loop by hand, as a line."""
    place = root / f"reads-{kind}"
    place.mkdir()
    (place / "app.py").write_text(f"from benchmarks.views import _app\napp = _app({kind!r})\n")
    broker = Mainstem(place / "log")
    try:
        broker.start()
        with ExitStack() as stack:
            log = stack.enter_context(Log(broker.bootstrap, timeout_s=60))
            deploy(_app(kind), log)
            stack.enter_context(_child("benchmarks.views", "--append-to", broker.bootstrap, kind, ready="appends"))
            sink = by_hand.SINKS[kind](place / "by-hand")
            with by_hand.Follower(broker.bootstrap, kind, sink) as follower:
                by_hand_ms = _latencies_ms(log, kind, count, partial(_read_by_hand, follower, sink))
            sink.close()
            http = stack.enter_context(_served(place, broker.bootstrap))
            view_ms = _latencies_ms(log, kind, count, partial(_read_view, views(http)[kind], kind))
    finally:
        broker.stop()
    p50, p99 = _p50_and_p99(view_ms)
    by_hand_p50, by_hand_p99 = _p50_and_p99(by_hand_ms)
    met = judgement(is_met=p99 <= GOALS_MS[kind], load=load)
    return (
        f"{kind}: append → answer over HTTP, {_BACKGROUND_PER_S:,} appends/s behind it, {count} reads: p50 {p50:.1f} "
        f"ms, p99 {p99:.1f} ms; goal ≤ {GOALS_MS[kind]} ms: {met}; by hand in one process, without HTTP: "
        f"p50 {by_hand_p50:.1f} ms, p99 {by_hand_p99:.1f} ms: ratio {p50 / by_hand_p50:.2f}, {p99 / by_hand_p99:.2f}"
    )


_Read = Callable[[str, str, Position], int]
"""Reads the record of a key and an origin that was appended before a position; how many there are."""


def _latencies_ms(log: Log, topic: str, count: int, read: _Read) -> list[float]:
    """From before each append until it was read, in the order of the reads; the first of all are not counted."""
    latencies = []
    for number in range(count + _WARM_UP):
        key = origin = f"own-{number}"
        begin_s = time.perf_counter()
        position = log.append(topic, {**_flight(0), "origin": origin, "dest": "ZZZ"}, key=key)
        found = read(key, origin, position)
        latencies.append((time.perf_counter() - begin_s) * 1e3)
        assert found == 1, "the answer holds what was appended"
    return latencies[_WARM_UP:]


def _read_by_hand(follower: by_hand.Follower, sink: Any, key: str, origin: str, position: Position) -> int:
    follower.wait(position)
    return int(sink.read(key, origin))


def _read_view(view: ViewClient, kind: str, key: str, origin: str, position: Position) -> int:
    if kind == "key-value":
        return len(view.get(key, at_least=position))
    if kind == "sql":
        return len(view.sql(f"SELECT origin FROM sql WHERE _key = '{key}'", at_least=position))
    if kind == "search":
        return len(view.search(f'_key:"{key}"', at_least=position))
    return len(view.neighbors(origin, at_least=position))


def _p50_and_p99(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]


@contextmanager
def _served(place: Path, bootstrap: str) -> Iterator[str]:
    """The gateway over a view host, each a process; the gateway's address."""
    socket, app = place / "s", place / "app.py"
    host = ("--app", str(app), "--bootstrap", bootstrap, "--data", str(place), "--socket", str(socket))
    gateway = ("--bootstrap", bootstrap, "--http", "127.0.0.1:0", "--view-host", str(socket))
    with (
        _child("mainstem.gateway.server.view_host_process", *host, ready="ready: views"),
        _child("mainstem.gateway.server.process", *gateway, ready="ready: http") as line,
    ):
        yield line.rpartition(" ")[2]


@contextmanager
def _child(module: str, *arguments: str, ready: str) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line.startswith(ready):
            raise RuntimeError(f"{module} did not start: {line}")
        yield line
    finally:
        process.kill()
        process.communicate(timeout=60)


def _append_for_ever(bootstrap: str, topic: str) -> int:
    """10,000 records a second over 50,000 keys, a hundred every hundredth of one, until killed."""
    each = _BACKGROUND_PER_S // _GOES_PER_S
    with Log(bootstrap, timeout_s=60) as log:
        number, due_s = 0, time.perf_counter()
        while True:
            log.append_many(topic, ((f"{n % 50_000}", _flight(n)) for n in range(number, number + each)))
            if number == 0:
                sys.stdout.write("appends\n")
                sys.stdout.flush()
            number += each
            due_s = max(due_s + 1 / _GOES_PER_S, time.perf_counter() - 1)
            time.sleep(max(0.0, due_s - time.perf_counter()))


def _app(kind: str) -> App:
    app = App(f"bench-{kind}")
    app.view(kind, app.topic(kind, DDL, partitions=_PARTITIONS), KINDS[kind])
    return app


def _flights(records: int) -> Iterator[tuple[str, bytes]]:
    """Seeded flights; every fifth replaces one that was there."""
    chance = random.Random(7)
    for number in range(records):
        key = chance.randrange(number) if number and number % 5 == 0 else number
        yield f"UA-{key:08d}", json.dumps(_flight(number)).encode()


def _flight(number: int) -> dict[str, Any]:
    return {
        "flight_id": f"UA-{number:08d}",
        "carrier": ("UA", "AA", "B6", "DL")[number % 4],
        "origin": ("EWR", "JFK", "LGA")[number % 3],
        "dest": f"D{number % 80:02d}",
        "tailnum": f"N{number % 4000:05d}",
        "dep_delay": float(number % 90),
        "arr_delay": float(number % 70),
        "distance": 1400.0 + number % 1000,
        "remarks": "x" * 180,
    }


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.views", description="Views beside a loop by hand.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count, after one that warms up")
    parser.add_argument("--records", type=int, default=200_000, help="records to apply; a fifth of them for search")
    parser.add_argument("--reads", type=int, default=300, help="reads of one's own writes, of each kind")
    parser.add_argument("--only", default=",".join(_PARTS), help=f"of {', '.join(_PARTS)}, separated by commas")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}, separated by commas")
    parser.add_argument("--directory", help="where the stores lie; a new directory in it")
    parser.add_argument("--append-to", nargs=2, metavar=("HOST:PORT", "TOPIC"), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
