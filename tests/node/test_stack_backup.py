"""A backup as a process of the node: what it stores, what the metrics say, and that its store stops nothing else."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx

from mainstem.backup.manifest import ManifestReader
from mainstem.client.log import Log
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.node.stack import Stack
from mainstem.object_stores.opening import open_store
from tests.support.eventually import eventually


def test_a_backup_goes_on_after_it_was_killed_and_shows_a_store_that_fails(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    with Stack(tmp_path / "data", lambda _: None) as stack:
        bootstrap = stack.start_log("127.0.0.1:0")
        stack.launch_backup(str(copies), 0.1, 3600)
        stack.supervisor.wait_ready("backup")
        address = stack.launch_gateway(bootstrap, "127.0.0.1:0", console=False)
        stack.supervisor.wait_ready("gateway")

        def page() -> str:
            return httpx.get(f"http://{address}/metrics", timeout=30).raise_for_status().text

        with Log(bootstrap) as log:
            log.create_topic("orders", partitions=1)
            log.append("orders", "one")
            eventually(lambda: held(copies) >= 1, "the record is in the backup")
            os.kill(stack.supervisor.pid("backup"), signal.SIGKILL)
            log.append("orders", "two")
            eventually(lambda: held(copies) >= 2, "the backup goes on")
            assert "mainstem_backup_held_until_seconds " in page()
            copies.rename(tmp_path / "away")
            copies.write_text("a file where the store was")
            log.append("orders", "three")
            eventually(lambda: "mainstem_backup_last_error_seconds{error=" in page(), "the error is shown")
            copies.unlink()
            (tmp_path / "away").rename(copies)
            log.append("orders", "four")
        eventually(lambda: held(copies) >= 4, "the backup is well again")


def held(url: Path) -> int:
    """Up to where the backup's newest point has the topic."""
    try:
        end = ManifestReader(open_store(str(url))).newest().ends.get(TopicPartition("orders", 0))
    except MainstemError:
        return 0
    return 0 if end is None else end.end_offset
