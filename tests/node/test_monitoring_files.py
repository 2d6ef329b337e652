"""The dashboard and the alert rules against a running node: each metric in them is there, and promtool accepts both."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.node.stack import Stack
from tests.house.test_monitoring_files import FILES, alerts, metrics_in, panels
from tests.support.eventually import eventually

APP = """
import mainstem as ms
app = ms.App("watched")
app.view("by-id", app.topic("people"), ms.KeyValue())
"""

_OF_OTHER_PROCESSES = ("mainstem_pipeline_", "mainstem_capture_")
"""This node has no pipelines and no captures of a database."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metrics of a node with a view, after a record and a commit."""
    directory = tmp_path_factory.mktemp("watched")
    (directory / "app.py").write_text(APP)
    with Stack(directory / "data", lambda _: None) as stack:
        bootstrap = stack.start_log("127.0.0.1:0")
        with Log(bootstrap) as log:
            log.create_topic("people")
            with log.transaction() as tx:
                tx.append("people", {"id": "a"}, key="a")
                tx.commit_offsets("readers", log.end("people"))
        stack.launch_views(directory / "app.py", bootstrap)
        address = stack.launch_gateway(bootstrap, "127.0.0.1:0", views=True, console=False)
        for name in ("views", "gateway"):
            stack.supervisor.wait_ready(name)

        def read() -> str:
            text = httpx.get(f"http://{address}/metrics", timeout=30).raise_for_status().text
            return text if "mainstem_view_up{" in text else ""

        yield eventually(read, "the view's metrics")


def queries() -> list[str]:
    """Every query of the dashboard and of the alert rules."""
    found = [str(rule["expr"]) for rule in alerts()]
    for panel in panels():
        targets: Any = panel["targets"]
        found += [target["expr"] for target in targets]
    return found


def test_a_running_node_has_each_metric_of_the_files(page: str) -> None:
    there = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
    asked = {name for query in queries() for name in metrics_in(query)}
    of_others = {name for name in asked if name.startswith(_OF_OTHER_PROCESSES)}
    assert len(asked - of_others) > 15
    assert asked - of_others - there == set()


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: make deploy-check installs it")
    return found


def test_promtool_accepts_rules_queries_and_the_page(promtool: str, page: str, tmp_path: Path) -> None:
    subprocess.run([promtool, "check", "rules", FILES / "prometheus-alerts.yml"], check=True, timeout=60)
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}  # a variable of Grafana
        for number, query in enumerate(queries())
    ]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    subprocess.run([promtool, "check", "rules", tmp_path / "queries.yml"], check=True, timeout=60)
    said = subprocess.run([promtool, "check", "metrics"], input=page, text=True, capture_output=True, timeout=60)
    assert said.returncode == 0, said.stderr
