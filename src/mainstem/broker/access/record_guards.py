"""Guards of the requests that carry or locate records: Produce, Fetch, Metadata and similar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from mainstem.broker.access.acls import CLUSTER_NAME, Operation
from mainstem.broker.access.acls import ResourceType as Resource
from mainstem.broker.access.authorizer import Access
from mainstem.broker.access.guards import Steps, split
from mainstem.broker.access.refusals import refused_items
from mainstem.broker.call import Call
from mainstem.errors import FrameError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from mainstem.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from mainstem.protocol.messages.fetch import FetchRequest, FetchResponse
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from mainstem.protocol.messages.produce import ProduceRequest, ProduceResponse
from mainstem.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mainstem.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from mainstem.broker.storage.topics import Topics

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NO_NAME_FROM: Final = 12


def produce(topics: Topics, call: Call, access: Access) -> Steps:
    """Write on each topic, and on the transactional id. With acks=0 a refusal only closes the connection."""
    body: ProduceRequest = call.body
    transactional_id = body.transactional_id
    if transactional_id is not None and not access.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        kept: list[Any] = []
        refused, code = list(body.topic_data), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        kept, refused = split(topics, access, Resource.TOPIC, Operation.WRITE, body.topic_data)
        code = _DENIED
    if not refused:
        return (yield)
    if body.acks == 0:
        raise FrameError(f"{call.principal}: {code.name}, sent with acks=0")
    answer = ProduceResponse(responses=[])
    if kept:
        body.topic_data = kept
        answer = yield
    answer.responses = [*answer.responses, *refused_items(ProduceResponse, "responses", refused, code)]
    return answer


def fetch(topics: Topics, call: Call, access: Access) -> Steps:
    """Read on each topic. The answer is looked at, not the request alone: a fetch session knows topics of its own."""
    body: FetchRequest = call.body
    _, refused = split(topics, access, Resource.TOPIC, Operation.READ, body.topics)
    if refused:
        body.max_wait_ms = 0  # a refusal is answered at once
    answer: FetchResponse = yield
    kept, held = split(topics, access, Resource.TOPIC, Operation.READ, answer.responses)
    if refused or held:
        answer.responses = [*kept, *_denied(FetchResponse, held, refused)]
    return answer


def _denied(response: type[FetchResponse] | type[ShareFetchResponse], held: list[Any], refused: list[Any]) -> list[Any]:
    """Refusals of the topics that an answer held, and of those that were asked for and are not in it."""
    answered = {(_topic_of(item), item.topic_id) for item in held}
    left = [item for item in refused if (_topic_of(item), item.topic_id) not in answered]
    return list(refused_items(response, "responses", [*held, *left], _DENIED))


def _topic_of(item: Any) -> str:
    """The name that an item of a fetch carries; newer ones carry an id alone."""
    return getattr(item, "topic", "")


def share_fetch(topics: Topics, call: Call, access: Access) -> Steps:
    """Read on the group and on each topic. Records of other topics are never acquired."""
    body: ShareFetchRequest = call.body
    if not access.allows(Operation.READ, Resource.GROUP, body.group_id or ""):
        answer = ShareFetchResponse.of_defaults()
        answer.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return answer
    body.topics, refused = split(topics, access, Resource.TOPIC, Operation.READ, body.topics)
    answer = yield
    kept, held = split(topics, access, Resource.TOPIC, Operation.READ, answer.responses)
    if refused or held:
        answer.responses = [*kept, *_denied(ShareFetchResponse, held, refused)]
    return answer


def metadata(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each topic, and Create for one that asking creates. Topics not asked for by name are left out."""
    body: MetadataRequest = call.body
    names_all = body.topics is None or (call.api_version == 0 and not body.topics)
    refused: list[Any] = []
    if not names_all:
        body.topics, refused = _describable(topics, access, body)
    wants_none = not names_all and not body.topics
    answer: MetadataResponse = yield
    if wants_none:
        answer.topics = []  # an empty list means all topics in version 0
    if names_all:
        answer.topics = split(topics, access, Resource.TOPIC, Operation.DESCRIBE, answer.topics)[0]
    if body.include_topic_authorized_operations:
        for topic in answer.topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                topic.topic_authorized_operations = access.operations(Resource.TOPIC, topic.name or "")
    if body.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = _cluster_operations(access)
    denied = refused_items(MetadataResponse, "topics", refused, _DENIED)
    for item in denied:
        # A request by id does not reveal the name, and a request by name does not reveal the id.
        if getattr(item, "name", None) is not None:
            item.topic_id = ZERO_UUID
        elif call.api_version < _NO_NAME_FROM:
            item.name = ""
    answer.topics = [*answer.topics, *denied]
    return answer


def _describable(topics: Topics, access: Access, body: MetadataRequest) -> tuple[list[MetadataRequestTopic], list[Any]]:
    kept, refused = split(topics, access, Resource.TOPIC, Operation.DESCRIBE, body.topics or ())
    if body.allow_auto_topic_creation and not access.allows_on_cluster(Operation.CREATE):
        described, kept = kept, []
        for item in described:
            is_new = item.name is not None and topics.get(item.name) is None
            may = not is_new or not topics.creates_on_demand
            may = may or access.allows(Operation.CREATE, Resource.TOPIC, item.name)
            (kept if may else refused).append(item)
    return kept, refused


def describe_topic_partitions(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each topic; without names, all topics that may be described."""
    body: DescribeTopicPartitionsRequest = call.body
    names_all = not body.topics
    if names_all:
        # The handler is given names alone that may be seen: it names the next one in its cursor.
        names = sorted(topic.name for topic in topics.all())
        body.topics = [TopicRequest(name=name) for name in names]
    kept, refused = split(topics, access, Resource.TOPIC, Operation.DESCRIBE, body.topics)
    if names_all:
        refused = []
        kept = _from_cursor(body, kept)
    body.topics = kept
    answer = (yield) if kept else DescribeTopicPartitionsResponse(topics=[])
    # As in Kafka: a missing topic gets its operations, too, but not a topic with INVALID_REQUEST.
    _tell_operations(access, [each for each in answer.topics if each.error_code != ErrorCode.INVALID_REQUEST])
    answer.topics = [*answer.topics, *refused_items(DescribeTopicPartitionsResponse, "topics", refused, _DENIED)]
    return answer


def _from_cursor(body: DescribeTopicPartitionsRequest, topics: list[TopicRequest]) -> list[TopicRequest]:
    """The topics from the cursor on; its own topic may be gone, or hidden by now."""
    cursor = body.cursor
    if cursor is None:
        return topics
    topics = [topic for topic in topics if topic.name >= cursor.topic_name]
    if topics and topics[0].name != cursor.topic_name and cursor.partition_index >= 0:
        body.cursor = RequestCursor(topic_name=topics[0].name, partition_index=0)
    return topics


def describe_cluster(topics: Topics, call: Call, access: Access) -> Steps:
    """Nothing is asked of the sender; it learns what it may do if it asks."""
    body: DescribeClusterRequest = call.body
    answer: DescribeClusterResponse = yield
    if body.include_cluster_authorized_operations and not answer.error_code:
        answer.cluster_authorized_operations = _cluster_operations(access)
    return answer


def _tell_operations(access: Access, topics: Iterable[Any]) -> None:
    for topic in topics:
        topic.topic_authorized_operations = access.operations(Resource.TOPIC, topic.name)


def _cluster_operations(access: Access) -> int:
    if not access.allows_on_cluster(Operation.DESCRIBE):
        return 0
    return access.operations(Resource.CLUSTER, CLUSTER_NAME)
