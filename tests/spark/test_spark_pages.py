"""The blocks of the pages about Spark's format and about positions run on one log, with one pipeline and one lake."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.errors import MainstemError
from mainstem.lake.reading import read_lake
from mainstem.pipelines.app import App
from mainstem.spark.runner import Runner
from mainstem.views.stores.lake import lake
from tests.examples.serving import serving
from tests.house.test_docs_run import run_page
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FORMAT_PAGES = ("docs/concepts/positions.md", "docs/spark/index.md")
_FLIGHT = "flight_id STRING NOT NULL, carrier STRING, origin STRING, dest STRING, dep_delay INT, time_hour TIMESTAMP"
_LATE = {"flight_id": "late", "carrier": "UA", "origin": "EWR", "dest": "IAH", "dep_delay": 200}


def _app() -> App:
    app = App("pages")
    flights = app.topic("flights", schema=_FLIGHT, key="flight_id", partitions=2)
    app.topic("flights-copy")
    app.topic("orders", schema="id STRING NOT NULL, total DOUBLE", key="id", encoding="avro")

    @app.pipeline(flights, into="carrier-delays", key="carrier", mode="update")
    def carrier_delays(flights: Any) -> Any:
        return flights.groupBy("carrier").count()

    app.view("carriers", "carrier-delays", ms.KeyValue())
    app.view("flights-lake", flights, ms.Lake())
    return app


def test_the_pages_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "DEFAULT_LIMITS", lake.LakeLimits(commit_s=0.5))  # the pages wait for a commit
    app = _app()
    views = tmp_path / "views"
    with serving(app, views) as (log, gateway):
        runner = Runner(app, log.bootstrap, checkpoints=tmp_path / "checkpoints", spark=spark)
        is_ready = threading.Event()
        running = threading.Thread(target=runner.run, kwargs={"on_ready": is_ready.set})
        running.start()
        try:
            assert is_ready.wait(120)
            log.append("orders", {"id": "o1", "total": 9.5}, key="o1")
            position = log.append("flights", _LATE, key="late")
            ms.views(gateway)["flights-lake"].sql("SELECT 1", at_least=position, timeout=60)
            eventually(lambda: _has_records(views / "flights-lake"), "the lake's files have the flight")
            for page in FORMAT_PAGES:
                run_page(page, log, gateway, _places(log, gateway, tmp_path))
        finally:
            _end_streams(spark)
            runner.stop()
            running.join(60)
        assert not running.is_alive()
        copied = {record.key for record in log.read("flights-copy")}
    assert b"late" in copied


def _places(log: Log, gateway: str, directory: Path) -> dict[str, str]:
    return {
        "http://localhost:8081": f"{gateway}/registry",
        "/var/lib/mainstem/views": str(directory / "views"),
        "checkpoints/": f"{directory}/streams/",
        'ms.spark.table("flights")': f'ms.spark.table("flights", gateway={gateway!r}, bootstrap={log.bootstrap!r})',
    }


def _has_records(lake: Path) -> bool:
    try:
        return bool(read_lake(lake).files)
    except MainstemError:
        return False  # nothing is committed yet


def _end_streams(spark: SparkSession) -> None:
    """End the queries that the pages have started; those of the runner have names."""
    for query in spark.streams.active:
        if not query.name:
            query.processAllAvailable()
            query.stop()
