"""Requests of random content, and damaged ones, at every version: each is answered or closes its connection, no
more.
"""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.apis import APIS
from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.codec import encode_request
from tests.broker.harness import Client, api_name, running
from tests.protocol.test_messages import random_struct

ROUNDS = 3
# So that nobody waits: a fetch for data, a member for others.
CALM: dict[str, Any] = {"max_wait_ms": 1, "min_bytes": 0, "session_timeout_ms": 6000, "rebalance_timeout_ms": 1}


def random_request(key: int, version: int, rng: random.Random) -> Any:
    body = random_struct(entity(key, version, True), version, rng)
    for name, value in CALM.items():
        if hasattr(body, name):
            setattr(body, name, value)
    if key == ApiKey.CREATE_TOPICS:
        for topic in body.topics:
            topic.num_partitions = rng.choice((-1, 0, 1, 3))
    return body


async def answered_or_closed(client: Client, frame: bytes) -> None:
    client.writer.write(frame)
    try:
        async with asyncio.timeout(10):
            (length,) = struct.unpack(">i", await client.reader.readexactly(4))
            await client.reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        await client.connect()


@pytest.mark.parametrize("damage", [False, True], ids=["random", "damaged"])
@pytest.mark.parametrize("key", sorted(APIS), ids=api_name)
def test_whatever_comes_the_broker_goes_on(
    key: int, damage: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(f"{key}{damage}")
    unexpected: list[Any] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
        async with running(tmp_path / "data", {"auto.create.topics.enable": "false"}) as client:
            first, last = APIS[key].versions
            for version in range(first, last + 1):
                for _ in range(ROUNDS):
                    body = random_request(key, version, rng)
                    if getattr(body, "acks", 1) == 0:
                        body.acks = 1
                    frame = bytearray(b"".join(encode_request(body, version, correlation_id=1, client_id="fuzz")))
                    if damage:
                        frame[rng.randrange(12, len(frame))] = rng.randrange(256)
                    await answered_or_closed(client, bytes(frame))
            other = await client.another()
            await other.create_topic("after")

    asyncio.run(scenario())
    assert unexpected == []
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [error for error in errors if not error.name.startswith("kafka.")] == []  # the client of another test
