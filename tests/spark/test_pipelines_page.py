"""The Apps of docs/pipelines.md do run: each is declared, and its queries start, on a log of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.pipelines.app import App
from mainstem.testing.embedded import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"
BLOCKS = [block for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "ms.App(" in block]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.search(r'App\("(.*?)"\)', block)[1])
def test_an_app_of_the_page_runs(block: str, spark: SparkSession, tmp_path: Path) -> None:
    from mainstem.spark.runner import Runner

    names: dict[str, Any] = {}
    block = block.replace("export/", f"{tmp_path}/export/")
    exec(compile(block, str(PAGE), "exec"), names)
    app = next(value for value in names.values() if isinstance(value, App))
    with EmbeddedBroker() as broker:
        Runner(app, broker.bootstrap, checkpoints=tmp_path, spark=spark).run(once=True)
