"""Where answers differ from Apache Kafka's by intention, and why: the one list of them.

The differential test leaves these out, and ``docs/compatibility.md`` shows them. A row names an API (``*`` for any),
a regular expression for the field's path in the answer, and what is answered here and there (``ANY`` for whatever it
is). Everything else that differs is a defect.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

ANY: Final = "…"
"""Stands for every answer."""


class DeliberateDifference(NamedTuple):
    """One row: ``path`` is searched in a path such as ``topics[0].partitions[1].error_code``.

    ``parts``: after such an answer the brokers are in different states, and what they answer is compared no further.
    """

    api: str
    path: str
    here: Any
    there: Any
    reason: str
    parts: bool = False

    def covers(self, api: str, path: str, here: Any, there: Any) -> bool:
        """Whether this row is about a difference between two answers in this place."""
        return (
            self.api in ("*", api)
            and re.search(self.path, path) is not None
            and self.here in (ANY, here)
            and self.there in (ANY, there)
        )


ABSENT: Final = "absent"
"""Stands for a part of an answer that only the other one has."""
_OWN_CONFIGS: Final = r"configs\.(flush|mainstem\.[a-z.]+|log\.flush)$"
_RE_ELECTION: Final = "this node does not list eligible.leader.replicas.version, with which Kafka's controller sets it"

_SHARES_AT_ONCE: Final = (
    "the first heartbeat of a share group's member begins to keep its partitions' state and brings the assignment; "
    "in Kafka a later heartbeat does, at a later epoch"
)

_START_KNOWN: Final = (
    "where a share group starts is decided, and durable, when its first member joins; Kafka tells it after the first "
    "acknowledgement, and as it was before the last one"
)
_OLDER_EPOCHS: Final = (
    "a member of a consumer group that commits offsets at an older epoch is refused as STALE_MEMBER_EPOCH, "
    "as in Kafka 4.0: it takes the new epoch and commits again (KIP-1251)"
)
_OPERATION: Final = "an operation on configs that does not exist is INVALID_REQUEST; in Kafka UNKNOWN_SERVER_ERROR"
_NO_SHARED_TOPIC: Final = "a topic id that is not known is said of its partition; in Kafka UNKNOWN_SERVER_ERROR of all"
_NOT_FETCHED: Final = (
    "an acknowledgement in a partition of which nothing was fetched is INVALID_RECORD_STATE; in Kafka, which has not "
    "loaded the partition then, UNKNOWN_TOPIC_OR_PARTITION"
)
_NO_SHARE_GROUP: Final = (
    "a share fetch of a group that is not there is GROUP_ID_NOT_FOUND; in Kafka UNKNOWN_SERVER_ERROR"
)

DELIBERATE: Final = (
    DeliberateDifference("*", _OWN_CONFIGS, ANY, ABSENT, "Mainstem's own topic configs are listed"),
    DeliberateDifference(
        "describe_configs", r"configs\.streams\.", ABSENT, ANY, "Streams groups are not served, nor are their configs"
    ),
    DeliberateDifference("share_group_heartbeat", r"^(member_epoch|assignment)", ANY, ANY, _SHARES_AT_ONCE),
    DeliberateDifference(
        "share_group_describe", r"(group_epoch|assignment_epoch|member_epoch|assignment)", ANY, ANY, _SHARES_AT_ONCE
    ),
    DeliberateDifference("describe_share_group_offsets", r"(start_offset|lag)$", ANY, ANY, _START_KNOWN),
    DeliberateDifference("offset_commit", r"error_code$", 113, ANY, _OLDER_EPOCHS, parts=True),
    DeliberateDifference("incremental_alter_configs", r"error_code$", 42, -1, _OPERATION),
    DeliberateDifference("share_fetch", r"^error_code$", 69, ANY, _NO_SHARE_GROUP, parts=True),
    DeliberateDifference("share_fetch", r"^error_code$", 0, -1, _NO_SHARED_TOPIC, parts=True),
    DeliberateDifference("share_acknowledge", r"partitions.*error_code$", 121, 3, _NOT_FETCHED),
    DeliberateDifference("*", r"configs\.min\.insync\.replicas\.(config_source|synonyms)", ANY, ANY, _RE_ELECTION),
)
