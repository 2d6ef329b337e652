"""The source and the sink on a log that asks for users over TLS; what Spark shows of it has no password in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.client.log import Log
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.certificates import Authority
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, served

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


def write_stream_and_read(spark: SparkSession, first: dict[str, str], other: dict[str, str], checkpoint: Path) -> str:
    """Write two rows, copy them by a stream, and read them; what Spark shows of the plan and of the progress."""
    rows = spark.createDataFrame([(b"a",), (b"b",)], "value BINARY")
    rows.write.format("mainstem").options(**first, topic="in").mode("append").save()

    stream = spark.readStream.format("mainstem").options(**other, subscribe="in")
    stream = stream.option("startingOffsets", "earliest").load().select("value").writeStream.format("mainstem")
    stream = stream.options(**other, topic="out", pipeline="copy")
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    read = spark.read.format("mainstem").options(**other, subscribe="out").load()
    assert sorted(bytes(row.value) for row in read.collect()) == [b"a", b"b"]
    shown = str(read._jdf.queryExecution().toString() + query.lastProgress.json)
    assert "mainstem" in shown
    return shown


def test_a_secured_log_is_written_streamed_and_read(
    spark: SparkSession, broker: EmbeddedBroker, authority: Authority, tmp_path: Path
) -> None:
    named = {f"kafka.{name}": value for name, value in rdkafka(broker, authority).items()}
    named["kafka.bootstrap.servers"] = broker.bootstrap
    assert SECRET not in write_stream_and_read(spark, named, jaas(broker, authority), tmp_path)


def test_tasks_log_in_with_tokens_of_an_identity_provider(
    spark: SparkSession, authority: Authority, tmp_path: Path
) -> None:
    issuer = TokenIssuer()
    (tmp_path / "jwks.json").write_bytes(issuer.document)
    settings = {
        "ssl.keystore.location": str(authority.keystore("localhost")),
        "super.users": "User:alice",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with EmbeddedBroker(settings=settings, users={"unused": "unused"}) as broker:
        with served(lambda: (200, json.dumps({"access_token": issuer.token("alice")}).encode())) as (address, asked):
            given = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "ssl.ca.location": str(authority.certificate),
                "sasl.oauthbearer.token.endpoint.url": address,
                "sasl.oauthbearer.client.id": "spark",
                "sasl.oauthbearer.client.secret": SECRET,
            }
            with Log(broker.bootstrap, security=given) as log:
                for topic in ("in", "out", PROGRESS_TOPIC):
                    log.create_topic(topic)
            asked.clear()
            options = {f"kafka.{name}": value for name, value in given.items()}
            options["kafka.bootstrap.servers"] = broker.bootstrap
            assert SECRET not in write_stream_and_read(spark, options, options, tmp_path / "checkpoint")
            assert len(asked) > 1, "the driver and the tasks ask, each process for itself"


def test_a_wrong_password_is_refused_by_name_and_not_shown(
    spark: SparkSession, broker: EmbeddedBroker, authority: Authority
) -> None:
    options = jaas(broker, authority, "not-that-one")
    with pytest.raises(Exception, match="refuses user 'alice'") as caught:
        spark.read.format("mainstem").options(**options, subscribe="in").load().collect()
    assert "not-that-one" not in str(caught.value)
