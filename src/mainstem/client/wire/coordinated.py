"""Asking coordinators by the Kafka protocol: who coordinates a group or a transactional id is found once and kept.

Functions over a ``WireClient``, whose contract they have. A coordinator that has moved is looked for again, until the
client's time-out. What is known is kept with the client, and used by the thread that uses the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster import WireClient
from mainstem.client.wire.deadline import Deadline, pauses_s
from mainstem.client.wire.groups import find_coordinator
from mainstem.clock import SystemClock
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest
from mainstem.protocol.schema import Message

MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_MANY_FROM: Final = 4
_KNOWN: Final[WeakKeyDictionary[WireClient, dict[tuple[int, str], int]]] = WeakKeyDictionary()


def coordinators(client: WireClient, keys: Iterable[str], key_type: int) -> dict[str, int]:
    """The id of the broker that coordinates each of ``keys`` (GROUP or TRANSACTION); one request for all unknown."""
    known = _KNOWN.setdefault(client, {})
    asked = list(dict.fromkeys(keys))
    missing = [key for key in asked if (key_type, key) not in known]
    if len(missing) > 1 and client.version_of(FindCoordinatorRequest) >= _MANY_FROM:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=missing)
        answer = client.request(request, codes=lambda answer: [found.error_code for found in answer.coordinators])
        for found in answer.coordinators:
            if found.error_code != ErrorCode.NONE:
                raise error_of(found.error_code, f"{found.key!r} has no coordinator", found.error_message)
            known[key_type, found.key] = found.node_id
        missing = [key for key in missing if (key_type, key) not in known]
    for key in missing:
        known[key_type, key] = find_coordinator(client, key, key_type)
    return {key: known[key_type, key] for key in asked}


def forget_coordinator(client: WireClient, key: str, key_type: int) -> None:
    """Look for it anew at the next use: it has moved."""
    _KNOWN.setdefault(client, {}).pop((key_type, key), None)


def ask_coordinator(
    client: WireClient,
    request: Message,
    key: str,
    key_type: int,
    codes: Callable[[Any], Collection[int]],
    *,
    version_max: int | None = None,
) -> Any:
    """The coordinator's answer. The request may be sent twice. Raises LogUnavailableError; other codes are not read."""
    deadline = Deadline(SystemClock(), client.timeout_s)
    for pause_s in pauses_s():
        node = coordinators(client, [key], key_type)[key]
        answer = client.request(
            request,
            node,
            version_max=version_max,
            codes=lambda answer: [code for code in codes(answer) if code not in MOVED],
            resends=True,
        )
        if not MOVED.intersection(codes(answer)) or deadline.left_s() <= pause_s:
            return answer
        forget_coordinator(client, key, key_type)
        time.sleep(pause_s)
    raise AssertionError("the pauses never end")
