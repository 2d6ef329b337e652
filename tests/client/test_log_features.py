"""The client's side of the log features, against Mainstem; and against Apache Kafka, which has none of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import ConditionFailedError, IndexNotReadyError, InputError, UnsupportedFeatureError
from mainstem.log.key_index.key_index import KeyIndex
from mainstem.testing.embedded import EmbeddedBroker

NewTopic = Callable[..., str]
_ALL = {
    "mainstem_key_index": "true",
    "mainstem_conditional_append": "true",
    "mainstem_idempotency_window_ms": "60000",
}


@pytest.fixture
def featured(mainstem_broker: EmbeddedBroker) -> Iterator[tuple[Log, NewTopic]]:
    def create(partitions: int = 1, **configs: str) -> str:
        name = f"featured-{uuid.uuid4()}"
        log.create_topic(name, partitions=partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        return name

    with Log(mainstem_broker.bootstrap, timeout_s=15.0) as log:
        yield log, create


def test_an_append_on_a_wrong_expectation_tells_the_actual_offset(featured: tuple[Log, NewTopic]) -> None:
    log, new_topic = featured
    topic = new_topic(**_ALL)
    with log:
        log.append(topic, "a", key="k", expect_key_offset=-1)
        with pytest.raises(ConditionFailedError) as failed:
            log.append(topic, "b", key="k", expect_key_offset=-1)
        assert (failed.value.expected, failed.value.actual) == (-1, 0)
        log.append(topic, "b", key="k", expect_key_offset=failed.value.actual)
        with pytest.raises(ConditionFailedError) as failed:
            log.append(topic, "c", expect_end=7)
        assert (failed.value.condition, failed.value.actual) == ("mainstem-expect-end", 2)


def test_an_idempotency_key_names_the_first_append(featured: tuple[Log, NewTopic]) -> None:
    log, new_topic = featured
    topic = new_topic(3, **_ALL)
    with log:
        first = log.append(topic, "a", idempotency_key="order-17")
        log.append_many(topic, ["x", "y", "z"])
        assert log.append(topic, "a", idempotency_key="order-17") == first
        assert len(list(log.read(topic))) == 4


def test_a_key_is_read_by_the_index(featured: tuple[Log, NewTopic]) -> None:
    log, new_topic = featured
    topic = new_topic(2, **_ALL)
    with log:
        log.append_many(topic, [(f"k{at % 50}", str(at)) for at in range(3000)])
        reader = log.read_key(topic, "k7")
        assert (reader.scan_reason, len(list(reader))) == (None, 60)
        assert [record.value for record in log.read(topic, key="k7")] == [str(at).encode() for at in range(7, 3000, 50)]
        last = [record.offset for record in log.read_key(topic, "k7")][-1]
        assert reader.last_offset == last
        assert reader.position == reader.end
        assert [record.value for record in log.read_key(topic, "k7", limit=2)] == [b"7", b"57"]
        assert [record.offset for record in log.read_key(topic, "k7", start=last)] == [last]
        assert (list(log.read_key(topic, "nobody")), log.read_key(topic, "nobody").last_offset) == ([], -1)


def test_a_reader_opens_others_of_its_key_up_to_where_it_ends(featured: tuple[Log, NewTopic]) -> None:
    log, new_topic = featured
    topic = new_topic(**_ALL)
    with log:
        log.append_many(topic, [(f"k{at % 3}", str(at)) for at in range(30)])
        reader = log.read_key(topic, "k1", start="latest")
        log.append(topic, "later", key="k1")
        between = [record.value for record in reader.between(10, 20)]
        assert between == [str(at).encode() for at in range(10, 20, 3)]
        assert [record.value for record in reader.between(28, 99)] == [b"28"]
        assert list(reader.between(99, 100)) == []


def test_offsets_that_a_reader_knows_are_not_asked_for_again(
    featured: tuple[Log, NewTopic], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, new_topic = featured
    topic = new_topic(**_ALL)
    with log:
        log.append_many(topic, [(f"k{at % 3}", str(at)) for at in range(6000)])
        asked = []
        request = WireClient.request

        def noted(client: WireClient, message: Any, **options: Any) -> Any:
            asked.append(message)
            return request(client, message, **options)

        monkeypatch.setattr(WireClient, "request", noted)
        reader = log.read_key(topic, "k1", start=9)
        assert len(asked) == 1
        assert [record.value for record in reader.between(20, 30)] == [b"22", b"25", b"28"]
        assert [record.value for record in reader.between(5998, 5999)] == [b"5998"], "the last one is known"
        assert not reader.has_only(5998)
        assert reader.between(21, 24).has_only(22)
        assert len(asked) == 1
        assert [record.value for record in reader.between(0, 9)] == [b"1", b"4", b"7"], "from before its start"
        assert [record.value for record in reader.between(5990, 5996)] == [b"5992", b"5995"], "after its first page"
        assert len(asked) == 3
        assert [int(record.value or b"") for record in reader] == list(range(10, 6000, 3))
        assert [record.value for record in reader.between(5989, 5993)] == [b"5989", b"5992"], "of its last page"


def test_more_offsets_than_one_answer_holds_are_read(featured: tuple[Log, NewTopic]) -> None:
    log, new_topic = featured
    topic = new_topic(**_ALL)
    with log:
        log.append_many(topic, [("k" if at % 2 else "other", str(at)) for at in range(5000)])
        assert [int(record.value or b"") for record in log.read_key(topic, "k")] == list(range(1, 5000, 2))


def test_a_reader_says_whether_the_index_is_being_built(
    featured: tuple[Log, NewTopic], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unbuilt(*_: object) -> list[int]:
        raise IndexNotReadyError("it is being built")

    log, new_topic = featured
    indexed, plain = new_topic(**_ALL), new_topic()
    with log:
        log.append(indexed, "a", key="k")
        with monkeypatch.context() as patched:
            patched.setattr(KeyIndex, "offsets", unbuilt)
            early = log.read_key(indexed, "k")
            assert (early.scan_reason, early.is_index_being_built) == ("it is being built", True)
            assert [record.value for record in early] == [b"a"]
        assert not log.read_key(indexed, "k").is_index_being_built
        assert not log.read_key(plain, "k").is_index_being_built


def test_without_an_index_a_key_is_scanned_and_the_reader_says_so(
    log: Log, new_topic: NewTopic, bootstrap: str
) -> None:
    """On Mainstem without the config, and on Apache Kafka."""
    topic = new_topic(2)
    log.append_many(topic, [(f"k{at % 5}", str(at)) for at in range(50)])
    reader = log.read_key(topic, "k3")
    assert reader.scan_reason is not None
    assert reader.last_offset is None
    assert [record.value for record in reader] == [str(at).encode() for at in range(3, 50, 5)]


@pytest.mark.parametrize(
    "asks", [{"expect_key_offset": -1}, {"expect_end": 0}, {"idempotency_key": "x"}], ids=lambda asks: next(iter(asks))
)
def test_what_the_log_would_not_obey_is_not_sent(log: Log, new_topic: NewTopic, asks: dict[str, object]) -> None:
    """On Mainstem without the config, and on Apache Kafka, which would append whatever is asked."""
    topic = new_topic()
    with pytest.raises(UnsupportedFeatureError):
        log.append(topic, "a", key="k", **asks)  # type: ignore[arg-type]
    assert list(log.read(topic)) == []


def test_what_can_be_no_expectation_is_refused_at_once(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(InputError, match="invalid expected offset"):
        log.append(topic, "a", expect_end=-2)
    with pytest.raises(InputError, match="from 1 to 255"):
        log.append(topic, "a", idempotency_key="")
    log.append(topic, "a", expect_end=None, idempotency_key=None)


def test_a_config_that_is_turned_on_is_seen_at_once(featured: tuple[Log, NewTopic]) -> None:
    log, new_topic = featured
    topic = new_topic()
    with log:
        with pytest.raises(UnsupportedFeatureError, match=r"mainstem\.conditional\.append"):
            log.append(topic, "a", expect_end=0)
        set_config(log, topic, "mainstem.conditional.append", "true")
        log.append(topic, "a", expect_end=0)


def set_config(log: Log, topic: str, name: str, value: str) -> None:
    from mainstem.client.wire.cluster.cluster import WireClient
    from mainstem.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    with WireClient(log.bootstrap) as client:
        answer = client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert [each.error_code for each in answer.responses] == [0]
