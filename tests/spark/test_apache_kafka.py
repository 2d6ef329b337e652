"""The same pipelines on Apache Kafka: its broker, its console tools, our source and sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.client.log import Log
from mainstem.model import TopicPartition
from mainstem.pipelines.app import App
from mainstem.pipelines.control.run_log import RunLogs
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.journey.journey import JourneyFinder
from mainstem.pipelines.overview import Overview
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from tests.pipelines.journey.told import left_open
from tests.support.apache_kafka import ApacheKafka, create_offsets_topic, run_tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def declare() -> App:
    app = App("kafka")
    orders = app.topic("orders", "id STRING, item STRING, amount INT", "id", partitions=3)
    items = app.topic("items", "item STRING, name STRING", "item", compacted=True)

    @app.pipeline(orders, items.table(), into="totals", key="item", mode="update")
    def totals(orders: Any, items: Any) -> Any:
        return orders.groupBy("item").sum("amount").toDF("item", "total").join(items, "item", "left")

    return app


def test_what_kafkas_producer_wrote_is_derived_and_read_by_kafkas_consumer(
    spark: SparkSession, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    from mainstem.spark.options.options import LogOptions
    from mainstem.spark.runner import Runner
    from mainstem.spark.verification.verification import Verification

    app = declare()
    kafka = apache_kafka
    with Log(kafka.bootstrap) as log:
        deploy(app, log)
        log.append("items", {"item": "a", "name": "A"}, key="a")
        lines = "".join(f'o{n}:{{"id":"o{n}","item":"{"ab"[n % 2]}","amount":{n}}}\n' for n in range(1000))
        argv = ["--bootstrap-server", kafka.bootstrap, "--topic", "orders", "--property", "parse.key=true"]
        argv += ["--property", "key.separator=:", "--compression-codec", "zstd"]
        assert run_tool("org.apache.kafka.tools.ConsoleProducer", *argv, stdin=lines).returncode == 0
        create_offsets_topic(kafka.bootstrap, "orders")
        Runner(app, kafka.bootstrap, checkpoints=tmp_path, spark=spark).run(once=True)
        count = sum(1 for _ in log.read("totals"))  # it ends after so many, however slow its start is
        argv = ["--bootstrap-server", kafka.bootstrap, "--topic", "totals", "--from-beginning", "--timeout-ms", "60000"]
        argv += ["--max-messages", str(count)]
        read = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *argv).stdout
        run_logs = RunLogs(log)
        assert [entry.event for entry in run_logs.entries("totals")] == ["finished", "started"]
        plan = run_logs.plan("totals")
        assert plan is not None
        assert "== Physical Plan ==" in plan.text
        rows = {row["item"]: row for row in map(json.loads, read.splitlines())}
        assert rows == {
            "a": {"item": "a", "total": sum(range(0, 1000, 2)), "name": "A"},
            "b": {"item": "b", "total": sum(range(1, 1000, 2)), "name": None},
        }
        said = [Progress.from_record(record) for record in log.read(PROGRESS_TOPIC)][-1]
        assert said is not None
        described = log.group_admin.describe("mainstem-totals")
        assert {(part.topic_partition.topic, part.lag) for part in described.progress} == {("orders", 0)}
        assert said.source == log.end("orders")
        assert log.end("totals").covers(said.sink)  # behind the records there are the markers of transactions
        first = next(iter(log.read("orders")))
        journey = JourneyFinder(log, Overview(log)).find(TopicPartition("orders", first.partition), first.offset)
        [step] = journey.pipelines
        assert (step.state, step.batch is not None and step.batch.is_exact) == ("read", True)
        assert step.outputs[0].offsets > 0
        derived = next(iter(log.read("totals")))
        back = JourneyFinder(log, Overview(log)).find(TopicPartition("totals", derived.partition), derived.offset)
        assert [(origin.pipeline, origin.covers) for origin in back.origins] == [("totals", said.source)]
        with left_open(log, "till-7", "orders"):
            end = log.end("orders")[TopicPartition("orders", 0)]
            held = JourneyFinder(log, Overview(log)).find(TopicPartition("orders", 0), end - 1)
            assert [each.transactional_id for each in held.place.transactions] == ["till-7"]
            assert (held.place.transactions[0].since_ms or 0) > 0
        found = Verification(spark, app, "totals", log, LogOptions(kafka.bootstrap), checkpoints=tmp_path).verify()
        assert (found.is_equal, found.topics[0].expected, found.topics[0].behind) == (True, 2, 0)
