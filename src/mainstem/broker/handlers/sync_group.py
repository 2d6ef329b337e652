"""SyncGroup (14), versions 0–5: a classic group's member asks for its assignment; the leader brings everyone's.

Answered when the assignment is there and durable.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from mainstem.broker.api import Answer, Api, Call
from mainstem.broker.groups.member_bytes import check_member_bytes
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    """Serve one request; the top of the file says how."""
    for each in call.body.assignments:
        check_member_bytes(node, (each.assignment,))
    return node.groups.classic.sync(call)


API = Api(ApiKey.SYNC_GROUP, Versions(0, 5), handle)
