"""The page ``/metrics``: the meters, and the state of the node's parts at the time of the scrape.

The number of lines is bounded: topics, partitions and groups' offsets are listed one by one up to
``mainstem.metrics.series.max`` of each; above that, only sums are listed. Partitions that no client has used since the
start stay unopened and are not listed. The event loop runs between families, and between slices of partitions.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import mainstem
from mainstem.broker.metrics.text_format import Sample, counter, gauge, histogram
from mainstem.model import TopicPartition, is_load_group
from mainstem.protocol.apis import ApiKey

if TYPE_CHECKING:
    from mainstem.broker.groups.coordinator import GroupCoordinator
    from mainstem.broker.metrics.meters import Meters
    from mainstem.broker.server import Broker
    from mainstem.broker.share.dead_letters.letter_writer import LetterWriter
    from mainstem.broker.storage.delayed_fetch import DelayedFetches
    from mainstem.broker.storage.fetch_sessions import FetchSessions
    from mainstem.broker.storage.remote.remote_storage import RemoteStorage
    from mainstem.broker.telemetry.telemetry import Telemetry
    from mainstem.log.partition.partition_log import PartitionLog

_SLICE: Final = 256
_STARTED_S: Final = time.time()


class _Partition(NamedTuple):
    """The state of one open partition."""

    name: TopicPartition
    log_start_offset: int
    durable_offset: int
    high_watermark: int
    log_end_offset: int
    producers: int
    is_offline: bool


async def metrics_page(broker: Broker) -> AsyncIterator[str]:
    """Yield the page, family by family."""
    node = broker.node
    most = int(node.config.get("mainstem.metrics.series.max"))
    for families in (_process(), _node(broker), _requests(node.meters), _fetches(node.fetches, node.fetch_sessions)):
        for family in families:
            yield family
        await asyncio.sleep(0)
    partitions: list[_Partition] = []
    open_logs = list(node.log.directory.partitions.values())
    for start in range(0, len(open_logs), _SLICE):
        partitions += [_partition_state(log) for log in open_logs[start : start + _SLICE]]
        await asyncio.sleep(0)
    names = [topic.name for topic in node.topics.all()]
    for families in (
        _topics(node.meters, names, partitions, most),
        _partitions(partitions, len(node.log.directory.waiting), most),
    ):
        for family in families:
            yield family
        await asyncio.sleep(0)
    letters = node.share.partitions.letters
    for families in (_groups(node.groups, partitions, most), _letters(letters), _telemetry(node.telemetry)):
        for family in families:
            yield family
        await asyncio.sleep(0)


def _process() -> Iterator[str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", _one(_STARTED_S))
    yield counter("process_cpu_seconds_total", "CPU time, user and system.", _one(used.ru_utime + used.ru_stime))
    yield gauge("process_resident_memory_bytes", "Memory in use.", _one(_resident_bytes(used.ru_maxrss)))
    yield gauge("process_open_fds", "Open file descriptors.", _one(_open_descriptors()))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield gauge("process_max_fds", "The most file descriptors that may be open.", _one(limit))


def _resident_bytes(peak_kib: int) -> int:
    """Return the resident memory now; where the system does not report it, the peak."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return peak_kib if sys.platform == "darwin" else peak_kib * 1024


def _open_descriptors() -> int:
    for directory in ("/proc/self/fd", "/dev/fd"):
        if Path(directory).is_dir():
            return len(os.listdir(directory)) - 1  # noqa: PTH208 names are wanted; one is the listing's own
    return 0


def _node(broker: Broker) -> Iterator[str]:
    node, meters = broker.node, broker.node.meters
    info = {"version": mainstem.__version__, "cluster_id": node.cluster_id, "node_id": node.node_id}
    yield gauge("mainstem_info", "What runs here.", [(info, 1)])
    yield gauge("mainstem_connections", "Open connections.", _one(len(broker.connections)))
    yield counter("mainstem_connections_accepted_total", "Connections accepted.", _one(meters.connections_accepted))
    yield counter("mainstem_connections_refused_total", "Connections over the limit.", _one(meters.connections_refused))
    yield counter(
        "mainstem_readers_closed_total", "Connections that read too slowly.", _one(node.network.unread.closed_readers)
    )
    failures = [({"chore": name}, count) for name, count in sorted(meters.chore_failures.items())]
    yield counter("mainstem_chore_failures_total", "Failures of what is done beside requests; tried again.", failures)
    in_flight = sum(connection.requests_in_flight for connection in broker.connections)
    yield gauge("mainstem_requests_in_flight", "Requests that were begun and are not answered.", _one(in_flight))
    memory = node.network.request_memory
    unread = node.network.unread.total_bytes
    yield gauge("mainstem_unread_answer_bytes", "Bytes of answers that clients do not read.", _one(unread))
    yield gauge("mainstem_request_memory_bytes", "Bytes of requests in flight.", _one(memory.used_bytes))
    yield gauge("mainstem_request_memory_limit_bytes", "Above this nothing is read.", _one(memory.limit_bytes))
    yield from _disk(node.config.data_dir)
    yield from _transactions(node.transactions.open_starts_ms, node.clock.time_ms())
    yield gauge("mainstem_segment_files_open", "Open segment files of the log.", _one(node.log.directory.open_files))
    yield from _remote(node.remote)


def _remote(remote: RemoteStorage) -> Iterator[str]:
    kept, loaded = (0, 0) if remote.pieces is None else (remote.pieces.size_bytes, remote.pieces.loaded_bytes)
    yield gauge("mainstem_remote_cache_bytes", "Bytes of old segments that were read from the store.", _one(kept))
    yield counter("mainstem_remote_loaded_bytes_total", "Bytes of old segments read from the store.", _one(loaded))
    yield counter("mainstem_remote_load_failures_total", "Reads of the store that failed.", _one(remote.failed_loads))
    yield counter(
        "mainstem_remote_released_bytes_total",
        "Bytes of segments that have left the disk for the store.",
        _one(remote.released_bytes),
    )


def _disk(data_dir: Path) -> Iterator[str]:
    """The file system of the data directory. It is a local one, so the call does not wait."""
    found = os.statvfs(data_dir)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    yield gauge("mainstem_disk_size_bytes", "Size of the file system with the data directory.", _one(size))
    yield gauge("mainstem_disk_free_bytes", "Bytes of it that the log may still use.", _one(free))


def _transactions(starts_ms: Sequence[int], now_ms: int) -> Iterator[str]:
    oldest_s = max(0, now_ms - min(starts_ms)) / 1000 if starts_ms else 0.0
    yield gauge("mainstem_transactions_open", "Transactions that have begun and have not ended.", _one(len(starts_ms)))
    yield gauge("mainstem_transaction_oldest_seconds", "How long the oldest of them has been open.", _one(oldest_s))


def _requests(meters: Meters) -> Iterator[str]:
    yield histogram(
        "mainstem_request_seconds",
        "From the beginning of a request to its answer: a fetch waits for data, a produce request for the disk.",
        [({"api": _api_name(key)}, each) for key, each in sorted(meters.request_seconds.items())],
    )
    yield histogram("mainstem_flush_seconds", "Syncing one partition.", [({}, meters.flush_seconds)])
    yield counter("mainstem_flush_failures_total", "Syncs that failed.", _one(meters.flush_failures))


def _api_name(key: int) -> str:
    return "".join(map(str.capitalize, ApiKey(key).name.split("_")))


def _fetches(fetches: DelayedFetches, fetch_sessions: FetchSessions) -> Iterator[str]:
    waiting, sessions = fetches.statistics(), fetch_sessions.statistics()
    yield gauge("mainstem_delayed_fetches", "Fetches that wait for data.", _one(waiting["waiting"]))
    yield gauge(
        "mainstem_watched_partitions", "Partitions that fetches or sessions watch.", _one(waiting["partitions"])
    )
    yield gauge("mainstem_fetch_sessions", "Fetch sessions that are kept.", _one(sessions["sessions"]))
    yield gauge("mainstem_fetch_session_partitions", "Partitions in them.", _one(sessions["partitions"]))
    yield counter("mainstem_fetch_session_evictions_total", "Sessions evicted.", _one(sessions["evictions"]))


def _partition_state(log: PartitionLog) -> _Partition:
    return _Partition(
        log.topic_partition,
        log.log_start_offset,
        log.recovery_point,
        log.high_watermark,
        log.log_end_offset,
        log.producer_count,
        log.offline_reason is not None,
    )


def _topics(meters: Meters, names: Sequence[str], partitions: Sequence[_Partition], most: int) -> Iterator[str]:
    appended, fetched = meters.appended_bytes, meters.fetched_bytes
    yield counter("mainstem_appended_bytes_total", "Bytes of record batches appended.", _one(sum(appended.values())))
    yield counter("mainstem_fetched_bytes_total", "Bytes of record batches fetched.", _one(sum(fetched.values())))
    yield gauge("mainstem_topics", "Topics.", _one(len(names)))
    if len(names) > most:
        return
    ends: Counter[str] = Counter()
    for each in partitions:
        ends[each.name.topic] += each.log_end_offset
    for name, text, counts in (
        ("mainstem_topic_appended_bytes_total", "Bytes of record batches appended to a topic.", appended),
        ("mainstem_topic_fetched_bytes_total", "Bytes of record batches fetched from a topic.", fetched),
        ("mainstem_topic_log_end_offset_total", "Sum of a topic's log ends: it grows by the records appended.", ends),
    ):
        yield counter(name, text, [({"topic": topic}, counts[topic]) for topic in names if topic in counts])


def _partitions(partitions: Sequence[_Partition], unopened: int, most: int) -> Iterator[str]:
    producers = sum(each.producers for each in partitions)
    offline = sum(each.is_offline for each in partitions)
    unflushed = sum(each.log_end_offset - each.durable_offset for each in partitions)
    yield gauge("mainstem_partitions_open", "Partitions in use since the start.", _one(len(partitions)))
    yield gauge("mainstem_partitions_unopened", "Partitions not used yet.", _one(unopened))
    yield gauge("mainstem_partitions_offline", "Partitions that take no writes until a restart.", _one(offline))
    yield gauge("mainstem_producers", "Producers whose sequences are known, over all partitions.", _one(producers))
    yield gauge("mainstem_undurable_records", "Records that are not on the disk yet.", _one(unflushed))
    if len(partitions) > most:
        return
    for name, text, values in (
        ("log_start_offset", "The first offset that is kept.", [each.log_start_offset for each in partitions]),
        ("durable_offset", "Records before it are on the disk.", [each.durable_offset for each in partitions]),
        ("high_watermark", "Records before it are visible.", [each.high_watermark for each in partitions]),
        ("log_end_offset", "The next record's offset.", [each.log_end_offset for each in partitions]),
    ):
        yield gauge(f"mainstem_partition_{name}", text, list(_by_partition(partitions, values)))


def _by_partition(partitions: Sequence[_Partition], values: Sequence[int]) -> Iterator[Sample]:
    for each, value in zip(partitions, values, strict=True):
        yield {"topic": each.name.topic, "partition": each.name.partition}, value


def _groups(groups: GroupCoordinator, partitions: Sequence[_Partition], most: int) -> Iterator[str]:
    ends = {each.name: each for each in partitions}
    lags: Counter[tuple[str, str]] = Counter()
    for group_id, held in groups.committed():
        if is_load_group(group_id):
            continue
        for (topic, number), committed in held.items():
            stands = ends.get(TopicPartition(topic, number))
            if stands is not None:
                lags[group_id, topic] += max(0, stands.high_watermark - max(committed.offset, stands.log_start_offset))
    yield gauge("mainstem_group_lag_records", "Records that all groups have yet to read.", _one(sum(lags.values())))
    if len(lags) > most:
        return
    samples: list[Sample] = [({"group": group, "topic": topic}, lag) for (group, topic), lag in lags.items()]
    yield gauge("mainstem_group_topic_lag_records", "Records of a topic that a group has yet to read.", samples)


def _letters(letters: LetterWriter) -> Iterator[str]:
    yield counter("mainstem_share_dead_letters_total", "Dead letters of share groups.", _one(letters.written))
    yield counter("mainstem_share_dead_letters_failed_total", "Those that were not written.", _one(letters.failed))


def _telemetry(telemetry: Telemetry) -> Iterator[str]:
    received = telemetry.received
    yield gauge("mainstem_telemetry_clients", "Clients that ask for subscriptions.", _one(len(telemetry.instances)))
    yield counter("mainstem_telemetry_pushes_total", "Pushes of clients' metrics.", _one(telemetry.pushes))
    yield counter("mainstem_telemetry_refused_total", "Pushes that were refused.", _one(telemetry.refused_pushes))
    yield counter("mainstem_telemetry_left_out_total", "Points that are not shown.", _one(received.left_out))
    for name, family in received.families():
        samples: list[Sample] = [
            ({"instance": instance_id, **dict(labels)}, value) for (instance_id, labels), value in family.values.items()
        ]
        yield (counter if family.is_counter else gauge)(name, "Sent by clients (KIP-714).", samples)


def _one(value: float) -> list[Sample]:
    return [({}, value)]
