"""Spark's declarative pipelines: the flow of the page, whose positions a view waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.errors import PositionTimeoutError
from tests.house.pages import ROOT, blocks_of
from tests.node.page_session import PageSession
from tests.support.spark_java import short_lived_jvm

pytestmark = [pytest.mark.spark, pytest.mark.endtoend, pytest.mark.timeout(600)]
PAGE = ROOT / "docs/spark/index.md"
APP = """
import mainstem as ms

app = ms.App("late")
topic = app.topic("late-flights", schema="flight_id STRING NOT NULL, dep_delay INT", key="flight_id")
app.view("late", topic, ms.KeyValue())
"""


def test_a_view_waits_for_the_positions_of_a_flow(tmp_path: Path) -> None:
    [settings] = (block for block in blocks_of(PAGE) if block.language == "yaml")
    program, commands = (block for block in blocks_of(PAGE) if block.mark == "spark")
    with PageSession(tmp_path) as session:
        for name, value in short_lived_jvm().items():
            session.set(name, value)
        session.place("/tmp/late-pipeline", str(tmp_path / "storage"))
        session.place("localhost:9092", session.log)
        (tmp_path / "spark-pipeline.yml").write_text(session.here(settings.text))
        (tmp_path / "flows.py").write_text(session.here(program.text))
        (tmp_path / "app.py").write_text(APP)
        session.line("mainstem serve")
        with Log(session.log) as log:
            log.create_topic("flights")
            log.append_many("flights", [_flight("early", 10), _flight("late", 200)])
            session.run(commands)
        session.stop()
        session.line("mainstem run app.py")
        with Log(session.log) as log:
            covered = log.end("flights")
            view = ms.views(f"http://{session.http}")["late"]
            assert view.get("late", at_least=covered, timeout=60).rows[0]["dep_delay"] == 200
            next_one = log.append("flights", _flight("next", 300))
            with pytest.raises(PositionTimeoutError):
                view.get("next", at_least=next_one, timeout=0)
            assert [record.key for record in log.read("late-flights")] == [b"late"]


def _flight(flight_id: str, dep_delay: int) -> dict[str, object]:
    return {"flight_id": flight_id, "carrier": "UA", "dep_delay": dep_delay}
