"""``mainstem append`` and ``mainstem read``."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator

import pytest

from mainstem.client.log import Log
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.registration import register_topic
from mainstem.schema.infer import schema_of
from tests.cli.commands import Commands


def test_what_is_appended_is_read(command: Commands, mainstem_topic: str) -> None:
    done = command.run("append", mainstem_topic, '{"a": 1}', "--key", "k", "--header", "h=v")
    assert (done.code, done.out.strip()) == (0, f"{mainstem_topic}/0:1")
    assert command.run("read", mainstem_topic).out == '0:0\tk\t{"a": 1}\n'
    record = json.loads(command.run("read", mainstem_topic, "--json").out)
    assert (record["key"], record["value"], record["headers"]) == ("k", {"a": 1}, [{"name": "h", "value": "v"}])


def test_the_lines_of_standard_input_become_records(
    command: Commands, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("eins\nzwei é\n".encode())))
    assert command.run("append", mainstem_topic, "--json").json["records"] == 2
    assert command.run("read", mainstem_topic).out == "0:0\t(null)\teins\n0:1\t(null)\tzwei é\n"


def test_a_tombstone_is_shown_as_null(command: Commands, mainstem_topic: str) -> None:
    assert command.run("append", mainstem_topic, "--key", "k", "--tombstone").code == 0
    assert command.run("read", mainstem_topic).out == "0:0\tk\t(null)\n"


def test_a_read_is_bounded_by_place_key_and_limit(command: Commands, mainstem_topic: str) -> None:
    for number in range(4):
        command.run("append", mainstem_topic, str(number), "--key", "ab"[number % 2])
    assert command.run("read", mainstem_topic, "--from", "1", "--to", "3").out == "0:1\tb\t1\n0:2\ta\t2\n"
    assert command.run("read", mainstem_topic, "--key", "b", "--limit", "1").out == "0:1\tb\t1\n"
    assert command.run("read", mainstem_topic, "--from", f"{mainstem_topic}/0:3").out == "0:3\tb\t3\n"


def test_following_starts_where_it_is_told_and_ends_at_its_limit(command: Commands, mainstem_topic: str) -> None:
    command.run("append", mainstem_topic, "x")
    assert command.run("read", mainstem_topic, "--follow", "--limit", "1").out == "0:0\t(null)\tx\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("append", "nope", "x"),
        ("read", "nope"),
        ("append", "{topic}", "x", "--tombstone", "--key", "k"),
        ("append", "{topic}", "--tombstone"),
        ("append", "{topic}", "x", "--partition", "9"),
        ("append", "{topic}", "x" * 2_000_000),
        ("read", "{topic}", "--from", "yesterday"),
        ("read", "{topic}", "--from", "99"),
        ("read", "{topic}", "--from", "other/0:1"),
        ("read", "{topic}", "--from", "{topic}/0:99"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(
    command: Commands, mainstem_topic: str, arguments: tuple[str, ...]
) -> None:
    done = command.run(*(word.replace("{topic}", mainstem_topic) for word in arguments))
    assert (done.code, done.out) == (1, "")
    assert done.error
    assert command.run("read", mainstem_topic).out == ""


@pytest.fixture
def featured_topic(mainstem_log: Log) -> Iterator[str]:
    configs = {
        "mainstem.key.index": "true",
        "mainstem.conditional.append": "true",
        "mainstem.idempotency.window.ms": "60000",
    }
    mainstem_log.create_topic("featured", partitions=1, configs=configs)
    yield "featured"
    mainstem_log.delete_topic("featured")


def test_an_append_can_state_conditions(command: Commands, featured_topic: str) -> None:
    assert command.run("append", featured_topic, "1", "--key", "k", "--expect-key-offset", "-1").code == 0
    refused = command.run("append", featured_topic, "2", "--key", "k", "--expect-key-offset", "-1")
    assert refused.code == 1
    assert "actual 0" in refused.err
    assert command.run("append", featured_topic, "2", "--key", "k", "--expect-end", "1").code == 0
    read = command.run("read", featured_topic, "--key", "k")
    assert (read.out, read.err) == ("0:0\tk\t1\n0:1\tk\t2\n", "")


def test_an_append_can_be_tried_again(command: Commands, featured_topic: str) -> None:
    for _ in range(2):
        done = command.run("append", featured_topic, "1", "--idempotency-key", "x")
        assert (done.code, done.out) == (0, "featured/0:1\n")


def test_conditions_are_for_one_record(command: Commands, featured_topic: str) -> None:
    assert command.run("append", featured_topic, "--expect-end", "0").code == 1


def test_a_read_by_key_that_scans_says_so(command: Commands, mainstem_topic: str) -> None:
    command.run("append", mainstem_topic, "1", "--key", "k")
    read = command.run("read", mainstem_topic, "--key", "k")
    assert read.out == "0:0\tk\t1\n"
    assert "scanning" in read.err


def test_values_of_an_encoded_topic_are_json_at_the_command(
    command: Commands, mainstem_log: Log, mainstem_topic: str
) -> None:
    register_topic(mainstem_log, mainstem_topic, schema_of("a INT"), (), "avro")
    assert command.run("append", mainstem_topic, '{"a": 1}', "--key", "k").code == 0
    (record,) = mainstem_log.read(mainstem_topic)
    assert schema_id_of(record.value or b"")[0] is not None
    assert command.run("read", mainstem_topic).out == '0:0\tk\t{"a":1}\n'
    refused = command.run("append", mainstem_topic, '{"a": "x"}')
    assert (refused.code, "column 'a': \"x\" is not INT" in refused.error) == (1, True)


def test_a_topic_that_names_schemas_in_headers_gets_them_from_the_command(
    command: Commands, mainstem_log: Log, mainstem_topic: str
) -> None:
    topic = f"{mainstem_topic}-framed"
    mainstem_log.create_topic(topic, configs={"mainstem.conditional.append": "true"})
    register_topic(mainstem_log, topic, schema_of("a INT"), (), "avro", None, "header")
    assert command.run("append", topic, '{"a": 1}', "--header", "x=y").code == 0
    assert command.run("append", topic, '{"a": 2}', "--expect-end", "1").code == 0
    names = [[name for name, _ in record.headers] for record in mainstem_log.read(topic)]
    assert names == [["x", "__value_schema_id"], ["__value_schema_id", "mainstem-expect-end"]]
    assert command.run("read", topic).out == '0:0\t(null)\t{"a":1}\n0:1\t(null)\t{"a":2}\n'


def test_encoded_keys_are_text_at_the_command(command: Commands, mainstem_log: Log, mainstem_topic: str) -> None:
    register_topic(mainstem_log, mainstem_topic, schema_of("a INT"), ("a",), None, "avro")
    for a in (1, 2):
        assert command.run("append", mainstem_topic, f'{{"a": {a}}}', "--key", str(a)).code == 0
    command.run("append", mainstem_topic, "--key", "1", "--tombstone")
    assert [schema_id_of(record.key or b"")[0] is None for record in mainstem_log.read(mainstem_topic)] == [False] * 3
    assert command.run("read", mainstem_topic, "--key", "1").out == '0:0\t1\t{"a": 1}\n0:2\t1\t(null)\n'
    refused = command.run("append", mainstem_topic, '{"a": 1}', "--key", "x")
    assert (refused.code, "'x' is not a key of it: a is INT" in refused.error) == (1, True)


def test_lines_for_an_encoded_topic_are_encoded_and_a_wrong_one_is_numbered(
    command: Commands, mainstem_log: Log, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_topic(mainstem_log, mainstem_topic, schema_of("a INT"), (), "avro")
    monkeypatch.setattr("mainstem.cli.records.append._BLOCK_BYTES", 20)  # so that lines are cut between two reads
    lines = "".join(f'{{"a": {number}}}\n' for number in range(10))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert command.run("append", mainstem_topic, "--json").json["records"] == 10
    values = [json.loads(line.split("\t")[2]) for line in command.run("read", mainstem_topic).out.splitlines()]
    assert values == [{"a": number} for number in range(10)]
    wrong = lines + '{"a": "x"}\n{"a": 1}'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(wrong.encode())))
    assert command.run("append", mainstem_topic).error == (
        f"line 11: topic {mainstem_topic}: column 'a': \"x\" is not INT; the lines before it may have been appended"
    )
