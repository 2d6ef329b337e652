from __future__ import annotations

import pytest

from mainstem.client.bench import BenchOptions, bench
from mainstem.client.log import Log
from mainstem.errors import ConfigError, LogUnavailableError
from tests.support.eventually import eventually


def test_every_phase_is_measured_and_the_topic_is_gone_afterwards(log: Log, bootstrap: str) -> None:
    phases: list[str] = []
    options = BenchOptions(records=2_000, record_bytes=100, latency_records=5, partitions=2, phase_s_max=20)
    result = bench(bootstrap, options, phases.append)
    assert phases == ["produce", "consume", "latency"]
    assert (result.produce.records, result.consume.records, result.latency.records) == (2_000, 2_000, 5)
    assert 0 < result.latency.p50_ms <= result.latency.p99_ms <= result.latency.max_ms
    eventually(
        lambda: not [name for name in log.topics() if name.startswith("mainstem-bench")], "Kafka deletes a while later"
    )


def test_a_phase_ends_when_its_time_is_over(bootstrap: str) -> None:
    result = bench(bootstrap, BenchOptions(records=10**9, latency_records=10**9, phase_s_max=0.3))
    assert 0 < result.produce.records < 10**9
    assert 0 < result.latency.records < 10**9


@pytest.mark.parametrize("options", [{"records": 0}, {"record_bytes": -1}, {"phase_s_max": 0.0}])
def test_a_number_that_cannot_be_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        BenchOptions(**options)


def test_a_log_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(LogUnavailableError):
        bench("127.0.0.1:1", BenchOptions(timeout_s=0.2))
