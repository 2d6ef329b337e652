"""The schemas topic: two registries at once, a topic that is made again, records of others, and kills."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.errors import ConfigError
from mainstem.registry import registration
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import Registry
from mainstem.registry.requests import SchemaRequest
from mainstem.schemas_topic.state import RegistryState


def avro(name: str) -> SchemaRequest:
    """Schemas of several names are different, and compatible."""
    return SchemaRequest("AVRO", json.dumps({"type": "record", "name": "R", "doc": name, "fields": []}))


RACES = int(os.environ.get("MAINSTEM_REGISTRY_RACES", "60"))
"""How often two registries register one schema at the same time."""


@pytest.mark.timeout(900 + RACES)
def test_racing_registries_give_one_schema_one_id(registry_log: Log, topic: str) -> None:
    with Log(registry_log.bootstrap) as other:
        registries = [Registry(registry_log, topic), Registry(other, topic)]
        jobs = [(each, f"s{number % 5}", f"R{number // 10}") for number in range(RACES) for each in registries]
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(lambda job: (job[2], job[0].register(job[1], avro(job[2])).id), jobs))
    ids = set(made)
    assert len(ids) == RACES // 10  # one id for each schema …
    assert {number for _, number in ids} == set(range(1, RACES // 10 + 1))  # … and no id is left out, or used twice
    fresh = Registry(registry_log, topic)
    assert Counter(len(fresh.versions(f"s{number}")) for number in range(5)) == {RACES // 10: 5}


def test_a_registry_sees_what_another_has_answered(registry_log: Log, topic: str) -> None:
    with Log(registry_log.bootstrap) as other:
        first, second = Registry(registry_log, topic), Registry(other, topic)
        for number in range(20):
            writer, reader = (first, second) if number % 2 else (second, first)
            stored = writer.register(f"s{number}", avro(f"R{number % 3}"))
            assert reader.with_id(".", stored.id)[0].content == stored.content
            assert reader.versions(stored.subject) == [1]
        first.delete_subject("s1")
        with pytest.raises(RegistryError) as found:
            second.versions("s1")
        assert found.value.code == 40401


def test_readers_do_not_wait_for_a_comparison(registry_log: Log, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(registry_log, topic)
    registry.register("slow", avro("a"))
    begun, may_end = threading.Event(), threading.Event()
    compared: list[int] = []

    def compare(state: RegistryState, subject: str, *_: object, **__: object) -> list[str]:
        before = len(state.versions(subject))
        begun.set()
        assert may_end.wait(60)
        compared.append(len(state.versions(subject)) - before)
        return []

    monkeypatch.setattr(registration, "compare", compare)
    with ThreadPoolExecutor(1) as threads, Log(registry_log.bootstrap) as other:
        running = threads.submit(registry.compare, "slow", avro("b"))
        try:
            assert begun.wait(60)
            Registry(other, topic).register("slow", avro("b"))
            assert registry.versions("slow") == [1, 2]
            assert registry.register("slow", avro("c")).version == 3
            assert [each.version for each in registry.with_id(".", 2)] == [2]
        finally:
            may_end.set()
        assert running.result(60) == []
    assert compared == [0], "the state changed under a comparison"
    assert registry.versions("slow") == [1, 2, 3]


def test_reads_over_http_have_threads_of_their_own(registry: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Semaphore(0), threading.Event()

    def compare(*_: object, **__: object) -> list[str]:
        begun.release()
        assert may_end.wait(60)
        return []

    registry.post("/subjects/slow/versions", json={"schema": avro("a").text})
    monkeypatch.setattr(registration, "compare", compare)
    with ThreadPoolExecutor(12) as threads:
        path, body = "/compatibility/subjects/slow/versions/latest", {"schema": avro("b").text}
        running = [threads.submit(registry.post, path, json=body, timeout=120) for _ in range(12)]
        try:
            assert all(begun.acquire(timeout=60) for _ in range(8))
            assert registry.get("/subjects").json() == ["slow"]
            assert registry.get("/schemas/ids/1").status_code == 200
        finally:
            may_end.set()
        assert [each.result(120).json() for each in running] == [{"is_compatible": True}] * 12


@pytest.mark.parametrize("permanent", [False, True])
def test_what_another_product_wrote_is_removed_under_its_own_key(
    registry_log: Log, topic: str, *, permanent: bool
) -> None:
    """Karapace orders a key's fields in another way: to compaction that is another key."""
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    theirs = json.dumps({"subject": "a", "version": 1, "magic": 1, "keytype": "SCHEMA"})
    value = {"subject": "a", "version": 1, "id": 1, "schema": '"long"', "deleted": False}
    registry_log.append(topic, json.dumps(value), key=theirs, partition=0)
    config_key = json.dumps({"subject": "a", "magic": 0, "keytype": "CONFIG"})
    registry_log.append(topic, '{"compatibilityLevel":"NONE"}', key=config_key, partition=0)
    registry = Registry(registry_log, topic)
    registry.delete_version("a", 1)
    if permanent:
        registry.delete_version("a", 1, permanent=True)
    latest = {record.key: record.value for record in registry_log.read(topic)}
    compacted = RegistryState()
    for key, last in latest.items():
        if key is not None and last is not None:
            compacted.apply(key, last, 0)
    assert [each.version for each in compacted.versions("a", deleted=True)] == ([] if permanent else [1])
    assert compacted.versions("a") == []
    assert ("a" in compacted.configs) is not permanent


KARAPACE: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}, {"id": 1, "schema": '"string"'}),
    ({"keytype": "SCHEMA", "subject": "a", "version": 2, "magic": 1}, {"id": 2, "schema": '"string"'}),
    ({"subject": "b", "version": 1, "magic": 1, "keytype": "SCHEMA"}, {"id": 3, "schema": '{"fields":[],"name":"B"}'}),
    ({"keytype": "SCHEMA", "subject": "j", "version": 1, "magic": 1}, {"id": 4, "schema": "{}", "schemaType": "JSON"}),
    ({"keytype": "CONFIG", "subject": "a", "magic": 0}, {"compatibilityLevel": "NONE"}),
    ({"keytype": "SCHEMA", "subject": "a", "version": 2, "magic": 1}, None),
    ({"subject": "b", "version": 1, "magic": 1, "keytype": "SCHEMA"}, None),
    ({"keytype": "DELETE_SUBJECT", "subject": "j", "magic": 0}, {"subject": "j", "version": 1}),
]
"""As Karapace writes it; also from its test data: one schema with two ids, and keys in another order."""


def test_the_topic_of_karapace_is_served_as_it_was(registry_log: Log, topic: str) -> None:
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    for key, value in KARAPACE:
        place = {name: key[name] for name in ("subject", "version") if name in key}
        record = "" if value is None else json.dumps({**place, **value})
        registry_log.append(topic, record, key=json.dumps(key), partition=0)
    registry = Registry(registry_log, topic)
    assert registry.subjects(None) == ["a"]
    assert registry.versions("a") == [1]
    assert registry.versions("j", deleted=True) == [1]
    assert registry.subjects(None, deleted=True) == ["a", "j"]
    assert registry.settings.config("a") == {"compatibilityLevel": "NONE"}
    assert registry.register("a", SchemaRequest("AVRO", '"string"')).id == 1
    assert registry.register("a", avro("new")).id == 5


def test_the_record_that_lets_karapace_take_over_changes_nothing(registry_log: Log, topic: str) -> None:
    """The docs name it: Karapace waits for a plain record at the topic's end."""
    registry = Registry(registry_log, topic)
    registry.register("a", avro("a"))
    registry.delete_version("a", 1)
    registry.delete_version("a", 1, permanent=True)
    registry_log.append(topic, "{}", key='{"keytype":"NOOP","magic":1}', partition=0)
    assert Registry(registry_log, topic).register("a", avro("b")).id == 2


def test_records_of_others_are_read_as_they_are(registry_log: Log, topic: str) -> None:
    """As the Schema Registry and Karapace write them, with fields and kinds of records that are not known here."""
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    schema = '{"type":"record","name":"A","fields":[]}'
    for key, value in (
        ({"keytype": "NOOP", "magic": 0}, None),
        ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"subject": None, "compatibilityLevel": "FULL"}),
        ({"keytype": "MODE", "subject": "b", "magic": 0}, {"subject": "b", "mode": "READONLY"}),
        (
            {"keytype": "SCHEMA", "subject": "a", "version": 3, "magic": 1},
            {"subject": "a", "version": 3, "id": 17, "md5": "x", "schema": schema, "deleted": False, "tags": ["t"]},
        ),
        ({"keytype": "SCHEMA", "subject": "c", "version": 1, "magic": 1}, {"subject": "c", "id": 18, "schema": schema}),
        ({"keytype": "DELETE_SUBJECT", "subject": "c", "magic": 0}, {"subject": "c", "version": 1}),
        ({"keytype": "SOMETHING", "magic": 7}, {"new": True}),
        ({"keytype": "SCHEMA", "subject": "d", "version": "x"}, {"schema": 5}),
        ({"keytype": "SCHEMA", "subject": "a", "version": 3, "magic": 1}, {"id": "none", "schema": schema}),
    ):
        registry_log.append(topic, value, key=json.dumps(key, separators=(",", ":")))
    registry_log.append(topic, b"\xff{", key=b"\xff")
    registry_log.append(topic, b'{"id":1e999,"schema":"x"}', key=b'{"keytype":"SCHEMA","subject":"e","version":1}')
    half = b'{"subject":"c","version":1,"id":18,"schema":"\\ud800","deleted":true}'
    registry_log.append(topic, half, key=b'{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}')
    registry = Registry(registry_log, topic)
    assert registry.settings.config() == {"compatibilityLevel": "FULL"}
    assert registry.settings.mode("b") == "READONLY"
    assert registry.subjects(None) == ["a"]
    assert registry.subjects(None, deleted=True) == ["a", "c"]
    assert registry.version("a", 3).id == 17
    assert registry.register("new", avro("B")).id == 19
    registry.delete_version("a", 3)
    written = [each for each in registry_log.read(topic) if b'"version":3' in (each.key or b"")][-1]
    assert json.loads(written.value or b"") == {
        "subject": "a",
        "version": 3,
        "id": 17,
        "tags": ["t"],
        "schema": schema,
        "deleted": True,
    }


def test_an_id_that_went_for_good_is_not_used_again_by_a_new_registry(registry_log: Log, topic: str) -> None:
    first = Registry(registry_log, topic)
    first.register("a", avro("A"))
    first.register("b", avro("B"))
    first.delete_subject("b")
    first.delete_subject("b", permanent=True)
    latest = {each.key: each.value for each in registry_log.read(topic)}
    compacted = [(key, value) for key, value in latest.items() if value is not None]
    registry_log.delete_topic(topic)
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    registry_log.append_many(topic, compacted)  # as if compaction had run
    assert Registry(registry_log, topic).register("c", avro("C")).id == 3


def test_a_topic_that_was_removed_takes_its_schemas_along(registry_log: Log, topic: str) -> None:
    registry = Registry(registry_log, topic)
    registry.register("a", avro("A"))
    registry_log.delete_topic(topic)
    assert registry.subjects(None) == []


def test_a_topic_of_several_partitions_is_refused(registry_log: Log, topic: str) -> None:
    registry_log.create_topic(topic, partitions=2)
    registry = Registry(registry_log, topic)
    with pytest.raises(ConfigError, match="2 partitions, and the schema registry needs one"):
        registry.subjects(None)
    with pytest.raises(ConfigError, match="2 partitions, and the schema registry needs one"):
        registry.register("a", avro("A"))


def test_a_topic_that_would_forget_schemas_is_refused(registry_log: Log, topic: str) -> None:
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact,delete"})
    with pytest.raises(ConfigError, match="set it to compact"):
        Registry(registry_log, topic).register("a", avro("A"))


def test_a_topic_that_is_recreated_so_that_it_would_forget_schemas_is_refused(registry_log: Log, topic: str) -> None:
    registry = Registry(registry_log, topic)
    registry.register("a", avro("A"))
    registry_log.delete_topic(topic)
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "delete"})
    assert registry.subjects(None) == []
    with pytest.raises(ConfigError, match="set it to compact"):
        registry.register("a", avro("A"))


def test_a_write_that_another_registry_interrupts_is_made_whole(registry_log: Log, topic: str) -> None:
    """Another producer takes over the transactional id between reading and writing: the step is taken again."""
    registry, calls = Registry(registry_log, topic), []

    def interrupted(state: object) -> tuple[list[tuple[bytes, bytes | None]], int]:
        calls.append(state)
        if len(calls) == 1:
            with registry_log.transaction(f"mainstem-registry-{topic}"):
                pass
        return [(b'{"keytype":"NOOP","magic":0}', b"{}")], len(calls)

    assert registry._store.write(interrupted) == 2
    assert len(list(registry_log.read(topic))) == 1


def test_ten_thousand_schemas_are_read_at_a_start(registry_log: Log, topic: str) -> None:
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    registry_log.append_many(topic, map(_record, range(10_000)))
    ratios = []
    for _ in range(3):
        begun = time.perf_counter()
        records = [(json.loads(each.key or b""), json.loads(each.value or b"")) for each in registry_log.read(topic)]
        parsed = time.perf_counter()
        assert Registry(registry_log, topic).settings.greatest_id(".") == len(records)
        ratios.append((time.perf_counter() - parsed) / (parsed - begun))
    assert min(ratios) < 6, f"times what it takes to read the records alone: {ratios}"


def _record(number: int) -> tuple[str, bytes]:
    subject = f"topic-{number}-value"
    fields = [{"name": f"field_{nth}", "type": "string"} for nth in range(20)]
    schema = json.dumps({"type": "record", "name": f"R{number}", "fields": fields}, separators=(",", ":"))
    key = f'{{"keytype":"SCHEMA","subject":"{subject}","version":1,"magic":1}}'
    return key, json.dumps({"subject": subject, "version": 1, "id": number + 1, "schema": schema}).encode()
