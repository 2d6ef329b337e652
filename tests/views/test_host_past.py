"""Past states, asked of a host over a real log."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.errors import HistoryRemovedError, PositionError, QueryError, UnavailableError, ViewStoppedError
from mainstem.model import Position
from mainstem.views.host.host import ViewHost
from mainstem.views.past.as_of import AsOf
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery
from mainstem.views.verification.diff_request import DiffRequest
from tests.views.hosting import GET, REQUESTS, Setting

WAIT_S = 120.0


def as_of(moment: AsOf) -> ReadOptions:
    return ReadOptions(as_of=moment, timeout_s=WAIT_S)


@pytest.mark.parametrize(("view", "keys", "records"), [("kv", 4, 6), ("sql", 2, 3)])  # SQL takes long to build
def test_every_answer_is_had_again_by_its_position(
    mainstem_log: Log, tmp_path: Path, view: str, keys: int, records: int
) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,), partitions=3)
    with setting.host() as host:
        answers = []
        for miles in range(records):
            at_least = setting.append(f"{miles % keys}", miles=miles)
            answers.append(host.query(view, REQUESTS[view], ReadOptions(at_least=at_least)))
        for answer in answers:
            past = host.query(view, REQUESTS[view], as_of(answer.position))
            assert (past.position, past.covers) == (answer.position, answer.position)
            assert sorted(past.rows, key=str) == sorted(answer.rows, key=str)


def test_a_time_is_everything_before_the_first_record_from_then_on(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    now_ms = SystemClock().time_ms()
    with setting.host() as host:
        for ago_ms in (9_000, 7_000, 8_000, 6_000):
            value = {"origin": "A", "dest": "B", "miles": ago_ms}
            end = mainstem_log.append(setting.topic, value, key="1", timestamp_ms=now_ms - ago_ms)
        host.query("kv", GET, ReadOptions(at_least=end, timeout_s=WAIT_S))
        found = {}
        for ago_ms in (now_ms, 8_999, 7_500, 6_500, -9_000):
            answer = host.query("kv", GET, as_of(now_ms - ago_ms))
            found[ago_ms] = (sum(answer.position.values()), [row["miles"] for row in answer.rows])
    assert found == {
        now_ms: (0, []),
        8_999: (1, [9_000]),
        7_500: (1, [9_000]),
        6_500: (3, [8_000]),
        -9_000: (4, [6_000]),
    }


def past_positions(setting: Setting) -> list[tuple[Position, str]]:
    """Positions of a topic of two partitions that are no past state, and what is said of them."""
    topic = setting.topic
    return [
        (Position.of(topic, 0, 0), f"does not name {topic}/1"),
        (Position.parse(f"{topic}/0:0,{topic}/1:0,{topic}/2:0"), "has no such partition"),
        (Position.parse(f"{topic}/0:0,{topic}/1:0,other/0:0"), "other/0, but topic .* has no such partition"),
        (Position.parse(f"{topic}/0:9,{topic}/1:0"), "beyond the committed records"),
        (Position(), f"does not name {topic}/0"),
    ]


def test_a_position_that_is_no_state_of_the_view_is_refused(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, partitions=2)
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        for position, said in past_positions(setting):
            with pytest.raises(PositionError, match=said):
                host.query("kv", GET, as_of(position))


def test_other_kinds_answer_for_now_only(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("search", "graph"))
    with setting.host() as host:
        for view in ("search", "graph"):
            with pytest.raises(QueryError, match="answers for now only"):
                host.query(view, REQUESTS[view], as_of(0))


def test_a_past_that_retention_removed_is_had_from_a_snapshot_or_refused(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with snapshotting(setting) as host:
        answers = []
        for number in range(4):  # each as large as what a snapshot writes
            at_least = setting.append(f"{number}", "A" * 50_000)
            answers.append(host.query("kv", REQUESTS["kv"], ReadOptions(at_least=at_least, timeout_s=WAIT_S)))
        setting.remove_records_before(3)
        assert host.query("kv", REQUESTS["kv"], as_of(answers[3].position)).rows == answers[3].rows
        assert host.query("kv", REQUESTS["kv"], as_of(answers[1].position)).rows == answers[1].rows
        host.rebuild("kv", "left")
        with pytest.raises(HistoryRemovedError, match="removed offsets 0 to 1"):
            host.query("kv", REQUESTS["kv"], as_of(answers[1].position))
        with pytest.raises(HistoryRemovedError, match="ask for a later time"):
            host.query("kv", REQUESTS["kv"], as_of(0))


def test_past_states_are_kept_for_a_while_and_removed_at_the_stop(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    past = tmp_path / "kv" / "v000001" / "past"
    with setting.host() as host:
        for miles in range(7):
            end = setting.append("1", miles=miles)
        host.query("kv", GET, ReadOptions(at_least=end, timeout_s=WAIT_S))
        for offset in (1, 2, 3, 4, 5, 6, 6):
            answer = host.query("kv", GetQuery("1"), as_of(Position.of(setting.topic, 0, offset)))
            assert [row["miles"] for row in answer.rows] == [offset - 1]
        assert len(list(past.iterdir())) == 4
    assert not past.exists()


def test_a_view_that_stopped_answers_for_no_moment(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        position = setting.append("1")
        host.query("kv", GET, ReadOptions(at_least=position))
        host.delete("kv")
        with pytest.raises(ViewStoppedError, match="deleted"):
            host.query("kv", GET, as_of(position))


@pytest.mark.parametrize("view", ["kv", "sql"])
def test_what_changed_between_two_moments_is_told_by_key(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    with setting.host() as host:
        for key in "abc":
            start = setting.append(key, miles=1)
        setting.append("b", miles=2)
        mainstem_log.append(setting.topic, None, key="c")
        end = setting.append("d", miles=3)
        host.query(view, REQUESTS[view], ReadOptions(at_least=end, timeout_s=WAIT_S))
        answer = host.diff(view, DiffRequest(start, timeout_s=WAIT_S))
        assert (answer.start, answer.end, answer.next) == (start, end, None)
        miles = [(c.key, c.before and c.before["miles"], c.after and c.after["miles"]) for c in answer.changes]
        assert miles == [("b", 1, 2), ("c", 1, None), ("d", None, 3)]
        back = host.diff(view, DiffRequest(end, start, limit=1, timeout_s=WAIT_S))
        assert ([change.key for change in back.changes], back.next) == (["b"], "b")
        rest = host.diff(view, DiffRequest(end, start, after="b", timeout_s=WAIT_S))
        assert [change.key for change in rest.changes] == ["c", "d"]


def snapshotting(setting: Setting) -> ViewHost:
    """A host of the setting's views that makes a snapshot at each step."""
    views = tuple(setting.app.views.values())
    return ViewHost(views, setting.log.bootstrap, setting.directory, snapshot_every=1)


@pytest.mark.parametrize("view", ["kv", "sql"])
def test_a_rebuild_may_begin_at_a_snapshot(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    with snapshotting(setting) as host:
        for key in "123":
            before = setting.append(key, miles=1)
        mainstem_log.append(setting.topic, b"no json", key="1")
        host.query(view, REQUESTS[view], ReadOptions(at_least=before, timeout_s=WAIT_S))
        end = setting.append("2", miles=2)
        host.query(view, REQUESTS[view], ReadOptions(at_least=end, timeout_s=WAIT_S))
        result = host.rebuild(view, "snapshot")
        assert (result.built_from.source, result.records < 5, result.position) == ("snapshot", True, end)
        assert host.verify(view).equal
        [status] = host.status(view)
        assert status.dead_letters == 1
    assert len(list(mainstem_log.read(status.dead_letter_topic))) == 1


def test_without_a_snapshot_a_rebuild_cannot_begin_at_one(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        host.query("kv", GET, ReadOptions(at_least=setting.append("1"), timeout_s=WAIT_S))
        with pytest.raises(UnavailableError, match="no snapshot to begin at: rebuild it from the log"):
            host.rebuild("kv", "snapshot")
        assert len(host.query("kv", GET).rows) == 1
        assert sorted(path.name for path in (tmp_path / "kv").iterdir()) == ["current", "v000001"]


@pytest.mark.parametrize("view", ["kv", "sql"])
def test_a_view_says_how_far_back_it_answers(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    began_ms = SystemClock().time_ms()
    with setting.host(snapshot_every=2) as host:
        for miles in range(4):
            host.query(view, REQUESTS[view], ReadOptions(at_least=setting.append("1", miles=miles)))
        past = host.past(view)
        assert past.is_whole
        built, *snapshots = past.moments
        assert (built.what, {each.what for each in snapshots}) == ("built", {"snapshot"})
        assert began_ms - 2_000 <= built.time_ms <= snapshots[0].time_ms <= SystemClock().time_ms() + 2_000
        for snapshot in snapshots:
            assert host.query(view, REQUESTS[view], as_of(snapshot.position)).position == snapshot.position


def test_a_search_view_has_no_past_to_tell(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("search",))
    with setting.host() as host, pytest.raises(QueryError, match="answers for now only"):
        host.past("search")
