"""The Apps of the pages about pipelines do run: each is declared, and its queries start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.client.log import Log
from mainstem.pipelines.app import App
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from mainstem.testing.embedded import EmbeddedBroker
from tests.house.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAGES = (
    "docs/reference/pipelines.md",
    "docs/spark/udfs.md",
    "docs/howto/join-table.md",
    "docs/howto/late-data.md",
    "docs/howto/windowed-counts.md",
)
WITHOUT_AN_APP = ("docs/reference/pipelines.md", "docs/spark/migrate-from-kafka-format.md")
PROGRAMS = [block.text for page in WITHOUT_AN_APP for block in blocks_of(ROOT / page) if block.mark == "spark"]
DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCKS = [block.text for page in PAGES for block in blocks_of(ROOT / page) if block.mark == "declares"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.search(r"into=\W*(\w+)|def (\w+)", block)[0])
def test_an_app_of_the_page_runs(
    block: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainstem.spark.runner import Runner

    names: dict[str, Any] = {}
    block = block.replace("export/", f"{tmp_path}/export/")
    exec(compile(block, "page", "exec"), names)
    app = next(value for value in names.values() if isinstance(value, App))
    with EmbeddedBroker() as broker:
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)  # as the pipelines' process does
        Runner(app, broker.bootstrap, checkpoints=tmp_path, spark=spark).run(once=True)


def test_the_functions_of_the_page_give_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    from mainstem.spark.runner import Runner

    page = (DOCS / "spark" / "udfs.md").read_text()
    names: dict[str, Any] = {}
    [block] = [block for block in BLOCKS if "arrow_udf" in block]
    exec(compile(block, "page", "exec"), names)
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic("words", partitions=1)
        log.append("words", {"word": "one", "size": 7}, key="one")
        Runner(names["app"], broker.bootstrap, checkpoints=tmp_path, spark=spark).run(once=True)
        [record] = log.read("shouted")
    assert f"`{(record.value or b'').decode()}`" in page


def test_the_programs_of_the_pages_read_a_topic(spark: SparkSession) -> None:
    """Without an App. One of the queries finds the values that do not fit their columns."""
    values = (b'{"origin": "JFK", "delay": 5}', b'{"origin": "LGA", "delay": "late"}', b"nope", b'{"delay": null}')
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic("flights", partitions=1)
        register(log, "flights", schema_of("origin STRING, delay INT"), [])
        for value in values:
            log.append("flights", value)
        names: dict[str, Any] = {"spark": spark}
        for block in PROGRAMS:
            exec(compile(re.sub(r"(localhost|kafka1):9092", broker.bootstrap, block), "page", "exec"), names)
            for rows in ("rows", "records"):
                assert rows not in names or names[rows].isStreaming or names[rows].count() == len(values)
        found = sorted(tuple(row) for row in names["nulled"].collect())
    assert found == [(0, 1, '{"origin": "LGA", "delay": "late"}'), (0, 2, "nope")]
