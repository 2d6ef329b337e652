"""The history and the problems: what is sampled, kept over restarts, and judged."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.monitoring.history import History
from mainstem.gateway.monitoring.marks import MARKS_MAX, starts
from mainstem.gateway.monitoring.monitor import Monitor
from mainstem.gateway.monitoring.monitoring_routes import monitoring_router
from mainstem.gateway.monitoring.problem_rules import symptoms
from mainstem.gateway.monitoring.problem_watch import ProblemWatch
from mainstem.gateway.monitoring.ring_file import COLUMNS_MAX, FILE_BYTES_MAX, RingFile
from mainstem.gateway.monitoring.snapshots import NodeSnapshot, SeriesReader, read_metrics
from mainstem.gateway.operation.log_metrics import LogMetrics
from mainstem.gateway.server.app import assemble
from mainstem.gateway.streams.event_stream import Streams
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, RunEvent, RunLogEntry
from mainstem.pipelines.state import STATES_TOPIC, Status
from mainstem.testing.clock import ManualClock
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served
from tests.pipelines.states import STATE

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
VIEW = {
    "name": "v",
    "state": "live",
    "detail": "",
    "lag": 0,
    "dead_letters": 0,
    "dead_letter_topic": "d",
    "position": "t/0:5",
    "drifted": False,
}
PIPELINE = {"name": "p", "app": "a", "status": "running", "lag": 0, "input_rows": 10, "durations_ms": {}}


def read(history: History, series: str, since_ms: int, now_ms: int, points: int = 1_440) -> list[tuple[int, float]]:
    found = history.read([series], since_ms, now_ms, series_max=10, points_max=points)
    return found.series.get(series, [])


def rules(snapshot: NodeSnapshot, **more: dict[str, float]) -> list[str]:
    return [each.rule for each in symptoms(snapshot, more.get("rising", {}), more.get("letters", {}))]


def fine(snapshot: NodeSnapshot) -> NodeSnapshot:
    return replace(snapshot, views=snapshot.views or (), pipelines=snapshot.pipelines or ())


# ---- the history


def test_an_hour_is_kept_in_steps_of_five_seconds_and_a_day_in_minutes() -> None:
    history = History()
    end_ms = NOW_MS
    for number in range(1_440):  # two hours
        end_ms = NOW_MS + number * 5_000
        history.record(end_ms, {"node/connections": number})
    hour = read(history, "node/connections", end_ms - 3_599_000, end_ms)
    assert [at for at, _ in hour[:2]] == [end_ms - 3_595_000, end_ms - 3_590_000]
    assert hour[-1] == (end_ms, 1_439.0)
    day = read(history, "node/connections", end_ms - DAY_MS + 1, end_ms)
    assert (day[0], len(day)) == ((NOW_MS, 5.5), 119)  # the mean of 0 to 11; the last minute is not over


def test_more_points_than_wanted_become_means() -> None:
    history = History()
    for number in range(120):
        history.record(NOW_MS + number * 5_000, {"node/lag": number})
    points = read(history, "node/lag", NOW_MS, NOW_MS + 600_000, points=10)
    assert len(points) == 10
    assert points[0] == (NOW_MS, 5.5)


def test_a_pattern_finds_series_and_the_bound_is_reported() -> None:
    history = History()
    history.record(NOW_MS, {"view/a/lag": 1, "view/b/lag": 2, "view/[x]/lag": 3, "view/a/dead_letters": 4})
    found = history.read(["view/*/lag"], NOW_MS, NOW_MS, series_max=2, points_max=5)
    assert (sorted(found.series), found.left_out) == (["view/a/lag", "view/b/lag"], 1)
    assert list(history.read(["view/[x]*"], NOW_MS, NOW_MS, series_max=2, points_max=5).series) == ["view/[x]/lag"]


def test_series_are_bounded_and_a_series_of_yesterday_gives_way() -> None:
    history = History()
    history.record(NOW_MS, {f"topic/{number}/lag": 1.0 for number in range(COLUMNS_MAX + 5)})
    assert (history.left_out, len(history.names())) == (5, COLUMNS_MAX)
    later_ms = NOW_MS + DAY_MS + 5_000
    history.record(later_ms, {"topic/new/lag": 2.0})
    assert read(history, "topic/new/lag", NOW_MS, later_ms) == []  # in minutes, none is over
    assert read(history, "topic/new/lag", later_ms - 60_000, later_ms) == [(later_ms, 2.0)]
    assert len(history.names()) == COLUMNS_MAX


def test_the_history_survives_a_restart_and_stays_in_its_bounds(tmp_path: Path) -> None:
    path = tmp_path / "history.ring"
    history = History(RingFile(path))
    history.load(NOW_MS)
    for number in range(30):
        history.record(NOW_MS + number * 5_000, {"node/lag": number, f"topic/{number}/lag": 1})
    end_ms = NOW_MS + 29 * 5_000
    again = History(RingFile(path))  # the other one was killed: it never closed its file
    again.load(end_ms)
    assert read(again, "node/lag", NOW_MS, end_ms) == [(NOW_MS + n * 5_000, float(n)) for n in range(30)]
    assert read(again, "node/lag", NOW_MS - DAY_MS + 600_000, end_ms)[0] == (NOW_MS, 5.5)
    assert "topic/29/lag" in again.names()
    assert path.stat().st_size <= FILE_BYTES_MAX
    history.close()
    again.close()


def test_a_torn_row_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "history.ring"
    history = History(RingFile(path))
    history.load(NOW_MS)
    for number in range(3):
        history.record(NOW_MS + number * 5_000, {"node/lag": 12.5 + number})
    history.close()
    content = bytearray(path.read_bytes())
    value = content.index(b"\x00\x00\x58\x41")  # 13.5
    content[value] ^= 1
    path.write_bytes(content)
    again = History(RingFile(path))
    again.load(NOW_MS + 10_000)
    assert read(again, "node/lag", NOW_MS, NOW_MS + 10_000) == [(NOW_MS, 12.5), (NOW_MS + 10_000, 14.5)]
    again.close()


@pytest.mark.parametrize("content", [b"something else", b"mainstem history 1\n" + b"\xff" * 900_000])
def test_a_damaged_file_is_dropped_with_one_line(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.ring"
    path.write_bytes(content)
    history = History(RingFile(path))
    history.load(NOW_MS)
    history.record(NOW_MS, {"node/lag": 1})
    assert [record.getMessage() for record in caplog.records if "history" in record.getMessage()] == [
        f"{path} is damaged or of another version: the history in it is dropped"
    ]
    again = History(RingFile(path))
    again.load(NOW_MS)
    assert read(again, "node/lag", NOW_MS, NOW_MS) == [(NOW_MS, 1.0)]
    history.close()
    again.close()


def test_a_disk_that_refuses_leaves_the_history_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = History(RingFile(tmp_path / "missing" / "history.ring"))
    history.load(NOW_MS)
    history.record(NOW_MS, {"node/lag": 1})
    history.record(NOW_MS + 5_000, {"node/lag": 2})
    assert len(read(history, "node/lag", NOW_MS, NOW_MS + 5_000)) == 2
    assert len([each for each in caplog.records if "in memory only" in each.getMessage()]) == 1


# ---- the series


def test_counters_become_rates_and_one_that_fell_is_left_out() -> None:
    page = b'mainstem_topic_log_end_offset_total{topic="a\\"b"} %d\nmainstem_unread 3\n'
    reader = SeriesReader()
    rates = []
    for number, end in enumerate((100, 150, 20)):
        snapshot = NodeSnapshot(NOW_MS + number * 5_000, read_metrics(page % end))
        rates.append(reader.read(snapshot).get('topic/a"b/records_in_per_s'))
    assert rates == [None, 10.0, None]


def test_the_slowest_syncs_are_of_the_time_between_two_looks() -> None:
    def page(fast: int, slow: int) -> bytes:
        buckets = ((0.001, fast), (0.5, fast + slow), ("+Inf", fast + slow))
        return b"".join(b'mainstem_flush_seconds_bucket{le="%s"} %d\n' % (str(le).encode(), n) for le, n in buckets)

    reader = SeriesReader()
    found = [
        reader.read(NodeSnapshot(NOW_MS + n * 5_000, read_metrics(page(*counts)))).get("node/flush_p99_ms")
        for n, counts in enumerate(((0, 100), (1_000, 100), (1_000, 150), (1_000, 150)))
    ]
    assert found == [None, 1.0, 500.0, None]


# ---- the problems


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"views": [{**VIEW, "state": "stopped", "detail": "why"}]}, "view-stopped"),
        ({"views": [{**VIEW, "drifted": True}]}, "view-drifted"),
        ({"pipelines": [{**PIPELINE, "status": "restarting", "failure": {"text": "no"}}]}, "pipeline-restarting"),
        ({"pipelines": [{**PIPELINE, "status": "failed", "failure": None}]}, "pipeline-failed"),
        ({"pipelines": [{**PIPELINE, "status": "not seen"}]}, "pipeline-not-seen"),
        ({"pipelines": [{**PIPELINE, "status": "paused"}]}, "pipeline-paused"),
        ({"metrics": read_metrics(b"mainstem_partitions_offline 2")}, "partition-offline"),
        ({"metrics": read_metrics(b"mainstem_disk_size_bytes 100\nmainstem_disk_free_bytes 9")}, "disk-full"),
        ({"metrics": read_metrics(b"mainstem_transaction_oldest_seconds 61")}, "transaction-open"),
        ({"metrics": read_metrics(b"mainstem_backup_held_until_seconds 1799999939")}, "backup-behind"),
        ({"metrics": read_metrics(b"mainstem_backup_damages 1")}, "backup-damaged"),
        (
            {
                "metrics": read_metrics(
                    b"mainstem_backup_partitions_left_out 1\nmainstem_backup_held_until_seconds 1799999939"
                )
            },
            "backup-left-out",
        ),
        ({"metrics": read_metrics(b"mainstem_mirror_level_until_seconds 1799999939")}, "mirror-behind"),
        ({"metrics": read_metrics(b"mainstem_mirror_topics_set_aside 1")}, "mirror-topics-left-out"),
    ],
)
def test_each_rule_finds_its_problem_and_nothing_else(change: dict[str, object], rule: str) -> None:
    healthy = {
        "metrics": read_metrics(
            b"mainstem_partitions_offline 0\nmainstem_disk_size_bytes 100\nmainstem_disk_free_bytes 10\n"
            b"mainstem_transaction_oldest_seconds 60\nmainstem_backup_held_until_seconds 1799999940\n"
            b"mainstem_backup_damages 0\nmainstem_backup_partitions_left_out 0\n"
            b"mainstem_mirror_level_until_seconds 1799999940\n"
            b"mainstem_mirror_topics_set_aside 0"
        ),
        "views": [VIEW],
        "pipelines": [PIPELINE],
    }
    assert rules(NodeSnapshot(NOW_MS, **healthy)) == []  # type: ignore[arg-type]
    assert rules(NodeSnapshot(NOW_MS, **{**healthy, **change})) == [rule]  # type: ignore[arg-type]


def test_a_lag_that_rises_for_five_minutes_is_a_problem_until_it_falls() -> None:
    watch = ProblemWatch(lambda _: None)
    seen = []
    for minute, lag in enumerate((5, 10, 20, 30, 40, 50, 60, 10)):
        snapshot = fine(NodeSnapshot(NOW_MS + minute * 60_000))
        watch.look(snapshot, {"group/g/lag": lag, "group/mainstem-sink-x/lag": lag, "group/steady/lag": 1_000})
        seen.append([(each.symptom.subject, each.since_ms) for each in watch.current])
    since = ("group g", NOW_MS + 5 * 60_000)
    assert seen == [[], [], [], [], [], [since], [since], []]


def test_dead_letters_are_new_for_an_hour_and_the_history_knows_them_after_a_restart() -> None:
    watch = ProblemWatch(lambda _: None)
    counts = ((0, 4), (60, 4), (120, 6), (3_700, 6), (3_800, 6))
    seen = []
    for second, count in counts:
        watch.look(
            fine(NodeSnapshot(NOW_MS + second * 1_000, views=[{**VIEW, "dead_letters": count}])),
            {"view/v/dead_letters": count},
        )
        seen.append([each.symptom.text for each in watch.current])
    assert seen == [
        [],
        [],
        ["2 new dead letters of view v within the last hour."],
        ["2 new dead letters of view v within the last hour."],
        [],
    ]
    restarted = ProblemWatch({"view/v/dead_letters": 4.0}.get)
    restarted.look(fine(NodeSnapshot(NOW_MS, views=[VIEW])), {"view/v/dead_letters": 6})
    assert [each.symptom.rule for each in restarted.current] == ["dead-letters"]


def test_a_view_that_waits_is_a_problem_after_a_minute() -> None:
    watch = ProblemWatch(lambda _: None)
    seen = []
    for second in (0, 55, 60):
        watch.look(fine(NodeSnapshot(NOW_MS + second * 1_000, views=[{**VIEW, "state": "waiting"}])), {})
        seen.append(len(watch.current))
    assert seen == [0, 0, 1]


# ---- over HTTP


def test_a_node_is_sampled_and_its_problems_are_served() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        log.create_topic("orders", partitions=2)
        clock = ManualClock(NOW_MS)
        views = ForwardingBackend([])
        monitor = Monitor(log, None, views, clock=clock)
        app = assemble("Monitoring", (monitoring_router(monitor),), GatewayLimits(), streams=Streams())
        with served(app) as api:
            asyncio.run(Monitor.sample(monitor))
            log.append_many("orders", [b"a"] * 50)
            log.create_topic(STATES_TOPIC, partitions=1)
            log.append_many(STATES_TOPIC, [replace(STATE, seen_ms=NOW_MS, status=Status.FAILED).to_record()])
            clock.advance(5.0)
            asyncio.run(Monitor.sample(monitor))
            names = api.get("/history").json()["names"]
            answer = api.get("/history?series=topic/*/records_in_per_s&series=node/*&since=5m").json()
            problems = api.get("/health/problems").json()
            refused = [api.get(f"/history?series=x&{q}") for q in ("since=t/0:5", "since=x", "points=1", "serie=x")]
    assert "topic/orders/records_in_per_s" in names
    rate = next(each for each in answer["series"] if each["name"] == "topic/orders/records_in_per_s")
    assert (rate["unit"], rate["points"], answer["step_s"]) == ("records/s", [[NOW_MS + 5_000, 10.0]], 5)
    assert [(each["rule"], each["link"]) for each in problems["problems"]] == [
        ("pipeline-failed", "/console/pipelines/totals")
    ]
    assert problems["problems"][0]["text"].endswith("ValueError: no")
    assert [each.status_code for each in refused] == [400, 400, 400, 400]


@pytest.mark.parametrize(
    ("uptimes", "found"),
    [
        ([], []),
        ([(1_000_000, 5_000.0), (1_005_000, 5_005.0)], []),  # it started before the first sample
        ([(1_000_000, 30.0), (1_005_000, 35.0)], [970_000]),
        ([(1_000_000, 5_000.0), (1_005_000, 5_005.0), (1_015_000, 4.0), (1_020_000, 9.0)], [1_011_000]),
        ([(1_000_000, 30.0), (9_000_000, 40.0)], [970_000, 8_960_000]),  # it was away for longer than it had run
        ([(1_200_000, 5_000.0), (1_260_000, 2_500.0), (1_320_000, 50.0)], [1_270_000]),  # a minute's mean of two runs
    ],
)
def test_starts_are_where_the_uptime_begins_again(uptimes: list[tuple[int, float]], found: list[int]) -> None:
    assert starts(uptimes, 900_000) == found


def test_marks_are_the_starts_of_the_log_and_of_pipelines(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        clock = ManualClock(NOW_MS)
        monitor = Monitor(log, None, ForwardingBackend([]), clock=clock)
        monitor.history.record(NOW_MS - 5_000, {"node/uptime_s": 60.0})
        app = assemble("Monitoring", (monitoring_router(monitor),), GatewayLimits(), streams=Streams())
        with served(app) as api:
            started = {"at_ms": NOW_MS - 65_000, "name": "", "event": "started", "text": ""}
            assert api.get("/history/marks?since=5m").json()["marks"] == [started]  # no pipeline has a log yet
            assert api.get("/history/marks?since=10s").json()["marks"] == []
            log.create_topic(RUN_LOG_TOPIC, partitions=1)
            events = [
                (NOW_MS - 400_000, RunEvent.STARTED, ""),
                (NOW_MS - 70_000, RunEvent.STARTED, ""),
                (NOW_MS - 60_000, RunEvent.FAILED, "no"),
                (NOW_MS - 59_000, RunEvent.RESTARTED, "after a failure\nmore"),
            ]
            entries = [RunLogEntry("p", n, *event) for n, event in enumerate(events)]
            log.append_many(RUN_LOG_TOPIC, [entry.to_record() for entry in entries])
            marks = api.get("/history/marks?since=5m").json()["marks"]
            shown = [(mark["name"], mark["event"], mark["text"]) for mark in marks]
            assert shown == [("p", "started", ""), ("", "started", ""), ("p", "restarted", "after a failure")]
            for name in "abcd":
                more = [RunLogEntry(name, n, NOW_MS - 1_000, RunEvent.STARTED, "") for n in range(200)]
                log.append_many(RUN_LOG_TOPIC, [entry.to_record() for entry in more])
            answer = api.get("/history/marks?since=5m").json()
            assert (len(answer["marks"]), answer["left_out"]) == (MARKS_MAX, 803 - MARKS_MAX)
            assert api.get("/history/marks?since=x").status_code == 400


def test_the_uptime_of_the_log_is_sampled() -> None:
    metrics = read_metrics(b"process_start_time_seconds 1799999940\n")
    assert SeriesReader().read(NodeSnapshot(NOW_MS, metrics))["node/uptime_s"] == 60.0


def test_a_gateway_without_a_log_has_that_problem_and_no_series(tmp_path: Path) -> None:
    with Log("127.0.0.1:1", timeout_s=0.2) as log:
        views, metrics = ForwardingBackend([]), LogMetrics(tmp_path / "m.sock")
        clock = ManualClock(NOW_MS)
        monitor = Monitor(log, metrics, views, clock=clock)
        for _ in range(3):
            asyncio.run(monitor.sample())
            clock.advance(5.0)
    assert [each.symptom.rule for each in monitor.problems.current] == ["log-unavailable"]
    assert not any(math.isnan(value) for _, value in read(monitor.history, "node/lag", 0, NOW_MS))
