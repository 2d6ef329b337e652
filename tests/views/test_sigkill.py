"""SIGKILL of a view host in the middle: after a restart each view goes on from a whole state and equals its replay."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

from mainstem.client.log import Log
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from tests.views import killed_host, killed_key_value, killed_lake
from tests.views.forked import forked
from tests.views.hosting import EVERY_KIND, REQUESTS, Setting
from tests.views.killed_lake import STEP, open_lake, record
from tests.views.support import apply

KILLS = 3
RECORDS = 2_000


def flights(first: int) -> list[tuple[str, dict[str, object] | None]]:
    """Records over few keys, so that rows are replaced; every ninth deletes one."""
    return [
        (f"k{n % 701}", None if n % 9 == 0 else {"origin": "ABCDE"[n % 5], "dest": "ABCDE"[n % 7 % 5], "miles": n})
        for n in range(first, first + RECORDS)
    ]


def run_until_killed(setting: Setting, after_s: float) -> None:
    arguments = (setting.topic, setting.log.bootstrap, str(setting.directory))
    with forked(killed_host.main, *arguments) as process:
        assert process.stdout.readline() == "started\n"
        threading.Timer(after_s, process.kill).start()
        assert process.wait(30) == -signal.SIGKILL


def positions(host: ViewHost) -> dict[str, int]:
    return {status.name: sum(status.position.values()) for status in host.status()}


def test_views_equal_their_replay_after_every_kill(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, EVERY_KIND)
    end = mainstem_log.append_many(setting.topic, flights(0))
    for kill in range(KILLS):
        writer = threading.Thread(target=mainstem_log.append_many, args=(setting.topic, flights(kill + 1)))
        writer.start()
        run_until_killed(setting, 0.1 + 0.25 * kill)
        writer.join()
    end = mainstem_log.append_many(setting.topic, flights(99))
    with setting.host() as host:
        for view in EVERY_KIND:
            host.query(view, REQUESTS[view], ReadOptions(at_least=end))
            result = host.verify(view)
            assert (view, result.equal, result.differences) == (view, True, ())
            assert result.records == (KILLS + 2) * RECORDS


def kill_lake(directory: Path, after_steps: int, after_s: float) -> int:
    """Let a lake apply and compact, and kill it in the middle of the next steps; the position it has shown."""
    with forked(killed_lake.main, str(directory)) as process:
        shown = [int(process.stdout.readline()) for _ in range(after_steps)]
        threading.Timer(after_s, process.kill).start()
        assert process.wait(60) == -signal.SIGKILL
    return shown[-1]


def test_a_lake_that_applies_and_compacts_is_whole_after_every_kill(tmp_path: Path) -> None:
    directory = tmp_path / "lake"
    for after_steps, after_s in ((3, 0.05), (8, 0.2), (2, 0.33)):
        shown = kill_lake(directory, after_steps, after_s)
        store, whole = open_lake(directory), open_lake(tmp_path / f"whole-{shown}")
        reached = sum(store.position.values())
        assert reached >= shown
        assert (reached % STEP, store.count()) == (0, reached)
        apply(whole, [record(number) for number in range(reached)])
        assert store.digest() == whole.digest()
        retired = json.loads((directory / "retired.json").read_text()) if (directory / "retired.json").exists() else {}
        present = {path.name for path in (directory / "table" / "data").iterdir()}
        assert present - retired.keys() <= {file.path.name for file in store.statistics().files}
        for opened in (store, whole):
            opened.close()


def kill_key_value(directory: Path, after_steps: int, after_s: float) -> int:
    """Let a key-value store apply, and kill it in the middle of the next steps; the position it has shown."""
    with forked(killed_key_value.main, str(directory)) as process:
        shown = [int(process.stdout.readline()) for _ in range(after_steps)]
        threading.Timer(after_s, process.kill).start()
        assert process.wait(60) == -signal.SIGKILL
    return shown[-1]


def test_a_key_value_store_that_catches_up_is_whole_after_every_kill(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    for after_steps, after_s in ((1, 0.0), (2, 0.013), (1, 0.021), (3, 0.034), (5, 0.055)):
        shown = kill_key_value(directory, after_steps, after_s)
        store, whole = killed_key_value.open_store(directory), killed_key_value.open_store(tmp_path / f"{shown}")
        reached = sum(store.position.values())
        assert reached >= shown
        apply(whole, [killed_key_value.record(number) for number in range(reached)])
        with store.snapshot() as snapshot:
            assert snapshot.intact()
        assert store.digest() == whole.digest()
        for opened in (store, whole):
            opened.close()
