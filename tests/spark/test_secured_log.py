"""The source and the sink on a log that asks for users over TLS; what Spark shows of it has no password in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.client.log import Log
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SECRET = "päss word 7151"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[EmbeddedBroker]:
    settings = {"ssl.keystore.location": str(authority.keystore("localhost")), "super.users": "User:alice"}
    with EmbeddedBroker(settings=settings, users={"alice": SECRET}) as running:
        with Log(running.bootstrap, security=rdkafka(running, authority)) as log:
            for topic in ("in", "out", PROGRESS_TOPIC):
                log.create_topic(topic)
        yield running


def rdkafka(broker: EmbeddedBroker, authority: Authority) -> dict[str, str]:
    return {**broker.security("alice"), "ssl.ca.location": str(authority.certificate)}


def jaas(broker: EmbeddedBroker, authority: Authority, password: str = SECRET) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{module} required username="alice" password="{password}";',
        "kafka.ssl.truststore.location": str(authority.certificate),
        "kafka.ssl.truststore.type": "PEM",
    }


def test_a_secured_log_is_written_streamed_and_read(
    spark: SparkSession, broker: EmbeddedBroker, authority: Authority, tmp_path: Path
) -> None:
    named = {f"kafka.{name}": value for name, value in rdkafka(broker, authority).items()}
    options = {**named, "kafka.bootstrap.servers": broker.bootstrap}
    rows = spark.createDataFrame([(b"a",), (b"b",)], "value BINARY")
    rows.write.format("mainstem").options(**options, topic="in").mode("append").save()

    stream = spark.readStream.format("mainstem").options(**jaas(broker, authority), subscribe="in")
    stream = stream.option("startingOffsets", "earliest").load().select("value").writeStream.format("mainstem")
    stream = stream.options(**jaas(broker, authority), topic="out", pipeline="copy")
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    read = spark.read.format("mainstem").options(**jaas(broker, authority), subscribe="out").load()
    assert sorted(bytes(row.value) for row in read.collect()) == [b"a", b"b"]
    shown = read._jdf.queryExecution().toString() + query.lastProgress.json
    assert "mainstem" in shown
    assert SECRET not in shown


def test_a_wrong_password_is_refused_by_name_and_not_shown(
    spark: SparkSession, broker: EmbeddedBroker, authority: Authority
) -> None:
    options = jaas(broker, authority, "not-that-one")
    with pytest.raises(Exception, match="refuses user 'alice'") as caught:
        spark.read.format("mainstem").options(**options, subscribe="in").load().collect()
    assert "not-that-one" not in str(caught.value)
