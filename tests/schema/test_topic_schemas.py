from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.client.log import Log
from mainstem.errors import SchemaError
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import SCHEMAS_TOPIC, lookup, lookup_all, register
from mainstem.testing import EmbeddedBroker

AIRLINES = schema_of("carrier STRING NOT NULL, name STRING")
PLANES = schema_of("tailnum STRING NOT NULL, seats INT")


@pytest.fixture
def log() -> Iterator[Log]:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        yield log


def test_a_log_without_schemas_has_none(log: Log) -> None:
    assert lookup(log, "airlines") is None
    assert lookup_all(log) == {}


def test_what_is_registered_is_found(log: Log) -> None:
    registered = register(log, "airlines", AIRLINES, ["carrier"])
    register(log, "planes", PLANES, ["tailnum"])
    assert (registered.version, registered.key, registered.schema) == (1, ("carrier",), AIRLINES)
    assert lookup(log, "airlines") == registered
    assert sorted(lookup_all(log)) == ["airlines", "planes"]


def test_the_topic_of_schemas_is_compacted(log: Log) -> None:
    register(log, "airlines", AIRLINES)
    assert log.describe_topic(SCHEMAS_TOPIC).configs["cleanup.policy"] == "compact"


def test_registering_the_same_again_writes_nothing(log: Log) -> None:
    first = register(log, "airlines", AIRLINES, ["carrier"])
    assert register(log, "airlines", AIRLINES, ["carrier"]) == first
    assert log.describe_topic(SCHEMAS_TOPIC).offsets == 1


def test_a_changed_schema_is_the_next_version(log: Log) -> None:
    register(log, "airlines", AIRLINES, ["carrier"])
    changed = register(log, "airlines", schema_of("carrier STRING NOT NULL, name STRING, seats INT"), ["carrier"])
    assert (changed.version, lookup(log, "airlines")) == (2, changed)


def test_a_tombstone_takes_a_schema_away(log: Log) -> None:
    register(log, "airlines", AIRLINES)
    log.append(SCHEMAS_TOPIC, None, key="airlines")
    assert lookup(log, "airlines") is None


def test_a_key_that_is_no_column_is_refused(log: Log) -> None:
    with pytest.raises(SchemaError, match="no column 'code'"):
        register(log, "airlines", AIRLINES, ["code"])


@pytest.mark.parametrize("value", ["{", "[]", {"columns": []}, {"columns": [{"name": "a", "type": "TEXT"}]}])
def test_an_entry_that_cannot_be_read_is_named(log: Log, value: object) -> None:
    register(log, "other", PLANES)
    log.append(SCHEMAS_TOPIC, value, key="airlines")
    with pytest.raises(SchemaError, match="'airlines'"):
        lookup(log, "airlines")
