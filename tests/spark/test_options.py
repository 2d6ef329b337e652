"""The options of source and sink: what they have in common."""

from __future__ import annotations

import pytest

from mainstem.errors import ConfigError
from mainstem.spark.options.options import WriteOptions

LOG = {"kafka.bootstrap.servers": "localhost:9092"}


def test_the_address_of_the_log_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        WriteOptions.parse({"topic": "flights"})


def test_a_writer_does_not_take_an_option_of_reading() -> None:
    with pytest.raises(ConfigError, match="unknown option subscribe; for writing there are"):
        WriteOptions.parse({**LOG, "subscribe": "flights"})
