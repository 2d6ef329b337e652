"""The verifiable log of a topic over HTTP: what a client of tlog-tiles asks for, and what it must not get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.tlog.checkpoints import open_checkpoint
from mainstem.tlog.key_file import create_keys
from mainstem.tlog.leaf import LEAF_BYTES
from mainstem.tlog.notes import SigningKey
from mainstem.tlog.proofs import decode_proof
from tests.gateway.served import served


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys"


@pytest.fixture(scope="module")
def key(key_file: Path) -> SigningKey:
    return create_keys(key_file, "log.example.com")


@pytest.fixture(scope="module")
def api(key: SigningKey, key_file: Path) -> Iterator[httpx.Client]:
    settings = {"mainstem.signing.keys": str(key_file)}
    with EmbeddedBroker(settings=settings) as broker, Log(broker.bootstrap, timeout_s=10) as log:
        log.create_topic("ledger", partitions=2, configs={"mainstem.verifiable": "true"})
        log.create_topic("plain", partitions=1)
        for number in range(3):
            log.append("ledger", {"n": number}, key="ada", partition=0)
        with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as client:
            yield client


def test_the_checkpoint_is_signed_and_not_kept(api: httpx.Client, key: SigningKey) -> None:
    answer = api.get("/topics/ledger/tlog/0/checkpoint")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    checkpoint = open_checkpoint(answer.content, [key.verifier()])
    assert checkpoint.size == 3
    assert checkpoint.origin.startswith("log.example.com/ledger/")
    assert open_checkpoint(api.get("/topics/ledger/tlog/1/checkpoint").content, [key.verifier()]).size == 0


def test_tiles_and_bundles_never_change_and_may_be_kept(api: httpx.Client) -> None:
    tile, bundle = (api.get(f"/topics/ledger/tlog/0/tile/{each}/000.p/3") for each in ("0", "entries"))
    assert (len(tile.content), len(bundle.content)) == (96, 3 * (LEAF_BYTES + 2))
    for answer in (tile, bundle):
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["cache-control"] == "max-age=31536000, immutable"
    assert api.get("/topics/ledger/tlog/0/tile/0/000.p/2").content == tile.content[:64]


def test_a_proof_is_a_file(api: httpx.Client, key: SigningKey) -> None:
    proof = decode_proof(api.get("/topics/ledger/tlog/0/proof/2").content)
    assert proof.verify([key.verifier()]).leaf.base_offset == 2
    assert b"ada" in proof.batch


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("ledger/tlog/0/tile/0/000", 404),
        ("ledger/tlog/0/tile/0/000.p/4", 404),
        ("ledger/tlog/0/tile/1/000.p/1", 404),
        ("ledger/tlog/0/tile/0/000.p/0", 400),
        ("ledger/tlog/0/tile/00/000", 400),
        ("ledger/tlog/0/tile/64/000", 400),
        ("ledger/tlog/0/tile/0/x000/000", 400),
        ("ledger/tlog/2/checkpoint", 404),
        ("ledger/tlog/x/checkpoint", 400),
        ("nothing/tlog/0/checkpoint", 404),
        ("plain/tlog/0/checkpoint", 400),
        ("ledger/tlog/0/proof/3", 416),
    ],
)
def test_what_is_not_there_is_a_problem(api: httpx.Client, path: str, status: int) -> None:
    answer = api.get(f"/topics/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text


def test_a_topic_that_is_not_verifiable_says_what_to_set(api: httpx.Client) -> None:
    assert "mainstem.verifiable=true" in api.get("/topics/plain/tlog/0/checkpoint").json()["detail"]
