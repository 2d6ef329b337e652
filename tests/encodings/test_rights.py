"""Encoded topics in a log with ACLs: the rights that readers and writers need, and what they are told without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.broker.access.acls import Operation, PatternType, Permission, ResourceType
from mainstem.client.log import Log
from mainstem.client.wire.admin.access import add_acls
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.encodings.encoded_records import EncodedRecords
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import AuthorizationError
from mainstem.protocol.messages.create_acls import AclCreation
from mainstem.schema.infer import schema_of
from mainstem.testing.embedded import EmbeddedBroker

ROW = {"id": 1}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A log in which admin may do everything, and alice what ACLs allow her."""
    users = {"admin": "secret", "alice": "secret"}
    with EmbeddedBroker(settings={"super.users": "User:admin"}, users=users) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Log]:
    """The log as admin, with an encoded topic that has a record."""
    with Log(broker.bootstrap, security=broker.security("admin")) as log:
        log.create_topic("orders")
        register_topic(log, "orders", schema_of("id BIGINT"), (), "avro")
        log.append("orders", Codec(log).encode("orders", ROW))
        yield log


def allow(log: Log, topic: str, *operations: Operation) -> None:
    """Allow alice operations on a topic."""
    creations = [
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=topic,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=each,
            permission_type=Permission.ALLOW,
        )
        for each in operations
    ]
    with WireClient(log.bootstrap, security=log.security) as client:
        add_acls(client, creations)


def test_reading_and_writing_need_the_right_to_read_both_topics_of_schemas(broker: EmbeddedBroker, admin: Log) -> None:
    allow(admin, "orders", Operation.READ, Operation.WRITE)
    with Log(broker.bootstrap, security=broker.security("alice"), timeout_s=5) as log:
        [record] = log.read("orders")
        assert EncodedRecords(log).encoded("orders", [ROW]).values == [ROW]  # JSON, which every reader takes
        with pytest.raises(AuthorizationError, match="__mainstem_schemas"):
            Codec(log).decode(record)
        allow(admin, "__mainstem_schemas", Operation.READ)
        with pytest.raises(AuthorizationError, match=r"\b_schemas"):
            Codec(log).decode(record)
        with pytest.raises(AuthorizationError, match=r"\b_schemas"):
            Codec(log).encode("orders", ROW)
        allow(admin, "_schemas", Operation.READ)
        codec = Codec(log)
        assert codec.decode(record) == ROW
        assert codec.encode("orders", ROW) == record.value


def test_validation_by_the_log_asks_no_right_of_the_producer(broker: EmbeddedBroker, admin: Log) -> None:
    admin.create_topic("checked", configs={"confluent.value.schema.validation": "true"})
    register_topic(admin, "checked", schema_of("id BIGINT"), (), "avro")
    value = Codec(admin).encode("checked", ROW)
    allow(admin, "checked", Operation.WRITE)
    with Log(broker.bootstrap, security=broker.security("alice"), timeout_s=5) as log:
        log.append("checked", value)
    assert [Codec(admin).decode(record) for record in admin.read("checked")] == [ROW]
