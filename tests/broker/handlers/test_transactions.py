"""Transactions over the wire: what readers see, who is fenced, what is a repeat, and offsets in a transaction."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mainstem.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from mainstem.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest
from mainstem.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from mainstem.record.writer import ProducerStamp
from mainstem.testing.clock import ManualClock
from tests.broker.handlers.test_groups import commit_request, join, sync
from tests.broker.harness import Client, fetch_request, produce_request, running, with_broker
from tests.broker.transactions.producer import V1, V2, Producer, committed_offset, end_offset, visible

BOTH = pytest.mark.parametrize("version", [V1, V2])


# ---- what readers see


@BOTH
@with_broker()
async def test_a_commit_makes_all_partitions_visible_at_once(client: Client, version: int) -> None:
    await client.create_topic("t", 2)
    producer = await Producer(client, version=version).ready()
    await producer.send("t", b"a")
    await producer.send("t", b"b", partition=1)
    assert await visible(client, "t") == []
    assert await visible(client, "t", committed=False) == [b"a"]
    await producer.commit()
    assert await visible(client, "t") == [b"a"]
    assert await visible(client, "t", partition=1) == [b"b"]


@BOTH
@with_broker()
async def test_what_was_aborted_is_named_to_readers_of_committed_records(client: Client, version: int) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=version).ready()
    await producer.send("t", b"gone")
    await producer.abort()
    await producer.send("t", b"stays")
    await producer.commit()
    assert await visible(client, "t") == [b"stays"]
    assert await visible(client, "t", committed=False) == [b"gone", b"stays"]


@with_broker()
async def test_an_open_transaction_holds_readers_of_committed_records_back(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"before")
    producer = await Producer(client).ready()
    await producer.send("t", b"open")
    await client.produce("t", b"after")
    assert await visible(client, "t") == [b"before"]
    assert await end_offset(client, "t", committed=True) == 1
    assert await end_offset(client, "t", committed=False) == 3
    await producer.abort()
    assert await visible(client, "t") == [b"before", b"after"]
    assert await end_offset(client, "t", committed=True) == 4


@with_broker()
async def test_a_waiting_reader_of_committed_records_wakes_at_the_commit(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await producer.send("t", b"v")
    reader = await client.another()
    request = fetch_request("t", 0, max_wait_ms=60_000)
    request.isolation_level = 1
    reader.send(request, 11)
    await producer.commit()
    answer = await reader.receive(request.__api_key__, 11)
    assert len(answer.body.responses[0].partitions[0].records)
    reader.close()


@BOTH
@with_broker()
async def test_transactions_follow_one_another(client: Client, version: int) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=version).ready()
    for number in range(5):
        await producer.send("t", b"%d" % number)
        await producer.end(commit=number % 2 == 0)
    assert await visible(client, "t") == [b"0", b"2", b"4"]


# ---- what Produce takes


@with_broker()
async def test_before_version_12_records_outside_of_the_transaction_are_refused(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=V1).ready()
    assert (await producer.produce("t", b"v", version=9)).error_code == ErrorCode.INVALID_TXN_STATE
    assert (await producer.produce("t", b"v", version=11)).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert await visible(client, "t", committed=False) == []
    assert await producer.verify("t") == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.add("t") == ErrorCode.NONE
    assert await producer.verify("t") == ErrorCode.NONE


@with_broker()
async def test_records_that_come_after_the_end_are_refused(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=V1).ready()
    await producer.send("t", b"v")
    late = producer.produce_request("t", b"late")
    await producer.commit()
    answer = await client.request(late, 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert await end_offset(client, "t", committed=True) == await end_offset(client, "t", committed=False)


@with_broker()
async def test_records_of_a_transaction_need_its_id(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    stamp = ProducerStamp(producer.producer_id, producer.epoch, 0, is_transactional=True)
    answer = await client.produce("t", b"v", producer=stamp)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@with_broker()
async def test_requests_in_flight_are_appended_in_their_order_while_the_transaction_begins(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    requests = [producer.produce_request("t", b"%d" % number) for number in range(5)]
    for request in requests:
        client.send(request, 12)
    for request in requests:
        answer = await client.receive(request.__api_key__, 12)
        assert answer.body.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    await producer.commit()
    assert await visible(client, "t") == [b"0", b"1", b"2", b"3", b"4"]


@with_broker()
async def test_one_unknown_partition_keeps_the_others_out_of_the_transaction(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=V1).ready()
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 7])],
    )
    answer = await client.request(request, 3)
    codes = [item.partition_error_code for item in answer.results_by_topic_v3_and_below[0].results_by_partition]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.verify("t") == ErrorCode.TRANSACTION_ABORTABLE


# ---- who is fenced


@BOTH
@with_broker()
async def test_a_second_producer_of_the_same_id_fences_the_first(client: Client, version: int) -> None:
    await client.create_topic("t")
    first = await Producer(client, version=version).ready()
    await first.send("t", b"first")
    second = await Producer(client, version=version).ready()
    assert (second.producer_id, second.epoch > first.epoch) == (first.producer_id, True)
    assert (await first.produce("t", b"late")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await first.end()).error_code == ErrorCode.PRODUCER_FENCED
    assert (await first.end(version=1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.add("t", version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.add("t", version=2) == ErrorCode.PRODUCER_FENCED
    await second.send("t", b"second")
    await second.commit()
    assert await visible(client, "t") == [b"second"]


@with_broker()
async def test_a_fenced_producer_cannot_go_on_with_its_id_and_epoch(client: Client) -> None:
    first = await Producer(client).ready()
    mine = {"producer_id": first.producer_id, "producer_epoch": first.epoch}
    await Producer(client).ready()
    assert (await first.init(**mine)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await first.init(version=3, **mine)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@with_broker()
async def test_a_producer_goes_on_with_its_id_and_epoch_after_an_error(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await producer.send("t", b"before")
    answer = await producer.init(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert answer.error_code == ErrorCode.NONE
    await producer.send("t", b"after")
    await producer.commit()
    assert await visible(client, "t") == [b"after"]


# ---- repeats


@pytest.mark.parametrize("commit", [True, False])
@with_broker()
async def test_a_repeated_end_is_answered_the_same_and_a_delayed_one_ends_nothing(client: Client, commit: bool) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await producer.send("t", b"one")
    request = producer.end_request(commit=commit)
    first = await client.request(request, 5)
    again = await client.request(request, 5)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, first.producer_epoch)
    producer.become(first.producer_id, first.producer_epoch)
    await producer.send("t", b"two")
    assert (await client.request(request, 5)).error_code == ErrorCode.PRODUCER_FENCED
    assert b"two" not in await visible(client, "t")
    await producer.commit()
    assert await visible(client, "t") == ([b"one", b"two"] if commit else [b"two"])


@with_broker()
async def test_an_end_that_was_sent_twice_at_once_ends_once(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await producer.send("t", b"v")
    other = await client.another()
    request = producer.end_request()
    client.send(request, 5)
    other.send(request, 5)
    codes = {(await each.receive(request.__api_key__, 5)).body.error_code for each in (client, other)}
    assert ErrorCode.NONE in codes
    assert codes <= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
    other.close()
    assert await visible(client, "t") == [b"v"]


# ---- offsets


async def _in_transaction(producer: Producer, group: str, offset: int, **more: Any) -> int:
    if producer.version == V1:
        assert await producer.add_group(group) == ErrorCode.NONE
    return await producer.offset(group, "t", offset, **more)


@BOTH
@with_broker()
async def test_offsets_of_a_fenced_producer_are_refused_by_its_epoch(client: Client, version: int) -> None:
    await client.create_topic("t")
    fenced = await Producer(client, version=version).ready()
    await Producer(client, version=version).ready()
    assert await fenced.offset("g", "t", 5) == ErrorCode.INVALID_PRODUCER_EPOCH


@BOTH
@with_broker()
async def test_offsets_count_when_their_transaction_commits(client: Client, version: int) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=version).ready()
    assert await _in_transaction(producer, "g", 5) == ErrorCode.NONE
    assert await committed_offset(client, "g", "t") == (-1, ErrorCode.NONE)
    assert await committed_offset(client, "g", "t", stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    await producer.commit()
    assert await committed_offset(client, "g", "t", stable=True) == (5, ErrorCode.NONE)


@BOTH
@with_broker()
async def test_offsets_of_an_aborted_transaction_are_forgotten(client: Client, version: int) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=version).ready()
    await client.request(commit_request(3), 8)
    assert await _in_transaction(producer, "g", 5) == ErrorCode.NONE
    assert await committed_offset(client, "g", "t") == (3, ErrorCode.NONE)
    await producer.abort()
    assert await committed_offset(client, "g", "t", stable=True) == (3, ErrorCode.NONE)


@with_broker()
async def test_an_offset_committed_after_the_transactions_own_is_not_taken_back(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await _in_transaction(producer, "g", 5)
    await client.request(commit_request(9), 8)
    await producer.commit()
    assert await committed_offset(client, "g", "t", stable=True) == (9, ErrorCode.NONE)


@with_broker()
async def test_of_two_transactions_the_offset_that_was_said_last_counts(client: Client) -> None:
    await client.create_topic("t")
    first, second = await Producer(client, "tx1").ready(), await Producer(client, "tx2").ready()
    await _in_transaction(first, "g", 5)
    await _in_transaction(second, "g", 9)
    await second.commit()
    await first.commit()
    assert await committed_offset(client, "g", "t") == (9, ErrorCode.NONE)


@with_broker()
async def test_a_group_that_is_deleted_does_not_come_back_with_an_older_transaction(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await client.request(commit_request(3), 8)
    await _in_transaction(producer, "g", 5)
    answer = await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert answer.results[0].error_code == ErrorCode.NONE
    await producer.commit()
    assert await committed_offset(client, "g", "t", stable=True) == (-1, ErrorCode.NONE)


@with_broker()
async def test_before_version_5_offsets_need_their_group_in_the_transaction(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client, version=V1).ready()
    assert await producer.offset("g", "t", 5, version=3) == ErrorCode.INVALID_TXN_STATE
    assert await producer.offset("g", "t", 5, version=4) == ErrorCode.TRANSACTION_ABORTABLE


@with_broker()
async def test_a_member_commits_with_its_own_generation_only(client: Client) -> None:
    await client.create_topic("t")
    joined = await join(client)
    await sync(client, joined)
    producer = await Producer(client).ready()
    member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    assert await producer.offset("g", "t", 1, **member) == ErrorCode.NONE
    stale = {**member, "generation_id": joined.generation_id - 1}
    assert await producer.offset("g", "t", 2, **stale) == ErrorCode.ILLEGAL_GENERATION
    assert await producer.offset("g", "t", 2, member_id="nobody", generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await producer.offset("none", "t", 2, member_id="m", generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    await producer.commit()
    assert await committed_offset(client, "g", "t") == (1, ErrorCode.NONE)


@with_broker(offset_metadata_max_bytes="10")
async def test_offsets_that_cannot_be_are_refused_alone(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    assert await producer.offset("g", "none", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.offset("g", "t", 1, partition=4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.offset("g", "t", 1, metadata="x" * 11) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await producer.offset("", "t", 1) == ErrorCode.INVALID_GROUP_ID


# ---- time-outs and expiry


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path / "data", clock=clock) as client:
            await client.create_topic("t")
            producer = await Producer(client).ready(timeout_ms=10_000)
            two_phase = await Producer(client, "prepared").ready(version=6, timeout_ms=10_000, enable2_pc=True)
            await producer.send("t", b"late")
            await two_phase.send("t", b"prepared")
            clock.advance(9.9)
            client.broker.node.transactions.expire()
            assert await _state(client, "tx") == "Ongoing"
            clock.advance(0.2)
            client.broker.node.transactions.expire()
            await _until_state(client, "tx", "CompleteAbort")
            assert (await producer.end()).error_code == ErrorCode.PRODUCER_FENCED
            assert (await producer.produce("t", b"later")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
            clock.advance(1_000_000)
            client.broker.node.transactions.expire()
            await two_phase.commit()
            assert await visible(client, "t") == [b"prepared"]

    asyncio.run(main())


def test_the_timer_aborts_without_being_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            producer = await Producer(client).ready(timeout_ms=1)
            await producer.produce("t", b"v")
            await _until_state(client, "tx", "CompleteAbort")
            assert await visible(client, "t") == []

    asyncio.run(main())


@with_broker(transaction_max_timeout_ms="1000")
async def test_a_time_out_over_the_nodes_is_refused(client: Client) -> None:
    producer = Producer(client)
    for timeout_ms in (1001, 0, -1):
        assert (await producer.init(timeout_ms=timeout_ms)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (await producer.init(timeout_ms=1000)).error_code == ErrorCode.NONE


def test_a_transactional_id_that_nobody_uses_is_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path / "data", {"transactional.id.expiration.ms": "1000"}, clock=clock) as client:
            await client.create_topic("t")
            idle, busy = await Producer(client, "idle").ready(), await Producer(client, "busy").ready()
            await busy.send("t", b"v")
            clock.advance(2)
            client.broker.node.transactions.expire_ids()
            assert await _state(client, "idle") is None
            assert await _state(client, "busy") == "Ongoing"
            assert await idle.add("t") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert (await idle.init()).error_code == ErrorCode.NONE

    asyncio.run(main())


# ---- two phases (KIP-939)


@with_broker()
async def test_a_new_instance_ends_what_was_prepared_before(client: Client) -> None:
    await client.create_topic("t")
    first = await Producer(client).ready(version=6, enable2_pc=True)
    await first.send("t", b"prepared")
    second = Producer(client)
    answer = await second.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (first.producer_id, first.epoch)
    assert (await first.end()).error_code == ErrorCode.PRODUCER_FENCED
    await second.commit()
    assert await visible(client, "t") == [b"prepared"]
    await second.send("t", b"next")
    await second.commit()
    assert await visible(client, "t") == [b"prepared", b"next"]


@with_broker(transaction_two_phase_commit_enable="false")
async def test_two_phases_can_be_switched_off(client: Client) -> None:
    answer = await Producer(client).init(version=6, enable2_pc=True)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# ---- what admins see and do


async def _state(client: Client, transactional_id: str) -> str | None:
    answer = await client.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    described = answer.transaction_states[0]
    if described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    assert described.error_code == ErrorCode.NONE
    state: str = described.transaction_state
    return state


async def _until_state(client: Client, transactional_id: str, state: str) -> None:
    async with asyncio.timeout(60):
        while await _state(client, transactional_id) != state:
            continue


@with_broker()
async def test_a_transaction_is_described_with_its_partitions(client: Client) -> None:
    await client.create_topic("t", 3)
    producer = await Producer(client).ready()
    await producer.send("t", b"v", partition=2)
    answer = await client.request(DescribeTransactionsRequest(transactional_ids=["tx", "none", ""]), 0)
    known, unknown, nameless = answer.transaction_states
    assert (known.transaction_state, known.producer_id) == ("Ongoing", producer.producer_id)
    assert [(topic.topic, list(topic.partitions)) for topic in known.topics] == [("t", [2])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_REQUEST


@with_broker()
async def test_transactions_are_listed_by_what_is_asked_for(client: Client) -> None:
    await client.create_topic("t")
    idle, busy = await Producer(client, "idle-1").ready(), await Producer(client, "busy-2").ready()
    await busy.send("t", b"v")

    async def listed(**filters: Any) -> set[str]:
        request = ListTransactionsRequest(**{"state_filters": (), "producer_id_filters": (), **filters})
        return {each.transactional_id for each in (await client.request(request, 2)).transaction_states}

    assert await listed() == {"idle-1", "busy-2"}
    assert await listed(state_filters=["Ongoing", "Nonsense"]) == {"busy-2"}
    assert await listed(producer_id_filters=[idle.producer_id]) == {"idle-1"}
    assert await listed(transactional_id_pattern="busy-.") == {"busy-2"}
    assert await listed(duration_filter=1_000_000) == set()
    answer = await client.request(
        ListTransactionsRequest(state_filters=["Nonsense"], producer_id_filters=(), transactional_id_pattern="("), 2
    )
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@with_broker()
async def test_producers_and_their_open_transactions_are_described(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"first")
    producer = await Producer(client).ready()
    await producer.send("t", b"v")
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 9])])
    known, unknown = (await client.request(request, 0)).topics[0].partitions
    assert [(each.producer_id, each.current_txn_start_offset) for each in known.active_producers] == [
        (producer.producer_id, 1)
    ]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_broker()
async def test_an_administrator_can_end_what_hangs_in_a_partition(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    await producer.send("t", b"v")
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 5])],
        coordinator_epoch=0,
    )
    answer = await client.request(WriteTxnMarkersRequest(markers=[marker]), 1)
    codes = [item.error_code for item in answer.markers[0].topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await end_offset(client, "t", committed=True) == 2
    assert await visible(client, "t") == []


@with_broker()
async def test_this_node_coordinates_every_transactional_id(client: Client) -> None:
    response = await client.request(FindCoordinatorRequest(coordinator_keys=["t"], key_type=1), 4)
    assert [(item.port, item.error_code) for item in response.coordinators] == [(client.address[1], 0)]


@with_broker()
async def test_transaction_version_2_is_what_clients_are_told(client: Client) -> None:
    answer = await client.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    assert {(each.name, each.max_version_level) for each in answer.finalized_features} >= {("transaction.version", 2)}
    assert answer.finalized_features_epoch >= 0


@with_broker()
async def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(client: Client) -> None:
    await client.create_topic("t")
    await client.create_topic("u")
    producer = await Producer(client).ready()
    await producer.send("t", b"v")
    await producer.send("u", b"v")
    await client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
    await producer.commit()
    assert await visible(client, "u") == [b"v"]


@with_broker()
async def test_a_nameless_transactional_id_is_refused(client: Client) -> None:
    producer = Producer(client, "")
    assert (await producer.init()).error_code == ErrorCode.INVALID_REQUEST
    assert (await producer.end()).error_code == ErrorCode.INVALID_REQUEST
    assert await producer.add("t") != ErrorCode.NONE


@with_broker()
async def test_plain_records_of_a_transactional_producer_need_no_transaction(client: Client) -> None:
    await client.create_topic("t")
    request = produce_request("t", b"plain")
    request.transactional_id = "tx"
    answer = await client.request(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@with_broker()
async def test_all_partitions_are_refused_when_records_of_a_transaction_lack_its_id(client: Client) -> None:
    await client.create_topic("t")
    producer = await Producer(client).ready()
    stamp = ProducerStamp(producer.producer_id, producer.epoch, 0, is_transactional=True)
    answer = await client.produce("t", b"v", partition=7, producer=stamp)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
