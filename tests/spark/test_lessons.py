"""The pages with a pipeline run as the others do (tests/house/test_docs_run.py), one after the other on one log."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mainstem as ms
from mainstem.pipelines.app import App
from mainstem.spark.runner import Runner
from tests.examples.serving import serving
from tests.house.test_docs_run import app_of, run_page
from tests.spark.test_pipelines_page import PAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
LESSONS = ("docs/learn/4-a-pipeline.md", "docs/learn/5-read-your-write.md", "docs/concepts/positions.md")
READ_AND_WRITTEN = "docs/spark/index.md"
RUN_WITH_SPARK = {*LESSONS, READ_AND_WRITTEN, *PAGES}


def _with_flights(app: App) -> App:
    """The App of the lesson, and the pipeline of which the page on positions speaks."""
    schema = "flight_id STRING NOT NULL, carrier STRING, origin STRING, dest STRING, dep_delay INT"
    flights = app.topic("flights", schema, key="flight_id")

    @app.pipeline(flights, into="carrier-delays", key="carrier", mode="update")
    def carrier_delays(flights: DataFrame) -> DataFrame:
        return flights.groupBy("carrier").avg("dep_delay")

    app.view("carriers", "carrier-delays", ms.KeyValue())
    return app


def test_the_pages_with_a_pipeline_print_what_they_show(spark: SparkSession, tmp_path: Path) -> None:
    app = _with_flights(app_of(LESSONS[0]))
    with serving(app, tmp_path / "views") as (log, gateway):
        runner = Runner(app, log.bootstrap, checkpoints=tmp_path / "checkpoints", spark=spark)
        is_ready = threading.Event()
        running = threading.Thread(target=runner.run, kwargs={"on_ready": is_ready.set})
        running.start()
        try:
            assert is_ready.wait(120)
            for page in LESSONS:
                run_page(page, log, gateway)
        finally:
            runner.stop()
            running.join(60)
        assert not running.is_alive()


def test_the_page_on_the_format_reads_and_writes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(App("documentation"), tmp_path / "views") as (log, gateway):
        for topic in ("flights", "flights-copy"):
            log.create_topic(topic)
        log.append("flights", {"flight_id": "UA-1545", "carrier": "UA", "dep_delay": 2}, key="UA-1545")
        run_page(READ_AND_WRITTEN, log, gateway, spark=spark)
        assert [record.key for record in log.read("flights-copy")][:1] == [b"UA-1545"]
