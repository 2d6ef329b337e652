"""Guards around handlers, and the shapes that most guards have.

A guard is a generator. It removes from the request the items that the sender may not access, and yields. The handler
answers the rest; the ``yield`` returns that answer, and the guard adds the refusals to it. If a guard returns before it
yields, its return value is the answer, and the handler never runs. So handlers know nothing of authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.acls import ResourceType as Resource
from mainstem.broker.access.authorizer import Access
from mainstem.broker.access.refusals import refused_items, refused_request
from mainstem.broker.call import Answer, Call
from mainstem.protocol.apis import entity
from mainstem.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from mainstem.broker.storage.topics import Topics

Steps: TypeAlias = Generator[None, Any, Any]
Guard: TypeAlias = "Callable[[Topics, Call, Access], Steps]"

REFUSAL_OF = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def finish(steps: Steps, served: Answer) -> Answer:
    """Let a guard add its refusals to the handler's answer."""
    try:
        steps.send(served)
    except StopIteration as finished:
        answer: Answer = finished.value
        return answer
    raise AssertionError("a guard yields once")


# ---- the shapes


def open_to_all(topics: Topics, call: Call, access: Access) -> Steps:
    """Nothing is asked of the sender."""
    return (yield)


def on_cluster(*operations: Operation) -> Guard:
    """One of these operations on the cluster, or the whole request is refused."""

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        if not any(access.allows_on_cluster(operation) for operation in operations):
            return refused_request(call.api_key, call.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return (yield)

    return guard


def on_named(resource: Resource, operation: Operation, field: str) -> Guard:
    """An operation on what one field of the request names, or the whole request is refused."""

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        if not access.allows(operation, resource, getattr(call.body, field) or ""):
            return refused_request(call.api_key, call.api_version, REFUSAL_OF[resource])
        return (yield)

    return guard


def on_each(
    resource: Resource,
    operation: Operation,
    asked: str,
    answered: str,
    *,
    named: tuple[Resource, Operation, str] | None = None,
) -> Guard:
    """An operation on each item of the array ``asked``; the others are refused in the array ``answered``.

    ``named``: an operation on what a field of the request names, without which every item is refused: for requests
    whose answers have no error code of their own.
    """

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        response = entity(call.api_key, call.api_version, False)
        if named is not None and not access.allows(named[1], named[0], getattr(call.body, named[2]) or ""):
            answer = response.of_defaults()
            code = REFUSAL_OF[named[0]]
            setattr(answer, answered, refused_items(response, answered, getattr(call.body, asked), code))
            return answer
        kept, refused = split(topics, access, resource, operation, getattr(call.body, asked))
        if not refused:
            return (yield)
        setattr(call.body, asked, kept)
        answer = yield
        code = REFUSAL_OF[resource]
        items = refused_items(response, answered, refused, code)
        setattr(answer, answered, [*getattr(answer, answered), *items])
        return answer

    return guard


def on_topics(
    operation: Operation, answered: str = "topics", *, named: tuple[Resource, Operation, str] | None = None
) -> Guard:
    """An operation on each of the request's topics; the others are refused in the array ``answered``."""
    return on_each(Resource.TOPIC, operation, "topics", answered, named=named)


reads_group: Final = on_named(Resource.GROUP, Operation.READ, "group_id")
"""The right to read the group that the request names."""


def in_turn(*guards: Guard) -> Guard:
    """All of these guards; the first is the outermost."""

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        begun: list[Steps] = []
        for each in guards:
            steps = each(topics, call, access)
            try:
                next(steps)
            except StopIteration as refused:
                # Guards that have begun have taken something out: they put their refusals into this answer, too.
                return _unwind(begun, refused.value)
            begun.append(steps)
        return _unwind(begun, (yield))

    return guard


def _unwind(begun: list[Steps], answer: Any) -> Any:
    for steps in reversed(begun):
        answer = finish(steps, answer)
    return answer


# ---- what guards share


def split(
    topics: Topics, access: Access, resource: Resource, operation: Operation, items: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The items that the sender may do this to, and the others. An unknown topic id is left to the handler."""
    kept: list[Any] = []
    refused: list[Any] = []
    for item in items:
        name = item if isinstance(item, str) else name_of(topics, item)
        (kept if name is None or access.allows(operation, resource, name) else refused).append(item)
    return kept, refused


def name_of(topics: Topics, item: Any) -> str | None:
    """The name of an item, or of the topic whose id it has; None for an unknown id."""
    for field in ("name", "topic", "topic_name", "group_id", "transactional_id"):
        name = getattr(item, field, None)
        if isinstance(name, str) and name:
            return name
    topic_id = getattr(item, "topic_id", None)
    if topic_id is None:
        return ""
    topic = topics.by_id(topic_id)
    return topic.name if topic is not None else None
