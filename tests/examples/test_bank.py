"""The bank of the examples: no overdraft under 64 writers, and everyone reads their own balance."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from examples import bank
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.deploy import deploy
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served

WRITERS = 64


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bank's log, view and gateway."""
    directory = tmp_path_factory.mktemp("bank")
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        deploy(bank.app, log)
        with ViewHost(tuple(bank.app.views.values()), broker.bootstrap, directory) as host:
            host.wait("balances", lambda status: status.state == "live", 120)
            with listening_on(create_host_app(host), listen_unix(directory / "s")):
                with served(create_app(log, ForwardingBackend([directory / "s"]), GatewayLimits())) as client:
                    yield str(client.base_url)


def test_64_writers_at_once_do_not_overdraw_an_account(gateway: str) -> None:
    bank.pay(gateway, "ada", 100)

    def take_10(_: int) -> bool:
        try:
            bank.pay(gateway, "ada", -10)
        except bank.OverdraftError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as writers:
        paid = list(writers.map(take_10, range(WRITERS)))
    assert sum(paid) == 10
    assert bank.look(gateway, "ada", bank.end_of(gateway, "ada"))["balance"] == 0


def test_who_pays_reads_the_balance_that_the_payment_made(gateway: str) -> None:
    def save(name: str) -> list[int]:
        return [bank.look(gateway, name, bank.pay(gateway, name, 1))["balance"] for _ in range(10)]

    names = [f"saver {number}" for number in range(4)]
    with ThreadPoolExecutor(len(names)) as savers:
        assert list(savers.map(save, names)) == [list(range(1, 11))] * len(names)


def test_a_payment_out_of_an_empty_account_is_refused(gateway: str) -> None:
    with pytest.raises(bank.OverdraftError, match="bob has 0"):
        bank.pay(gateway, "bob", -1)
