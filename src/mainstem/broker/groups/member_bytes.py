"""How much a group's member may bring along: the node keeps it as long as the member lives.

Pure functions over requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mainstem.errors import FrameError

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def check_member_bytes(node: Node, held: Iterable[Any]) -> None:
    """See that a member's names, metadata or assignments fit. Raises FrameError, which closes the connection.

    Kafka bounds them by the record that keeps them, after it has taken them into memory.
    """
    size_bytes = sum(len(each or ()) for each in held)
    if size_bytes > node.group_member_bytes_max:
        raise FrameError(
            f"a group's member brings {size_bytes} bytes along; mainstem.group.member.bytes.max is "
            f"{node.group_member_bytes_max}"
        )
