"""Fetch (1), versions 4–18: returns record batches as stored, and waits for new data (long poll).

``max_bytes`` and ``partition_max_bytes`` bound the response. The one exception: the first batch of the first
partition that has data is always returned whole, so a reader gets past a batch of any size (KIP-74). A fetch into the
middle of a batch returns the whole batch. Only durable records are returned: none past the high watermark. With
``isolation_level`` 1 no record past the last stable offset is returned, and the response lists the aborted
transactions in its range.

Sessions (KIP-227) are kept for clients that ask for them (since version 7). Their requests name only changes; their
responses hold only partitions with something new, and only those are read (see ``fetch_sessions``).
If a reader sends the epoch of its last record, the response says where its log and this log diverge (version 12).
Deliberate: no followers: a replica id only ranks a session above consumers' when sessions are evicted.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, cast

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.storage.fetch_sessions import (
    FINAL_EPOCH,
    FULL_EPOCH,
    FetchSession,
    ReportedOffsets,
    SessionPartition,
    TopicKey,
)
from mainstem.errors import DamagedRecordsError, MainstemError, RemoteError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.remote_segment import PiecesMissingError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import AbortedTransaction as AbortedAnswer
from mainstem.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from mainstem.record.reader import AbortedTransaction

_BY_ID_FROM: Final = 13
_READ_COMMITTED: Final = 1
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_LOAD_WAIT_S: Final = 0.5
"""Kafka's default of remote.fetch.max.wait.ms."""
_DIVERGED: Final = -2
"""The end offset for a reader whose log has diverged from this one."""


def handle(node: Node, call: Call) -> Answer | Awaitable[Answer]:
    body: FetchRequest = call.body
    try:
        session = _session(node, call)
    except RemoteError as error:
        return FetchResponse(error_code=error_code(error), responses=[])
    fetch = _Fetch(node, call, session)
    answer = fetch.look(is_over=body.max_wait_ms <= 0, is_first=True)
    if answer is not None:
        return answer
    session.watch()
    return node.fetches.delay(session, fetch.look, fetch.wait_s)


def _session(node: Node, call: Call) -> FetchSession:
    """Return the session with the request's changes applied. Raises RemoteError for a wrong session id or epoch."""
    body: FetchRequest = call.body
    by_id = call.api_version >= _BY_ID_FROM
    if body.session_epoch in (FULL_EPOCH, FINAL_EPOCH):
        if body.session_id:
            node.fetch_sessions.remove(body.session_id)
        return _new_session(node, body, by_id=by_id)
    session = node.fetch_sessions.use(body.session_id, body.session_epoch, by_id=by_id)
    session.listen(None)
    session.update(body.topics, body.forgotten_topics_data, body.isolation_level)
    if session.partitions:
        node.fetch_sessions.touch(session, node.clock.monotonic_s())
        session.advance()
        return session
    # As in Kafka: a client that forgets all partitions ends its session; the response covers this request only.
    node.fetch_sessions.remove(session.session_id)
    return _new_session(node, body, by_id=by_id)


def _new_session(node: Node, body: FetchRequest, *, by_id: bool) -> FetchSession:
    """Create a session for what the request names. It is not kept yet."""
    replica_id = max(body.replica_id, body.replica_state.replica_id)
    session = FetchSession(node.fetches, by_id=by_id, privileged=replica_id >= 0)
    session.update(body.topics, isolation_level=body.isolation_level)
    return session


class _Fetch:
    """One request in progress: it may read its partitions several times before it has a response."""

    def __init__(self, node: Node, call: Call, session: FetchSession) -> None:
        self._node = node
        self._body: FetchRequest = call.body
        self._committed = self._body.isolation_level == _READ_COMMITTED
        self._advertised = call.advertised
        self._session = session
        self._epoch = session.epoch
        self._is_incremental = session.session_id > 0
        self._max_bytes = max(0, min(self._body.max_bytes, node.settings.fetch_bytes_max))
        self._found: dict[SessionPartition, PartitionData] = {}
        self._has_old = False
        """Records of a remote segment were read: what follows may have to be loaded, so the answer does not wait."""
        self._is_loading = False

    @property
    def wait_s(self) -> float:
        """How long the response may wait: for records that are being loaded, a little in any case, as in Kafka."""
        return max(self._body.max_wait_ms / 1000, _LOAD_WAIT_S if self._is_loading else 0.0)

    def look(self, is_over: bool, *, is_first: bool = False) -> FetchResponse | None:
        """Return the response if there is enough data for one; if ``is_over``, return whatever there is.

        The first look returns nothing where there is nothing yet, and old records are being loaded.
        """
        session = self._session
        if session.epoch != self._epoch:
            # Another request has used the session while this one waited.
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, responses=[])
        size_bytes, has_failed = self._read()
        # An error is returned at once. A request for no partitions is answered at once, too.
        is_due = has_failed or self._has_old or not session.partitions or session.is_closed
        is_over = is_over and not (is_first and self._is_loading and not size_bytes)
        if is_over or is_due or size_bytes >= min(self._body.min_bytes, self._max_bytes):
            return self._answer()
        for partition in session.unread:
            self._found.pop(partition, None)  # it is read again, and its records need not be held until then
        return None

    def _read(self) -> tuple[int, bool]:
        """Read the unread partitions up to the size limit. Return the bytes of records and whether any read failed."""
        size_bytes = 0
        has_failed = False
        session = self._session
        for partition in list(session.unread):
            left_bytes = self._max_bytes - size_bytes
            if left_bytes < 0:
                left_bytes = 0
            if self._is_incremental and size_bytes and not left_bytes:
                break  # these are first in line at the next fetch
            try:
                log = self._find(partition)
                if log is not partition.log:
                    session.found(partition, log)
                data, got_bytes, end = self._read_partition(log, partition.asked, left_bytes, is_first=not size_bytes)
            except PiecesMissingError as missing:
                data, got_bytes = self._load(partition, missing), 0
                has_failed |= data.error_code != 0
            except MainstemError as error:
                data, got_bytes = _refused(partition.asked.partition, error), 0
                if data.error_code in _UNKNOWN:
                    data.aborted_transactions = ()  # null for other refusals: as Kafka answers
                has_failed = True
            else:
                if not got_bytes and partition.asked.fetch_offset >= end:
                    session.has_read(partition)
                has_failed |= end == _DIVERGED
                self._has_old |= bool(got_bytes) and _is_old(log, partition.asked.fetch_offset)
            size_bytes += got_bytes
            self._found[partition] = data
        return size_bytes, has_failed

    def _load(self, partition: SessionPartition, missing: PiecesMissingError) -> PartitionData:
        """Let old records be loaded from the store. The answer has none, if the time is over before they are here."""
        log = partition.log
        assert log is not None
        failure = self._node.remote.begin(missing, log)
        if failure is not None:
            return _refused(partition.asked.partition, failure)
        self._is_loading = True
        return PartitionData(
            partition_index=partition.asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._committed else None,
            records=(),
        )

    def _find(self, partition: SessionPartition) -> PartitionLog:
        """Raises RemoteError, UnknownTopicError, PartitionOfflineError."""
        topics, key = self._node.topics, partition.topic
        topic = topics.get(key) if isinstance(key, str) else topics.by_id(key)
        if topic is None:
            self._session.found(partition, None)
            by_name = isinstance(key, str)
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.partition(partition.asked.partition)

    def _read_partition(
        self, log: PartitionLog, asked: FetchPartition, left_bytes: int, *, is_first: bool
    ) -> tuple[PartitionData, int, int]:
        """Return one partition's data, its size in bytes, and where the partition ends for this reader.

        Raises RemoteError, and what ``PartitionLog.read`` raises.
        """
        if 0 <= asked.current_leader_epoch < log.leader_epoch:
            raise refusal(ErrorCode.FENCED_LEADER_EPOCH)
        if asked.current_leader_epoch > log.leader_epoch:
            raise refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if asked.last_fetched_epoch >= 0:
            divergence = _divergence(log, asked)
            if divergence is not None:
                return divergence, 0, _DIVERGED
        committed = self._committed
        max_bytes = asked.partition_max_bytes if asked.partition_max_bytes < left_bytes else left_bytes
        result = log.read(
            asked.fetch_offset, max_bytes if max_bytes > 0 else 0, minimum_one=is_first, committed=committed
        )
        data = PartitionData(
            partition_index=asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=[_aborted(each) for each in result.aborted] if committed else None,
            records=result.buffers,
        )
        return data, result.size_bytes, result.last_stable_offset if committed else result.high_watermark

    # ---- the response

    def _answer(self) -> FetchResponse:
        topics: dict[TopicKey, list[PartitionData]] = {}
        fenced = False
        is_session = self._body.session_epoch != FINAL_EPOCH
        for partition, data in self._found.items():
            if is_session and not self._report(partition, data):
                continue
            if data.records and partition.log is not None:
                size_bytes = sum(len(buffer) for buffer in cast("list[memoryview]", data.records))
                self._node.meters.fetched_bytes[partition.log.topic_partition.topic] += size_bytes
            if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                fenced = True
                self._name_leader(partition, data)
            topics.setdefault(partition.topic, []).append(data)
        responses = [_topic_response(key, partitions) for key, partitions in topics.items()]
        response = FetchResponse(responses=responses, session_id=self._session_id())
        if fenced:
            host, port = self._advertised
            response.node_endpoints = [NodeEndpoint(node_id=self._node.node_id, host=host, port=port)]
        return response

    def _report(self, partition: SessionPartition, data: PartitionData) -> bool:
        """Store the result in the session; return whether the response includes the partition."""
        reported = None
        if data.error_code == 0 and data.diverging_epoch.epoch < 0:
            reported = ReportedOffsets(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if self._is_incremental and reported is not None and reported == partition.reported and not data.records:
            return False
        self._session.answered(partition, reported, gave_records=bool(data.records))
        return True

    def _session_id(self) -> int:
        """The id of the session that continues after this response; 0 for none."""
        session = self._session
        if self._body.session_epoch == FULL_EPOCH:
            self._node.fetch_sessions.keep(session, self._node.clock.monotonic_s())
        if not session.session_id or session.is_closed:
            session.close()
            return 0
        return session.session_id

    def _name_leader(self, partition: SessionPartition, data: PartitionData) -> None:
        """Name the leader, so that the client need not ask for metadata (KIP-951)."""
        epoch = partition.log.leader_epoch if partition.log is not None else -1
        data.current_leader = LeaderIdAndEpoch(leader_id=self._node.node_id, leader_epoch=epoch)


def _aborted(transaction: AbortedTransaction) -> AbortedAnswer:
    return AbortedAnswer(producer_id=transaction.producer_id, first_offset=transaction.first_offset)


def _topic_response(key: TopicKey, partitions: list[PartitionData]) -> FetchableTopicResponse:
    if isinstance(key, str):
        return FetchableTopicResponse(topic=key, partitions=partitions)
    return FetchableTopicResponse(topic_id=key, partitions=partitions)


def _is_old(log: PartitionLog, offset: int) -> bool:
    return log.config.remote_storage_enable and offset < log.local_start_offset


def _divergence(log: PartitionLog, asked: FetchPartition) -> PartitionData | None:
    """Return where the reader's log diverges from this one, if its last epoch does not match (KIP-595)."""
    epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
    if epoch < 0:
        raise refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == asked.last_fetched_epoch and asked.fetch_offset <= end_offset:
        return None
    return PartitionData(
        partition_index=asked.partition,
        error_code=ErrorCode.NONE,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        aborted_transactions=None,
        records=(),
    )


def _refused(index: int, error: MainstemError) -> PartitionData:
    data = PartitionData(
        partition_index=index, error_code=error_code(error), high_watermark=-1, aborted_transactions=None, records=()
    )
    if isinstance(error, DamagedRecordsError) and error.last_offset is not None:
        data.next_readable_offset = error.last_offset + 1
    return data


API = Api(FetchRequest, handle, record_guards.fetch)
