"""The processes of a node together: what the gateway tells about the others."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx

from mainstem.client.log import Log
from mainstem.node.stack import Stack
from tests.support.eventually import eventually

APP = """
import mainstem as ms
app = ms.App("stack-tests")
app.view("by-id", app.topic("people"), ms.KeyValue())
"""


def test_restarts_of_a_view_host_and_how_it_ended_are_in_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    reports: list[str] = []
    with Stack(tmp_path / "data", reports.append) as stack:
        bootstrap = stack.start_log("127.0.0.1:0")
        with Log(bootstrap) as log:
            log.create_topic("people")
        stack.launch_views(tmp_path / "app.py", bootstrap)
        address = stack.launch_gateway(bootstrap, "127.0.0.1:0", views=True, console=False)
        for name in ("views", "gateway"):
            stack.supervisor.wait_ready(name)

        def page() -> str:
            return httpx.get(f"http://{address}/metrics", timeout=30).raise_for_status().text

        restarts, end = (f'mainstem_process_{name}{{process="views"' for name in ("restarts_total", "last_end_seconds"))
        assert f"{restarts}}} 0\n" in page()
        assert end not in page()
        os.kill(stack.supervisor.pid("views"), signal.SIGKILL)
        eventually(lambda: f"{restarts}}} 1\n" in page(), "the restart of the view host", within_s=60)
        assert f'{end},end="SIGKILL"}} ' in page()
        assert 'mainstem_process_restarts_total{process="log"} 0\n' in page()
