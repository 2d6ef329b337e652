"""A view's changes as events: asked of a view host's socket, and relayed by the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views import view_stream
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.pipelines.deploy import deploy
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from mainstem.views.subscriptions.change_rows import ChangeSubscription, RowChanges
from tests.gateway.served import listening_on, served
from tests.gateway.sse import Event, EventReader, reading

TOPIC = "view-stream-notes"


def declared() -> ms.App:
    app = ms.App("view-stream-tests")
    notes = app.topic(TOPIC, schema="id STRING NOT NULL, text STRING", key="id", partitions=2)
    app.view("notes", notes, ms.KeyValue())
    app.view("notes-table", notes, ms.SQL())
    return app


@pytest.fixture(scope="module")
def host(session_log: Log, mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    deploy(declared(), session_log)
    views = tuple(declared().views.values())
    with ViewHost(views, mainstem_broker.bootstrap, tmp_path_factory.mktemp("views")) as host:
        for view in declared().views:
            host.wait(view, lambda status: status.state == "live")
        yield host


@pytest.fixture(scope="module", params=["host", "gateway"])
def api(
    request: pytest.FixtureRequest, host: ViewHost, session_log: Log, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    socket: Path = tmp_path_factory.mktemp("socket") / "s"
    with listening_on(create_host_app(host), listen_unix(socket)):
        if request.param == "host":
            transport = httpx.HTTPTransport(uds=str(socket))
            with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client:
                yield client
            return
        with served(create_app(session_log, ForwardingBackend([socket]), GatewayLimits(requests_max=3))) as client:
            yield client


def noted(log: Log, key: str, text: str | None) -> Position:
    return log.append(TOPIC, None if text is None else {"id": key, "text": text}, key=key)


def texts(events: list[Event]) -> list[tuple[str, str | None]]:
    return [(event.data["key"], event.data["row"] and event.data["row"]["text"]) for event in events]


def until(reader: EventReader, position: Position) -> list[Event]:
    """The events up to one whose id covers a position."""
    events: list[Event] = []
    while not events or not Position.parse(reader.last_id).covers(position):
        events += reader.take(1)
    return events


def test_a_key_is_bound_to_its_row(api: httpx.Client, session_log: Log, host: ViewHost) -> None:
    noted(session_log, "bound", "one")
    with reading(api, "/views/notes/stream", key="bound") as reader:
        while texts(reader.take(1)) != [("bound", "one")]:
            continue
        end = noted(session_log, "bound", "two")
        (event,) = until(reader, end)
        assert texts([event]) == [("bound", "two")]
        assert Position.parse(event.data["position"]).covers(end)
        end = noted(session_log, "bound", None)
        assert texts(until(reader, end)) == [("bound", None)]


def test_a_prefix_is_followed_and_resumed(api: httpx.Client, session_log: Log, host: ViewHost) -> None:
    with reading(api, "/views/notes/stream", prefix="p/") as reader:
        noted(session_log, "other", "x")
        end = noted(session_log, "p/1", "one")
        assert texts(until(reader, end)) == [("p/1", "one")]
    noted(session_log, "p/1", "never told")
    noted(session_log, "p/2", "two")
    end = noted(session_log, "p/1", "newest")
    with reading(api, "/views/notes/stream", reader.last_id, prefix="p/") as again:
        told = dict(texts(until(again, end)))
    assert told["p/1"] == "newest"
    assert told["p/2"] == "two"


def test_other_kinds_tell_that_they_changed(api: httpx.Client, session_log: Log) -> None:
    with reading(api, "/views/notes-table/stream") as reader:
        reader.begun()
        end = noted(session_log, "any", "x")
        event = until(reader, end)[-1]
    assert (event.name, list(event.data)) == ("changed", ["position"])


def test_a_rebuild_is_told_as_a_reset(api: httpx.Client, session_log: Log) -> None:
    noted(session_log, "kept", "as it was")
    with reading(api, "/views/notes/stream", key="kept") as reader:
        while texts(reader.take(1)) != [("kept", "as it was")]:
            continue
        assert api.post("/views/notes/rebuild").status_code == 200
        while reader.take(1)[0].name != "reset":
            continue
        assert texts(reader.take(1)) == [("kept", "as it was")]


@pytest.mark.parametrize(
    ("path", "last_id", "status", "slug"),
    [
        ("nope/stream", "", 404, "unknown-view"),
        ("notes/stream?key=a&prefix=b", "", 400, "query"),
        ("notes/stream?from=earliest", "", 400, "position-format"),
        ("notes/stream?from=elsewhere/0:1", "", 400, "position"),
        ("notes/stream", "what", 400, "position-format"),
        ("notes/stream?kee=a", "", 400, "input"),
        ("notes-table/stream?key=a", "", 400, "query"),
    ],
)
def test_bad_input_is_a_problem(api: httpx.Client, path: str, last_id: str, status: int, slug: str) -> None:
    answer = api.get(f"/views/{path}", headers={"Last-Event-ID": last_id} if last_id else {})
    assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{slug}")


def test_many_streams_leave_room_for_requests(api: httpx.Client, session_log: Log) -> None:
    noted(session_log, "crowd", "x")
    with ExitStack() as open_streams:
        readers = [open_streams.enter_context(reading(api, "/views/notes/stream", key="crowd")) for _ in range(20)]
        assert [len(reader.take(1)) for reader in readers] == [1] * 20
        assert api.get("/views/notes/keys/crowd").status_code == 200


def test_a_client_that_goes_is_forgotten(api: httpx.Client, host: ViewHost) -> None:
    with reading(api, "/views/notes/stream", key="gone") as reader:
        reader.take(1)
        assert len(host._views["notes"]._watchers) >= 1
    while len(host._views["notes"]._watchers):
        api.get("/views")


class ComesMeanwhile:
    """A watch whose view reaches the client's position during ``next``, without a wake-up."""

    began, position, is_held = Position(), None, True

    def next(self) -> RowChanges | None:
        if self.is_held:
            self.is_held = False
            return None
        return RowChanges([("k", {"a": 1})], Position.of("t", 0, 1), Position.of("t", 0, 1), False, True)


def test_a_stream_that_was_held_looks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_stream, "BEAT_S", 3_600.0)

    async def main() -> bytes:
        blocks = view_stream._blocks(cast("ChangeSubscription", ComesMeanwhile()), view_stream.Wake(), Workers(1))
        async with asyncio.timeout(60):
            return (await anext(blocks)) + (await anext(blocks))

    assert b'"key":"k"' in asyncio.run(main())
