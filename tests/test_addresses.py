from __future__ import annotations

import pytest

from mainstem.addresses import Address, is_loopback, is_wildcard, parse_address, parse_bootstrap
from mainstem.errors import ConfigError


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a, b:1 ,", [("a", 9092), ("b", 1)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("PLAINTEXT://kafka-1.example:9092", [("kafka-1.example", 9092)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
    ],
)
def test_a_bootstrap_list_is_read(bootstrap: str | list[str], addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(bootstrap) == tuple(Address(*address) for address in addresses)


@pytest.mark.parametrize("bootstrap", ["", " , ", "a:b", "a:0", "a:65536", "a b:1", "::1:9092", "a/b:1", "a:²"])
def test_an_invalid_bootstrap_list_is_refused(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_bootstrap(bootstrap)


def test_an_address_shows_as_it_is_written() -> None:
    assert [str(Address("h", 1)), str(Address("::1", 2))] == ["h:1", "[::1]:2"]


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9092", ("127.0.0.1", 9092)), ("localhost:0", ("localhost", 0)), ("[::1]:9092", ("::1", 9092))],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "h", ":9092", "h:", "h:x", "h:65536", "h:-1", "h:²", "::1:9092", "h h:1", "h/h:1"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "only_this_machine"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_a_loopback_host_is_recognised(host: str, only_this_machine: bool) -> None:
    assert is_loopback(host) is only_this_machine


@pytest.mark.parametrize(("host", "is_every"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("x", False)])
def test_a_wildcard_host_is_recognised(host: str, is_every: bool) -> None:
    assert is_wildcard(host) is is_every
