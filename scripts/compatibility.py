"""Generates ``docs/reference/compatibility.md``: the APIs served beside those of Apache Kafka, and why they differ.

``python -m scripts.compatibility`` writes the page (``make compatibility`` does so, too). Versions come from
the table of APIs, gaps from the text behind the word ``Deliberate:`` in each handler's docstring.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from scripts.differences import DELIBERATE

from mainstem.broker.api import Api
from mainstem.broker.apis import APIS
from mainstem.protocol.apis import OWN_APIS, ApiKey
from mainstem.protocol.schema import VersionRange

KAFKA_VERSION: Final = "4.3"
PAGE: Final = "docs/reference/compatibility.md"


class KafkaApi(NamedTuple):
    """An API as a broker of Apache Kafka lists it."""

    name: str
    versions: VersionRange


def _kafka(text: str) -> dict[int, KafkaApi]:
    """Lines of ``number name first-last``."""
    apis = {}
    for line in text.split("\n"):
        if line.strip():
            number, name, versions = line.split()
            apis[int(number)] = KafkaApi(name, VersionRange.parse(versions))
    return apis


KAFKA_APIS: Final = MappingProxyType(
    _kafka("""
    0 Produce 0-13
    1 Fetch 4-18
    2 ListOffsets 1-11
    3 Metadata 0-13
    8 OffsetCommit 2-10
    9 OffsetFetch 1-10
    10 FindCoordinator 0-6
    11 JoinGroup 0-9
    12 Heartbeat 0-4
    13 LeaveGroup 0-5
    14 SyncGroup 0-5
    15 DescribeGroups 0-6
    16 ListGroups 0-5
    17 SaslHandshake 0-1
    18 ApiVersions 0-4
    19 CreateTopics 2-7
    20 DeleteTopics 1-6
    21 DeleteRecords 0-2
    22 InitProducerId 0-5
    23 OffsetForLeaderEpoch 2-4
    24 AddPartitionsToTxn 0-5
    25 AddOffsetsToTxn 0-4
    26 EndTxn 0-5
    27 WriteTxnMarkers 1-2
    28 TxnOffsetCommit 0-5
    29 DescribeAcls 1-3
    30 CreateAcls 1-3
    31 DeleteAcls 1-3
    32 DescribeConfigs 1-4
    33 AlterConfigs 0-2
    34 AlterReplicaLogDirs 1-2
    35 DescribeLogDirs 1-5
    36 SaslAuthenticate 0-2
    37 CreatePartitions 0-3
    38 CreateDelegationToken 1-3
    39 RenewDelegationToken 1-2
    40 ExpireDelegationToken 1-2
    41 DescribeDelegationToken 1-3
    42 DeleteGroups 0-2
    43 ElectLeaders 0-2
    44 IncrementalAlterConfigs 0-1
    45 AlterPartitionReassignments 0-1
    46 ListPartitionReassignments 0-0
    47 OffsetDelete 0-0
    48 DescribeClientQuotas 0-1
    49 AlterClientQuotas 0-1
    50 DescribeUserScramCredentials 0-0
    51 AlterUserScramCredentials 0-0
    55 DescribeQuorum 0-2
    57 UpdateFeatures 0-2
    60 DescribeCluster 0-2
    61 DescribeProducers 0-0
    64 UnregisterBroker 0-0
    65 DescribeTransactions 0-0
    66 ListTransactions 0-2
    68 ConsumerGroupHeartbeat 0-1
    69 ConsumerGroupDescribe 0-1
    74 ListConfigResources 0-1
    75 DescribeTopicPartitions 0-0
    76 ShareGroupHeartbeat 1-1
    77 ShareGroupDescribe 1-1
    78 ShareFetch 1-2
    79 ShareAcknowledge 1-2
    80 AddRaftVoter 0-1
    81 RemoveRaftVoter 0-0
    83 InitializeShareGroupState 0-0
    84 ReadShareGroupState 0-0
    85 WriteShareGroupState 0-1
    86 DeleteShareGroupState 0-0
    87 ReadShareGroupStateSummary 0-1
    88 StreamsGroupHeartbeat 0-0
    89 StreamsGroupDescribe 0-0
    90 DescribeShareGroupOffsets 0-1
    91 AlterShareGroupOffsets 0-0
    92 DeleteShareGroupOffsets 0-0
    """)
)
"""The APIs that a broker of Apache Kafka 4.3 lists in its default configuration."""

_METRICS: Final = "listed by Kafka with a plug-in for clients' metrics alone"
_TOKENS: Final = "there are no delegation tokens"
_VOTERS: Final = "there is one node, and no quorum to change"
_SHARE_STATE: Final = "between Kafka's brokers only"
NOT_SERVED: Final = MappingProxyType(
    {
        38: _TOKENS,
        39: _TOKENS,
        40: _TOKENS,
        41: _TOKENS,
        64: "a node cannot be taken out of a cluster of one",
        80: _VOTERS,
        81: _VOTERS,
        83: _SHARE_STATE,
        84: _SHARE_STATE,
        85: _SHARE_STATE,
        86: _SHARE_STATE,
        87: _SHARE_STATE,
    }
)
"""APIs of Apache Kafka that are deliberately not listed here."""

OTHER_VERSIONS: Final = MappingProxyType(
    {
        **dict.fromkeys(OWN_APIS, "Mainstem's own, listed for clients that call themselves mainstem alone"),
        int(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS): _METRICS,
        int(ApiKey.PUSH_TELEMETRY): _METRICS,
    }
)
"""APIs whose listed versions deliberately differ from Apache Kafka's, and why."""

_HEAD: Final = f"""# Compatibility with Apache Kafka

Made by `make compatibility` from the code: the table of APIs, and what each handler says of itself. Versions are those
that ApiVersions lists, beside those of a broker of Apache Kafka {KAFKA_VERSION}. Clients choose the newest version
that both sides know, so one that works with that Kafka works here. A request of an API or a version that is not listed
closes the connection, as in Kafka; only ApiVersions itself can say more. Gaps that foreign clients meet are in
[GAPS.md](../../tests/conformance/GAPS.md).

| API | number | here | Kafka {KAFKA_VERSION} | deliberately different |
|---|---|---|---|---|
"""
_TAIL: Final = """
GetTelemetrySubscriptions and PushTelemetry (71, 72) are listed by Kafka only with a plug-in that takes clients'
metrics. Here they are always listed, and `/metrics` shows what clients send. Clients send nothing until an operator
subscribes (`kafka-client-metrics`).

Internal topics (`__consumer_offsets`, `__transaction_state`, `__share_group_state`) are listed as internal from the
first FindCoordinator for a key that they keep, or the first change that is written to them. Clients with the right to
read them may read them. Only the log writes them: Produce, DeleteTopics and DeleteRecords are refused
(INVALID_TOPIC_EXCEPTION).

Features (KIP-584) are listed by what is served: `transaction.version` 2, and with their APIs `group.version`,
`share.version` and `streams.version` 1. None of them is switched at run time.

Topic and broker configs have Kafka's names and bounds; DescribeConfigs says of each what it means here. Kafka lists
more broker configs: those are about threads, replicas, controllers and plug-ins that are not here, and setting one is
refused rather than ignored.
"""
_ANSWERS: Final = """
## Answers that differ by intention

`tests/differential` sends the same random sequences of requests to this log and to Apache Kafka, and compares every
answer. These differ by intention:

"""


def gap(api: Api) -> str:
    """Return the deliberate gaps that the handler's docstring states; empty if it states none."""
    module = inspect.getmodule(api.handle)
    text = (module.__doc__ if module is not None else None) or ""
    _, found, after = text.partition("Deliberate: ")
    return " ".join(after.split("\n\n")[0].replace("``", "`").split()) if found else ""


def _row(number: int) -> str:
    kafka = KAFKA_APIS.get(number)
    api = APIS.get(number)
    name = kafka.name if kafka is not None else "".join(map(str.capitalize, APIS[number].key.name.split("_")))
    note = NOT_SERVED.get(number, "not yet") if api is None else _note(api)
    here = "–" if api is None else _range(api.advertised or api.versions)
    there = "–" if kafka is None else _range(kafka.versions)
    return f"| {name} | {number} | {here} | {there} | {note.replace('|', '/')} |\n"


def _note(api: Api) -> str:
    notes = [OTHER_VERSIONS.get(api.key, ""), gap(api)]
    if api.advertised is not None and api.advertised != api.versions:
        notes.insert(0, f"of the listed versions, {_range(api.versions)} are answered")
    return "; ".join(note.removesuffix(".") for note in notes if note)


def _range(versions: VersionRange) -> str:
    first, last = versions
    return str(first) if first == last else f"{first}–{last}"


def page() -> str:
    """Return the whole page."""
    numbers = sorted({*KAFKA_APIS, *APIS})
    answers = "".join(map(_answer, sorted({(row.reason, _api_names(row.reason)) for row in DELIBERATE})))
    return _HEAD + "".join(map(_row, numbers)) + _TAIL + _ANSWERS + answers


def _api_names(reason: str) -> str:
    """Return the APIs whose answers differ for this reason."""
    apis = {row.api for row in DELIBERATE if row.reason == reason}
    if "*" in apis:
        return "DescribeConfigs, CreateTopics"
    return ", ".join(sorted("".join(map(str.capitalize, api.split("_"))) for api in apis))


def _answer(row: tuple[str, str]) -> str:
    reason, apis = row
    return f"* {apis}: {reason}.\n"


def main() -> int:
    """Write the page into the checkout that this file is part of."""
    path = Path(__file__).resolve().parents[1] / PAGE
    path.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
