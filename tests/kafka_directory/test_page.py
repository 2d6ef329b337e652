"""The pages on Apache Kafka run as a reader would run them: an App goes to Kafka with its log, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

import mainstem as ms
from mainstem.client.log import Log
from tests.house.pages import ROOT, blocks_of, lines_of_shell
from tests.node.page_session import PageSession
from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.maven

APP = """
import mainstem as ms

app = ms.App("shop")
app.view("orders", app.topic("orders", "id STRING NOT NULL, total INT", key="id"), ms.KeyValue())
"""
TIMEOUT_S = 60


class GraduatedKafka(ApacheKafka):
    """Apache Kafka with the ``server.properties`` that ``graduate`` has made, at other ports."""

    def _properties(self, port: int, controller: int) -> str:
        made = (self.directory / "logs" / "server.properties").read_text()
        return made.replace(":9092", f":{port}").replace(":9093", f":{controller}")


def test_an_app_goes_to_apache_kafka_with_its_log_and_comes_back(tmp_path: Path) -> None:
    look, make, start, run, give_up, adopt = (
        block for block in blocks_of(ROOT / "docs/howto/graduate.md") if block.mark == "node"
    )
    [move] = (block for block in blocks_of(ROOT / "docs/howto/move-to-kafka.md") if block.mark == "node")
    (tmp_path / "app.py").write_text(APP)
    with PageSession(tmp_path, {"/var/lib/kafka": str(tmp_path)}) as session:
        session.line("mainstem run app.py")
        with Log(session.log) as log:
            log.append("orders", {"id": "a", "total": 1}, key="a")
        session.stop()
        assert "orders" in session.run(look)
        assert not (tmp_path / "logs").exists()
        session.run(make)
        assert list(lines_of_shell(start.text)) == ["kafka-server-start.sh /var/lib/kafka/logs/server.properties"]
        with GraduatedKafka(tmp_path) as kafka:
            session.place("kafka1:9092,kafka2:9092", kafka.bootstrap)
            session.place("kafka1:9092", kafka.bootstrap)
            for block, key in ((run, "b"), (move, "c")):
                session.run(block)
                with Log(kafka.bootstrap) as log:
                    position = log.append("orders", {"id": key, "total": 2}, key=key)
                view = ms.views(f"http://{session.http}")["orders"]
                assert view.get(key, at_least=position, timeout=TIMEOUT_S).rows
                assert [row["total"] for row in view.get("a").rows] == [1]
                session.stop()
        session.run(give_up)
        session.run(adopt)
        with Log(session.log) as log:
            assert [record.key for record in log.read("orders")] == [b"a", b"b", b"c"]
