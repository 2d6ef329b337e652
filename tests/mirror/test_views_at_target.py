"""Views at the second log: built from the copy, and asked with the positions that writers got from the first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mainstem as ms
from mainstem.client.log import Log
from tests.broker.harness import LogProcess
from tests.mirror.pairs import MirrorProcess

APP = """
import mainstem as ms

app = ms.App("people")
people = app.topic("people", schema="id STRING NOT NULL, name STRING", key="id", compacted=True)
app.view("by-id", people, ms.KeyValue())
app.view("people", people, ms.SQL())
"""
TIMEOUT_S = 60


def _run(app: Path, data: Path, bootstrap: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", str(app), "--json", "--data", str(data)]
    argv += ["--bootstrap", bootstrap, "--http", "127.0.0.1:0", "--no-console"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_a_view_at_the_target_waits_for_positions_of_the_source(
    source: LogProcess, target: LogProcess, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    with Log(source.bootstrap) as log:
        log.create_topic("people", configs={"cleanup.policy": "compact"})
        first = log.append("people", {"id": "a", "name": "Ada"}, key="a")
        argv = ("--topics", "people")
        with MirrorProcess(source.bootstrap, target.bootstrap, tmp_path / "mirror.log", *argv) as mirror:
            mirror.wait_ready()
            process = _run(app, tmp_path / "data", target.bootstrap)
            try:
                assert process.stdout is not None
                ready = json.loads(process.stdout.readline())["ready"]
                views = ms.views(f"http://{ready['http']}")
                assert views["by-id"].get("a", at_least=first, timeout=TIMEOUT_S).row["name"] == "Ada"
                for number in range(5):  # each is written at one log, and read at once at the other
                    position = log.append("people", {"id": "b", "name": f"B{number}"}, key="b")
                    found = views["by-id"].get("b", at_least=position, timeout=TIMEOUT_S)
                    assert found.row["name"] == f"B{number}"
                    rows = (
                        views["people"]
                        .sql("SELECT name FROM people WHERE id = 'b'", at_least=position, timeout=TIMEOUT_S)
                        .rows
                    )
                    assert rows == [{"name": f"B{number}"}]
                assert views["by-id"].verify()["equal"]
            finally:
                process.terminate()
                process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0
