"""SIGKILL of a sink's host at random, with connections that end and a server that crashes: the table is the fold.

A few kills here (``MAINSTEM_SINK_KILLS``); ``make sink-kills`` does a hundred in each database.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

from mainstem.client.log import Log
from tests.sinks import killed_host
from tests.sinks.databases import SinkDatabase
from tests.sinks.hosting import SinkSetting
from tests.views.forked import forked

KILLS = int(os.environ.get("MAINSTEM_SINK_KILLS", "3"))
_SEED = 11


def run_until_killed(setting: SinkSetting, line: str, after_s: float) -> None:
    """Let a host apply in a process of its own, and kill it some time after it has printed a line."""
    arguments = (setting.topic, setting.log.bootstrap, str(setting.directory))
    environment = {**os.environ, **setting.database.environment}
    with forked(killed_host.main, *arguments, environment=environment) as process:
        assert f"{line}\n" in process.stdout, "the host ended by itself"
        threading.Timer(after_s, process.kill).start()
        assert process.wait(60) == -signal.SIGKILL


def test_a_table_equals_the_fold_after_every_kill(
    mainstem_log: Log, tmp_path: Path, sink_database: SinkDatabase
) -> None:
    chance = random.Random(_SEED)
    setting = SinkSetting(mainstem_log, tmp_path, sink_database)
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            batch = [chance.randrange(500) for _ in range(50)]
            rows = [(str(n), None if (n + number) % 6 == 0 else {"id": n, "name": f"n{number}"}) for n in batch]
            mainstem_log.append_many(setting.topic, rows)
            is_over.wait(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for kill in range(KILLS):
            # Now and then, and at the end, it is one that has rebuilt the sink: on a busy machine few get so far.
            line = "rebuilt" if kill % 10 == 0 or kill == KILLS - 1 else "started"
            run_until_killed(setting, line, chance.uniform(0.0, 1.0))
            if kill % 3 == 1:
                sink_database.end_connections()
            if kill % 3 == 2:
                sink_database.crash()
    finally:
        is_over.set()
        writer.join()
    assert (tmp_path / "orders" / "current").read_text() != "v000001\n", "it was rebuilt"
    with setting.host() as host:
        setting.reached(host, mainstem_log.end(setting.topic))
        assert setting.rows() == setting.fold()
        assert host.verify("orders").equal
        [status] = host.status()
        assert status.dead_letters == 0
    assert sink_database.tables() == ["mainstem_sinks", "orders"]
