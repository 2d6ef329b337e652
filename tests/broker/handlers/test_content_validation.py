"""Topics that have keys and values read by their schemas: what passes, what is refused, and a process that dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainstem.broker.storage import schema_contents
from mainstem.protocol.errors import ErrorCode
from mainstem.record.constants import Compression
from mainstem.schemas_topic.frames import frame_of
from mainstem.schemas_topic.records import Content, Reference
from tests.broker.handlers.test_schema_validation import OTHER, answer_to, create, guid, record, register, send
from tests.broker.harness import Client, running, with_broker

CONFIGS = {"mainstem.value.schema.validation": "true", "mainstem.schema.validation.content": "true"}
TEXT = Content("AVRO", '"string"')
GOOD, BAD = record(frame_of(7) + b"\x02x"), record(frame_of(7) + b"\x08x")


async def staged(client: Client, configs: dict[str, str] = CONFIGS) -> None:
    await create(client, "_schemas", {"cleanup.policy": "compact"})
    assert (await create(client, "t", configs)).error_code == 0
    await register(client, "t-value", 7, TEXT)


def worker(client: Client) -> int:
    pid = client.broker.node.append_checks.contents.pid
    assert pid is not None
    return pid


@with_broker()
async def test_a_value_that_its_schema_does_not_read_is_refused_by_its_index(client: Client) -> None:
    await staged(client)
    refused = await answer_to(client, GOOD, BAD, GOOD, record(frame_of(7)))
    assert list(refused) == [1, 3]
    assert refused[1] == "its value does not fit schema 7: a length of 4, where 1 bytes are left"
    assert await client.values("t") == []
    inside = record(b"\x02x", (("__value_schema_id", guid(TEXT)),))
    assert await answer_to(client, GOOD, record(None), record(guid(TEXT) + b"\x02y"), inside) == {}
    assert await client.values("t") == [GOOD.value, None, guid(TEXT) + b"\x02y", b"\x02x"]


@with_broker()
async def test_a_frame_that_is_not_taken_is_refused_before(client: Client) -> None:
    await staged(client)
    assert list(await answer_to(client, GOOD, record(b"x"))) == [1]
    assert client.broker.node.append_checks.contents.pid is None  # nothing had to be read


@with_broker()
async def test_without_the_config_no_process_is_started(client: Client) -> None:
    await staged(client, {"mainstem.value.schema.validation": "true"})
    assert await answer_to(client, BAD) == {}
    assert client.broker.node.append_checks.contents.pid is None


@with_broker()
async def test_keys_are_read_by_their_own_schema(client: Client) -> None:
    await staged(client, {"mainstem.key.schema.validation": "true", "mainstem.schema.validation.content": "true"})
    await register(client, "t-key", 8, OTHER)
    assert await answer_to(client, record(b"anything", key=frame_of(8) + b"\x02")) == {}
    refused = await answer_to(client, record(b"anything", key=frame_of(8)))
    assert "its key does not fit schema 8" in refused[0]


@pytest.mark.parametrize("codec", list(Compression))
@with_broker()
async def test_batches_of_every_codec_and_size_are_read(client: Client, codec: Compression) -> None:
    await staged(client)
    for count in (3, 3000):
        assert await answer_to(client, *[GOOD] * count, compression=codec) == {}
        assert list(await answer_to(client, *[GOOD] * count, BAD, compression=codec)) == [count]


@with_broker()
async def test_a_thousand_records_are_named_of_a_batch_that_does_not_fit(client: Client) -> None:
    await staged(client)
    answer = await send(client, "t", [BAD] * 5_000)
    assert (answer.error_code, len(answer.record_errors)) == (ErrorCode.INVALID_RECORD, 1_000)


@with_broker()
async def test_schemas_that_come_later_and_what_they_refer_to_are_read(client: Client) -> None:
    await staged(client)
    assert await answer_to(client, GOOD) == {}
    await register(client, "id", 4, Content("AVRO", '{"type": "fixed", "name": "Id", "size": 2}'))
    fields = '[{"name": "id", "type": "Id"}]'
    order = '{"type": "record", "name": "Order", "fields": %s}' % fields  # noqa: UP031
    await register(client, "t-value", 9, Content("AVRO", order, (Reference("Id", "id", 4),)))
    assert await answer_to(client, record(frame_of(9) + b"ab"), GOOD) == {}
    assert list(await answer_to(client, record(frame_of(9) + b"a"), GOOD)) == [0]


@with_broker()
async def test_a_process_that_died_is_started_again(client: Client) -> None:
    await staged(client)
    assert await answer_to(client, GOOD) == {}
    killed = worker(client)
    os.kill(killed, signal.SIGKILL)
    assert await answer_to(client, GOOD) == {}
    assert list(await answer_to(client, BAD)) == [0]
    assert worker(client) != killed
    assert await client.values("t") == [GOOD.value] * 2


@with_broker()
async def test_ctrl_c_is_for_the_log_and_not_for_the_process(client: Client) -> None:
    await staged(client)
    assert await answer_to(client, GOOD) == {}
    pid = worker(client)
    os.kill(pid, signal.SIGINT)
    assert list(await answer_to(client, BAD)) == [0]
    assert worker(client) == pid


@with_broker()
async def test_without_a_process_an_append_gets_an_error_that_clients_retry(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await staged(client)
    monkeypatch.setattr(schema_contents, "_WORKER", "no.such.module")
    assert (await send(client, "t", [GOOD])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert await client.values("t") == []
    monkeypatch.undo()
    assert await answer_to(client, GOOD) == {}


@with_broker()
async def test_a_library_that_is_missing_is_named_and_nothing_is_appended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await staged(client)
    monkeypatch.setattr(schema_contents, "_WORKER", "tests.broker.handlers.worker_without_a_library")
    for _ in range(2):
        answer = await send(client, "t", [GOOD])
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert answer.error_message == "mainstem.schema.validation.content=true: pip install 'mainstem[x]'"
    assert await client.values("t") == []


@with_broker()
async def test_a_check_that_takes_too_long_is_refused_and_the_next_one_is_made(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await staged(client)
    assert await answer_to(client, GOOD) == {}
    os.kill(worker(client), signal.SIGSTOP)
    monkeypatch.setattr(schema_contents, "_CHECK_S", 0.1)
    answer = await send(client, "t", [GOOD])
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "could not be checked by their schemas" in answer.error_message
    monkeypatch.undo()
    assert await answer_to(client, GOOD) == {}


@with_broker()
async def test_large_schemas_are_bounded_in_one_append_and_in_the_process(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await staged(client)
    monkeypatch.setattr(schema_contents, "_SCHEMA_BYTES_MAX", 3_000)
    large = [Content("AVRO", '{"type": "string", "doc": "%s"}' % (str(n) * 1_200)) for n in range(3)]
    for number, content in enumerate(large):
        await register(client, "t-value", 10 + number, content)
    records = [record(frame_of(10 + number) + b"\x02x") for number in range(3)]
    answer = await send(client, "t", records)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "have more than 3000 bytes: send records of fewer schemas in one batch" in answer.error_message
    pids = []
    for each in records:
        assert await answer_to(client, each) == {}
        pids.append(worker(client))
    assert pids[0] == pids[1] == pids[2]
    await register(client, "t-value", 20, Content("AVRO", '{"type": "string", "doc": "%s"}' % ("x" * 1_200)))
    assert await answer_to(client, record(frame_of(20) + b"\x02x"), GOOD) == {}
    assert worker(client) != pids[0]
    assert list(await answer_to(client, records[0], BAD)) == [1]


@with_broker()
async def test_appends_of_many_connections_are_checked_each_by_itself(client: Client) -> None:
    await staged(client)
    clients = [await client.another() for _ in range(8)]

    async def appended(each: Client, records: Sequence[bool]) -> list[int]:
        return [len(await answer_to(each, GOOD if fits else BAD)) for fits in records]

    pattern = [True, False, False, True]
    assert await asyncio.gather(*(appended(each, pattern) for each in clients)) == [[0, 1, 1, 0]] * 8
    assert len(await client.values("t")) == 16


def test_the_process_ends_with_the_log(tmp_path: Path) -> None:
    async def main() -> int:
        async with running(tmp_path / "data") as client:
            await staged(client)
            assert await answer_to(client, GOOD) == {}
            return worker(client)

    pid = asyncio.run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
