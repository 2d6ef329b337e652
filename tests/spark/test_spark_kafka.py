"""Our source beside Spark's own Kafka connector, on the version of Spark that it comes for: the same rows."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from mainstem.testing import BrokerProcess
from tests.support.apache_kafka import ApacheKafka
from tests.support.spark_kafka import ensure_spark_kafka
from tests.support.varied_topics import SETTINGS, TOPICS, varied_topics

pytestmark = pytest.mark.spark
READINGS = (*TOPICS, "uncommitted:transactions", "stream:codecs", "stream:transactions")


@pytest.fixture(scope="module")
def said(apache_kafka: ApacheKafka) -> list[dict[str, Any]]:
    """How the rows of both connectors differ: of each reading on Mainstem, then of each on Apache Kafka."""
    both = ensure_spark_kafka()
    kafka = apache_kafka.bootstrap
    with BrokerProcess(settings=SETTINGS) as broker:
        with varied_topics(broker.bootstrap), varied_topics(kafka):
            arguments = (broker.bootstrap, *READINGS, f"@{kafka}", *READINGS)
            # C1 alone, as in the other tests: this environment has none of Spark's variables.
            options = {"SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
            done = both.run("-m", "tests.support.same_rows", *arguments, timeout_s=600, environment=options)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(1200)  # the first run fetches the other Spark
@pytest.mark.parametrize("log", ["Mainstem", "Apache Kafka"])
def test_the_rows_of_both_connectors_are_the_same(said: list[dict[str, Any]], log: str) -> None:
    half = said[: len(READINGS)] if log == "Mainstem" else said[len(READINGS) :]
    for reading, found in zip(READINGS, half, strict=True):
        assert (found["only_ours"], found["only_theirs"]) == ([], []), reading
        assert found["ours"] == found["theirs"] > 0, reading


@pytest.mark.timeout(1200)
def test_both_leave_out_what_transactions_took_back_and_show_it_when_asked(said: list[dict[str, Any]]) -> None:
    for half in (said[: len(READINGS)], said[len(READINGS) :]):
        counts = {reading: found["ours"] for reading, found in zip(READINGS, half, strict=True)}
        # Each of both partitions: 12 plain records, 12 and 11 of the producers. What follows the open transaction is
        # out of sight; of the ten that ended before, half are aborted.
        assert counts["uncommitted:transactions"] == 2 * (12 + 12 + 11)
        assert counts["stream:transactions"] == counts["transactions"] < counts["uncommitted:transactions"] - 20
        assert counts["codecs"] == 1000
        assert 7 <= counts["compacted"] < 200
