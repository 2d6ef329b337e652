"""Answers and verifications of a view over a verifiable topic carry the checkpoints that cover them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mainstem as ms
from mainstem.cli.main import execute
from mainstem.client.http.views import Views
from mainstem.client.log import Log
from mainstem.errors import ConfigError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.tlog.checkpoints import open_checkpoint
from mainstem.tlog.notes import SigningKey
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served
from tests.tlog.support import broker_on, make_key

_BALANCES = ms.KeyValue()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.getbasetemp() / "checkpoints")


@pytest.fixture(scope="module")
def node(key: SigningKey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Log, Views, str]]:
    """A log that signs, with a view of a verifiable topic and one of a plain topic."""
    directory = tmp_path_factory.getbasetemp() / "checkpoints"
    app = ms.App("checkpoints")
    ledger = app.topic("ledger", "name STRING, balance INT", key="name", partitions=2)
    plain = app.topic("plain", "name STRING, balance INT", key="name")
    app.view("balances", ledger, _BALANCES)
    app.view("others", plain, _BALANCES)
    with broker_on(directory) as broker, Log(broker.bootstrap, timeout_s=20) as log:
        log.create_topic("ledger", partitions=2, configs={"mainstem.verifiable": "true"})
        log.create_topic("plain", partitions=1)
        with ViewHost(tuple(app.views.values()), broker.bootstrap, directory / "views") as host:
            with listening_on(create_host_app(host), listen_unix(directory / "s")):
                with served(create_app(log, ForwardingBackend([directory / "s"]), GatewayLimits())) as client:
                    yield log, ms.views(str(client.base_url)), str(client.base_url)


def test_an_answer_carries_the_checkpoints_that_cover_its_position(
    node: tuple[Log, Views, str], key: SigningKey
) -> None:
    log, views, _ = node
    for number in range(20):
        position = log.append("ledger", {"name": "ada", "balance": number}, key="ada")
        answer = views["balances"].get("ada", at_least=position, checkpoints=True)
        assert answer.row is not None
        assert answer.row["balance"] == number
        [(tp, offset)] = position.items()
        checkpoint = open_checkpoint(answer.checkpoints[str(tp)].encode(), [key.verifier()])
        assert checkpoint.origin.startswith("log.example.com/ledger/")
        assert checkpoint.size >= log.prove("ledger", tp.partition, offset - 1).index + 1
    assert set(answer.checkpoints) == {str(each) for each in answer.position}
    assert views["balances"].get("ada").checkpoints == {}
    ranged = views["balances"].range(checkpoints=True)
    assert (len(ranged.rows), set(ranged.checkpoints)) == (1, {str(each) for each in ranged.position})


def test_a_topic_that_is_not_verifiable_is_refused(node: tuple[Log, Views, str]) -> None:
    log, views, _ = node
    position = log.append("plain", {"name": "bob", "balance": 1}, key="bob")
    with pytest.raises(ConfigError, match="verifiable"):
        views["others"].get("bob", at_least=position, checkpoints=True)


def test_a_verification_has_the_checkpoints_of_what_it_compared(
    node: tuple[Log, Views, str], key: SigningKey, capsys: pytest.CaptureFixture[str]
) -> None:
    log, views, url = node
    position = log.append("ledger", {"name": "eve", "balance": 7}, key="eve")
    views["balances"].get("eve", at_least=position)
    result = views["balances"].verify()
    assert result["equal"]
    for partition, note in result["checkpoints"].items():
        assert partition.startswith("ledger/")
        assert open_checkpoint(note.encode(), [key.verifier()]).size > 0
    assert views["others"].verify()["checkpoints"] == {}
    assert execute(["views", "verify", "balances", "--url", url]) == 0
    assert "its topic is verifiable" in capsys.readouterr().out


def test_a_checkpoint_that_covers_no_offset_yet_is_not_given(node: tuple[Log, Views, str]) -> None:
    log, _, _ = node
    end = log.append("ledger", {"name": "ada", "balance": 1}, key="ada")
    [(tp, offset)] = end.items()
    reader = log.tree("ledger", tp.partition)
    assert reader.checkpoint_covering(offset)
    assert reader.checkpoint_covering(0)
    with pytest.raises(ms.errors.UnavailableError, match="covers all before offset"):
        reader.checkpoint_covering(offset + 1)
