"""The rules: what of a snapshot is a problem, in words, with what to do about it. Pure functions.

A rule that needs more than one look (a lag that rises, new dead letters) gets it from ``problem_watch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from mainstem.gateway.monitoring.snapshots import (
    Document,
    NodeSnapshot,
    backup_lag_s,
    dead_letter_topic,
    disk_free_percent,
    mirror_lag_s,
)

DISK_FREE_PERCENT: Final = 10.0
TRANSACTION_S: Final = 60.0
BACKUP_LAG_S: Final = 60.0
MIRROR_LAG_S: Final = 60.0
_WAITING_GRACE_S: Final = 60.0
_SERVING: Final = frozenset({"live", "catching up", "starting"})


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that is wrong. ``grace_s``: how long it may last before it counts as a problem.

    ``link`` is the page of the console that shows more.
    """

    rule: str
    subject: str
    text: str
    action: str
    link: str
    grace_s: float = 0.0


def symptoms(snapshot: NodeSnapshot, rising: Mapping[str, float], letters: Mapping[str, float]) -> Iterator[Symptom]:
    """All that is wrong. ``rising``: the series of lags that rise, with the lag; ``letters``: new dead letters."""
    yield from _of_log(snapshot)
    for pipeline in snapshot.pipelines or ():
        yield from _of_pipeline(pipeline, rising, letters)
    for view in snapshot.views or ():
        yield from _of_view(view, rising, letters)
    for name, lag in rising.items():
        kind, _, rest = name.partition("/")
        group = rest.removesuffix("/lag")
        if kind == "group" and not group.startswith("mainstem-"):
            yield Symptom(
                "lag-rising",
                f"group {group}",
                f"Group {group} falls behind: its lag has risen for 5 minutes, to {lag:,.0f} records.",
                "Start its consumers, or more of them. If the group is not used any longer, delete it: "
                f"mainstem groups delete {group}",
                "/console/groups",
            )


def _of_log(snapshot: NodeSnapshot) -> Iterator[Symptom]:
    if snapshot.pipelines is None and snapshot.metrics is None:
        yield Symptom(
            "log-unavailable",
            "log",
            "The log does not answer.",
            "It starts again by itself. If this lasts, read the last lines of DATA/run/log.log.",
            "/console/topics",
            10.0,
        )
    offline = snapshot.metric("mainstem_partitions_offline") or 0
    if offline:
        yield Symptom(
            "partition-offline",
            "log",
            f"{offline:,.0f} partition{'s take' if offline > 1 else ' takes'} no writes since an error of the disk.",
            "Look at the disk and at DATA/run/log.log, which names the partition. Then restart the node: it recovers "
            "the partition.",
            "/console/topics",
        )
    free = disk_free_percent(snapshot)
    if free is not None and free < DISK_FREE_PERCENT:
        size = (snapshot.metric("mainstem_disk_free_bytes") or 0) / 1e9
        yield Symptom(
            "disk-full",
            "log",
            f"{free:.0f} % of the log's disk is free ({size:,.1f} GB).",
            "Shorten the retention of large topics, or give the data directory a larger disk.",
            "/console/topics",
        )
    yield from _of_backup(snapshot)
    yield from _of_mirror(snapshot)
    oldest_s = snapshot.metric("mainstem_transaction_oldest_seconds") or 0
    if oldest_s > TRANSACTION_S:
        yield Symptom(
            "transaction-open",
            "log",
            f"A transaction has been open for {oldest_s:,.0f} s. Readers of committed records wait for its end.",
            "Find its producer and end it. The log aborts the transaction when its time-out is over.",
            "/console/topics",
        )


def _of_backup(snapshot: NodeSnapshot) -> Iterator[Symptom]:
    behind_s = backup_lag_s(snapshot)
    errors = (snapshot.metrics or {}).get("mainstem_backup_last_error_seconds", ())
    why = f" {errors[0][0]['error']}." if errors else ""
    left_out = snapshot.metric("mainstem_backup_partitions_left_out") or 0
    if left_out:
        yield Symptom(
            "backup-left-out",
            "backup",
            f"The backup leaves out {left_out:,.0f} partition{'s' if left_out > 1 else ''}.",
            "The store lacks old segments of them. DATA/run/backup.log names them, and what to do.",
            "/console/history",
        )
    if behind_s is not None and behind_s > BACKUP_LAG_S and (errors or not left_out):
        yield Symptom(
            "backup-behind",
            "backup",
            f"The backup has nothing of the last {behind_s:,.0f} s.{why}",
            "It is tried again by itself. If this lasts, mend what the error names, or read the last lines of "
            "DATA/run/backup.log.",
            "/console/history",
        )
    damages = snapshot.metric("mainstem_backup_damages") or 0
    if damages:
        yield Symptom(
            "backup-damaged",
            "backup",
            f"The backup found {damages:,.0f} place{'s' if damages > 1 else ''} of the log damaged.",
            "DATA/run/backup.log names the files. See all damages with: mainstem log verify",
            "/console/history",
        )


def _of_mirror(snapshot: NodeSnapshot) -> Iterator[Symptom]:
    behind_s = mirror_lag_s(snapshot)
    if behind_s is not None and behind_s > MIRROR_LAG_S:
        yield Symptom(
            "mirror-behind",
            "mirror",
            f"The mirror into this log has nothing of the last {behind_s:,.0f} s of its source.",
            "See what it prints: it may have ended, or the source does not answer. See each partition with: "
            "mainstem mirror --status. If you stopped it for good, remove DATA/run/mirror.prom.",
            "/console/history",
        )
    aside = snapshot.metric("mainstem_mirror_topics_set_aside") or 0
    if aside:
        yield Symptom(
            "mirror-topics-left-out",
            "mirror",
            f"The mirror does not copy {aside:,.0f} topic{'s' if aside > 1 else ''}, because this log's differ.",
            "It has printed which, and why. See them with: mainstem mirror --status",
            "/console/history",
        )


def _of_pipeline(pipeline: Document, rising: Mapping[str, float], letters: Mapping[str, float]) -> Iterator[Symptom]:
    name, status = str(pipeline["name"]), pipeline["status"]
    link = "/console/pipelines/" + quote(name, safe="")
    failure = (pipeline.get("failure") or {}).get("text", "")
    why = f" {failure[:300]}" if failure else ""
    if status == "restarting":
        text = f"Pipeline {name} failed and starts again.{why}"
        yield Symptom("pipeline-restarting", f"pipeline {name}", text, "Mend what the failure names.", link)
    elif status == "failed":
        text = f"Pipeline {name} failed and is not started again.{why}"
        action = "Mend what the failure names, then start the App again."
        yield Symptom("pipeline-failed", f"pipeline {name}", text, action, link)
    elif status == "paused":
        text = f"An operator paused pipeline {name}: it derives nothing."
        action = f"To let it go on: mainstem pipelines resume {name}"
        yield Symptom("pipeline-paused", f"pipeline {name}", text, action, link)
    elif status == "not seen":
        text = f"Pipeline {name} has sent no sign of life for 30 seconds."
        action = "Start its App, or read the last lines of DATA/run/pipelines.log."
        yield Symptom("pipeline-not-seen", f"pipeline {name}", text, action, link)
    lag = rising.get(f"pipeline/{name}/lag")
    if lag is not None and status in ("running", "waiting"):
        text = f"Pipeline {name} falls behind: its lag has risen for 5 minutes, to {lag:,.0f} records."
        action = "Look which phase of its micro-batches takes the time."
        yield Symptom("lag-rising", f"pipeline {name}", text, action, link)
    yield from _dead_letters("pipeline", name, letters, dead_letter_topic(pipeline))


def _of_view(view: Document, rising: Mapping[str, float], letters: Mapping[str, float]) -> Iterator[Symptom]:
    name, state, detail = str(view["name"]), view["state"], str(view.get("detail") or "")[:300]
    link = "/console/views/" + quote(name, safe="")
    if state not in _SERVING:
        text = f"View {name} is {state}{': ' + detail if detail else '.'}"
        action = (
            f"The reason says what to do; often: mainstem views rebuild {name}"
            if state == "stopped"
            else "It goes on by itself once the reason is gone."
        )
        grace_s = 0.0 if state == "stopped" else _WAITING_GRACE_S
        yield Symptom("view-stopped", f"view {name}", text, action, link, grace_s)
    sampled = view.get("sampled") or {}
    if view.get("drifted") or sampled.get("equal") is False:
        text = f"View {name} has rows that differ from the log."
        action = f"See the rows with: mainstem views verify {name}. Then: mainstem views rebuild {name}"
        yield Symptom("view-drifted", f"view {name}", text, action, link)
    lag = rising.get(f"view/{name}/lag")
    if lag is not None:
        text = f"View {name} falls behind: its lag has risen for 5 minutes, to {lag:,.0f} records."
        yield Symptom("view-behind", f"view {name}", text, "Give its host more CPU, or a faster disk.", link)
    yield from _dead_letters("view", name, letters, str(view.get("dead_letter_topic") or ""))


def _dead_letters(kind: str, name: str, letters: Mapping[str, float], topic: str) -> Iterator[Symptom]:
    new = letters.get(f"{kind}/{name}/dead_letters")
    if new:
        yield Symptom(
            "dead-letters",
            f"{kind} {name}",
            f"{new:,.0f} new dead letter{'s' if new > 1 else ''} of {kind} {name} within the last hour.",
            f"See why: mainstem dead-letters show {topic}",
            "/console/dead-letters?topic=" + quote(topic, safe=""),
        )
