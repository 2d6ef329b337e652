"""Making a log ready for an App: everything once, nothing twice, nothing half."""

from __future__ import annotations

import pytest

from mainstem.client.log import Log
from mainstem.errors import DefinitionError
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.control.commands import COMMANDS_TOPIC
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC
from mainstem.pipelines.deploy import deploy, differences
from mainstem.pipelines.kinds import KeyValue, Metrics, Search
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.schema.topic_schemas import SCHEMAS_TOPIC, lookup
from mainstem.testing.embedded import EmbeddedBroker


def flights() -> App:
    app = App("deployed")
    source = app.topic("deployed.flights", "flight_id STRING, carrier STRING", "flight_id", partitions=3)
    app.pipeline(source, into="deployed.delays", key="carrier", mode="update", name="delays")(lambda flights: flights)
    app.view("delays", "deployed.delays", KeyValue())
    return app


def configs(log: Log, topic: str) -> dict[str, str | None]:
    return dict(log.describe_topic(topic).configs)


def test_topics_are_made_as_declared(mainstem_log: Log) -> None:
    deploy(flights(), mainstem_log)
    topics = mainstem_log.topics()
    assert (topics["deployed.flights"].partitions, topics["deployed.delays"].partitions) == (3, 3)
    assert configs(mainstem_log, "deployed.delays")["cleanup.policy"] == "compact"
    assert configs(mainstem_log, "deployed.flights")["cleanup.policy"] == "delete"


def test_the_systems_topics_are_made() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:  # other tests make them by hand on the shared log
        deploy(flights(), log)
        for name in (PROGRESS_TOPIC, SCHEMAS_TOPIC, COMMANDS_TOPIC, RUN_LOG_TOPIC):
            assert log.topics()[name].partitions == 1
            assert configs(log, name)["cleanup.policy"] == "compact"


def test_each_view_has_a_topic_for_dead_letters(mainstem_log: Log) -> None:
    app = flights()
    deploy(app, mainstem_log)
    assert app.views["delays"].dead_letter_topic in mainstem_log.topics()


def test_declared_schemas_are_registered(mainstem_log: Log) -> None:
    deploy(flights(), mainstem_log)
    registered = lookup(mainstem_log, "deployed.flights")
    assert registered is not None
    assert (registered.schema.names, registered.key) == (("flight_id", "carrier"), ("flight_id",))


def test_a_second_time_changes_nothing(mainstem_log: Log) -> None:
    for _ in range(2):
        deploy(flights(), mainstem_log)
    registered = lookup(mainstem_log, "deployed.flights")
    assert registered is not None
    assert registered.version == 1


@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        ("faa", ("town",), "view airports names town; there are faa, name"),
        ("code", ("name",), "the key of topic .* code"),
    ],
)
def test_a_column_that_does_not_exist_is_refused_before_anything_is_made(
    mainstem_log: Log, key: str, fields: tuple[str, ...], message: str
) -> None:
    app = App("refused")
    topic = app.topic("refused.airports", "faa STRING, name STRING", key)
    app.view("airports", topic, Search(*fields))
    with pytest.raises(DefinitionError, match=message):
        deploy(app, mainstem_log)
    assert "refused.airports" not in mainstem_log.topics()


def progress_of(pipeline: str, output: str) -> tuple[bytes, bytes]:
    return Progress(pipeline, 0, Position(), Position(), Position(), ("deployed.flights",), (output,)).to_record()


def pipelines_with_progress(log: Log) -> set[str]:
    latest = {record.key: record.value for record in log.read(PROGRESS_TOPIC)}
    return {key.decode() for key, value in latest.items() if key is not None and value is not None}


def test_the_progress_of_a_pipeline_that_was_renamed_is_dropped(mainstem_log: Log) -> None:
    deploy(flights(), mainstem_log)
    mainstem_log.append_many(PROGRESS_TOPIC, [progress_of("delays-before", "deployed.delays")])
    mainstem_log.append_many(PROGRESS_TOPIC, [progress_of("delays", "deployed.delays"), progress_of("other", "other")])
    deploy(flights(), mainstem_log)
    assert {"delays", "other"} <= pipelines_with_progress(mainstem_log)
    assert "delays-before" not in pipelines_with_progress(mainstem_log)


def test_a_topic_that_a_load_made_before_is_not_taken_for_the_declared_one_in_silence(mainstem_log: Log) -> None:
    app = App("early")
    app.topic("early.flights", "id STRING, n INT", "id", partitions=3)
    mainstem_log.create_topic("early.flights", partitions=1)
    mainstem_log.append("early.flights", {"id": "a", "n": 1})
    mainstem_log.append("early.flights", {"id": "b", "n": 1}, key="b")
    deploy(app, mainstem_log)
    partitions, keys = differences(app, mainstem_log)
    assert "topic early.flights was there before the App and has 1 of the 3 partitions" in partitions
    assert "1 of its first 2 records have no key" in keys
    assert all(
        "mainstem topics delete early.flights" in said and "test_deploy.py" in said for said in (partitions, keys)
    )


def test_topics_that_are_as_declared_differ_in_nothing(mainstem_log: Log) -> None:
    app = flights()
    deploy(app, mainstem_log)
    mainstem_log.append("deployed.flights", {"flight_id": "a"}, key="a")
    assert differences(app, mainstem_log) == []


@pytest.mark.parametrize("column_type", ["STRING", "BOOLEAN", "DATE", "ARRAY<INT>"])
def test_a_metrics_view_of_what_is_not_a_number_is_refused(mainstem_log: Log, column_type: str) -> None:
    app = App("counted")
    app.view("delays", app.topic("counted.flights", f"id STRING, delay {column_type}"), Metrics(values="delay"))
    with pytest.raises(DefinitionError, match=rf"test_deploy.py.*: values= names delay, which is {column_type}"):
        deploy(app, mainstem_log)
    assert "counted.flights" not in mainstem_log.topics()


def test_a_type_that_does_not_exist_is_refused_with_file_and_line(mainstem_log: Log) -> None:
    app = App("typo")
    app.topic("typo.flights", "id STRNG")
    with pytest.raises(DefinitionError, match=r"test_deploy.py:\d+: topic typo.flights: column 'id': 'STRNG'"):
        deploy(app, mainstem_log)
