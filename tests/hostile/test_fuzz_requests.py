"""Requests of every API at every version, each a little wrong, while a good client must go on being answered.

``MAINSTEM_FUZZ_S`` says for how long (10 seconds), ``MAINSTEM_FUZZ_SEED`` which requests; ``make fuzz`` runs an hour.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from mainstem.broker.apis import APIS
from mainstem.protocol.apis import ApiKey
from tests.broker.harness import LogProcess
from tests.hostile.mutations import mutated_frame
from tests.hostile.support import Pinger, Raw, address_of, create_topic, limited, processor_s

SECONDS = int(os.environ.get("MAINSTEM_FUZZ_S", "10"))
SEED = int(os.environ.get("MAINSTEM_FUZZ_SEED", "1"))
MEMORY_BYTES = 1 << 30
MOST_WORK_S = 5.0
_SETTINGS = {"auto_create_topics_enable": "false", "group_initial_rebalance_delay_ms": "0"}


@pytest.mark.timeout(SECONDS + 180)
def test_whatever_one_client_sends_the_other_is_answered(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(SEED)
    versions = [(key, version) for key, api in APIS.items() for version in range(api.versions[0], api.versions[1] + 1)]
    ends_s = time.monotonic() + SECONDS
    number = 0
    with LogProcess(tmp_path / "data", **_SETTINGS) as log, Raw(address_of(log)) as first:
        first.ping()
        create_topic(log, "t", 3)
        limited(log, MEMORY_BYTES)
        attacker = Raw(address_of(log))
        with Pinger(address_of(log)) as good:
            while time.monotonic() < ends_s or number < len(versions):
                if number % len(versions) == 0:
                    rng.shuffle(versions)
                key, version = versions[number % len(versions)]
                what = f"request {number} of seed {SEED}: {ApiKey(key).name} {version}"
                frame = mutated_frame(key, version, rng)
                answered, before_s = good.count, processor_s(log.pid)
                attacker = sent(attacker, frame, log, what)
                work_s = processor_s(log.pid) - before_s
                assert log.is_alive, what
                assert work_s < MOST_WORK_S, f"{what} took {work_s:.1f} s of work"
                assert work_s < 0.5 or good.count > answered, f"{what} kept a good client waiting"
                assert good.error is None, f"{what}: {good.error}"
                number += 1
        attacker.close()
        create_topic(log, "after")
        assert good.count > 0
    assert "Traceback" not in capfd.readouterr().err


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
