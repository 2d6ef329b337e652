"""Topics by the Kafka protocol: create, alter, delete, describe; functions over a ``WireClient``, with its contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.errors import TopicExistsError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mainstem.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SET_ON_TOPIC = 1
"""The source of a config that has a value of the topic's own (Kafka's DYNAMIC_TOPIC_CONFIG)."""
_TOPIC_RESOURCE = 2
_SET, _RESET = 0, 1  # Kafka's SET and DELETE
_BROKERS_DEFAULT = -1


def create_topic(
    client: WireClient,
    name: str,
    *,
    partitions: int | None = None,
    configs: Mapping[str, str] | None = None,
    replication_factor: int | None = None,
) -> TopicMetadata:
    """Create a topic, with the broker's defaults for what is not given, and return when it can be used.

    A broker of Apache Kafka may know a deleted topic of the same name for a while yet, and take records for it, which
    are lost: so this waits for the topic that was made, by its id.

    Raises TopicExistsError, InputError for a name that Kafka does not take, ConfigError for a config that it does not.
    """
    topic = CreatableTopic(
        name=name,
        num_partitions=_BROKERS_DEFAULT if partitions is None else partitions,
        replication_factor=_BROKERS_DEFAULT if replication_factor is None else replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(client.timeout_s * 1000))
    answer = client.request(request, codes=lambda answer: [result.error_code for result in answer.topics])
    for result in answer.topics:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            raise TopicExistsError(f"topic {name!r} already exists; 'mainstem topics describe {name}' shows it")
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"topic {name!r} cannot be created", result.error_message)
    topic_ids = {result.name: result.topic_id for result in answer.topics if result.topic_id.int}
    return client.metadata([name], wait=True, topic_ids=topic_ids)[name]


def delete_topic(client: WireClient, name: str) -> None:
    """Delete a topic and its records. Raises UnknownTopicError."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=int(client.timeout_s * 1000)
    )
    for result in client.request(request).responses:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error_of(result.error_code, f"topic {name!r} cannot be deleted", "there is no such topic")
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"topic {name!r} cannot be deleted", result.error_message)


def topic_configs(client: WireClient, name: str, keys: Iterable[str] | None = None) -> dict[str, str | None]:
    """The topic's configs by name, or those of ``keys`` alone; a secret is None. Raises UnknownTopicError."""
    return {entry.name: entry.value for entry in topic_config_entries(client, name, keys)}


def topic_config_entries(
    client: WireClient, name: str, keys: Iterable[str] | None = None, *, in_full: bool = False
) -> list[DescribeConfigsResourceResult]:
    """The topic's configs with their sources (``SET_ON_TOPIC``, or a default). Raises UnknownTopicError.

    ``in_full``: also with the values behind the source, and the descriptions.
    """
    resource = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE,
        resource_name=name,
        configuration_keys=None if keys is None else list(keys),
    )
    entries: list[DescribeConfigsResourceResult] = []
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=in_full, include_documentation=in_full)
    for result in client.request(request).results:
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"topic {name!r} cannot be described", result.error_message)
        entries += result.configs
    return entries


def set_topic_configs(
    client: WireClient,
    name: str,
    configs: Mapping[str, str],
    *,
    reset: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Set configs of a topic, and give those of ``reset`` their defaults again; others stay.

    ``validate_only``: change nothing. Raises UnknownTopicError, ConfigError for a config that the log lacks.
    """
    changes = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in configs.items()]
    changes += [AlterableConfig(name=key, config_operation=_RESET, value=None) for key in reset]
    resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    for result in client.request(request).responses:
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"topic {name!r} cannot be changed", result.error_message)


def set_partition_count(client: WireClient, name: str, count: int, *, validate_only: bool = False) -> None:
    """Add empty partitions, up to ``count``, and return when they can be used. ``validate_only``: change nothing.

    Raises UnknownTopicError, ConfigError when the topic has as many or more.
    """
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[topic], timeout_ms=int(client.timeout_s * 1000), validate_only=validate_only
    )
    answer = client.request(request, codes=lambda answer: [result.error_code for result in answer.results])
    for result in answer.results:
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"topic {name!r} cannot have {count} partitions", result.error_message)
    client.metadata([name], wait=True)
