"""Spark Connect: a client without Java and Mainstem reads and writes topics through a server that has Mainstem."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.eventually import eventually
from tests.support.ports import accepts, free_port
from tests.support.spark_java import short_lived_jvm

pytestmark = pytest.mark.spark
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import sys
sys.modules["mainstem"] = None  # as where it is not installed
from pyspark.sql import SparkSession

address, bootstrap, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
log = {"kafka.bootstrap.servers": bootstrap}
topic = {**log, "subscribe": "in", "startingOffsets": "earliest"}
rows = spark.read.format("mainstem").options(**topic).load().select("value", "offset").collect()
print([(bytes(row.value).decode(), row.offset) for row in rows])
stream = spark.readStream.format("mainstem").options(**topic).load().selectExpr("upper(value) AS value")
writer = stream.writeStream.format("mainstem").options(**log, topic="out", checkpointLocation=checkpoint)
query = writer.trigger(availableNow=True).start()
query.awaitTermination(120)
assert query.exception() is None, query.exception()
spark.stop()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a Spark Connect server of its own."""
    port, submit = free_port(), Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    argv = [str(submit), "--master", "local[1]", "--class", SERVER, *confs, "spark-internal"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": pyspark.__path__[0]}
    environment |= {"PYSPARK_PYTHON": sys.executable, **short_lived_jvm()}
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=log, stderr=log, env=environment)
    try:
        eventually(lambda: accepts(port), "the Connect server answers", 120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def test_a_client_without_java_and_mainstem_reads_and_writes_topics(
    server: str, mainstem_broker: EmbeddedBroker, mainstem_log: Log, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        mainstem_log.create_topic(topic, partitions=1)
    mainstem_log.append_many("in", ["a", "b"])
    program = tmp_path / "client.py"
    program.write_text(CLIENT)
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, str(program), server, mainstem_broker.bootstrap, str(tmp_path / "checkpoint")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "server.log").read_text()[-3000:]
    assert done.stdout.strip() == "[('a', 0), ('b', 1)]"
    assert [record.value for record in mainstem_log.read("out")] == [b"A", b"B"]
