"""A record on its way through two real pipelines to a view: each step is named, and what stands still is, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import TopicPartition
from mainstem.pipelines.kinds import KeyValue
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery
from tests.cli.commands import Commands, Done
from tests.gateway.served import listening_on, served
from tests.house.pages import ROOT, blocks_of, lines_of_console, not_in_form
from tests.pipelines.journey.told import left_open
from tests.spark.flights_app import Flights
from tests.support.eventually import eventually

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.spark


def declare(world: Flights) -> None:
    """Flights → late (by flight) → totals (by carrier), with a view of the totals."""
    late, totals = f"{world.prefix}.late", f"{world.prefix}.totals"

    @world.app.pipeline(world.flights, into=late, key="flight_id", name=f"{world.prefix}-late")
    def late_flights(flights: Any) -> Any:
        return flights.where("delay > 0").select("flight_id", "carrier", "delay")

    @world.app.pipeline(late, into=totals, key="carrier", mode="update", name=f"{world.prefix}-totals")
    def total_delays(rows: Any) -> Any:
        return rows.groupBy("carrier").sum("delay").toDF("carrier", "delay")

    world.app.view(f"{world.prefix}-by-carrier", totals, KeyValue())


@contextmanager
def gateway(world: Flights, directory: Path) -> Iterator[tuple[ViewHost, httpx.Client]]:
    """The App's views, and the gateway over them."""
    views, pipelines = tuple(world.app.views.values()), tuple(world.app.pipelines.values())
    with (
        ViewHost(views, world.bootstrap, directory / "views", pipelines=pipelines) as host,
        listening_on(create_host_app(host), listen_unix(directory / "s")),
        served(create_app(world.log, ForwardingBackend([directory / "s"]), GatewayLimits())) as api,
    ):
        yield host, api


def of_carrier(world: Flights, carrier: str) -> str:
    """The place of the newest flight of a carrier."""
    [record] = [each for each in world.log.read(world.flights.name) if carrier.encode() in (each.value or b"")]
    return f"{record.topic}/{record.partition}:{record.offset}"


def test_a_flight_is_followed_to_the_view_that_answers_and_what_stands_still_is_named(
    world: Flights, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(world)
    world.fly(("AA", 5), ("BB", -1))
    view = f"{world.prefix}-by-carrier"
    with gateway(world, tmp_path) as (host, api):
        monkeypatch.setenv("MAINSTEM_URL", str(api.base_url))
        command = Commands(capsys)

        def why(place: str) -> Done:
            return command.run("why", place)

        with world.running():
            wanted = world.fly(("ZZ", 7))
            place = of_carrier(world, "ZZ")
            host.query(view, GetQuery("ZZ"), ReadOptions(wanted, 120.0))  # the view answers, so the record has arrived
            eventually(lambda: why(place).out.count(" in micro-batch ") == 2, "both micro-batches are noted")
            arrived = why(place)
        assert arrived.code == 0, arrived.out
        for said in (
            f"pipeline {world.prefix}-late read it from {world.prefix}.flights in micro-batch ",
            f"{world.prefix}.late/",
            f"pipeline {world.prefix}-totals read it from {world.prefix}.late in micro-batch ",
            f"view {view} has applied {world.prefix}.totals/",
        ):
            assert said in arrived.out
        [derived] = [each for each in world.log.read(f"{world.prefix}.totals") if each.key == b"ZZ"]
        back = why(f"{derived.topic}/{derived.partition}:{derived.offset}").out
        assert f"was derived by pipeline {world.prefix}-totals in micro-batch " in back
        assert f"reflects its inputs up to {world.prefix}.flights/" in back

        world.fly(("QQ", 9))  # the pipelines have stopped
        stopped = why(of_carrier(world, "QQ"))
        assert stopped.code == 5
        [page] = (block for block in blocks_of(ROOT / "docs/howto/find-record.md") if block.mark == "spark")
        [(_, shown)] = lines_of_console(page.text)
        assert not_in_form(shown, stopped.out) == []

        host.delete(view)
        assert f"waits: view {view} is deleted" in why(place).out

        with left_open(world.log, "till-7", world.flights.name):
            end = world.log.end(world.flights.name)[TopicPartition(world.flights.name, 0)]
            assert "waits: transaction till-7 (producer" in why(f"{world.flights.name}/0:{end - 1}").out
