"""Requests to coordinators by the Kafka protocol: the coordinator of a group or transactional id is looked up once.

Functions over a ``WireClient``, whose contract they have. A coordinator that has moved is looked for again, until the
client's time-out. Known coordinators are kept with the client, for the thread that uses the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.deadline import Deadline, pauses_s
from mainstem.client.wire.connection.transport import NotConnectedError
from mainstem.clock import SystemClock
from mainstem.errors import LogUnavailableError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mainstem.protocol.schema import Message

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1
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
    """Drop a cached coordinator, because it has moved: the next use looks it up again."""
    _KNOWN.setdefault(client, {}).pop((key_type, key), None)


def wherever_it_is(client: WireClient, ask: Callable[[], T]) -> T:
    """The result of ``ask``, which is retried until the time-out while its broker cannot be connected to."""
    deadline = Deadline(SystemClock(), client.timeout_s)
    for pause_s in pauses_s():
        try:
            return ask()
        except NotConnectedError as error:
            if deadline.left_s() <= pause_s:
                raise LogUnavailableError(f"gave up after {deadline.timeout_s:g} s: {error}") from error
        time.sleep(pause_s)
    raise AssertionError("the pauses never end")


def find_coordinator(client: WireClient, key: str, key_type: int = GROUP) -> int:
    """The id of the broker that coordinates a group (or, with TRANSACTION, a transactional id)."""
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    code, said, node = _coordinator(client.request(request, codes=lambda answer: [_coordinator(answer)[0]]))
    if code != ErrorCode.NONE:
        raise error_of(code, f"{key!r} has no coordinator", said)
    return node


def ask_coordinator(
    client: WireClient,
    request: Message,
    key: str,
    key_type: int,
    codes: Callable[[Any], Collection[int]],
    *,
    version_max: int | None = None,
    resends: bool = True,
) -> Any:
    """The coordinator's answer; unless it ``resends``, the request is sent once. Other codes are not read.

    A coordinator that has moved, or that cannot be connected to, is looked for again. Raises LogUnavailableError.
    """
    deadline = Deadline(SystemClock(), client.timeout_s)
    for pause_s in pauses_s():
        node = coordinators(client, [key], key_type)[key]
        try:
            answer = client.request(
                request,
                node,
                version_max=version_max,
                codes=lambda answer: [code for code in codes(answer) if code not in MOVED],
                resends=resends,
                moves=True,
            )
        except NotConnectedError as error:
            if deadline.left_s() <= pause_s:
                raise LogUnavailableError(f"gave up after {deadline.timeout_s:g} s: {error}") from error
        else:
            if not MOVED.intersection(codes(answer)) or deadline.left_s() <= pause_s:
                return answer
        forget_coordinator(client, key, key_type)
        time.sleep(pause_s)
    raise AssertionError("the pauses never end")


def _coordinator(answer: FindCoordinatorResponse) -> tuple[int, str | None, int]:
    """Error code, error message and node id, from either shape of the answer."""
    found = answer.coordinators[0] if answer.coordinators else answer
    return found.error_code, found.error_message, found.node_id
