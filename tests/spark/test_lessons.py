"""The lessons with a pipeline run as the others do (tests/house/test_docs_run.py), one after the other on one log."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.spark.runner import Runner
from tests.examples.serving import serving
from tests.house.test_docs_run import app_of, run_page
from tests.spark.test_pipelines_page import PAGES
from tests.spark.test_spark_pages import FORMAT_PAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LESSONS = ("docs/learn/4-a-pipeline.md", "docs/learn/5-read-your-write.md")
RUN_WITH_SPARK = {*LESSONS, *PAGES, *FORMAT_PAGES}


def test_the_lessons_with_a_pipeline_print_what_they_show(spark: SparkSession, tmp_path: Path) -> None:
    app = app_of(LESSONS[0])
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
