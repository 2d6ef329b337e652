"""``NodeSnapshot``: one look at the node, and ``SeriesReader``, which makes numbers of it: rates, lags, sizes.

A series is named ``KIND/NAME/MEASURE``, or ``node/MEASURE``. Rates need the look before; a counter that fell was reset,
and its rate is left out once. Topics that begin with ``__`` and groups of loads have no series. Used by one thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mainstem.client.dead_letter_headers import pipeline_topic
from mainstem.model import Position

Metrics: TypeAlias = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]
Document: TypeAlias = Mapping[str, Any]

UNITS: Final = {
    "records_in_per_s": "records/s",
    "bytes_in_per_s": "bytes/s",
    "bytes_out_per_s": "bytes/s",
    "rows_in_per_s": "rows/s",
    "records_per_s": "records/s",
    "flush_p99_ms": "ms",
    "batch_ms": "ms",
    "apply_ms": "ms",
    "memory_bytes": "bytes",
    "disk_free_bytes": "bytes",
    "disk_free_percent": "%",
    "cpu_percent": "%",
    "uptime_s": "s",
    "open_transaction_s": "s",
    "backup_lag_s": "s",
    "mirror_lag_s": "s",
    "lag": "records",
    "group_lag": "records",
    "dead_letters": "records",
    "connections": "connections",
    "partitions_offline": "partitions",
    "state_rows": "rows",
}
"""The unit of each measure."""
_FAMILIES: Final = frozenset(
    {
        "mainstem_topic_log_end_offset_total",
        "mainstem_topic_appended_bytes_total",
        "mainstem_topic_fetched_bytes_total",
        "mainstem_appended_bytes_total",
        "mainstem_fetched_bytes_total",
        "mainstem_flush_seconds_bucket",
        "mainstem_group_topic_lag_records",
        "mainstem_group_lag_records",
        "mainstem_partitions_offline",
        "mainstem_transactions_open",
        "mainstem_transaction_oldest_seconds",
        "mainstem_disk_size_bytes",
        "mainstem_disk_free_bytes",
        "mainstem_connections",
        "mainstem_backup_held_until_seconds",
        "mainstem_backup_last_error_seconds",
        "mainstem_backup_damages",
        "mainstem_backup_partitions_left_out",
        "mainstem_mirror_level_until_seconds",
        "mainstem_mirror_topics_set_aside",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_start_time_seconds",
    }
)
_LINE: Final = re.compile(rb"^([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_P99: Final = 0.99


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """The node at one time. A part that did not answer is None. ``ends``: of topics, where they were asked for."""

    at_ms: int
    metrics: Metrics | None = None
    views: Sequence[Document] | None = None
    pipelines: Sequence[Document] | None = None
    ends: Position = field(default_factory=Position)

    def metric(self, name: str) -> float | None:
        """The value of a metric without labels."""
        samples = (self.metrics or {}).get(name, ())
        return samples[0][1] if samples else None


def read_metrics(page: bytes) -> Metrics:
    """The samples that series and rules need, by the metric's name."""
    return samples_in(page, _FAMILIES.__contains__)


def samples_in(page: bytes, is_wanted: Callable[[str], bool]) -> Metrics:
    """The samples in Prometheus' text format, as the log writes it, of the wanted names."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for name, labels, value in _LINE.findall(page):
        family = name.decode()
        if is_wanted(family):
            found.setdefault(family, []).append((_labels(labels.decode()), float(value)))
    return found


def _labels(text: str) -> dict[str, str]:
    found = _LABEL.findall(text)
    return {name: _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], value) for name, value in found}


def dead_letter_topic(pipeline: Document) -> str:
    """The name of the topic with the records that a pipeline could not use."""
    return pipeline_topic(str(pipeline.get("app")), str(pipeline["name"]))


class SeriesReader:
    """The numbers of each snapshot. It keeps the counters of the one before."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._before_ms: int | None = None

    def read(self, snapshot: NodeSnapshot) -> dict[str, float]:
        """The value of each series. The node's come first, then pipelines, views, groups and topics."""
        totals: dict[str, float] = {}
        passed_s = 0.0 if self._before_ms is None else (snapshot.at_ms - self._before_ms) / 1000
        values = dict(_gauges(snapshot))
        for name, total in _totals(snapshot):
            totals[name] = total
            before = self._before.get(name)
            if passed_s > 0 and before is not None and total >= before:
                values[name] = (total - before) / passed_s
        values |= self._flush_p99(snapshot, totals)
        for view in snapshot.views or ():
            values |= self._apply_time(view, totals)
        if "node/cpu_percent" in values:
            values["node/cpu_percent"] *= 100
        self._before, self._before_ms = totals, snapshot.at_ms
        order = {"node": 0, "pipeline": 1, "view": 2, "group": 3, "topic": 4}
        return dict(sorted(values.items(), key=lambda entry: order[entry[0].partition("/")[0]]))

    def _apply_time(self, view: Document, totals: dict[str, float]) -> Iterator[tuple[str, float]]:
        """The mean time of the applies since the look before."""
        name = f"view/{view['name']}/apply_ms"
        count, seconds = float(view.get("applies", 0)), float(view.get("apply_s", 0))
        totals[f"{name}#"], totals[name] = count, seconds
        applies = count - self._before.get(f"{name}#", count)
        if applies > 0:
            yield name, 1000 * (seconds - self._before.get(name, seconds)) / applies

    def _flush_p99(self, snapshot: NodeSnapshot, totals: dict[str, float]) -> Iterator[tuple[str, float]]:
        """The bound of the bucket in which 99 of 100 syncs since the look before ended; nothing without syncs."""
        counts = [(labels["le"], count) for labels, count in (snapshot.metrics or {}).get(_FLUSHES, ())]
        fresh = []
        for bound, count in counts:
            totals[f"{_FLUSHES}{bound}"] = count
            fresh.append((float(bound), count - self._before.get(f"{_FLUSHES}{bound}", count)))
        total = fresh[-1][1] if fresh else 0
        if total <= 0:
            return
        bounds = [bound for bound, count in fresh if count >= _P99 * total]
        longest = fresh[-2][0] if len(fresh) > 1 else 0.0  # the last bucket has no bound
        yield "node/flush_p99_ms", min(bounds[0], longest) * 1000


_FLUSHES: Final = "mainstem_flush_seconds_bucket"
_NODE_GAUGES: Final = (
    ("node/memory_bytes", "process_resident_memory_bytes"),
    ("node/connections", "mainstem_connections"),
    ("node/group_lag", "mainstem_group_lag_records"),
    ("node/partitions_offline", "mainstem_partitions_offline"),
    ("node/open_transaction_s", "mainstem_transaction_oldest_seconds"),
    ("node/disk_free_bytes", "mainstem_disk_free_bytes"),
)


def disk_free_percent(snapshot: NodeSnapshot) -> float | None:
    """How much of the disk of the log is free; None where it is unknown."""
    size, free = snapshot.metric("mainstem_disk_size_bytes"), snapshot.metric("mainstem_disk_free_bytes")
    return None if not size or free is None else 100 * free / size


def backup_lag_s(snapshot: NodeSnapshot) -> float | None:
    """How old the backup's state of the log is; None where the node has no backup."""
    return _age_s(snapshot, "mainstem_backup_held_until_seconds")


def mirror_lag_s(snapshot: NodeSnapshot) -> float | None:
    """How old the state of its source is that a mirror into this log has; None where no mirror says so."""
    return _age_s(snapshot, "mainstem_mirror_level_until_seconds")


def _age_s(snapshot: NodeSnapshot, metric: str) -> float | None:
    until_s = snapshot.metric(metric)
    return None if until_s is None else max(0.0, snapshot.at_ms / 1000 - until_s)


def _gauges(snapshot: NodeSnapshot) -> Iterator[tuple[str, float]]:
    for series, metric in _NODE_GAUGES:
        value = snapshot.metric(metric)
        if value is not None:
            yield series, value
    uptime = _age_s(snapshot, "process_start_time_seconds")
    if uptime is not None:
        yield "node/uptime_s", uptime
    free = disk_free_percent(snapshot)
    if free is not None:
        yield "node/disk_free_percent", free
    behind_s = backup_lag_s(snapshot)
    if behind_s is not None:
        yield "node/backup_lag_s", behind_s
    copy_behind_s = mirror_lag_s(snapshot)
    if copy_behind_s is not None:
        yield "node/mirror_lag_s", copy_behind_s
    for pipeline in snapshot.pipelines or ():
        yield from _pipeline(pipeline, snapshot.ends)
    for view in snapshot.views or ():
        yield f"view/{view['name']}/lag", float(view["lag"])
        yield f"view/{view['name']}/dead_letters", float(view["dead_letters"])
    lags: dict[str, float] = {}
    for labels, lag in (snapshot.metrics or {}).get("mainstem_group_topic_lag_records", ()):
        lags[labels["group"]] = lags.get(labels["group"], 0) + lag
    yield from ((f"group/{group}/lag", lag) for group, lag in lags.items())


def _pipeline(pipeline: Document, ends: Position) -> Iterator[tuple[str, float]]:
    name = f"pipeline/{pipeline['name']}"
    letters = ends.restrict([dead_letter_topic(pipeline)])
    yield f"{name}/dead_letters", float(sum(offset for _, offset in letters.items()))
    for measure, value in (
        ("lag", pipeline.get("lag")),
        ("batch_ms", pipeline.get("durations_ms", {}).get("triggerExecution")),
        ("state_rows", pipeline.get("state_rows")),
    ):
        if value is not None:
            yield f"{name}/{measure}", float(value)


def _totals(snapshot: NodeSnapshot) -> Iterator[tuple[str, float]]:
    metrics = snapshot.metrics or {}
    for series, metric in (
        ("node/bytes_in_per_s", "mainstem_appended_bytes_total"),
        ("node/bytes_out_per_s", "mainstem_fetched_bytes_total"),
        ("node/cpu_percent", "process_cpu_seconds_total"),
    ):
        value = snapshot.metric(metric)
        if value is not None:
            yield series, value
    for pipeline in snapshot.pipelines or ():
        if "input_rows" in pipeline:
            yield f"pipeline/{pipeline['name']}/rows_in_per_s", float(pipeline["input_rows"])
    for view in snapshot.views or ():
        applied = Position.parse(view["position"]) if view["position"] else Position()
        yield f"view/{view['name']}/records_per_s", float(sum(offset for _, offset in applied.items()))
    for measure, metric in (
        ("bytes_in_per_s", "mainstem_topic_appended_bytes_total"),
        ("bytes_out_per_s", "mainstem_topic_fetched_bytes_total"),
    ):
        for labels, total in metrics.get(metric, ()):
            if not labels["topic"].startswith("__"):
                yield f"topic/{labels['topic']}/{measure}", total
    yield from _record_totals(snapshot)


def _record_totals(snapshot: NodeSnapshot) -> Iterator[tuple[str, float]]:
    """The ends of topics: as the log's metrics have them, or as they were asked for."""
    ends: dict[str, float] = {}
    for labels, total in (snapshot.metrics or {}).get("mainstem_topic_log_end_offset_total", ()):
        ends[labels["topic"]] = total
    if snapshot.metrics is None:
        for tp, offset in snapshot.ends.items():
            ends[tp.topic] = ends.get(tp.topic, 0) + offset
    own = {topic: total for topic, total in ends.items() if not topic.startswith("__")}
    yield from ((f"topic/{topic}/records_in_per_s", total) for topic, total in own.items())
    if own:
        yield "node/records_in_per_s", sum(own.values())
