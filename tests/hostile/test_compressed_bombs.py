"""Small batches that become large when they are decompressed: they do not add up, in time or in memory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.compress import compress
from mainstem.record.constants import Compression
from mainstem.record.header import read_header
from mainstem.record.writer import NewRecord, assemble_batch, build_batch
from tests.broker.harness import LogProcess
from tests.hostile.support import Raw, address_of, answers_meanwhile, frame, limited, processor_s

MB = 1 << 20
VERSION = 9
PARTITIONS = 8
CLIENTS = 8
DECOMPRESSED_BYTES = 20 * MB
MEMORY_BYTES = 400 * MB
"""Less than a third of what all batches come to."""


def bomb() -> bytes:
    """A batch of some kilobytes with three million records of seven bytes; it is bad, as all offset deltas are 0."""
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    count = DECOMPRESSED_BYTES // len(record)
    codec = Compression.ZSTD
    one = read_header(build_batch([NewRecord(None, b"", (), 1)]))
    header = one._replace(attributes=codec, record_count=count, last_offset_delta=count - 1)
    return assemble_batch(header, bytes(compress(codec, record * count)))


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_batches_that_decompress_to_much_do_not_add_up(policy: str, tmp_path: Path) -> None:
    batch = bomb()
    assert len(batch) < DECOMPRESSED_BYTES // 1_000
    data = [PartitionProduceData(index=number, records=batch) for number in range(PARTITIONS)]
    attack = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    config = CreatableTopicConfig(name="cleanup.policy", value=policy)
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=[config])
    with LogProcess(tmp_path / "data") as log, ExitStack() as stack:
        attackers = [stack.enter_context(Raw(address_of(log))) for _ in range(CLIENTS)]
        assert attackers[0].request(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
        attackers[0].request(attack, VERSION)  # the log has its walk over records, and its threads, from here on
        limited(log, MEMORY_BYTES)
        before_s = processor_s(log.pid)
        errors: list[int] = []

        def send_all() -> None:
            for attacker in attackers:
                attacker.send(frame(attack, VERSION))
            for attacker in attackers:
                answer = attacker.receive(ApiKey.PRODUCE, VERSION)
                errors.extend(each.error_code for each in answer.responses[0].partition_responses)

        answers = answers_meanwhile(log, send_all)
        used_s = processor_s(log.pid) - before_s
        assert errors == [ErrorCode.INVALID_RECORD] * CLIENTS * PARTITIONS
        assert answers > 20 * used_s, f"{answers} answers in {used_s:.1f} s of work"
        assert used_s < 60, "64 batches of three million records each"
