from __future__ import annotations

import pytest

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.pool import Pool
from mainstem.errors import LogUnavailableError


def make() -> WireClient:
    return WireClient("127.0.0.1:1", timeout_s=0.1)


def test_a_client_is_used_again_and_never_by_two_at_once() -> None:
    pool = Pool(make)
    with pool.borrow() as first, pool.borrow() as second:
        assert first is not second
    with pool.borrow() as again:
        assert again in (first, second)


def test_a_closed_pool_lends_nothing_and_closes_what_comes_back() -> None:
    pool = Pool(make)
    with pool.borrow() as client:
        pool.close()
    with pytest.raises(LogUnavailableError, match="closed"):
        client.metadata()
    with pytest.raises(LogUnavailableError, match="closed"), pool.borrow():
        pass
