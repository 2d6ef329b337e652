"""The one list of deliberate differences from Apache Kafka in answers, with the reasons.

The differential test skips these, and ``docs/reference/compatibility.md`` shows them. A row names an API (``*`` for
any), a regular expression for the field's path in the answer, and the answers of both sides (``ANY`` for any answer).
Every other difference is a defect.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mainstem.protocol.schema import ZERO_UUID

ANY: Final = "…"
"""Stands for every answer."""


class DeliberateDifference(NamedTuple):
    """One row: ``path`` is searched in a path such as ``topics[0].partitions[1].error_code``.

    ``parts``: after such an answer the brokers are in different states, and their answers are compared no further.
    ``when``: an additional condition on the two answers. ``asks``: a text that the request's fields have to contain.
    """

    api: str
    path: str
    here: Any
    there: Any
    reason: str
    parts: bool = False
    when: Callable[[Any, Any], bool] | None = None
    asks: str = ""

    def covers(self, api: str, path: str, here: Any, there: Any, asked: str) -> bool:
        """Whether this row covers a difference between two answers at this path."""
        return (
            self.api in ("*", api)
            and re.search(self.path, path) is not None
            and self.here in (ANY, here)
            and self.there in (ANY, there)
            and (self.when is None or self.when(here, there))
            and self.asks in asked
        )


def _are_epochs(here: Any, there: Any) -> bool:
    """Epochs of members that are in the group, or of the group."""
    return bool(here > 0 and there > 0)


def _is_behind(here: Any, there: Any) -> bool:
    """A start offset that Kafka does not show yet, or as it was earlier."""
    return bool(there < here)


def _is_earlier_lag(here: Any, there: Any) -> bool:
    return bool(there == -1 or there > here)


def _leaves_for_next_fetch(here: Any, there: Any) -> bool:
    """Whether all that a fetch here does not return, beside records, has no records there."""
    if not isinstance(here, list) or not isinstance(there, list):
        return False
    left = [each for each in there if each not in here]
    are_the_rest = len(here) + len(left) == len(there)
    return are_the_rest and any(map(_has_records, here)) and not any(map(_has_records, left))


def _has_failed(here: Any, there: Any) -> bool:
    """Whether all partitions of Kafka's answer to a share fetch have UNKNOWN_SERVER_ERROR."""
    return bool(there) and all(partition["error_code"] == -1 for topic in there for partition in topic["partitions"])


def _comes_later(here: Any, there: Any) -> bool:
    """Whether Kafka's answer to a share fetch has some of the topics that there are here, and nothing else."""
    return 0 < len(there) < len(here) and all(topic in here for topic in there)


def _has_records(fetched: Any) -> bool:
    """Whether a topic, or a partition, has records in the answer to a fetch."""
    return any(partition["records"] for partition in fetched.get("partitions", [fetched]))


ABSENT: Final = "absent"
"""Stands for a part of an answer that only the other one has."""
_OWN_CONFIGS: Final = r"configs\.(flush|(mainstem|confluent|errors\.deadletterqueue)\.[a-z.]+|log\.flush)$"
_RE_ELECTION: Final = "this node does not list eligible.leader.replicas.version, with which Kafka's controller sets it"

_SHARES_AT_ONCE: Final = (
    "the first heartbeat of a share group's member begins to keep its partitions' state and brings the assignment; "
    "in Kafka a later heartbeat does, at a later epoch"
)

_START_KNOWN: Final = (
    "where a share group starts is decided, and durable, when its first member joins; Kafka tells it after the first "
    "acknowledgement, and as it was before the last one"
)
_OPERATION: Final = "an operation on configs that does not exist is INVALID_REQUEST; in Kafka UNKNOWN_SERVER_ERROR"
_BECOMES_STATIC: Final = (
    "a member that was given its id and joins with it and a group.instance.id is taken; in Kafka UNKNOWN_SERVER_ERROR"
)
_NO_SHARED_TOPIC: Final = "a topic id that is not known is said of its partition; in Kafka UNKNOWN_SERVER_ERROR of all"
_NOT_FETCHED: Final = (
    "an acknowledgement in a partition of which nothing was fetched is INVALID_RECORD_STATE; in Kafka, which has not "
    "loaded the partition then, UNKNOWN_TOPIC_OR_PARTITION"
)
_NOT_IN_LOG: Final = (
    "an acknowledgement of offsets that the partition does not have is INVALID_RECORD_STATE of the partition; Kafka "
    "fails, and says UNKNOWN_SERVER_ERROR of all"
)
_NOT_IN_RANGE: Final = (
    "a start offset of a share group that is not in the log is OFFSET_OUT_OF_RANGE; Kafka takes it, and corrects it at "
    "the next fetch"
)
_MAX_TIMESTAMP: Final = (
    "the record with the largest timestamp is one that can be read; Kafka may name one that DeleteRecords removed"
)
_NO_SHARE_GROUP: Final = (
    "a share fetch of a group that is not there is GROUP_ID_NOT_FOUND; in Kafka UNKNOWN_SERVER_ERROR, of the request "
    "or of its partitions"
)
_FIRST_SHARE_FETCH: Final = (
    "the first share fetch of a partition brings its records at once; Kafka first loads the partition's state, and "
    "leaves it out while others have records"
)
_APPEND_TIME: Final = (
    "a produced batch that says LogAppendTime is INVALID_TIMESTAMP; Kafka means to refuse it, and takes one whose "
    "times are in the topic's range, as CreateTime"
)
_NO_EPOCH: Final = (
    "a produced batch of a producer without an epoch is INVALID_RECORD; Kafka takes it, or compares the epoch"
)
_NO_CODEC: Final = "a produced batch of a codec that does not exist is INVALID_RECORD; in Kafka UNKNOWN_SERVER_ERROR"
_NO_MEMBER_ID: Final = "a member epoch without a member id is UNKNOWN_MEMBER_ID; in Kafka UNKNOWN_SERVER_ERROR"
_MAY_SUBSCRIBE: Final = (
    "while a classic group rebalances, its topics are those that its members name now; in Kafka those of the last "
    "generation"
)
_OLDER_INIT: Final = (
    "InitProducerId with another epoch than the current one is refused while a transaction is open; in Kafka it "
    "aborts that transaction and fences its producer"
)
_TOO_MANY: Final = "more partitions than a topic may have is INVALID_PARTITIONS; in Kafka UNKNOWN_SERVER_ERROR"
_ACKS_FIRST: Final = "acks are checked before the transaction of the records; in Kafka after it"
_NO_OFFSETS_GROUP: Final = "a group of no name cannot take part in a transaction; Kafka lets it"
_STAYS_CONSUMER: Final = (
    "an empty consumer group stays when a classic member is refused with UNKNOWN_MEMBER_ID, and says so to its own; "
    "Kafka forgets the group until its next start, and says GROUP_ID_NOT_FOUND"
)
_UNKNOWN_FIRST: Final = (
    "a partition that is not there is said before what is wrong with its records; Kafka first looks through all "
    "records for transactional ones"
)
_KAFKA_FAILS: Final = "values below zero are served as nothing; Kafka fails, and says UNKNOWN_SERVER_ERROR"
_NEXT_FETCH: Final = (
    "when max_bytes are used up, an incremental fetch leaves the other partitions for the next one, with their errors; "
    "Kafka looks at each"
)
_FETCH_BELOW_ZERO: Final = (
    "a limit of bytes below zero is served as 0, with one batch; Kafka fails, and says UNKNOWN_SERVER_ERROR of each "
    "partition"
)
_VALIDATED: Final = "a topic that is only validated has no id; in Kafka one that nothing will have"
_NEVER_COMMITTED: Final = (
    "a group of which every commit was refused does not exist; Kafka remembers it until its next start, and may not "
    "list it, even when a member joins"
)
_NO_GROUP_NAME: Final = (
    "offsets of a share group without a name are INVALID_GROUP_ID; Kafka fails, and says UNKNOWN_SERVER_ERROR"
)
_NO_NAME: Final = (
    "a topic without a name is INVALID_TOPIC_EXCEPTION; in Kafka, which cannot, UNKNOWN_SERVER_ERROR of all"
)
_NO_NAME_NOR_ID: Final = (
    "a topic without a name and an id is UNKNOWN_TOPIC_ID; Kafka fails, and says UNKNOWN_SERVER_ERROR of all"
)
_TIE: Final = (
    "when protocols of a classic group have equally many votes, the one of the member that joined first wins; in Kafka "
    "the order of a hash table decides"
)
_OLDER_END: Final = (
    "an EndTxn of version 5 at the epoch before the current one is PRODUCER_FENCED where the transaction ended with an "
    "older version, which does not raise the epoch; Kafka takes it for a repeat"
)

DELIBERATE: Final = (
    DeliberateDifference(
        "*",
        _OWN_CONFIGS,
        ANY,
        ABSENT,
        "Mainstem's own topic configs are listed, and those of Confluent's schema validation and of KIP-1191",
    ),
    DeliberateDifference(
        "describe_configs",
        r"configs\.streams\.assignor\.offload\.enable",
        ABSENT,
        ANY,
        "Assignments of streams groups are made on the event loop; there is nothing to switch",
    ),
    DeliberateDifference("share_group_heartbeat", r"^member_epoch$", ANY, ANY, _SHARES_AT_ONCE, when=_are_epochs),
    DeliberateDifference("share_group_heartbeat", r"^assignment\.topic_partitions", ANY, ANY, _SHARES_AT_ONCE),
    DeliberateDifference(
        "share_group_describe", r"(group|assignment|member)_epoch$", ANY, ANY, _SHARES_AT_ONCE, when=_are_epochs
    ),
    DeliberateDifference("describe_share_group_offsets", r"start_offset$", ANY, ANY, _START_KNOWN, when=_is_behind),
    DeliberateDifference("describe_share_group_offsets", r"lag$", ANY, ANY, _START_KNOWN, when=_is_earlier_lag),
    DeliberateDifference("describe_share_group_offsets", r"groups.*\]\.error_code$", 24, -1, _NO_GROUP_NAME),
    DeliberateDifference("produce", r"error_code$", 32, 0, _APPEND_TIME, parts=True),
    DeliberateDifference("produce", r"error_code$", 87, 0, _NO_EPOCH, parts=True),
    DeliberateDifference("produce", r"error_code$", 87, 47, _NO_EPOCH),
    DeliberateDifference("produce", r"error_code$", 87, -1, _NO_CODEC),
    DeliberateDifference("consumer_group_heartbeat", r"error_code$", 25, 69, _STAYS_CONSUMER, parts=True),
    DeliberateDifference("consumer_group_heartbeat", r"^member_epoch$", ANY, ANY, _STAYS_CONSUMER, when=_is_behind),
    DeliberateDifference("offset_delete", r"^error_code$", 0, 69, _STAYS_CONSUMER, parts=True),
    DeliberateDifference("consumer_group_describe", r"error_code$", 0, 69, _STAYS_CONSUMER, parts=True),
    DeliberateDifference("offset_delete", r"partitions.*error_code$", 86, 0, _MAY_SUBSCRIBE, parts=True),
    DeliberateDifference("init_producer_id", r"^error_code$", 90, 0, _OLDER_INIT, parts=True),
    DeliberateDifference("create_partitions", r"error_code$", 37, -1, _TOO_MANY),
    DeliberateDifference("offset_fetch", r"^groups\[\d+\]\.error_code$", 25, -1, _NO_MEMBER_ID),
    DeliberateDifference("produce", r"log_start_offset$", ANY, -1, _NO_CODEC, asks="damage='codec'"),
    DeliberateDifference("produce", r"error_code$", 21, ANY, _ACKS_FIRST),
    DeliberateDifference("add_offsets_to_txn", r"^error_code$", 24, ANY, _NO_OFFSETS_GROUP),
    DeliberateDifference("produce", r"error_code$", 3, 2, _UNKNOWN_FIRST),
    DeliberateDifference("produce", r"error_code$", 100, 2, _UNKNOWN_FIRST),
    DeliberateDifference("share_fetch", r"partitions.*error_code$", 0, -1, _KAFKA_FAILS, parts=True),
    DeliberateDifference("share_fetch", r"^responses$", [], ANY, _KAFKA_FAILS, parts=True, when=_has_failed),
    DeliberateDifference("share_fetch", r"^responses$", ANY, ANY, _FIRST_SHARE_FETCH, parts=True, when=_comes_later),
    DeliberateDifference("describe_share_group_offsets", r"groups.*\]\.error_code$", 0, -1, _KAFKA_FAILS, parts=True),
    DeliberateDifference(
        "fetch", r"^responses(\[\d+\]\.partitions)?$", ANY, ANY, _NEXT_FETCH, parts=True, when=_leaves_for_next_fetch
    ),
    DeliberateDifference("fetch", r"partitions.*error_code$", 0, -1, _FETCH_BELOW_ZERO, parts=True),
    DeliberateDifference("create_topics", r"topic_id$", ZERO_UUID, "<other uuid>", _VALIDATED),
    DeliberateDifference("delete_groups", r"error_code$", 69, 0, _NEVER_COMMITTED),
    DeliberateDifference("offset_delete", r"^error_code$", 69, 0, _NEVER_COMMITTED, parts=True),
    DeliberateDifference("join_group", r"^error_code$", 0, -1, _BECOMES_STATIC, parts=True),
    DeliberateDifference("join_group", r"^protocol_name$", "roundrobin", "range", _TIE, parts=True),
    DeliberateDifference("end_txn", r"^error_code$", 90, 0, _OLDER_END, parts=True),
    DeliberateDifference("describe_topic_partitions", r"error_code$", 17, -1, _NO_NAME, parts=True),
    DeliberateDifference("metadata", r"^error_code$", 0, -1, _NO_NAME_NOR_ID, parts=True),
    DeliberateDifference("incremental_alter_configs", r"error_code$", 42, -1, _OPERATION),
    DeliberateDifference("share_fetch", r"^error_code$", 69, -1, _NO_SHARE_GROUP, parts=True),
    DeliberateDifference("share_fetch", r"^error_code$", 69, 0, _NO_SHARE_GROUP, parts=True),
    DeliberateDifference("share_fetch", r"^error_code$", 0, -1, _NO_SHARED_TOPIC, parts=True),
    DeliberateDifference("share_acknowledge", r"partitions.*error_code$", 121, 3, _NOT_FETCHED),
    DeliberateDifference("alter_share_group_offsets", r"partitions.*error_code$", 1, 0, _NOT_IN_RANGE, parts=True),
    DeliberateDifference(
        "list_offsets", r"\.offset$", ANY, ANY, _MAX_TIMESTAMP, when=_is_behind, asks="'timestamp': -3"
    ),
    DeliberateDifference(
        "list_offsets", r"\.(offset|timestamp|leader_epoch)$", -1, ANY, _MAX_TIMESTAMP, asks="'timestamp': -3"
    ),
    DeliberateDifference("share_group_describe", r"assigned", ANY, ANY, _SHARES_AT_ONCE),
    DeliberateDifference("share_acknowledge", r"^error_code$", 0, -1, _NOT_IN_LOG, parts=True),
    DeliberateDifference("*", r"configs\.min\.insync\.replicas\.(config_source|synonyms)", ANY, ANY, _RE_ELECTION),
)
