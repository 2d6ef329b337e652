"""Requests of every API at every version, each a little wrong, while a good client must go on being answered.

``MAINSTEM_FUZZ_S`` says for how long (8 seconds), ``MAINSTEM_FUZZ_SEED`` which requests; ``make fuzz`` runs an hour.
"""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from mainstem.broker.apis import APIS
from mainstem.protocol.apis import ApiKey
from tests.broker.harness import LogProcess
from tests.hostile.mutations import mutated_frame
from tests.hostile.planted import DefectiveLog
from tests.hostile.support import Pinger, Raw, address_of, create_topic, limited, processor_s

SECONDS = int(os.environ.get("MAINSTEM_FUZZ_S", "8"))
SEED = int(os.environ.get("MAINSTEM_FUZZ_SEED", "1"))
MEMORY_BYTES = 1 << 30
_SETTINGS = {"auto_create_topics_enable": "false", "group_initial_rebalance_delay_ms": "0"}


class Bounds(NamedTuple):
    """What a request may cost, in seconds."""

    work: float = 5.0
    long: float = 10.0
    """No request may keep the other client from its answers for so long."""


BOUNDS = Bounds()
PLANTED = Bounds(work=3.0, long=5.0)
"""Shorter bounds, for the planted defects, which take a little longer."""


@pytest.mark.timeout(SECONDS + 180)
def test_whatever_one_client_sends_the_other_is_answered(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with LogProcess(tmp_path / "data", **_SETTINGS) as log:
        attack(log, SEED, SECONDS, capfd)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("defect", "finding"),
    [
        ("a handler that raises", "METADATA [0-9]+ .*RuntimeError: planted"),
        ("a handler that works on the loop", "METADATA [0-9]+ took [0-9.]+ s of work"),
        ("a handler that waits on the loop", "METADATA [0-9]+ kept a good client waiting"),
        ("arrays of any count", "MemoryError"),
    ],
)
def test_the_fuzzer_finds_a_planted_defect(
    defect: str, finding: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with DefectiveLog(defect, tmp_path / "data", **_SETTINGS) as log, pytest.raises(AssertionError) as found:
        attack(log, 2, 0, capfd, PLANTED)
    assert re.search(finding, str(found.value), re.DOTALL), found.value


def attack(
    log: LogProcess, seed: int, seconds: float, capfd: pytest.CaptureFixture[str], bounds: Bounds = BOUNDS
) -> None:
    """Send wrong requests for so long, one of each version at least. Fails with the first that harms the log."""
    rng = random.Random(seed)
    versions = [(key, version) for key, api in APIS.items() for version in range(api.versions[0], api.versions[1] + 1)]
    ends_s = time.monotonic() + seconds
    number = 0
    with Raw(address_of(log)) as first:
        first.ping()
        create_topic(log, "t", 3)
        limited(log, MEMORY_BYTES)
        attacker = Raw(address_of(log))
        with Pinger(address_of(log)) as good:
            while time.monotonic() < ends_s or number < len(versions):
                if number % len(versions) == 0:
                    rng.shuffle(versions)
                key, version = versions[number % len(versions)]
                what = f"request {number} of seed {seed}: {ApiKey(key).name} {version}"
                frame = mutated_frame(key, version, rng)
                # One answer to the good client may have been on its way; the next one it asked for meanwhile.
                answered, before_s, sent_s = good.count + 1, processor_s(log.pid), time.monotonic()
                attacker = sent(attacker, frame, log, what)
                assert log.is_alive, what
                work_s, took_s = processor_s(log.pid) - before_s, time.monotonic() - sent_s
                assert work_s < bounds.work, f"{what} took {work_s:.1f} s of work"
                is_long = work_s > 0.5 or took_s > bounds.long
                assert not is_long or good.count > answered, f"{what} kept a good client waiting"
                assert good.error is None, f"{what}: {good.error}"
                errors = capfd.readouterr().err
                assert "Traceback" not in errors, f"{what} or the one before: {errors[-4000:]}"
                number += 1
        attacker.close()
        create_topic(log, "after")
        assert good.count > 0


def sent(attacker: Raw, frame: bytes, log: LogProcess, what: str) -> Raw:
    """Send a frame and wait for its answer; the connection for the next one."""
    try:
        attacker.send(frame)
        attacker.receive_frame()
    except TimeoutError:
        pytest.fail(f"{what} is neither answered nor refused")
    except ConnectionError:
        attacker.close()
        return Raw(address_of(log))
    return attacker
