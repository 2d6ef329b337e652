"""``mainstem run --once`` from end to end: what it derives and applies, what it repeats, how it fails; and
its pipelines verified.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainstem.cli.apps.run import deploy_app
from mainstem.client.log import Log
from mainstem.spark.checkpoints.checkpoint_lock import locked
from mainstem.testing.embedded import EmbeddedBroker

pytestmark = pytest.mark.spark
APP = """
import mainstem as ms
from pyspark.sql.functions import pandas_udf

app = ms.App("once")
orders = app.topic("once.orders", schema="id STRING, item STRING, amount INT", key="id", partitions=2)

@app.pipeline(orders, into="once.large", key="id")
def large(orders):
    return orders.where("amount > 10")

@app.pipeline("once.large", into="once.doubled", key="id")
def doubled(large):
    from pyspark.sql.functions import udf

    def twice(amount):
        return 2 * amount if amount != 13 else 1 / 0

    return large.select("id", udf(twice, "int")("amount").alias("amount"))

app.view("doubled", "once.doubled", ms.KeyValue())
"""


def order(log: Log, *amounts: int) -> None:
    log.append_many("once.orders", [(str(n), {"id": str(n), "item": "i", "amount": n}) for n in amounts])


def run_once(directory: Path, bootstrap: str, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", str(directory / "once_app.py"), "--once", *options]
    argv += ["--data", str(directory / "data"), "--bootstrap", bootstrap]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def verify(directory: Path, bootstrap: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "mainstem.cli.main", "verify", str(directory / "once_app.py"), *words]
    argv += ["--data", str(directory / "data"), "--bootstrap", bootstrap]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def amounts(log: Log, topic: str) -> list[Any]:
    return sorted(json.loads(record.value or b"")["amount"] for record in log.read(topic))


def test_a_run_derives_and_applies_what_there_is_and_a_second_adds_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "once_app.py").write_text(APP)
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        deploy_app(tmp_path / "once_app.py", broker.bootstrap)
        order(log, 5, 11, 12)
        done = run_once(tmp_path, broker.bootstrap)
        assert done.returncode == 0, done.stderr
        first, second, last = done.stdout.splitlines()
        assert first == "pipeline large: 3 rows read, 2 written"
        assert second == "pipeline doubled: 2 rows read, 2 written"
        assert re.fullmatch(r"done: 2 pipelines and 1 view up to date, in [\d.]+ s", last)
        # what one pipeline derived in this run, the next one has read
        assert [amounts(log, "once.large"), amounts(log, "once.doubled")] == [[11, 12], [22, 24]]
        assert (tmp_path / "data" / "views" / "once" / "doubled").is_dir()

        log.append("once.large", {"id": "0", "item": "i", "amount": 9}, key="0")  # by somebody else
        order(log, 13, 20)
        failed = run_once(tmp_path, broker.bootstrap)
        assert failed.returncode == 3
        assert failed.stderr.count("\n") == 1
        assert "error: pipeline doubled failed: once_app.py:17, in twice: ZeroDivisionError" in failed.stderr
        assert [amounts(log, "once.large"), amounts(log, "once.doubled")] == [[9, 11, 12, 13, 20], [22, 24]]

        (tmp_path / "once_app.py").write_text(APP.replace("amount != 13", "amount != 11"))
        every = verify(tmp_path, broker.bootstrap, "--json", "--url", "http://127.0.0.1:1")
        assert (every.returncode, every.stderr) == (5, "")
        verified = json.loads(every.stdout)["verified"]
        assert [(each["kind"], each["name"], each["result"]) for each in verified] == [
            ("pipeline", "large", "different"),
            ("pipeline", "doubled", "not verified"),
            ("view", "doubled", "not verified"),
        ]
        [topic] = verified[0]["topics"]
        assert [each["actual"] for each in topic["differences"]] == ['{"id":"0","item":"i","amount":9}']
        assert "another writer appended to the topic" in "".join(verified[0]["possible_causes"])
        assert "127.0.0.1:1" in verified[2]["error"]
        line, _, spark_log = verified[1]["error"].partition("; Spark's log of it: ")
        assert "pipeline doubled, run as a batch, failed: once_app.py:17, in twice: ZeroDivisionError" in line
        assert "PythonException" in Path(spark_log).read_text()
        Path(spark_log).unlink()


def test_a_run_beside_another_over_the_same_checkpoints_is_refused(tmp_path: Path) -> None:
    (tmp_path / "once_app.py").write_text(APP)
    (tmp_path / "data").mkdir(mode=0o700)
    checkpoints = tmp_path / "data" / "checkpoints" / "once"
    with EmbeddedBroker() as broker, locked(checkpoints):
        done = run_once(tmp_path, broker.bootstrap)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert f"error: the pipelines over {checkpoints} run already, in process" in done.stderr


def test_a_pipeline_that_is_not_there_is_refused_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "once_app.py").write_text(APP)
    done = verify(tmp_path, "127.0.0.1:1", "nope")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "App once has no pipeline 'nope'; it has: large, doubled" in done.stderr


def test_a_choice_that_names_no_pipeline_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "once_app.py").write_text(APP)
    done = run_once(tmp_path, "127.0.0.1:1", "--changed", "nope=fresh")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "--changed names nope" in done.stderr
