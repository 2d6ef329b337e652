"""Transactions that one process fills and another one ends, by the Kafka protocol.

The process that fills a transaction takes a transactional id (``init_producer``), adds its partitions, produces, and
hands on the id with producer id and epoch: ``ProducerInstance``. The process that ends it needs nothing else
(``end_all``). Meanwhile the transaction is open, and readers of committed records stop before it. So
``open_transactions`` finds abandoned ones.

``TransactionCapabilities`` says what the log offers. From transaction version 2 on (KIP-890) each end raises the epoch,
so an instance names exactly one transaction: ending it twice cannot end another one, and the records themselves add
their partitions. Where a log serves two-phase transactions (KIP-939) they have no time-out; elsewhere the log aborts
them after their time-out.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mainstem.client.failures import error_of, heals
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import (
    GROUP,
    MOVED,
    TRANSACTION,
    ask_coordinator,
    coordinators,
    forget_coordinator,
    wherever_it_is,
)
from mainstem.client.wire.connection.deadline import Deadline, pauses_s
from mainstem.client.wire.connection.transport import NotConnectedError
from mainstem.client.wire.produce.producers import ProducerIdentity
from mainstem.clock import SystemClock
from mainstem.errors import AuthorizationError, LogUnavailableError, MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mainstem.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mainstem.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mainstem.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest
from mainstem.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TIMEOUT_MS_DEFAULT: Final = 900_000
"""Apache Kafka's default for the longest transaction time-out."""
ONGOING: Final = "Ongoing"
_TIMEOUT_CONFIG: Final = "transaction.max.timeout.ms"
_TWO_PHASE_FROM: Final = 6
_VERSION_2: Final = 2
_ADD_BY_CLIENT_MAX: Final = 3
_END_VERSION_1_MAX: Final = 4
_OFFSETS_VERSION_1_MAX: Final = 4
_BROKER_RESOURCE: Final = 4


class TransactionCapabilities(NamedTuple):
    """How a log runs transactions. With ``is_two_phase`` they have no time-out, and ``timeout_ms`` is not used.

    A default time-out (not ``is_chosen``) is lowered where the log allows less.
    """

    is_two_phase: bool
    raises_epoch: bool
    timeout_ms: int
    is_chosen: bool = False


class ProducerInstance(NamedTuple):
    """One transaction: its transactional id, and who its producer is in it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Described(NamedTuple):
    """A transactional id as its coordinator has it; ``state`` is Kafka's word, e.g. ``Ongoing``."""

    instance: ProducerInstance
    state: str


def learn_capabilities(client: WireClient, timeout_ms: int | None = None) -> TransactionCapabilities:
    """Ask the log. Without ``timeout_ms`` two-phase where that is served; else, and for 0, the longest time-out."""
    raises_epoch = client.features().get("transaction.version", 0) >= _VERSION_2
    if timeout_ms == 0:
        return TransactionCapabilities(False, raises_epoch, _timeout_ms_max(client))
    if timeout_ms is not None:
        return TransactionCapabilities(False, raises_epoch, timeout_ms, is_chosen=True)
    if client.version_of(InitProducerIdRequest) >= _TWO_PHASE_FROM:
        return TransactionCapabilities(True, raises_epoch, TIMEOUT_MS_DEFAULT)
    return TransactionCapabilities(False, raises_epoch, _timeout_ms_max(client))


def _timeout_ms_max(client: WireClient) -> int:
    """The longest time-out of the broker with the lowest id; Kafka's default where the broker does not send it."""
    client.metadata([])
    node = min(client.brokers)
    resource = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=[_TIMEOUT_CONFIG]
    )
    [result] = client.request(DescribeConfigsRequest(resources=[resource]), node).results
    values = [entry.value for entry in result.configs if entry.name == _TIMEOUT_CONFIG]
    return int(values[0]) if values and values[0] is not None else TIMEOUT_MS_DEFAULT


def init_producer(
    client: WireClient,
    transactional_id: str,
    capabilities: TransactionCapabilities,
    expected: ProducerIdentity | None = None,
) -> ProducerIdentity:
    """Take a transactional id over; what it has left open is aborted. With ``expected`` only if that is still current.

    Raises ProducerFencedError (or InvalidProducerEpochError) when it is not, ConfigError for a time-out that the log
    does not allow, AuthorizationError, LogUnavailableError.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=capabilities.timeout_ms,
        enable2_pc=capabilities.is_two_phase,
    )
    if expected is not None:
        request.producer_id, request.producer_epoch = expected
    answer = ask_coordinator(client, request, transactional_id, TRANSACTION, lambda answer: [answer.error_code])
    if answer.error_code != ErrorCode.NONE:
        error = error_of(answer.error_code, f"the log gives no producer for the transactional id {transactional_id!r}")
        if capabilities.is_two_phase and isinstance(error, AuthorizationError):  # the operator has switched it off
            return init_producer(client, transactional_id, capabilities._replace(is_two_phase=False), expected)
        if answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT and not capabilities.is_chosen:
            capabilities = capabilities._replace(timeout_ms=_timeout_ms_max(client), is_chosen=True)
            return init_producer(client, transactional_id, capabilities, expected)
        raise error
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def add_partitions(client: WireClient, instance: ProducerInstance, partitions: Collection[TopicPartition]) -> None:
    """Make partitions part of the transaction, which begins with that. Idempotent. Raises the error of a refusal."""
    by_topic: dict[str, list[int]] = {}
    for each in sorted(partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    topics = [AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()]
    name, producer_id, producer_epoch = instance
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=producer_epoch,
        v3_and_below_topics=topics,
    )

    def codes(answer: Any) -> list[int]:
        results = answer.results_by_topic_v3_and_below
        return [item.partition_error_code for topic in results for item in topic.results_by_partition]

    answer = ask_coordinator(client, request, name, TRANSACTION, codes, version_max=_ADD_BY_CLIENT_MAX)
    context = f"the partitions cannot be made part of the transaction of {name!r}"
    _check([code for code in codes(answer) if code != ErrorCode.OPERATION_NOT_ATTEMPTED], context)


def add_group(client: WireClient, instance: ProducerInstance, group: str) -> None:
    """Make a group's offsets part of the transaction. Idempotent. Raises the error of a refusal."""
    name, producer_id, producer_epoch = instance
    request = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=producer_epoch, group_id=group
    )
    answer = ask_coordinator(client, request, name, TRANSACTION, lambda answer: [answer.error_code])
    _check([answer.error_code], f"group {group!r} cannot be made part of the transaction")


def commit_offsets(
    client: WireClient,
    instance: ProducerInstance,
    group: str,
    entries: Mapping[TopicPartition, tuple[int, str]],
    capabilities: TransactionCapabilities | None = None,
) -> None:
    """Commit offsets, each with its text, for ``group`` in the transaction. Raises the error of a refusal.

    With ``capabilities`` it makes the group part of the transaction first, where the log asks for that.
    """
    if capabilities is not None and not capabilities.raises_epoch:
        add_group(client, instance, group)
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for tp, (offset, metadata) in entries.items():
        item = TxnOffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=offset, committed_metadata=metadata
        )
        by_topic.setdefault(tp.topic, []).append(item)
    request = TxnOffsetCommitRequest(
        transactional_id=instance.transactional_id,
        group_id=group,
        producer_id=instance.producer_id,
        producer_epoch=instance.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=items) for name, items in by_topic.items()],
    )

    def codes(answer: Any) -> list[int]:
        return [item.error_code for topic in answer.topics for item in topic.partitions]

    version_max = None if capabilities is None or capabilities.raises_epoch else _OFFSETS_VERSION_1_MAX
    answer = ask_coordinator(client, request, group, GROUP, codes, version_max=version_max)
    _check(codes(answer), f"the offsets of group {group!r} cannot be committed")


def end(client: WireClient, instance: ProducerInstance, *, commit: bool) -> ProducerIdentity:
    """End one transaction; returns the producer's new identity. A request whose answer got lost is sent again.

    Raises the error of a refusal, LogUnavailableError: it is then unknown whether the transaction was ended.
    """
    request = _end_request(instance, commit)
    answer = ask_coordinator(
        client, request, instance.transactional_id, TRANSACTION, lambda answer: [answer.error_code]
    )
    if answer.error_code != ErrorCode.NONE:
        raise _end_error(answer.error_code, instance, commit)
    return _identity_after(answer, instance)


def end_all(
    client: WireClient, instances: Iterable[ProducerInstance], capabilities: TransactionCapabilities, *, commit: bool
) -> tuple[dict[ProducerInstance, ProducerIdentity], dict[ProducerInstance, MainstemError]]:
    """End transactions, without waiting between them: (the producers' new identities, the errors of those refused).

    Where the end raises the epoch, ending a transaction twice in the same way succeeds, as long as its producer has
    not begun another. Raises LogUnavailableError: it is then unknown which transactions were ended.
    """
    left = list(dict.fromkeys(instances))
    ended: dict[ProducerInstance, ProducerIdentity] = {}
    refused: dict[ProducerInstance, MainstemError] = {}
    deadline = Deadline(SystemClock(), client.timeout_s)
    for pause_s in pauses_s():
        left = _end_once(client, left, capabilities, commit, ended, refused)
        if not left:
            return ended, refused
        if deadline.left_s() <= pause_s:
            raise LogUnavailableError(
                f"{len(left)} transactions could not be ended within {deadline.timeout_s:g} s, "
                f"that of {left[0].transactional_id!r} among them"
            )
        time.sleep(pause_s)
    raise AssertionError("the pauses never end")


def _end_once(
    client: WireClient,
    instances: Sequence[ProducerInstance],
    capabilities: TransactionCapabilities,
    commit: bool,
    ended: dict[ProducerInstance, ProducerIdentity],
    refused: dict[ProducerInstance, MainstemError],
) -> list[ProducerInstance]:
    """Try each once; returns those that may be tried again."""
    if not instances:
        return []
    nodes = coordinators(client, [each.transactional_id for each in instances], TRANSACTION)
    requests = [(_end_request(each, commit), nodes[each.transactional_id]) for each in instances]
    version_max = None if capabilities.raises_epoch else _END_VERSION_1_MAX
    try:
        answers = client.request_all(requests, version_max=version_max)
    except NotConnectedError:
        for each in instances:
            forget_coordinator(client, each.transactional_id, TRANSACTION)
        return list(instances)
    again = []
    for each, answer in zip(instances, answers, strict=True):
        code = answer.error_code
        if code == ErrorCode.NONE:
            ended[each] = _identity_after(answer, each)
        elif code in MOVED or heals(code):
            if code in MOVED:
                forget_coordinator(client, each.transactional_id, TRANSACTION)
            again.append(each)
        else:
            refused[each] = _end_error(code, each, commit)
    return again


def _end_request(instance: ProducerInstance, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=instance.transactional_id,
        producer_id=instance.producer_id,
        producer_epoch=instance.producer_epoch,
        committed=commit,
    )


def _end_error(code: int, instance: ProducerInstance, commit: bool) -> MainstemError:
    verb = "committed" if commit else "aborted"
    return error_of(code, f"the transaction of {instance.transactional_id!r} cannot be {verb}")


def _identity_after(answer: EndTxnResponse, instance: ProducerInstance) -> ProducerIdentity:
    """The producer's identity after the end; a log that does not raise the epoch answers with none."""
    if answer.producer_id < 0:
        return ProducerIdentity(instance.producer_id, instance.producer_epoch)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def open_transactions(client: WireClient, prefix: str, *, has_asked: bool = False) -> list[ProducerInstance]:
    """The transactions that are open now and whose transactional ids begin with ``prefix``, on all brokers.

    ``has_asked``: the client has just asked which brokers there are, and need not do so again.
    """
    is_known = has_asked

    def ask() -> list[str]:
        nonlocal is_known
        if not is_known:
            client.metadata([])
        is_known = False  # when it has to be tried again
        return _open_names(client)

    names = wherever_it_is(client, ask)
    described = describe(client, [name for name in names if name.startswith(prefix)])
    return [each.instance for each in described.values() if each.state == ONGOING]


def _open_names(client: WireClient) -> list[str]:
    names: list[str] = []
    for node in list(client.brokers):
        request = ListTransactionsRequest(state_filters=[ONGOING], producer_id_filters=[])
        answer = client.request(request, node, codes=lambda answer: [answer.error_code], moves=True)
        _check([answer.error_code], "the open transactions cannot be listed")
        names += [each.transactional_id for each in answer.transaction_states]
    return names


def describe(client: WireClient, transactional_ids: Iterable[str]) -> dict[str, Described]:
    """The states of transactional ids; one that the log does not know is left out."""
    asked = list(dict.fromkeys(transactional_ids))
    return wherever_it_is(client, lambda: _describe(client, asked))


def _describe(client: WireClient, asked: Sequence[str]) -> dict[str, Described]:
    by_node: dict[int, list[str]] = {}
    for name, node in (coordinators(client, asked, TRANSACTION) if asked else {}).items():
        by_node.setdefault(node, []).append(name)
    found: dict[str, Described] = {}
    for node, names in by_node.items():
        try:
            answer = client.request(
                DescribeTransactionsRequest(transactional_ids=names),
                node,
                codes=lambda answer: [each.error_code for each in answer.transaction_states],
                moves=True,
            )
        except NotConnectedError:
            for name in names:
                forget_coordinator(client, name, TRANSACTION)
            raise
        for each in answer.transaction_states:
            if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue
            _check([each.error_code], f"the transactional id {each.transactional_id!r} cannot be described")
            instance = ProducerInstance(each.transactional_id, each.producer_id, each.producer_epoch)
            found[each.transactional_id] = Described(instance, each.transaction_state)
    return found


def _check(codes: Iterable[int], context: str) -> None:
    for code in codes:
        if code != ErrorCode.NONE:
            raise error_of(code, context)
