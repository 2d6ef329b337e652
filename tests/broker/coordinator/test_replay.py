"""An internal topic read whole."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from mainstem.broker.coordinator.replay import replay
from tests.log.support import Node

LOG = logging.getLogger("test")


def replayed(node: Node) -> list[bytes | None]:
    topic: Any = SimpleNamespace(logs=[node.log])
    values: list[bytes | None] = []
    damaged = replay(topic, lambda _log, _header, records: values.extend(each.value for each in records), LOG, "things")
    assert damaged == set()
    return values


def test_every_durable_record_is_given_in_order() -> None:
    node = Node()
    node.commit(b"a", b"b", b"c")
    node.append(b"not durable")
    assert replayed(node) == [b"a", b"b", b"c"]


def test_a_log_that_starts_inside_a_batch_gives_what_is_left_of_it() -> None:
    node = Node()
    node.append(b"a", b"b", b"c")
    node.log.flush()
    node.log.delete_records(2)
    assert replayed(node) == [b"c"]


def test_a_topic_that_is_not_there_has_nothing() -> None:
    assert replay(None, lambda *_: None, LOG, "things") == set()
