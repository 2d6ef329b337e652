"""A log that may open few files: connections do not take those that it needs, and wide topics are made whole."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.harness import LogProcess, produce_request
from tests.hostile.support import Raw, address_of, create_topic

FILES = 256


class LogWithFewFiles(LogProcess):
    """The log, with a limit on its open files."""

    def argv(self, *more: str) -> list[str]:
        return ["bash", "-c", f'ulimit -n {FILES}; exec "$@"', "log", *super().argv(*more)]


def test_a_topic_with_more_partitions_than_files_has_them_all(tmp_path: Path) -> None:
    count = 600
    with LogWithFewFiles(tmp_path / "data") as log, Raw(address_of(log)) as client:
        create_topic(log, "wide", count)
        partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(count)]
        answer = client.request(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="wide", partitions=partitions)]), 7
        )
        assert {partition.error_code for partition in answer.topics[0].partitions} == {0}
        log.stop()
        log.start()
    with LogWithFewFiles(tmp_path / "data") as log, Raw(address_of(log)) as client:
        answer = client.request(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="wide", partitions=partitions)]), 7
        )
        assert {partition.error_code for partition in answer.topics[0].partitions} == {0}


def test_idle_connections_leave_the_log_its_files(tmp_path: Path) -> None:
    with LogWithFewFiles(tmp_path / "data", log_segment_bytes="2000") as log, ExitStack() as stack:
        create_topic(log, "t", 50)
        with Raw(address_of(log)) as good:
            good.ping()
            for _ in range(400):
                stack.enter_context(Raw(address_of(log)))
            for number in range(150):
                answer = good.request(produce_request("t", bytes(1_000), partition=number % 50), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
