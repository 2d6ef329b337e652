"""Guards of group requests that need more than the common shapes of ``guards``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.acls import ResourceType as Resource
from mainstem.broker.access.authorizer import Access
from mainstem.broker.access.guards import REFUSAL_OF, Guard, Steps, split
from mainstem.broker.access.refusals import refused_items, refused_request
from mainstem.broker.call import Call
from mainstem.protocol.apis import entity
from mainstem.protocol.errors import ErrorCode, describe
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mainstem.protocol.messages.list_groups import ListGroupsResponse
from mainstem.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from mainstem.broker.storage.topics import Topics

_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_MANY_KEYS_FROM: Final = 4
_MANY_GROUPS_FROM: Final = 8
_OWN_ERROR_FROM: Final = 2
_KEYS: Final = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID}


def find_coordinator(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each group or transactional id; the keys of share groups are the brokers' own: ClusterAction."""
    body: FindCoordinatorRequest = call.body
    resource = _KEYS.get(body.key_type)
    if resource is None:
        if not access.allows_on_cluster(Operation.CLUSTER_ACTION):
            return _no_coordinator(call, list(body.coordinator_keys), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return (yield)
    if call.api_version < _MANY_KEYS_FROM:
        if not access.allows(Operation.DESCRIBE, resource, body.key):
            return _no_coordinator(call, [], REFUSAL_OF[resource])
        return (yield)
    body.coordinator_keys, refused = split(topics, access, resource, Operation.DESCRIBE, body.coordinator_keys)
    answer: FindCoordinatorResponse = yield
    denied = _no_coordinator(call, refused, REFUSAL_OF[resource]).coordinators
    answer.coordinators = [*answer.coordinators, *denied]
    return answer


def _no_coordinator(call: Call, keys: list[str], code: ErrorCode) -> FindCoordinatorResponse:
    answer = FindCoordinatorResponse(error_code=code, error_message=describe(code).message, node_id=-1, port=-1)
    denied = refused_items(FindCoordinatorResponse, "coordinators", keys, code)
    for item in denied:
        item.node_id = item.port = -1
    answer.coordinators = denied
    return answer


def list_groups(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on the cluster shows all groups, on a group that one."""
    answer: ListGroupsResponse = yield
    if not access.allows_on_cluster(Operation.DESCRIBE):
        answer.groups = split(topics, access, Resource.GROUP, Operation.DESCRIBE, answer.groups)[0]
    return answer


def on_described_groups(asked: str) -> Guard:
    """Describe on each group, and on each topic that an answer would show; it lists operations on request."""

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        kept, refused = split(topics, access, Resource.GROUP, Operation.DESCRIBE, getattr(call.body, asked))
        setattr(call.body, asked, kept)
        answer = yield
        for group in answer.groups:
            if not all(access.allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in _topics_shown(group)):
                group.error_code, group.error_message = _TOPIC_DENIED, describe(_TOPIC_DENIED).message
                group.members = ()
            if call.body.include_authorized_operations and not group.error_code:
                group.authorized_operations = access.operations(Resource.GROUP, group.group_id)
        response = entity(call.api_key, call.api_version, False)
        answer.groups = [*answer.groups, *refused_items(response, "groups", refused, _GROUP_DENIED)]
        return answer

    return guard


def _topics_shown(group: Any) -> set[str]:
    """The names of topics in a description; classic groups show bytes of their own alone."""
    names: set[str] = set()
    topology = getattr(group, "topology", None)
    for each in () if topology is None else topology.subtopologies or ():
        names.update(each.source_topics)
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    for member in group.members:
        names.update(getattr(member, "subscribed_topic_names", ()))
        for assigned in ("assignment", "target_assignment"):
            assignment = getattr(member, assigned, None)
            if assignment is not None and hasattr(assignment, "topic_partitions"):
                names.update(part.topic_name for part in assignment.topic_partitions)
    return names


def on_member_of_group(topics: Topics, call: Call, access: Access) -> Steps:
    """Read on the group, and Describe on every topic that a member subscribes to by name."""
    if not access.allows(Operation.READ, Resource.GROUP, call.body.group_id):
        return refused_request(call.api_key, call.api_version, _GROUP_DENIED)
    names = call.body.subscribed_topic_names or ()
    if not all(access.allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in names):
        return refused_request(call.api_key, call.api_version, _TOPIC_DENIED)
    return (yield)


def on_member_of_streams_group(topics: Topics, call: Call, access: Access) -> Steps:
    """Read on the group, and Describe on every topic that the member's topology reads or keeps."""
    if not access.allows(Operation.READ, Resource.GROUP, call.body.group_id):
        return refused_request(call.api_key, call.api_version, _GROUP_DENIED)
    names: set[str] = set()
    for each in () if call.body.topology is None else call.body.topology.subtopologies:
        names.update(each.source_topics)
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    if not all(access.allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in names):
        return refused_request(call.api_key, call.api_version, _TOPIC_DENIED)
    return (yield)


def offset_fetch(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each group and topic; without topics, all that may be described."""
    if call.api_version < _MANY_GROUPS_FROM:
        return (yield from _offset_fetch_one(topics, call, access))
    return (yield from _on_offsets_of_groups(topics, call, access))


def _offset_fetch_one(topics: Topics, call: Call, access: Access) -> Steps:
    body: OffsetFetchRequest = call.body
    if not access.allows(Operation.DESCRIBE, Resource.GROUP, body.group_id):
        denied = refused_items(OffsetFetchResponse, "topics", body.topics or (), _GROUP_DENIED)
        if call.api_version >= _OWN_ERROR_FROM:
            return OffsetFetchResponse(error_code=_GROUP_DENIED)
        return OffsetFetchResponse(topics=denied)
    refused: list[Any] = []
    if body.topics is not None:
        body.topics, refused = split(topics, access, Resource.TOPIC, Operation.DESCRIBE, body.topics)
    answer: OffsetFetchResponse = yield
    if answer.error_code:
        return answer
    answer.topics = split(topics, access, Resource.TOPIC, Operation.DESCRIBE, answer.topics)[0]
    denied = refused_items(OffsetFetchResponse, "topics", refused, _TOPIC_DENIED)
    answer.topics = [*answer.topics, *denied]
    return answer


def _on_offsets_of_groups(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each group and topic; without topics, all that may be described."""
    call.body.groups, refused = split(topics, access, Resource.GROUP, Operation.DESCRIBE, call.body.groups)
    left_out: dict[str, list[Any]] = {}
    for group in call.body.groups:
        if group.topics is not None:
            group.topics, left_out[group.group_id] = split(
                topics, access, Resource.TOPIC, Operation.DESCRIBE, group.topics
            )
    answer = yield
    response = entity(call.api_key, call.api_version, False)
    for shown in answer.groups:
        if shown.error_code:
            continue
        shown.topics = split(topics, access, Resource.TOPIC, Operation.DESCRIBE, shown.topics)[0]
        denied = refused_items(type(shown), "topics", left_out.get(shown.group_id, ()), _TOPIC_DENIED)
        shown.topics = [*shown.topics, *denied]
    answer.groups = [*answer.groups, *refused_items(response, "groups", refused, _GROUP_DENIED)]
    return answer


describe_share_group_offsets: Final[Guard] = _on_offsets_of_groups
