from __future__ import annotations

import pytest

from mainstem.client.wire.connection.address import Address, parse_bootstrap
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


@pytest.mark.parametrize("bootstrap", ["", " , ", "a:b", "a:0", "a:65536", "a b:1", "::1:9092"])
def test_what_is_no_address_is_refused(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_bootstrap(bootstrap)


def test_an_address_shows_as_it_is_written() -> None:
    assert [str(Address("h", 1)), str(Address("::1", 2))] == ["h:1", "[::1]:2"]
