from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import set_topic_configs
from mainstem.clock import SystemClock
from mainstem.errors import (
    AuthorizationError,
    DirectoryLockedError,
    HistoryRemovedError,
    PositionError,
    PositionTimeoutError,
    StorageError,
    UnavailableError,
    UnknownViewError,
    ViewStoppedError,
)
from mainstem.model import MIRROR_OF, Position, Record
from mainstem.pipelines.kinds import SQL, KeyValue, Search
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.pipelines.state import LOST_AFTER_MS, STATES_TOPIC, Failure, PipelineState, Status
from mainstem.problems import problem_of
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from mainstem.testing import EmbeddedBroker
from mainstem.views.feed.end_samples import committed_ends
from mainstem.views.host.host import ViewHost
from mainstem.views.host.progress_follower import ProgressFollower
from mainstem.views.host.view import HostedView
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import SqlQuery
from mainstem.views.status import BuiltFrom
from tests.house.pages import ROOT, blocks_of, not_in_form
from tests.support.eventually import eventually
from tests.views.hosting import DDL, EVERY_KIND, GET, KINDS, REQUESTS, Setting


def test_every_kind_of_view_answers_what_was_appended(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, EVERY_KIND, partitions=3)
    with setting.host() as host:
        position = Position.join(setting.append(f"{n}") for n in range(9))
        for view in EVERY_KIND:
            answer = host.query(view, REQUESTS[view], ReadOptions(at_least=position))
            assert len(answer.rows) == (1 if view in ("graph", "metrics") else 9)
            assert answer.position == answer.covers
            assert answer.position.covers(position)


def test_a_read_sees_the_write_that_it_names_every_time(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        for miles in range(50):
            position = setting.append("1", miles=miles)
            assert host.query("kv", GET, ReadOptions(at_least=position)).rows[0]["miles"] == miles


def test_a_view_goes_on_where_it_was_after_a_restart_of_its_host(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, EVERY_KIND)
    with setting.host() as host:
        before = setting.append("1")
        for view in EVERY_KIND:
            host.query(view, REQUESTS[view], ReadOptions(at_least=before))
    after = setting.append("2", "B", "C")
    with setting.host() as host:
        for view in EVERY_KIND:
            assert len(host.query(view, REQUESTS[view], ReadOptions(at_least=after)).rows) == 2
            assert host.verify(view).equal


def test_a_host_goes_on_when_the_log_comes_back(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10) as log:
        setting = Setting(log, tmp_path)
        with setting.host() as host:
            host.query("kv", GET, ReadOptions(at_least=setting.append("1")))
            broker.restart()
            assert host.query("kv", GET, ReadOptions(at_least=setting.append("1", miles=2))).rows[0]["miles"] == 2


# ---- waiting


def test_a_position_beyond_the_log_s_end_is_refused_at_once(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        setting.append("1")
        with pytest.raises(PositionError, match="beyond the log's end"):
            host.query("kv", GET, ReadOptions(at_least=Position.of(setting.topic, 0, 2)))
        with pytest.raises(PositionError, match="has 1 partitions"):
            host.query("kv", GET, ReadOptions(at_least=Position.of(setting.topic, 7, 1)))


def test_a_position_that_a_mirror_has_yet_to_copy_is_waited_for(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        setting.append("1")
        with WireClient(mainstem_log.bootstrap) as client:
            set_topic_configs(client, setting.topic, {MIRROR_OF: f"{'A' * 22}/{'B' * 21}A"})
        with pytest.raises(PositionTimeoutError, match="did not reach"):
            host.query("kv", GET, ReadOptions(at_least=Position.of(setting.topic, 0, 2), timeout_s=0.1))
        with pytest.raises(PositionError, match="has 1 partitions"):
            host.query("kv", GET, ReadOptions(at_least=Position.of(setting.topic, 7, 1)))


def test_a_topic_that_is_not_upstream_is_refused_at_once(
    mainstem_log: Log, mainstem_topic: str, tmp_path: Path
) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host, pytest.raises(PositionError, match="not upstream"):
        host.query("kv", GET, ReadOptions(at_least=mainstem_log.append(mainstem_topic, {})))


def derived(log: Log, directory: Path) -> Setting:
    """A setting with a view over a topic that a pipeline derives."""
    setting = Setting(log, directory)
    source = setting.app.topics[setting.topic]
    out = f"{setting.topic}-out"
    log.create_topic(out, partitions=1)
    setting.app.pipeline(source, into=out, key="origin", name=f"derive-{out}")(lambda flights: flights)
    setting.app.view("derived", out, KeyValue())
    return setting


def test_a_view_of_a_derived_topic_covers_its_source(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    with setting.host() as host:
        source = setting.append("1")
        sink = mainstem_log.append(out, {"n": 1}, key="1")
        setting.report(source, sink, out)
        answer = host.query("derived", GET, ReadOptions(at_least=source))
        assert answer.rows == [{"_key": "1", "n": 1}]
        assert answer.covers == source | sink


@pytest.mark.parametrize("options", [{}, {"max_lag_ms": 0}])
def test_progress_that_is_not_read_yet_is_waited_for(
    mainstem_log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    """After a start the host does not know at once what a pipeline of another program derives from."""
    setting = Setting(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    mainstem_log.create_topic(out, partitions=1)
    setting.app.view("derived", setting.app.topic(out, schema="n INT"), KeyValue())
    source = setting.append("1")
    setting.report(source, mainstem_log.append(out, {"n": 1}, key="1"), out)
    may_read, take = threading.Event(), ProgressFollower.take

    def take_late(follower: ProgressFollower, record: Record) -> None:
        assert may_read.wait(60)
        take(follower, record)

    monkeypatch.setattr(ProgressFollower, "take", take_late)
    at_least = None if options else source
    with setting.host() as host:
        with pytest.raises(PositionTimeoutError, match=f"which topics {out} derives from"):
            host.query("derived", GET, ReadOptions(at_least, timeout_s=0.1, **options))
        may_read.set()
        assert host.query("derived", GET, ReadOptions(at_least, timeout_s=60, **options)).covers.covers(source)


@pytest.mark.parametrize("right", ["describe", "read"])
def test_a_host_that_may_not_read_the_progress_goes_on_without_it(
    mainstem_log: Log, mainstem_topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str
) -> None:
    def refused(*_: object) -> Position:
        raise AuthorizationError(f"this user may not read {PROGRESS_TOPIC}")

    def ends(client: WireClient, topics: Iterable[str]) -> Position:
        return refused() if PROGRESS_TOPIC in topics else committed_ends(client, topics)

    monkeypatch.setattr(ProgressFollower, "_follow", refused)
    if right == "describe":
        monkeypatch.setattr("mainstem.views.host.host.committed_ends", ends)
    setting = Setting(mainstem_log, tmp_path)
    mainstem_log.append(PROGRESS_TOPIC, b"{}", key=b"of no pipeline")
    with setting.host() as host:
        wanted = setting.append("1")
        assert host.query("kv", GET, ReadOptions(max_lag_ms=0, timeout_s=60)).position.covers(wanted)
        with pytest.raises(PositionError, match="not upstream"):
            host.query("kv", GET, ReadOptions(at_least=mainstem_log.append(mainstem_topic, {}), timeout_s=60))


def test_what_is_not_covered_in_time_is_a_time_out_with_both_positions(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    with setting.host() as host:
        host.wait("derived", lambda status: status.state == "live")
        wanted = setting.append("1")
        with pytest.raises(PositionTimeoutError) as caught:
            host.query("derived", GET, ReadOptions(at_least=wanted, timeout_s=0.1))
        assert (caught.value.wanted, caught.value.reached) == (wanted, Position())


def test_a_time_out_names_the_open_transaction_that_holds_the_view_back(
    mainstem_log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.views.host.host._ASIDE_TIMEOUT_S", 30.0)
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host, mainstem_log.transaction(f"slow-{setting.topic}") as transaction:
        transaction.append(setting.topic, {"origin": "A"}, key="1")
        transaction._send_all()
        wanted = setting.append("2")
        with pytest.raises(PositionTimeoutError, match="hold it back") as caught:
            host.query("kv", GET, ReadOptions(at_least=wanted, timeout_s=0.1))
        assert caught.value.transactions == (f"slow-{setting.topic} (since {setting.topic}/0:0)",)


def test_a_time_out_names_the_pipeline_in_between_that_fails(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    name = f"derive-{setting.topic}-out"
    now_ms = SystemClock().time_ms()
    seen_ms = now_ms + 3_600_000  # however long the host takes to start, they were seen lately
    failure = Failure("flights.py:12, in divide: ZeroDivisionError: division by zero", now_ms, now_ms + 4_000)
    state = PipelineState(name, "app", Status.RESTARTING, "always", now_ms, seen_ms, failure=failure)
    aside = replace(state, pipeline="aside")
    healthy = replace(state, status=Status.RUNNING, failure=None)
    lost = replace(healthy, seen_ms=now_ms - 2 * LOST_AFTER_MS)

    def named(host: ViewHost, *states: PipelineState, until: tuple[str, ...]) -> PositionTimeoutError:
        """The time-out once it names ``until``, after the pipelines have reported."""
        mainstem_log.append_many(STATES_TOPIC, [each.to_record() for each in states])

        def time_out() -> PositionTimeoutError | None:
            with pytest.raises(PositionTimeoutError) as caught:
                host.query("derived", GET, ReadOptions(at_least=wanted, timeout_s=0))
            return caught.value if caught.value.pipelines == until else None

        return eventually(time_out, f"the time-out names {until}")

    with setting.host() as host:
        host.wait("derived", lambda status: status.state == "live")
        wanted = setting.append("1")
        error = named(host, aside, state, until=(f"{name} is restarting: {failure.text}",))
        assert str(error).endswith(f"; pipeline {name} is restarting: {failure.text}")
        named(host, replace(state, status=Status.RUNNING), until=(f"{name} is running: {failure.text}",))
        named(host, healthy, until=())
        named(host, lost, until=(f"{name} has been silent for over 30 s, and was running",))


def test_a_time_out_over_http_is_as_its_page_shows_it(mainstem_log: Log, tmp_path: Path) -> None:
    documents = [json.loads(b.text) for b in blocks_of(ROOT / "docs/reference/http.md") if b.language == "json"]
    [shown] = [each for each in documents if each.get("type") == "/problems/position-timeout"]
    setting = derived(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    now_ms = SystemClock().time_ms()
    [failing] = shown["pipelines"]
    failure = Failure(failing.partition(": ")[2], now_ms, now_ms + 4_000)
    state = PipelineState(f"derive-{out}", "app", Status.RESTARTING, "always", now_ms, now_ms, failure=failure)
    with setting.host() as host:
        source = setting.append("1")
        setting.report(source, mainstem_log.append(out, {"n": 1}, key="1"), out)
        host.query("derived", GET, ReadOptions(at_least=source))
        wanted = setting.append("2")
        mainstem_log.append_many(STATES_TOPIC, [state.to_record()])

        def time_out() -> PositionTimeoutError | None:
            with pytest.raises(PositionTimeoutError) as caught:
                host.query("derived", GET, ReadOptions(at_least=wanted, timeout_s=0))
            return caught.value if caught.value.pipelines else None

        printed = problem_of(eventually(time_out, "the time-out names the pipeline"))
    assert shown.keys() == printed.keys()
    shown["pipelines"], printed["pipelines"] = (f"pipeline {each['pipelines'][0]}" for each in (shown, printed))
    for name, text in shown.items():
        assert not_in_form(str(text), str(printed[name])) == [], name


def test_a_wait_ends_when_the_progress_comes(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    with setting.host() as host:
        source = setting.append("1")
        answers: list[Position] = []
        reader = threading.Thread(
            target=lambda: answers.append(host.query("derived", GET, ReadOptions(at_least=source)).covers)
        )
        reader.start()
        sink = mainstem_log.append(out, {"n": 1}, key="1")
        setting.report(source, sink, out)
        reader.join(20)
        assert answers == [source | sink]


def test_a_host_knows_which_reads_waited_for_a_record(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    with setting.host() as host:
        before = setting.append("0")
        setting.report(before, mainstem_log.append(out, {"n": 0}, key="1"), out)
        host.query("derived", GET, ReadOptions(at_least=before))
        source = setting.append("1")
        options = ReadOptions(at_least=source, reader="ada")
        reader = threading.Thread(target=lambda: host.query("derived", GET, options))
        reader.start()
        eventually(lambda: host.waited("derived", source).waiting == 1, "a read waits")
        assert host.waited("derived", before).readers == ()
        with pytest.raises(PositionTimeoutError):
            host.query("derived", GET, replace(options, timeout_s=0.1, reader="bob"))
        setting.report(source, mainstem_log.append(out, {"n": 1}, key="1"), out)
        reader.join(20)
        found = host.waited("derived", source)
        assert (found.reads, found.waiting, found.readers) == (2, 0, ("bob", "ada"))
        assert found.longest_ms >= 100
        assert host.waited("derived", setting.append("2")).reads == 0
        assert host.waited("kv", source).reads == 0


def test_an_answer_lags_no_more_than_it_may(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        for miles in range(20):
            setting.append("1", miles=miles)
            assert host.query("kv", GET, ReadOptions(max_lag_ms=0)).rows[0]["miles"] == miles


def test_an_answer_lags_no_more_than_it_may_also_through_a_pipeline(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    with setting.host() as host:
        host.wait("derived", lambda status: status.state == "live")
        source = setting.append("1")
        with pytest.raises(PositionTimeoutError) as caught:
            host.query("derived", GET, ReadOptions(max_lag_ms=0, timeout_s=0.1))
        assert caught.value.wanted.covers(source)
        sink = mainstem_log.append(out, {"n": 1}, key="1")
        setting.report(source, sink, out)
        assert host.query("derived", GET, ReadOptions(max_lag_ms=0)).rows == [{"_key": "1", "n": 1}]


# ---- what is not there yet


def test_a_view_waits_for_its_topic(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    setting.app.topic(f"{setting.topic}-late", DDL)
    setting.app.view("late", f"{setting.topic}-late", KeyValue())
    with setting.host() as host:
        status = host.wait("late", lambda status: status.state == "waiting")
        assert "does not exist yet" in status.detail
        with pytest.raises(UnavailableError, match="not ready yet"):
            host.query("late", GET)
        mainstem_log.create_topic(f"{setting.topic}-late", partitions=1)
        position = mainstem_log.append(f"{setting.topic}-late", {"a": 1}, key="1")
        assert host.query("late", GET, ReadOptions(at_least=position)).rows == [{"_key": "1", "a": 1}]


def test_a_sql_view_of_a_derived_topic_waits_for_its_schema(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    setting.app.view("table", out, SQL())
    position = mainstem_log.append(out, {"n": 1}, key="1")
    with setting.host() as host:
        assert "schema" in host.wait("table", lambda status: status.state == "waiting").detail
        register(mainstem_log, out, schema_of("n INT"), ())
        assert host.query("table", SqlQuery('SELECT n FROM "table"'), ReadOptions(at_least=position)).rows == [{"n": 1}]


# ---- poison


def test_poison_goes_to_the_dead_letters_and_the_view_goes_on(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        poison = mainstem_log.append(setting.topic, b"no json", key="1")
        host.query("kv", GET, ReadOptions(at_least=setting.append("1")))
        [status] = host.status("kv")
        assert (status.dead_letters, status.state) == (1, "live")
    [letter] = mainstem_log.read(status.dead_letter_topic)
    headers = dict(letter.headers)
    assert (letter.key, letter.value, headers["mainstem.view"]) == (b"1", b"no json", b"kv")
    place = (headers["mainstem.topic"], headers["mainstem.partition"], headers["mainstem.offset"])
    assert place == (setting.topic.encode(), b"0", b"0")
    assert b"not JSON" in (headers["mainstem.error"] or b"")
    assert poison == Position.of(setting.topic, 0, 1)


def test_a_rebuild_does_not_send_dead_letters_again(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        mainstem_log.append(setting.topic, b"no json", key="1")
        host.query("kv", GET, ReadOptions(at_least=setting.append("1")))
        host.rebuild("kv")
        [status] = host.status("kv")
        assert status.dead_letters == 1
    assert len(list(mainstem_log.read(status.dead_letter_topic))) == 1


# ---- rebuild, delete, and what stops a view


@pytest.mark.parametrize("view", EVERY_KIND)
def test_readers_do_not_notice_a_rebuild(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    with setting.host() as host:
        last = Position.join(setting.append(f"{n}") for n in range(20))
        host.query(view, REQUESTS[view], ReadOptions(at_least=last))
        done = threading.Event()
        rebuilder = threading.Thread(target=lambda: (host.rebuild(view), done.set()))
        rebuilder.start()
        seen = Position()
        while not done.is_set():
            answer = host.query(view, REQUESTS[view])
            assert answer.position.covers(seen)
            assert answer.rows
            seen = answer.position
        rebuilder.join()
        assert host.verify(view).equal
    assert [path.name for path in sorted((tmp_path / view).iterdir())] == ["current", "v000002"]


def test_a_changed_definition_stops_the_view_until_it_is_rebuilt(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("search",))
    with setting.host() as host:
        position = setting.append("1")
        host.query("search", REQUESTS["search"], ReadOptions(at_least=position))
    view = setting.app.views["search"]
    changed = type(view)(view.app, view.name, view.topic, Search("origin"))
    setting.app._views["search"] = changed
    with setting.host() as host:
        assert "rebuild" in host.wait("search", lambda status: status.state == "stopped").detail
        with pytest.raises(ViewStoppedError, match="kind changed"):
            host.query("search", REQUESTS["search"])
        host.rebuild("search")
        assert len(host.query("search", REQUESTS["search"], ReadOptions(at_least=position)).rows) == 1


def test_a_topic_that_was_made_anew_stops_the_view_until_it_is_rebuilt(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        host.query("kv", GET, ReadOptions(at_least=setting.append("1", miles=1)))
    mainstem_log.delete_topic(setting.topic)
    mainstem_log.create_topic(setting.topic, partitions=1)
    position = setting.append("1", miles=2)
    with setting.host() as host:
        assert "recreated" in host.wait("kv", lambda status: status.state == "stopped").detail
        with pytest.raises(ViewStoppedError):
            host.query("kv", GET, ReadOptions(at_least=position))
        host.rebuild("kv")
        assert host.query("kv", GET, ReadOptions(at_least=position)).rows[0]["miles"] == 2


def test_a_topic_that_is_deleted_stops_the_view(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        host.query("kv", GET, ReadOptions(at_least=setting.append("1")))
        mainstem_log.delete_topic(setting.topic)
        assert "deleted" in host.wait("kv", lambda status: status.state == "stopped").detail


def test_a_deleted_view_answers_no_more_until_it_is_rebuilt(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        position = setting.append("1")
        host.query("kv", GET, ReadOptions(at_least=position))
        host.delete("kv")
        assert not (tmp_path / "kv").exists()
        with pytest.raises(ViewStoppedError, match="deleted"):
            host.query("kv", GET, ReadOptions(at_least=position))
        host.rebuild("kv")
        assert len(host.query("kv", GET, ReadOptions(at_least=position)).rows) == 1


def test_history_that_was_removed_unread_stops_the_view_until_it_is_rebuilt(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        host.query("kv", GET, ReadOptions(at_least=setting.append("1")))
    last = Position.join(setting.append(f"{n}") for n in range(2, 6))
    setting.remove_records_before(3)
    with setting.host() as host:
        assert "removed offsets 1 to 2" in host.wait("kv", lambda status: status.state == "stopped").detail
        with pytest.raises(HistoryRemovedError, match="--from left"):
            host.rebuild("kv")
        left = host.rebuild("kv", "left").built_from
        assert left == BuiltFrom("left", Position.of(setting.topic, 0, 3))
        assert host.status("kv")[0].built_from == left
        answer = host.query("kv", REQUESTS["kv"], ReadOptions(at_least=last))
        assert [row["_key"] for row in answer.rows] == ["4", "5"]


def test_all_partitions_are_applied_and_those_that_are_added(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, partitions=2)
    with setting.host() as host:
        host.query("kv", GET, ReadOptions(at_least=setting.append("1")))
    setting.add_partitions(3)
    with setting.host() as host:
        last = Position.join(setting.append(f"{n}") for n in range(20))
        answer = host.query("kv", REQUESTS["kv"], ReadOptions(at_least=last))
        assert (len(answer.position), len(answer.rows)) == (3, 20)


# ---- the host itself


@pytest.mark.parametrize("named", ["v000007", "directory"])
def test_a_view_whose_files_are_not_there_leaves_the_others_alone(
    mainstem_log: Log, tmp_path: Path, named: str
) -> None:
    setting = Setting(mainstem_log, tmp_path, ("kv", "fold"))
    current = tmp_path / "kv" / "current"
    current.parent.mkdir()
    if named == "directory":
        current.mkdir()
    else:
        current.write_text(f"{named}\n")
    with setting.host() as host:
        assert "rebuild" in host.wait("kv", lambda status: status.state == "stopped").detail
        position = setting.append("1")
        assert len(host.query("fold", GET, ReadOptions(at_least=position)).rows) == 1
        if named != "directory":
            host.rebuild("kv")
            assert len(host.query("kv", GET, ReadOptions(at_least=position)).rows) == 1


def test_a_host_that_cannot_start_lets_go_of_everything(
    mainstem_log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting(mainstem_log, tmp_path)

    def fail(view: HostedView) -> None:
        raise StorageError("the disk is gone")

    failed = ViewHost(tuple(setting.app.views.values()), mainstem_log.bootstrap, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(HostedView, "start", fail)
        with pytest.raises(StorageError, match="the disk is gone"):
            failed.start()
    assert not failed._follower._thread.is_alive()
    with setting.host() as host:
        assert host.wait("kv", lambda status: status.state == "live")


def test_a_rebuild_that_cannot_begin_is_none(mainstem_log: Log, tmp_path: Path) -> None:
    setting = derived(mainstem_log, tmp_path)
    setting.app.view("table", f"{setting.topic}-out", SQL())
    with setting.host() as host:
        host.wait("table", lambda status: status.state == "waiting")
        with pytest.raises(UnavailableError, match="schema"):
            host.rebuild("table")
        assert not host.status("table")[0].is_rebuilding


def test_an_unknown_view_is_named_with_those_that_there_are(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        for ask in (lambda: host.query("nope", GET), lambda: host.verify("nope"), lambda: host.status("nope")):
            with pytest.raises(UnknownViewError, match="'nope'; there are: kv"):
                ask()


def test_a_directory_has_one_host(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host(), pytest.raises(DirectoryLockedError, match="another process"), setting.host():
        pass


def test_two_rebuilds_of_a_view_exclude_each_other(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        with host._views["kv"]._maintaining(), pytest.raises(UnavailableError, match="just now"):
            host.rebuild("kv")


def test_the_status_is_plain_json(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        position = setting.append("1")
        host.query("kv", GET, ReadOptions(at_least=position))
        host.verify("kv")
        [status] = host.status()
        document = status.to_json()
        assert (document["name"], document["kind"], document["position"]) == ("kv", "key-value", str(position))
        assert document["verified"]["equal"] is True


def test_a_lake_that_is_not_open_yet_is_waited_for_and_not_called_missing(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    setting.app.topic(late := f"{setting.topic}-late", DDL)
    setting.app.view("archive", late, KINDS["lake"])
    setting.app.view("late", late, KeyValue())
    with setting.host() as host:
        host.wait("archive", lambda status: status.state == "waiting")
        with pytest.raises(UnavailableError, match=r"archive of topic .* is not open yet: try again"):
            host.rebuild("late", "lake")
        host.delete("archive")
        with pytest.raises(ViewStoppedError, match="archive is deleted"):
            host.rebuild("late", "lake")
