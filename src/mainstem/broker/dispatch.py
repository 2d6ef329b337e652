"""Serves a request: the handler of its API, behind the API's guard where the node has an authorizer."""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.access.authorizer import Access
from mainstem.broker.access.guards import Guard, Steps, finish
from mainstem.broker.api import Api
from mainstem.broker.apis import APIS
from mainstem.broker.call import Answer, Call
from mainstem.broker.node import Node


class Dispatcher:
    """Serves the requests of one node. Concurrency: the event loop only."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._guards = {
            key: api.guard for key, api in APIS.items() if node.authorizer is not None or api.describes_permissions
        }

    def serve(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Serve a request as far as its sender is authorized. Raises FrameError."""
        guard = self._guards.get(api.key)
        if guard is None:
            return api.handle(self._node, call)
        access = Access(self._node.authorizer, call.principal, call.client_host[1:])
        return _run_guarded(guard, self._node, api, call, access)


def _run_guarded(guard: Guard, node: Node, api: Api, call: Call, access: Access) -> Answer | Awaitable[Answer]:
    """Serve a request behind its guard."""
    steps = guard(node.topics, call, access)
    try:
        next(steps)
    except StopIteration as refused:
        answer: Answer = refused.value
        return answer
    served = api.handle(node, call)
    if isinstance(served, Awaitable):
        return _finish_later(steps, served)
    return finish(steps, served)


async def _finish_later(steps: Steps, served: Awaitable[Answer]) -> Answer:
    return finish(steps, await served)
