"""What an error of a request means for a transaction, without a log."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mainstem.client.wire.produce.transactions import TransactionalProducer
from mainstem.errors import InvalidTransactionStateError, LogUnavailableError, ProducerFencedError


@pytest.mark.parametrize("error", [InvalidTransactionStateError("no transaction"), LogUnavailableError("it is away")])
def test_an_error_that_says_it_all_keeps_its_cause(error: Exception) -> None:
    cause = OSError("connection refused")
    producer = TransactionalProducer(cast(Any, None), "t")
    with pytest.raises(type(error)) as raised, producer.explaining():
        raise error from cause
    assert (raised.value, raised.value.__cause__) == (error, cause)


def test_a_fenced_producer_is_explained_by_the_refusal() -> None:
    refusal = ProducerFencedError("PRODUCER_FENCED")
    producer = TransactionalProducer(cast(Any, None), "t")
    with pytest.raises(ProducerFencedError, match="another producer has taken over") as raised, producer.explaining():
        raise refusal
    assert raised.value.__cause__ is refusal
