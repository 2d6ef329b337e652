"""The registry over Apache Kafka itself: racing registrations, deletion, and a start from its topic."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem.client.log import Log
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import Registry
from tests.registry.test_store import avro
from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.maven


def test_two_registries_over_apache_kafka_are_one(topic: str) -> None:
    with ApacheKafka() as kafka, Log(kafka.bootstrap) as first, Log(kafka.bootstrap) as second:
        registries = [Registry(first, topic), Registry(second, topic)]
        jobs = [(each, f"s{number % 3}", f"R{number // 6}") for number in range(24) for each in registries]
        with ThreadPoolExecutor(4) as threads:
            made = set(threads.map(lambda job: (job[2], job[0].register(job[1], avro(job[2])).id), jobs))
        assert sorted(number for _, number in made) == [1, 2, 3, 4]
        registries[0].delete_subject("s0")
        with pytest.raises(RegistryError, match="Subject 's0' not found"):
            registries[1].versions("s0")
        registries[1].settings.set_config("s1", {"compatibilityLevel": "NONE"})
        fresh = Registry(second, topic)
        assert fresh.subjects(None) == ["s1", "s2"]
        assert fresh.settings.config("s1") == {"compatibilityLevel": "NONE"}
        assert first.describe_topic(topic).configs["cleanup.policy"] == "compact"
