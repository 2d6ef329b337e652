"""An App of several files, with user-defined functions in its module, in a process as ``mainstem run`` starts it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.spark.startup.app_files import archive
from mainstem.testing.embedded import EmbeddedBroker

APP = """\
import mainstem as ms
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import arrow_udf, pandas_udf, udf
from pyspark.sql.types import LongType

import helpers
from helpers import shout

app = ms.App("several-files")
words = app.topic("words", "word STRING, size INT", key="word")


@udf("string")
def loud(word):
    from package.inner import MARK  # imported by the worker alone

    return shout(word) + MARK


@udf("array<struct<n:int>>")
def nested(size):
    return [{"n": helpers.twice(size)}]


@pandas_udf("bigint")
def doubled(size: pd.Series) -> pd.Series:
    return size * 2


@arrow_udf(LongType())
def tripled(size: pa.Array) -> pa.Array:
    return pc.multiply(size.cast(pa.int64()), 3)


@app.pipeline(words, into="loud", key="word")
def louder(words):
    given = words.select(loud("word").alias("word"), nested("size").alias("nested"), doubled("size").alias("doubled"),
                         tripled("size").alias("tripled"))
    return given


app.topic("copies", "word STRING", key="word")


@app.foreach_batch(words, into="copies")
def copy(words, batch_id):
    import os

    with ms.Log(os.environ["MAINSTEM_BOOTSTRAP"]) as log:
        return log.append_many("copies", [(row.word, {"word": row.word}) for row in words.collect()])
"""


@pytest.fixture
def several(tmp_path: Path) -> Path:
    directory = tmp_path / "app"
    (directory / "package").mkdir(parents=True)
    (directory / "app.py").write_text(APP)
    helpers = "def shout(word):\n    return word.upper()\n\n\ndef twice(size):\n    return 2 * size\n"
    (directory / "helpers.py").write_text(helpers)
    (directory / "package" / "__init__.py").write_text("")
    (directory / "package" / "inner.py").write_text('MARK = "!"\n')
    (directory / "data.txt").write_text("not Python")
    return directory


@pytest.mark.spark
def test_an_app_of_several_files_with_functions_of_each_kind_runs(
    several: Path, mainstem_broker: EmbeddedBroker, mainstem_log: Log, tmp_path: Path
) -> None:
    mainstem_log.create_topic("words", partitions=1)
    mainstem_log.append("words", {"word": "one", "size": 7}, key="one")
    argv = [sys.executable, "-m", "mainstem.spark.process", "--app", str(several / "app.py"), "--once"]
    argv += ["--bootstrap", mainstem_broker.bootstrap, "--checkpoints", str(tmp_path / "checkpoints")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    [record] = mainstem_log.read("loud")
    assert [record.key for record in mainstem_log.read("copies")] == [b"one"]
    row = {"word": "ONE!", "nested": [{"n": 14}], "doubled": 14, "tripled": 21}
    assert json.loads(record.value or b"") == row


def test_a_cluster_gets_modules_and_packages_and_nothing_else(several: Path) -> None:
    (several / "data").mkdir()
    (several / "data" / "no_package.py").write_text("")
    content = archive(several, besides=several / "app.py")
    assert content is not None
    with zipfile.ZipFile(io.BytesIO(content)) as zipped:
        assert zipped.namelist() == ["helpers.py", "package/__init__.py", "package/inner.py"]
    assert archive(several, besides=several / "app.py") == content
    assert archive(several / "data", besides=several / "data" / "no_package.py") is None
