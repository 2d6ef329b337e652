"""The long proof: ``python -m tests.torture.run --kills 200 --seed 1``; ``make torture`` runs it.

Rounds of ten random kills. Each draws from the seed and its own number what runs (a plain DataFrame stream, a pipeline,
an aggregation), how many partitions and tasks there are, and how these change in the middle; it ends with a run that
nobody disturbs, and with the verdict on what kafka-python saw. Every fifth round writes to Apache Kafka, if
its jars are there. A round's result is a line of ``evidence.jsonl`` in ``--directory``: a run that is started again
with the same directory and seed goes on behind the rounds that are done. The last line is the sum of them all.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import ApacheKafka, has_kafka
from tests.torture.readers import by_console_consumer, by_kafka_python, open_partitions, progress_of
from tests.torture.torture import Input, Killer, Torture, add_partitions, create_topics
from tests.torture.truth import Fault, Verdict, check, check_progress, check_totals
from tests.torture.work import Kind, Work

KILLS_A_ROUND = 10
_KAFKA_EVERY = 5
_RECORDS = 600
_FEEDS_MAX = 60


class Round:
    """Ten kills, and what came of them."""

    def __init__(self, seed: int, number: int, kills: int = KILLS_A_ROUND) -> None:
        self.number = number
        self.kills = kills
        self._random = random.Random(f"{seed}-{number}")
        self._seed = self._random.randrange(1 << 30)
        self.kind: Kind = self._random.choices(("plain", "pipeline", "totals"), weights=(3, 3, 1))[0]  # type: ignore[assignment]
        self.partitions = self._random.randint(1, 4)
        self.changes = self._random.random() < 0.5

    def run(self, torture: Torture, bootstrap: str, directory: Path) -> Verdict:
        source, sink = f"in-{self.number}", f"out-{self.number}"
        create_topics(bootstrap, **{source: self.partitions, sink: self._random.randint(1, 4)})
        fed = Input(bootstrap, source)
        work = Work(self.kind, str(directory / f"checkpoint-{self.number}"), source, sink)
        with Killer(torture, self._seed, self.kills) as killer:
            for turn in range(_FEEDS_MAX):
                fed.feed(_RECORDS)
                torture.do(self._varied(work))
                if killer.is_done:
                    break
                if turn == 0 and self.changes:
                    add_partitions(bootstrap, **{source: self.partitions + 2, sink: 6})
                    fed.use_other_keys()
        fed.feed(_RECORDS)
        torture.do(work)
        return self._judged(fed, bootstrap, sink)

    def _varied(self, work: Work) -> Work:
        """With another number of tasks than before, where there are changes."""
        if not self.changes:
            return work
        tasks, written = self._random.choice(((1, 0), (1, 3), (5, 0), (8, 2)))
        return work.with_tasks(partitions_min=tasks, repartition=written)

    def _judged(self, fed: Input, bootstrap: str, sink: str) -> Verdict:
        seen = by_kafka_python(bootstrap, sink)
        if self.kind == "totals":
            verdict = check_totals(fed.given, seen)
        else:
            verdict = check(fed.given, seen, is_ordered=not self.changes)
            ahead = check_progress(fed.given, seen, progress_of(bootstrap, sink))
            verdict = verdict.with_faults(ahead)
        opened = open_partitions(bootstrap, sink)
        return verdict.with_faults(Fault("open", f"partition {number}: {ends}") for number, ends in opened.items())


def main() -> int:
    arguments = _arguments()
    directory = Path(arguments.directory or tempfile.mkdtemp(prefix="mainstem-torture-"))
    directory.mkdir(parents=True, exist_ok=True)
    evidence = directory / "evidence.jsonl"
    done = _done(evidence, arguments.seed)
    _say(f"torture: seed {arguments.seed}, {arguments.kills} kills, evidence in {evidence}, {len(done)} rounds done")
    deadline_s = time.monotonic() + arguments.minutes * 60
    for number in range(1, -(-arguments.kills // KILLS_A_ROUND) + 1):
        if number in done or time.monotonic() > deadline_s:
            continue
        done[number] = told = _round(arguments.seed, number, directory)
        with evidence.open("a") as file:
            file.write(json.dumps(told) + "\n")
        _say(f"round {number}: {told['on']}, {told['what']}, {told['verdict']} ({told['seconds']:.0f} s)")
    return _sum(arguments, list(done.values()))


def _round(seed: int, number: int, directory: Path) -> dict[str, Any]:
    place = directory / f"round-{seed}-{number}-{time.time_ns()}"
    begin_s = time.monotonic()
    drawn = Round(seed, number)
    with ExitStack() as stack:
        on_kafka = number % _KAFKA_EVERY == 0 and has_kafka()
        log = stack.enter_context(ApacheKafka() if on_kafka else LogProcess(place / "data"))
        torture = stack.enter_context(Torture(place, log))
        create_topics(log.bootstrap, __mainstem_progress=1)
        verdict = drawn.run(torture, log.bootstrap, place)
        console = by_console_consumer(log.bootstrap, f"out-{number}") if on_kafka else None
    if console is not None and len(console) != verdict.seen:
        verdict = verdict.with_faults([Fault("lost", f"the console consumer saw {len(console)} of {verdict.seen}")])
    return {
        "seed": seed,
        "round": number,
        "on": "Apache Kafka" if on_kafka else "Mainstem",
        "what": drawn.kind + (", tasks and partitions changed" if drawn.changes else ""),
        "counts": dict(torture.counts),
        "given": verdict.given,
        "seen": verdict.seen,
        "distinct": verdict.distinct,
        "faults": verdict.faults,
        "verdict": str(verdict),
        "seconds": time.monotonic() - begin_s,
    }


def _sum(arguments: argparse.Namespace, rounds: list[dict[str, Any]]) -> int:
    counts, kinds = Counter[str](), Counter[str]()
    for each in rounds:
        counts.update(each["counts"])
        kinds.update(kind for kind, _ in each["faults"])
    kills = {name.removeprefix("killed "): n for name, n in sorted(counts.items()) if name.startswith("killed ")}
    given, distinct = (sum(each[name] for each in rounds) for name in ("given", "distinct"))
    told = ", ".join(f"{kinds[kind]} {kind}" for kind in sorted({"duplicate", "lost", *kinds}))
    by_kind = ", ".join(f"{n} × {name}" for name, n in kills.items())
    _say(
        f"torture: seed {arguments.seed}, {len(rounds)} rounds, {sum(kills.values())} of {arguments.kills} kills "
        f"({by_kind}), {given} records, {distinct} distinct: {told}"
    )
    return 0 if not kinds and sum(kills.values()) >= arguments.kills else 1


def _done(evidence: Path, seed: int) -> dict[int, dict[str, Any]]:
    """The rounds of earlier runs of this seed, by their numbers."""
    lines = evidence.read_text().splitlines() if evidence.exists() else []
    rounds = [json.loads(line) for line in lines]
    return {each["round"]: each for each in rounds if each["seed"] == seed}


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120.0, help="begin no round after that")
    parser.add_argument("--directory", help="where evidence is kept, and found again; default: a temporary one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
