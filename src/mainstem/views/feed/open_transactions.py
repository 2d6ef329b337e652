"""The open transactions that hold back a position: for the text of a time-out, and only requested then.

A view applies committed records up to the last stable offset, which the first record of the oldest open transaction
bounds. A reader that waits for a later position should learn which transaction to look for. Safe from any thread.
"""

from __future__ import annotations

import logging

from mainstem.client.admin.open_transactions import open_transactions
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import MainstemError
from mainstem.model import Position

_LOG = logging.getLogger("mainstem.views")


def holding_back(client: WireClient, wanted: Position, topic: str) -> tuple[str, ...]:
    """The transactions open before ``wanted``, or anywhere in the view's ``topic``: their ids, with their partition.

    Empty when there are none, and when the log does not tell (it is away, or does not allow it).
    """
    try:
        return _holding_back(client, wanted, topic)
    except MainstemError as error:
        _LOG.debug("the open transactions of %s cannot be listed: %s", topic, error)
        return ()


def _holding_back(client: WireClient, wanted: Position, topic: str) -> tuple[str, ...]:
    return tuple(
        f"{each.owner} (since {each.topic_partition}:{each.first_offset})"
        for each in open_transactions(client, {topic, *wanted.topics})
        if each.first_offset < wanted.get(each.topic_partition, each.first_offset + 1)
    )
