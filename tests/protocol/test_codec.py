from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest

from mainstem.broker.apis import APIS
from mainstem.errors import FrameError
from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.codec import (
    decode_header,
    decode_message,
    decode_request,
    decode_response,
    encode_message,
    encode_request,
    encode_response,
)
from mainstem.protocol.compiler import uvarint
from mainstem.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mainstem.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from mainstem.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from mainstem.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
)
from mainstem.protocol.messages.group_records import OffsetCommitValue
from mainstem.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.protocol.test_messages import random_struct


def frame_of(chunks: list) -> bytes:
    data = b"".join(chunks)
    assert struct.unpack(">i", data[:4])[0] == len(data) - 4
    return data[4:]


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_a_request_survives_the_way_there(version: int) -> None:
    body = MetadataRequest(topics=None)
    request = decode_request(frame_of(encode_request(body, version, correlation_id=7, client_id="me")))
    assert request == (ApiKey.METADATA, version, 7, "me", body)


def test_a_client_without_a_name_is_none() -> None:
    frame = frame_of(encode_request(MetadataRequest(topics=[]), 12, correlation_id=7, client_id=None))
    assert decode_request(frame).client_id is None


@pytest.mark.parametrize("version", [4, 12])
def test_a_response_survives_the_way_back(version: int) -> None:
    partition = PartitionData(
        partition_index=1, error_code=0, high_watermark=9, aborted_transactions=None, records=b"r"
    )
    body = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    header = decode_header(struct.pack(">hhihs", 1, version, 5, 1, b"x"))
    response = decode_response(frame_of(encode_response(header, body)), ApiKey.FETCH, version)
    assert response == (5, body)


def test_record_batches_are_neither_copied_on_the_way_in_nor_out() -> None:
    records = bytes(10_000)
    partition = PartitionProduceData(index=0, records=records)
    body = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    chunks = encode_request(body, 9, correlation_id=1, client_id="me")
    assert any(chunk is records for chunk in chunks)
    frame = frame_of(chunks)
    read = decode_request(frame).body.topic_data[0].partition_data[0].records
    assert read.obj is frame


def test_an_answer_to_api_versions_has_no_tags_in_its_header_so_that_any_client_can_read_it() -> None:
    body = ApiVersionsResponse(error_code=0, api_keys=[])
    header = decode_header(frame_of(encode_request(ApiVersionsRequest(), 3, correlation_id=9, client_id="me")))
    assert frame_of(encode_response(header, body))[:6] == struct.pack(">ih", 9, 0)


def test_a_header_of_an_unknown_version_can_be_read() -> None:
    frame = struct.pack(">hhih2s", 18, 99, 3, 2, b"me") + b"\x00\x07\x07"
    assert decode_header(frame)[:4] == (18, 99, 3, "me")


@pytest.mark.parametrize(("key", "version"), [(4, 0), (38, 1), (999, 0), (-1, 0), (1, 3), (1, 99), (3, -1)])
def test_an_unknown_api_or_version_is_a_frame_error(key: int, version: int) -> None:
    with pytest.raises(FrameError):
        decode_request(struct.pack(">hhih", key, version, 1, -1))


def test_bytes_behind_a_request_are_ignored_as_kafka_does() -> None:
    frame = frame_of(encode_request(MetadataRequest(topics=None), 12, correlation_id=7, client_id="me"))
    assert decode_request(frame + b"\x00\x00\x00").body == MetadataRequest(topics=None)


def test_bytes_behind_a_record_are_a_frame_error() -> None:
    data = encode_message(OffsetCommitValue(offset=5, metadata="m", commit_timestamp=3), 3)
    with pytest.raises(FrameError, match="left over"):
        decode_message(OffsetCommitValue, 3, data + b"\x00")


def test_tags_that_nobody_knows_are_skipped() -> None:
    frame = frame_of(encode_request(MetadataRequest(topics=None), 12, correlation_id=7, client_id="me"))
    assert decode_request(frame[:-1] + b"\x01\x63\x02hi").body == MetadataRequest(topics=None)


HOSTILE = {
    "2^31-1 legacy elements": (3, 1, struct.pack(">i", 2**31 - 1)),
    "10^8 legacy elements": (3, 1, struct.pack(">i", 10**8)),
    "fewer than no elements": (3, 1, struct.pack(">i", -5)),
    "2^31-1 compact elements": (3, 12, b"\x00\xff\xff\xff\xff\x07"),
    "a varint of ten bytes": (3, 12, b"\x00" + b"\xff" * 9 + b"\x01"),
    "2^31-1 tags": (3, 12, b"\x00\x01\x00\x00\xff\xff\xff\xff\x07"),
    "2^31-1 tags in the header": (3, 12, b"\xff\xff\xff\xff\x07"),
    "a long tag": (3, 12, b"\x00\x01\x00\x00\x01\x09\xff\xff\xff\x7f"),
    "a string of 2 GB": (3, 12, b"\x00\x02" + bytes(16) + b"\xff\xff\xff\xff\x07"),
    "a string that is not UTF-8": (3, 1, struct.pack(">ih2s", 1, 2, b"\xff\xfe")),
    "records of 2 GB": (0, 3, struct.pack(">hhiihsiii", -1, 1, 1, 1, 1, b"t", 1, 0, 2**31 - 1)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_length_is_refused_before_memory_is_taken(case: str) -> None:
    key, version, body = HOSTILE[case]
    frame = struct.pack(">hhih", key, version, 1, -1) + body
    tracemalloc.start()
    with pytest.raises(FrameError):
        decode_request(frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_more_than_a_million_elements_in_one_frame_are_refused() -> None:
    forgotten = [ForgottenTopic(topic="t", partitions=[0] * 300_000)] * 4
    body = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], forgotten_topics_data=forgotten)
    frame = frame_of(encode_request(body, 7, correlation_id=1, client_id=None))
    with pytest.raises(FrameError, match="more than"):
        decode_request(frame)


@pytest.mark.parametrize("api", list(map(ApiKey, APIS)), ids=lambda api: api.name.lower())
def test_damaged_requests_are_read_or_refused_and_nothing_else(api: ApiKey) -> None:
    rng = random.Random(api)
    first, last = entity(api, _any_version(api), True).__versions__
    for version in range(first, last + 1):
        body = random_struct(entity(api, version, True), version, rng)
        frame = bytearray(frame_of(encode_request(body, version, correlation_id=1, client_id="fuzz")))
        for _ in range(20):
            damaged = frame[: rng.randrange(len(frame)) + 1] if rng.random() < 0.5 else bytearray(frame)
            for _ in range(rng.randrange(4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                decode_request(bytes(damaged))
            except FrameError:
                continue


def _any_version(api: ApiKey) -> int:
    for version in range(8):
        try:
            entity(api, version, True)
        except FrameError:
            continue
        return version
    raise AssertionError(f"{api} has no version")


def test_a_message_alone_survives() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=3)
    assert decode_message(OffsetCommitValue, 3, encode_message(value, 3)) == value


def test_a_misspelt_field_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        MetadataRequest(topic=None)  # type: ignore[call-arg]


def with_long_string(value: Any, version: int) -> bool:
    """Make the first string in a struct one byte longer than Kafka allows; whether there was one."""
    for field in value.__fields__:
        held = getattr(value, field.name) if version in field.versions else None
        if field.kind == "string" and held is not None:
            setattr(value, field.name, "x" * 32_768)
            return True
        if field.kind == "array:string" and held:
            setattr(value, field.name, ["x" * 32_768])
            return True
        items = held if field.kind == "array" else [held] if field.kind == "struct" else ()
        if any(item is not None and with_long_string(item, version) for item in items or ()):
            return True
    return False


def flexible_requests() -> list[tuple[ApiKey, int]]:
    found = []
    for key, api in APIS.items():
        first, last = api.versions
        found += [(ApiKey(key), version) for version in range(first, last + 1)]
    return [(key, version) for key, version in found if version in entity(key, version, True).__flexible__]


@pytest.mark.parametrize(("key", "version"), flexible_requests())
def test_a_string_that_is_longer_than_kafka_reads_is_refused_in_every_request(key: ApiKey, version: int) -> None:
    rng = random.Random(f"{key}{version}")
    for _ in range(20):
        body = random_struct(entity(key, version, True), version, rng)
        if with_long_string(body, version):
            with pytest.raises(FrameError):
                decode_request(frame_of(encode_request(body, version, correlation_id=1, client_id="c")))


def test_the_longest_string_is_read() -> None:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_767)])
    assert decode_request(frame_of(encode_request(body, 12, correlation_id=1, client_id="c"))).body == body


def test_a_kept_record_may_hold_a_longer_string() -> None:
    """An earlier version wrote it: it must stay readable."""
    value = ConsumerGroupMemberMetadataValue.of_defaults()
    value.rack_id = "x" * 40_000
    kept = decode_message(ConsumerGroupMemberMetadataValue, 0, encode_message(value, 0))
    assert kept.rack_id == value.rack_id


_CLASSIC = ClassicMemberMetadata(
    session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\1\2\3")]
)


@pytest.mark.parametrize(
    ("classic", "tags"),
    [
        (None, "01 00 01 00"),
        (ClassicMemberMetadata.of_defaults(), "00"),
        (_CLASSIC, "01 00 12 01 0000afc8 02 06 72616e6765 04 010203 00 00"),
    ],
)
def test_a_struct_in_a_tagged_field_is_null_as_kafka_writes_it(
    classic: ClassicMemberMetadata | None, tags: str
) -> None:
    """The bytes are of the class that Kafka 4.3.1 writes this record with."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=300_000,
        server_assignor=None,
        classic_member_metadata=classic,
    )
    data = bytes.fromhex("00 00 0263 032f68 02 076f7264657273 01 000493e0 00" + tags)
    assert encode_message(value, 0) == data
    assert decode_message(ConsumerGroupMemberMetadataValue, 0, data) == value


@pytest.mark.parametrize("tags", ["01 00 00", "01 00 01 ff", "01 00 02 00 00", "01 00 01 01", "01 00 02 01 00"])
def test_a_struct_in_a_tagged_field_that_does_not_fit_is_refused(tags: str) -> None:
    data = bytes.fromhex("00 00 0263 032f68 02 076f7264657273 01 000493e0 00" + tags)
    with pytest.raises(FrameError):
        decode_message(ConsumerGroupMemberMetadataValue, 0, data)


@pytest.mark.parametrize("version", [5, 6])
def test_the_text_of_an_error_is_cut_to_what_clients_read(version: int) -> None:
    group = DescribedGroup.of_defaults()
    group.error_message = "ä" * 32_767
    header = decode_header(struct.pack(">hhihs", 15, version, 5, 1, b"x"))
    frame = frame_of(encode_response(header, DescribeGroupsResponse(groups=[group])))
    text = decode_response(frame, ApiKey.DESCRIBE_GROUPS, version).body.groups[0].error_message
    assert text in (None, "ä" * 16_383)


@pytest.mark.parametrize("tagged", [None, 0, 1, 2])
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_structs_of_fixed_size_are_read_with_tagged_fields_and_without(tagged: int | None, buffer: Any) -> None:
    """Without tagged fields they are read at once, else one by one."""
    partitions = [
        ListOffsetsPartitionResponse(
            partition_index=number, error_code=number, timestamp=-number, offset=2**40 + number, leader_epoch=number
        )
        for number in range(3)
    ]
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])
    data = bytearray(encode_message(answer, 11))
    if tagged is not None:
        at = len(data) - 2 - 27 * (2 - tagged)  # behind it are the tags of topic and answer
        assert data[at - 1] == 0
        data[at - 1 : at] = bytes.fromhex("01 07 02 aabb")  # a field that is not known
    assert decode_message(ListOffsetsResponse, 11, buffer(data)) == answer
    for end in range(len(data)):
        with pytest.raises(FrameError):
            decode_message(ListOffsetsResponse, 11, buffer(data[:end]))


def test_tags_of_a_header_are_bounded() -> None:
    frame = struct.pack(">hhih", 18, 3, 1, -1) + uvarint(10_001) + bytes(2) * 10_001
    with pytest.raises(FrameError):
        decode_request(frame)
