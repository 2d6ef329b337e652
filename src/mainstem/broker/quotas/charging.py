"""The cost of a request: bytes in, bytes out, time on the loop, partitions created and deleted.

``Charge`` belongs to one request. It times the handler's work without its waits, and says at the end for how long to
mute the connection. Mutations are checked before the handler runs: over the quota, newer versions of an API are refused
(THROTTLING_QUOTA_EXCEEDED), older ones wait. Concurrency: the event loop only.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from mainstem.broker.access.refusals import refused_items
from mainstem.broker.api import Api, Mutations
from mainstem.broker.call import Answer, Call
from mainstem.broker.quotas.entities import CONSUMER_BYTES, MUTATIONS, PRODUCER_BYTES, REQUEST_PERCENT
from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from mainstem.broker.quotas.quotas import Quotas
    from mainstem.broker.storage.topics import Topics

_READING: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})


class Charge:
    """The cost of one request."""

    def __init__(self, quotas: Quotas, topics: Topics, api: Api, call: Call, size_bytes: int) -> None:
        self._quotas = quotas
        self._topics = topics
        self._api = api
        self._call = call
        self._size_bytes = size_bytes
        self._busy_ns = 0
        self._wait_s = 0.0
        self._refused: list[Any] = []

    def serve(self, handle: Callable[[], Answer | Awaitable[Answer]]) -> Answer | Awaitable[Answer]:
        """Serve the request by ``handle``; its work is timed, also where it waits in between."""
        if self._api.mutations is not None and not getattr(self._call.body, "validate_only", False):
            self._ask_for(self._api.mutations)
        begun_ns = time.perf_counter_ns()
        answer = handle()
        self._busy_ns += time.perf_counter_ns() - begun_ns
        return self._timed(answer) if isinstance(answer, Awaitable) else self._completed(answer)

    async def _timed(self, answer: Awaitable[Answer]) -> Answer:
        return self._completed(await _Timed(answer, self))

    def add_busy(self, nanoseconds: int) -> None:
        """Count work that was done for this request."""
        self._busy_ns += nanoseconds

    def _completed(self, answer: Answer) -> Answer:
        """The answer, with what was refused for too many mutations."""
        if self._refused and answer is not None and self._api.mutations is not None:
            field = self._api.mutations.answered
            setattr(answer, field, [*getattr(answer, field), *self._refused])
        return answer

    def _ask_for(self, mutations: Mutations) -> None:
        user, client_id = self._who
        if self._quotas.limit(MUTATIONS, user, client_id) is None:
            return
        is_strict = self._call.api_version >= mutations.strict_from
        response = entity(self._call.api_key, self._call.api_version, False)
        for field in mutations.asked:
            kept = []
            for item in getattr(self._call.body, field):
                count = mutations.partitions(self._topics, item)
                may, wait_s = self._quotas.may_mutate(user, client_id, count, strict=is_strict)
                self._wait_s = max(self._wait_s, wait_s)
                if may:
                    kept.append(item)
                else:
                    self._refused += refused_items(
                        response, mutations.answered, [item], ErrorCode.THROTTLING_QUOTA_EXCEEDED
                    )
            setattr(self._call.body, field, kept)

    @property
    def _who(self) -> tuple[str, str]:
        return self._call.principal.name, self._call.client_id or ""

    def throttle_ms(self, answer_bytes: int) -> int:
        """For how long the connection is not to be read from, all quotas considered."""
        if self._api.before_authentication:
            return 0
        quotas, (user, client_id) = self._quotas, self._who
        waits_s = [self._wait_s]
        if self._call.api_key == ApiKey.PRODUCE:
            waits_s.append(quotas.use(PRODUCER_BYTES, user, client_id, self._size_bytes))
        elif self._call.api_key in _READING:
            waits_s.append(quotas.use(CONSUMER_BYTES, user, client_id, answer_bytes))
        busy_percent = self._busy_ns / 1e9 * 100
        waits_s.append(min(quotas.use(REQUEST_PERCENT, user, client_id, busy_percent), quotas.longest_wait_s))
        return round(max(waits_s) * 1000)


class _Timed:
    """Awaits something, and counts the time between its pauses."""

    def __init__(self, awaitable: Awaitable[Answer], charge: Charge) -> None:
        self._awaitable = awaitable
        self._charge = charge

    def __await__(self) -> Generator[Any, Any, Answer]:
        steps = self._awaitable.__await__()
        step: Callable[[], Any] = lambda: next(steps)  # noqa: E731 - replaced by what the loop sends
        while True:
            begun_ns = time.perf_counter_ns()
            try:
                pause = step()
            except StopIteration as done:
                answer: Answer = done.value
                return answer
            finally:
                self._charge.add_busy(time.perf_counter_ns() - begun_ns)
            try:
                yield pause
            except BaseException as error:  # noqa: BLE001 - a cancellation goes on to who waits
                step = _thrower(steps, error)
            else:
                step = lambda: next(steps)  # noqa: E731


def _thrower(steps: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)
