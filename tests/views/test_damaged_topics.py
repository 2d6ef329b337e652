"""Every kind of view over a topic with a batch that cannot be read: it stops by name, or skips by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import ViewStoppedError
from mainstem.model import Position, TopicPartition
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from tests.support.damage import DAMAGES, Damage, plant
from tests.views.hosting import EVERY_KIND, GET, REQUESTS, Setting


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "log") as broker:
        yield broker


@pytest.fixture
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap, timeout_s=10) as log:
        yield log


def filled(setting: Setting, batches: int = 3) -> Position:
    """Batches of two flights each, from offset 0 on."""
    for first in range(0, 2 * batches, 2):
        flights = [(f"{n}", {"origin": "A", "dest": f"B{n}", "miles": n}) for n in (first, first + 1)]
        end = setting.log.append_many(setting.topic, flights)
    return end


def damage(broker: EmbeddedBroker, setting: Setting, offset: int, how: Damage) -> tuple[int, int]:
    broker._stop_broker()
    found = plant(broker.directory, TopicPartition(setting.topic, 0), offset, how)
    broker.start()
    return found


def records_in(host: ViewHost, view: str, position: Position) -> int:
    """How many of the flights the view holds."""
    rows = host.query(view, REQUESTS[view], ReadOptions(at_least=position)).rows
    if view == "metrics":
        return sum(row["records"] for row in rows)
    return len(rows)


def letters(setting: Setting, view: str) -> list[dict[str, bytes | None]]:
    topic = setting.app.views[view].dead_letter_topic
    return [dict(letter.headers) for letter in setting.log.read(topic)] if topic in setting.log.topics() else []


@pytest.mark.parametrize("how", DAMAGES)
def test_every_kind_of_view_stops_at_damage_and_says_what_to_do(
    broker: EmbeddedBroker, log: Log, tmp_path: Path, how: Damage
) -> None:
    setting = Setting(log, tmp_path / "views", EVERY_KIND)
    end = filled(setting)
    damage(broker, setting, 3, how)
    with setting.host() as host:
        for view in EVERY_KIND:
            require_stopped(host, setting, view)
            with pytest.raises(ViewStoppedError, match="0:2-3"):
                host.query(view, REQUESTS[view], ReadOptions(at_least=end))


def require_stopped(host: ViewHost, setting: Setting, view: str) -> None:
    status = host.wait(view, lambda status: status.state == "stopped")
    assert f"{setting.topic}/0:2-3 cannot be read" in status.detail
    assert 'on_damaged="skip"' in status.detail


def test_every_kind_of_view_skips_each_damage_by_name_over_restarts_and_rebuilds(
    broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    setting = Setting(log, tmp_path / "views", EVERY_KIND, on_damaged="skip")
    end = filled(setting, batches=7)
    for offset, how in zip((2, 6, 10), DAMAGES, strict=True):
        damage(broker, setting, offset, how)
    for is_first in (True, False):
        with setting.host() as host:
            for view in EVERY_KIND:
                assert records_in(host, view, end) == 8
                if is_first:
                    host.rebuild(view)
                assert host.verify(view).equal
                status = host.wait(view, lambda status: status.state == "live")
                assert (status.damaged_offsets, status.dead_letters) == (6, 0)
                for letter, first in zip(letters(setting, view), (2, 6, 10), strict=True):
                    place = (letter["mainstem.topic"], letter["mainstem.partition"], letter["mainstem.offset"])
                    assert place == (setting.topic.encode(), b"0", str(first).encode())
                    said = f"{setting.topic}/0:{first}-{first + 1} cannot be read"
                    assert (letter["mainstem.error"] or b"").startswith(said.encode())


def test_a_stopped_view_goes_on_when_its_app_says_skip_and_keeps_what_it_has(
    broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    setting = Setting(log, tmp_path / "views")
    end = filled(setting)
    damage(broker, setting, 3, "garbage")
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "stopped")
    setting.app._views["kv"] = setting.app.views["kv"].__class__(
        setting.app.name, "kv", setting.app.topics[setting.topic], setting.app.views["kv"].kind, on_damaged="skip"
    )
    with setting.host() as host:
        assert records_in(host, "kv", end) == 4
        [status] = host.status("kv")
        assert (status.damaged_offsets, status.built_from is not None) == (2, True)


def test_past_states_and_watches_pass_skipped_damage(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    setting = Setting(log, tmp_path / "views", ("kv", "sql"), on_damaged="skip")
    end = filled(setting)
    damage(broker, setting, 3, "checksum")
    with setting.host() as host:
        for view in ("kv", "sql"):
            records_in(host, view, end)
            past = ReadOptions(as_of=Position.of(setting.topic, 0, 5))
            assert len(host.query(view, REQUESTS[view], past).rows) == 3
        setting.append("0", miles=99)
        assert host.query("kv", GET, ReadOptions(at_least=log.end(setting.topic))).rows[0]["miles"] == 1


@pytest.mark.parametrize("how", DAMAGES)
def test_a_state_as_of_a_time_passes_skipped_damage(
    broker: EmbeddedBroker, log: Log, tmp_path: Path, how: Damage
) -> None:
    setting = Setting(log, tmp_path / "views", on_damaged="skip")
    end = filled(setting)
    damage(broker, setting, 0, how)
    with setting.host() as host:
        assert records_in(host, "kv", end) == 4
        answer = host.query("kv", REQUESTS["kv"], ReadOptions(as_of=1))
        assert (answer.rows, answer.position) == ([], Position.of(setting.topic, 0, 2))
