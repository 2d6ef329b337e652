from __future__ import annotations

from pathlib import Path

from tests.broker.harness import Client, until, with_broker


@with_broker(log_retention_check_interval_ms="20", log_retention_bytes="500", log_segment_bytes="200")
async def test_old_segments_go_while_the_broker_serves(client: Client) -> None:
    await client.create_topic("t")
    for number in range(10):
        await client.produce("t", b"%d" % number * 100)
    log = client.broker.node.topics.partition("t", 0)
    await until(lambda: log.log_start_offset == 7)
    await until(lambda: len(list(Path(log.directory).glob("*.log*"))) == 3)
    assert await client.values("t", 7) == [b"7" * 100, b"8" * 100, b"9" * 100]
