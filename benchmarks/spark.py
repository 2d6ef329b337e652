"""Our Spark source and sink beside Spark's own Kafka connector: ``python -m benchmarks.spark [--only scan,cold]``.

Both are in one session of the version of Spark that spark-sql-kafka comes for, and are measured in turn, so that what
disturbs one round disturbs both; first rounds that warm the JVM up are not counted. The session has Spark's own
settings (``--session plain``) or those of ``mainstem.spark.session`` (``mainstem``): the same for both. In a plain one
the source comes by ``mainstem.spark.session.register``; in a ``bare`` one Spark finds it by itself. With ``own`` each
connector has the session that its users have: ours ``mainstem``, theirs Spark's own settings.

Our source reads committed records and our sink writes exactly once, theirs reads uncommitted ones and writes at least
once: each does what it does by default. Beside the rates stands the processor time that the whole program used for a
record (JVM and Python, not the log), which a busy machine disturbs less. Exit code 0 whatever was met.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.spark_kafka import ensure_spark_kafka

from benchmarks.brokers import ApacheKafka, BrokerUnderTest, Mainstem
from benchmarks.report import Comparison, Goal
from benchmarks.spark_data import FLIGHT_DDL, Latencies, archive, fill, fill_avro_flights, fill_flights, through
from benchmarks.spark_process import SparkPrograms, end_process
from mainstem.client.log import Log
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.load import load_app

PEER = "spark-sql-kafka"
_WHO = {"mainstem": "Mainstem", "kafka": PEER}
_LOGS = ("Mainstem", "Apache Kafka")
_RATE, _CPU, _SECONDS, _MS = "M records/s", "µs of processor a record", "s", "ms"
GOALS = (
    *(Goal(f"100 B on {log}: scan", _RATE, 4.0) for log in _LOGS),
    Goal("100 B on Mainstem, over the socket: scan", _RATE, 4.0),
    *(Goal(f"1 kB on {log}: scan", _RATE, 3.5) for log in _LOGS),
    Goal("1 kB on Mainstem, over the socket: scan", _RATE, 3.5),
    *(Goal(f"100 B on {log}: scan CPU", _CPU, 0.5, at_most=True) for log in _LOGS),
    *(Goal(f"1 kB on {log}: scan CPU", _CPU, 0.7, at_most=True) for log in _LOGS),
    Goal("cold: first query", _SECONDS, 0.7, at_most=True),
    Goal("cold: program", f"{_SECONDS} from its start to the rows", at_most=True),
    *(Goal(f"{size}, only {column}: scan", _RATE) for size in ("100 B", "1 kB") for column in ("offset", "value")),
    Goal("topic to topic: copy", _RATE, 2.5),
    Goal("topic to topic: copy CPU", _CPU, 0.6, at_most=True),
    Goal("stateful count: count", _RATE),
    Goal("stateful count: count CPU", _CPU, at_most=True),
    Goal("history: typed query", _RATE, 10.0),
    Goal("history: typed query CPU", _CPU, at_most=True),
    Goal("history: whole records", _RATE, 6.0),
    Goal("history: whole records CPU", _CPU, at_most=True),
    Goal("Avro: read", _RATE, 3.0),
    Goal("Avro: read CPU", _CPU, at_most=True),
    Goal("Avro: topic to topic", _RATE, 3.0),
    Goal("Avro: topic to topic CPU", _CPU, at_most=True),
    Goal("latency at 200/s: p50", _MS, 1.0, at_most=True),
    Goal("latency at 200/s: p99", _MS, 1.0, at_most=True),
    *(Goal(f"latency at 200/s, at least once: {part}", _MS, 0.9, at_most=True) for part in ("p50", "p99")),
    *(Goal(f"latency at 200/s, an App's pipeline: {part}", _MS, 0.8, at_most=True) for part in ("p50", "p99")),
)
_CEILING_SHARE = 0.9
"""The part of the interface's rate that our source should reach."""
_FILES_SHARE = 0.85
"""The part of the rate of the lake's files that the table should reach."""
_RECORD_COLUMNS = ("_key", "_value", "_partition", "_offset", "_timestamp", "_timestamp_type", "_headers")
SECTIONS = ("scan", "cold", "projection", "copy", "count", "avro", "latency", "lake")
_EXACTLY, _AT_LEAST = "latency at 200/s: ", "latency at 200/s, at least once: "
_PIPELINE = "latency at 200/s, an App's pipeline: "
_STREAMS: tuple[tuple[str, str, dict[str, str], tuple[str, ...]], ...] = (
    ("Mainstem", "mainstem", {}, (_EXACTLY,)),
    ("Mainstem, at least once", "mainstem", {"deliveryGuarantee": "at_least_once"}, (_AT_LEAST,)),
    (PEER, "kafka", {}, (_EXACTLY, _AT_LEAST, _PIPELINE)),
)
"""Streams whose latency is measured: name, connector, options of the sink, and where their figures count."""
_IDLE_STREAMS = {
    "Spark alone": "sink",
    "Spark alone, with foreachBatch": "foreachBatch",
    "Spark alone, as a pipeline runs": "pipeline",
}
"""Streams whose source and sink do nothing: the least that a micro-batch of a stream and of a pipeline takes."""
_PARTITIONS = 4
_WARMING_ROUNDS = 2
_SIZES = (("100 B", 100, 1.0), ("1 kB", 1_000, 0.2))
"""Name, bytes, and the part of ``--records`` that is read of it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What all sections share."""

    arguments: argparse.Namespace
    place: Path
    comparison: Comparison

    @property
    def rounds(self) -> int:
        return int(self.arguments.rounds)

    def records(self, part: float = 1.0) -> int:
        return int(self.arguments.records * part)

    def add(self, connector: str, prefix: str, name: str, answer: dict[str, Any], records: int, counts: bool) -> None:
        """The rate of a round, and the processor time of a record."""
        rate = records / answer["seconds"] / 1e6
        used = (answer["java_s"] + answer["python_s"]) / records * 1e6
        say(
            f"{'' if counts else '(warming) '}{prefix}{name}: {_WHO[connector]} {rate:.3f} M/s, "
            f"JVM {answer['java_s'] / records * 1e6:.2f} + Python {answer['python_s'] / records * 1e6:.2f} µs a record"
        )
        if counts:
            self.comparison.add(_WHO[connector], prefix, {name: rate, f"{name} CPU": used})


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.quick:
        arguments.rounds, arguments.records = min(arguments.rounds, 2), min(arguments.records, 200_000)
    sections = set(arguments.only.split(","))
    if unknown := sections - set(SECTIONS):
        raise SystemExit(f"--only takes {', '.join(SECTIONS)}; not {', '.join(sorted(unknown))}")
    comparison = Comparison(GOALS, PEER)
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", dir=arguments.directory) as root:
        run = Run(arguments, Path(root), comparison)
        said = _measure(run, sections)
    sys.stdout.write(f"{_machine(arguments)}; {time.monotonic() - begin_s:.0f} s in all\n\n")
    sys.stdout.write((comparison.to_json() if arguments.json else comparison.to_text()) + "\n")
    if said and not arguments.json:
        sys.stdout.write("\n" + "\n".join(said) + "\n")
    return 0


def _measure(run: Run, sections: set[str]) -> list[str]:
    """All sections that are asked for; what there is to say beside the table."""
    said: list[str] = []
    log = Mainstem(run.place / "mainstem")
    log.start()
    try:
        if sections & {"scan", "projection"}:
            said += _scans(run, log, sections)
        if "cold" in sections:
            _cold(run, log)
        if sections & {"copy", "count"}:
            _streams(run, log, sections)
        if "avro" in sections:
            _avro(run, log)
        if "latency" in sections:
            said += _latencies(run, log)
        if "lake" in sections:
            said += _history(run, log)
    finally:
        log.stop()
    return said


def _scans(run: Run, log: BrokerUnderTest, sections: set[str]) -> list[str]:
    """Warm batch scans, of both logs, and with single columns of ours."""
    ceilings: list[str] = []
    _fill(run, log)
    with SparkPrograms(run.arguments.session) as program:
        if "scan" in sections:
            ceilings = _scan(run, program, log)
        if "projection" in sections:
            for column in ("offset", "value"):
                _alternate(run, program, log, f", only {column}", {"columns": column})
        if "scan" in sections and not run.arguments.no_kafka:
            kafka = ApacheKafka(run.place / "kafka")
            kafka.start()
            try:
                _fill(run, kafka)
                _scan(run, program, kafka)
            finally:
                kafka.stop()
    return ceilings


def _fill(run: Run, log: BrokerUnderTest) -> None:
    for name, size, part in _SIZES:
        say(f"{log.name}: filling a topic with {run.records(part)} records of {name}")
        with Log(log.bootstrap) as client:
            client.create_topic(f"bytes-{size}", partitions=_PARTITIONS)
        fill(log.bootstrap, f"bytes-{size}", run.records(part), size, _PARTITIONS)


def _scan(run: Run, program: SparkPrograms, log: BrokerUnderTest) -> list[str]:
    """Rounds of whole records; of our own log also the interface's ceiling, and without looking into its files."""
    _alternate(run, program, log, f" on {log.name}", {})
    if not isinstance(log, Mainstem):
        return []
    ceilings = _ceilings(run, program)
    _alternate(run, program, log, f" on {log.name}, over the socket", {"options": {"localReads": "off"}})
    return ceilings


def _alternate(run: Run, program: SparkPrograms, log: BrokerUnderTest, suffix: str, what: dict[str, Any]) -> None:
    """Rounds of scans, of both sizes and by both connectors in turn."""
    for number in range(-_WARMING_ROUNDS, run.rounds):
        for name, size, part in _SIZES:
            for connector in _WHO:
                answer = program.order("scan", format=connector, bootstrap=log.bootstrap, topic=f"bytes-{size}", **what)
                run.add(connector, f"{name}{suffix}: ", "scan", answer, run.records(part), number >= 0)


def _ceilings(run: Run, program: SparkPrograms) -> list[str]:
    """What a Python source can reach at all: one that decodes nothing."""
    lines = []
    for name, size, part in _SIZES:
        records = run.records(part)
        options = {"records": str(records), "recordBytes": str(size), "partitions": "4", "batchBytes": "4194304"}
        answers = [program.order("ceiling", options=options) for _ in range(_WARMING_ROUNDS + run.rounds)]
        answers = sorted(answers[_WARMING_ROUNDS:], key=lambda answer: float(answer["seconds"]))
        middle = answers[len(answers) // 2]
        java_us, python_us = (middle[used] / records * 1e6 for used in ("java_s", "python_s"))
        ceiling = records / middle["seconds"] / 1e6
        share = run.comparison.middle(_WHO["mainstem"], f"{name} on Mainstem: scan") / ceiling
        lines.append(
            f"{name}: a source that decodes nothing gives {ceiling:.2f} M records/s; JVM {java_us:.2f} + Python "
            f"{python_us:.2f} µs a record. Ours gives {share:.2f} of it; goal ≥ {_CEILING_SHARE:g}, "
            f"{run.comparison.judgement(is_met=share >= _CEILING_SHARE)}"
        )
        say(lines[-1])
    return lines


def _cold(run: Run, log: BrokerUnderTest) -> None:
    """Each a program of its own: its session, and the first query in it."""
    records = run.records(0.25)
    with Log(log.bootstrap) as client:
        client.create_topic("cold", partitions=_PARTITIONS)
    fill(log.bootstrap, "cold", records, 100, _PARTITIONS)
    for number in range(-1, run.rounds):  # the first pair brings the files into the page cache
        for connector in _WHO:
            begin_s = time.perf_counter()
            with SparkPrograms(run.arguments.session, (connector,)) as program:
                answer = program.order("scan", format=connector, bootstrap=log.bootstrap, topic="cold")
                whole_s = time.perf_counter() - begin_s
            say(f"cold: {_WHO[connector]}: first query {answer['seconds']:.2f} s, program {whole_s:.2f} s")
            if number >= 0:
                figures = {"first query": answer["seconds"], "program": whole_s}
                run.comparison.add(_WHO[connector], "cold: ", figures)


def _streams(run: Run, log: BrokerUnderTest, sections: set[str]) -> None:
    """Streams over all that is there: topic to topic, and a stateful count."""
    records = run.records(0.5)
    with Log(log.bootstrap) as client:
        client.create_topic("stream", partitions=_PARTITIONS)
        for connector in _WHO:
            client.create_topic(f"copy-{connector}", partitions=_PARTITIONS)
    fill(log.bootstrap, "stream", records, 100, _PARTITIONS)
    limit = {"maxOffsetsPerTrigger": str(records // 4)}
    with SparkPrograms(run.arguments.session) as program:
        for number in range(-1, run.rounds):
            for connector in _WHO:
                where = {"format": connector, "bootstrap": log.bootstrap, "topic": "stream"}
                if "copy" in sections:
                    checkpoint = str(run.place / f"copy-{connector}-{number}")
                    answer = program.order("copy", into=f"copy-{connector}", checkpoint=checkpoint, **where)
                    run.add(connector, "topic to topic: ", "copy", answer, records, number >= 0)
                if "count" in sections:
                    checkpoint = str(run.place / f"count-{connector}-{number}")
                    answer = program.order("count", checkpoint=checkpoint, options=limit, **where)
                    run.add(connector, "stateful count: ", "count", answer, records, number >= 0)


def _avro(run: Run, log: BrokerUnderTest) -> None:
    """Framed Avro as typed columns: by our decoder, by ``from_avro`` over spark-sql-kafka; and from topic to topic."""
    records = run.records(0.5)
    with Log(log.bootstrap) as client:
        for topic in ("avro", *(f"avro-{connector}" for connector in _WHO)):
            client.create_topic(topic, partitions=_PARTITIONS)
    found = fill_avro_flights(log.bootstrap, "avro", records, _PARTITIONS)
    what = {"bootstrap": log.bootstrap, "topic": "avro", "ddl": FLIGHT_DDL}
    what |= {"schema": found.schema, "frame": found.frame.hex()}
    with SparkPrograms(run.arguments.session) as program:
        for number in range(-_WARMING_ROUNDS, run.rounds):
            for connector in _WHO:
                answer = program.order("read_avro", format=connector, **what)
                run.add(connector, "Avro: ", "read", answer, records, number >= 0)
        for number in range(-1, run.rounds):
            for connector in _WHO:
                how = {"into": f"avro-{connector}", "checkpoint": str(run.place / f"avro-{connector}-{number}")}
                answer = program.order("copy_avro", format=connector, **how, **what)
                run.add(connector, "Avro: ", "topic to topic", answer, records, number >= 0)


def _history(run: Run, log: BrokerUnderTest) -> list[str]:
    """The same records by ``mainstem.spark.table``, whose history lies in a lake, and by spark-sql-kafka's scan.

    Beside them the files of the lake, as Spark reads Parquet by itself: it is the most that the table can reach.
    """
    records = run.records(0.5)
    with Log(log.bootstrap) as client:
        client.create_topic("history", partitions=_PARTITIONS)
    fill_flights(log.bootstrap, "history", records, _PARTITIONS)
    lake = str(run.place / "lake")
    archive(log.bootstrap, "history", lake)
    where = {"bootstrap": log.bootstrap, "topic": "history", "lake": lake, "ddl": FLIGHT_DDL}
    files: dict[str, list[float]] = {}
    with SparkPrograms(run.arguments.session) as program:
        for number in range(-_WARMING_ROUNDS, run.rounds):
            for name, what in (("typed query", "typed"), ("whole records", "records")):
                for connector in _WHO:
                    answer = program.order("history", format=connector, what=what, **where)
                    run.add(connector, "history: ", name, answer, records, number >= 0)
                answer = program.order("files", format="mainstem", what=what, lake=lake, columns=_RECORD_COLUMNS)
                if number >= 0:
                    files.setdefault(name, []).append(records / answer["seconds"] / 1e6)
    return [_share_of_files(run, name, sorted(rates)) for name, rates in files.items()]


def _share_of_files(run: Run, name: str, rates: list[float]) -> str:
    ceiling = rates[len(rates) // 2]
    share = run.comparison.middle(_WHO["mainstem"], f"history: {name}") / ceiling
    line = f"{name}: Spark's own read of the lake's files gives {ceiling:.2f} ({rates[0]:.2f}–{rates[-1]:.2f}) M/s"
    met = run.comparison.judgement(is_met=share >= _FILES_SHARE)
    return f"{line}. The table gives {share:.2f} of it; goal ≥ {_FILES_SHARE:g}, {met}"


def _latencies(run: Run, log: BrokerUnderTest) -> list[str]:
    """From the producer's call to the derived record at a consumer, through a stream that runs."""
    seconds = 4.0 if run.arguments.quick else 12.0
    phases: dict[str, str] = {}
    with SparkPrograms(run.arguments.session) as program, _running_app(run, log) as pipeline:
        for number in range(-_WARMING_ROUNDS, run.rounds):
            for name, connector, sink, prefixes in _STREAMS:
                source, derived = (
                    f"{end}-{connector}-{len(sink)}-{number + _WARMING_ROUNDS}" for end in ("from", "to")
                )
                with Log(log.bootstrap) as client:
                    client.create_topic(source, partitions=_PARTITIONS)
                    client.create_topic(derived, partitions=_PARTITIONS)
                where = {"format": connector, "bootstrap": log.bootstrap, "topic": source, "into": derived}
                program.order("start", checkpoint=str(run.place / derived), sink=sink, **where)
                took = through(log.bootstrap, source, derived, rate=200, warm_s=4.0, seconds=seconds)
                stopped = program.order("stop", format=connector)
                say(f"latency: {name} p50 {took.p50:.0f} ms, p99 {took.p99:.0f} ms of {took.records}")
                phases[name] = ", ".join(f"{phase} {ms}" for phase, ms in stopped["phases"].items())
                for prefix in prefixes if number >= 0 else ():
                    run.comparison.add(_WHO[connector], prefix, {"p50": took.p50, "p99": took.p99})
            for name, how in _IDLE_STREAMS.items():
                checkpoint = str(run.place / f"idle-{how}-{number}")
                idle = program.order("idle_stream", how=how, checkpoint=checkpoint, runs_s=seconds / 2)
                phases[name] = ", ".join(f"{phase} {ms}" for phase, ms in idle["phases"].items())
            took = pipeline(seconds)
            say(f"latency: an App's pipeline p50 {took.p50:.0f} ms, p99 {took.p99:.0f} ms of {took.records}")
            if number >= 0:
                run.comparison.add("Mainstem", _PIPELINE, {"p50": took.p50, "p99": took.p99})
    return [f"a micro-batch of {name}, median of its phases in ms: {text}" for name, text in phases.items()]


_APP = """from mainstem import App

app = App("latency")
rows = app.topic({source!r}, "sent_ns BIGINT", key="sent_ns", partitions={partitions})


@app.pipeline(rows, into=app.topic({derived!r}, "sent_ns BIGINT", key="sent_ns", partitions={partitions}))
def copy(rows):
    return rows
"""


@contextmanager
def _running_app(run: Run, log: BrokerUnderTest) -> Iterator[Callable[[float], Latencies]]:
    """An App with one pipeline in its own process: typed rows, exactly once. Measures it for so many seconds."""
    source, derived, place = "rows", "copied", run.place / "app"
    place.mkdir()
    program = place / "app.py"
    program.write_text(_APP.format(source=source, derived=derived, partitions=_PARTITIONS))
    with Log(log.bootstrap) as client:
        deploy(load_app(program), client)
    argv = ["-m", "mainstem.spark.process", "--app", str(program), "--bootstrap", log.bootstrap]
    argv += ["--checkpoints", str(place), "--stop-with-parent"]
    with (place / "output.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *argv],
            env=ensure_spark_kafka().environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith(b"ready"):
            raise RuntimeError(f"the pipeline did not start; see {place / 'output.log'}")
        form = b'{"sent_ns": %d}'
        yield lambda seconds: through(log.bootstrap, source, derived, rate=200, warm_s=4.0, seconds=seconds, form=form)
    finally:
        end_process(process)


def _machine(arguments: argparse.Namespace) -> str:
    model = next(
        (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine()
    )
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}; session: {arguments.session}; {arguments.rounds} rounds, alternating; "
        "medians (least–greatest)"
    )


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description="Our source and sink in Spark.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count, after those that warm up")
    parser.add_argument("--records", type=int, default=2_000_000, help="records of 100 B; of 1 kB a fifth of that")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}, separated by commas")
    parser.add_argument(
        "--session", choices=("plain", "bare", "mainstem", "own"), default="plain", help="whose settings of Spark"
    )
    parser.add_argument("--no-kafka", action="store_true", help="leave out the scans of Apache Kafka")
    parser.add_argument("--quick", action="store_true", help="two rounds of a tenth: to see that it runs")
    parser.add_argument("--directory", help="where the brokers keep their files; a new directory in it")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
