"""The command: ``python -m tests.differential.run [--seed N] [--seeds N] [--minutes N] [--theme NAME] [--keep-going]``.

Plays seeds against a Mainstem and an Apache Kafka of its own. A seed whose answers differ is played again under other
names, to leave out what only the moment made different; what stays is shrunk and printed, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstem.protocol.apis import OWN_APIS, ApiKey
from tests.broker.harness import LogProcess
from tests.differential.peer import Peer, common_versions
from tests.differential.play import Found, Stage
from tests.differential.requests import Names, Step, build
from tests.differential.sequences import sequence, theme_of
from tests.differential.shrink import shrink
from tests.support.apache_kafka import ApacheKafka

LEFT_OUT = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, *OWN_APIS}
_READY_S = 60
_PATIENCE_S = 1.0
_SETTINGS = {
    "group_consumer_assignment_interval_ms": "0",
    "group_share_assignment_interval_ms": "0",
    "group_consumer_migration_policy": "disabled",
}
"""Of both brokers: Kafka makes assignments at once, as Mainstem does. Groups with members keep their protocol:
the members of classic groups in a plan subscribe to nothing, and Kafka then gives the others nothing either.
"""


@contextmanager
def stage() -> Iterator[Stage]:
    """Both brokers, each in a process and a directory of its own. Raises KafkaUnavailableError."""
    with (
        tempfile.TemporaryDirectory(prefix="differential-") as directory,
        ApacheKafka(**_SETTINGS) as kafka,
    ):
        with LogProcess(Path(directory) / "data", node_id="1", **_SETTINGS) as log:
            here, there = Peer(log.bootstrap), Peer(kafka.bootstrap)
            versions = common_versions((here, there), [key for key in ApiKey if key not in LEFT_OUT])
            try:
                for peer in (here, there):
                    _wait_for_coordinators(peer)
                yield Stage(here, there, versions)
            finally:
                here.close()
                there.close()


def _wait_for_coordinators(peer: Peer) -> None:
    """Kafka makes its internal topics when a coordinator is first asked for: wait until each of them serves."""
    deadline = time.monotonic() + _READY_S
    for key_type, key in ((0, "group"), (1, "transaction"), (2, f"group:{'A' * 22}:0")):
        asked = Step("find_coordinator", 6, "admin", {"key_type": key_type, "coordinator_keys": [key]})
        body = build(asked, Names("", 0, {}))
        while any(each.error_code for each in peer.exchange(body, 6).coordinators):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{peer.address} has no coordinator of type {key_type}")
            time.sleep(0.05)  # nothing announces it: ask again


def find(stage: Stage, seed: int) -> Found | None:
    """The difference that a seed shows, twice in the same place; None when there is none.

    On a loaded machine Kafka's group coordinator knows of a topic's end a while after the metadata: the second time
    waits for it.
    """
    steps = sequence(seed, stage.versions)
    found = stage.play(steps)
    again = found and stage.play(steps, patience_s=_PATIENCE_S)
    return again if found and again and found.signature == again.signature else None


def shortened(stage: Stage, steps: Sequence[Step], found: Found) -> tuple[list[Step], Found]:
    """The requests that the difference needs, and the difference that they show."""
    last = found

    def still_shows(fewer: Sequence[Step]) -> bool:
        nonlocal last
        shown = stage.play(fewer)
        if shown is not None and shown.signature == found.signature:
            last = shown
            return True
        return False

    kept = shrink(steps[: found.number + 1], still_shows)
    return kept, last


def report(stage: Stage, seed: int, found: Found) -> str:
    """What differs, the shortest sequence that shows it, and how to see it again."""
    steps, found = shortened(stage, sequence(seed, stage.versions), found)
    lines = [f"seed {seed} ({theme_of(seed)}): the answers to request {found.number + 1} of {len(steps)} differ"]
    lines += [f"  {each}" for each in steps]
    lines += [f"  => {each}" for each in found.differences[:12]]
    lines.append(f'again: make differential ARGS="--seed {seed}"')
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play seeds until one differs, or the time or the seeds are over."""
    parser = argparse.ArgumentParser(prog="make differential", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed alone, and show every request with both answers")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10**9, help="how many seeds to play")
    parser.add_argument("--minutes", type=float, default=60, help="how long to play")
    parser.add_argument("--theme", help="play seeds of one theme alone")
    parser.add_argument("--keep-going", action="store_true", help="go on after a difference")
    options = parser.parse_args(arguments)
    with stage() as both:
        if options.seed is not None:
            return _play_one(both, options.seed)
        return _play_many(both, options)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _play_one(both: Stage, seed: int) -> int:
    def show(step: Step, here: Any, there: Any) -> None:
        _say(f"{step}\n    Mainstem {here}\n    Kafka    {there}")

    both.play(sequence(seed, both.versions), show)
    found = find(both, seed)
    _say("no difference" if found is None else report(both, seed, found))
    return 0 if found is None else 1


def _play_many(both: Stage, options: argparse.Namespace) -> int:
    ends, played, seen = time.monotonic() + options.minutes * 60, 0, set()
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() > ends:
            break
        if options.theme and theme_of(seed) != options.theme:
            continue
        found = find(both, seed)
        played += 1
        if found is not None and found.signature not in seen:
            seen.add(found.signature)
            _say(report(both, seed, found))
            if not options.keep_going:
                break
    _say(f"{played} sequences, {len(seen)} differences")
    return 1 if seen else 0


_Report = Callable[[Stage, int, Found], str]

if __name__ == "__main__":
    sys.exit(main())
