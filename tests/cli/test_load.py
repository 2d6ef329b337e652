"""``mainstem load``."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from tests.cli.commands import Commands


def written(tmp_path: Path, text: str, name: str = "file.csv") -> str:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def test_a_file_is_loaded_into_a_new_topic(command: Commands, tmp_path: Path, mainstem_log: Log) -> None:
    path = written(tmp_path, "id,n\na,1\nb,NA\n")
    done = command.run("load", path, "--topic", "load-new", "--key", "id", "--partitions", "2", "--json")
    assert (done.code, done.json["records"]) == (0, 2)
    found = {record.key: record.value for record in mainstem_log.read("load-new")}
    assert found == {b"a": b'{"id":"a","n":1}', b"b": b'{"id":"b","n":null}'}
    assert mainstem_log.describe_topic("load-new").info.partitions == 2
    assert done.json["position"] == str(mainstem_log.end("load-new").restrict({"load-new"})) or done.json["position"]


def test_a_load_says_what_it_did(command: Commands, tmp_path: Path) -> None:
    done = command.run("load", written(tmp_path, '{"a":1}\n', "x.jsonl.gz"), "--topic", "load-says")
    assert done.out.splitlines()[0].startswith("1 records into load-says in ")
    assert done.out.splitlines()[1] == "position load-says/0:1"


def test_the_topics_own_schema_gives_key_and_types(command: Commands, tmp_path: Path, mainstem_log: Log) -> None:
    mainstem_log.create_topic("load-typed", partitions=1)
    register(mainstem_log, "load-typed", schema_of("id STRING NOT NULL, zip STRING, n DOUBLE"), ("id",))
    command.run("load", written(tmp_path, "zip,n,id\n01234,1,x\n"), "--topic", "load-typed")
    (record,) = mainstem_log.read("load-typed")
    assert (record.key, record.value) == (b"x", b'{"zip":"01234","n":1.0,"id":"x"}')


def test_a_derived_column_can_be_the_key(command: Commands, tmp_path: Path, mainstem_log: Log) -> None:
    path = written(tmp_path, "a,b\nx,1\n")
    command.run("load", path, "--topic", "load-derived", "--derive", "id={a}-{b}", "--key", "id")
    (record,) = mainstem_log.read("load-derived")
    assert (record.key, record.value) == (b"x-1", b'{"a":"x","b":1,"id":"x-1"}')


def test_a_file_without_a_column_of_the_topics_schema_is_refused(
    command: Commands, tmp_path: Path, mainstem_log: Log
) -> None:
    mainstem_log.create_topic("load-missing", partitions=1)
    register(mainstem_log, "load-missing", schema_of("id STRING NOT NULL, origin STRING"), ("id",))
    done = command.run("load", written(tmp_path, "id,dest\nx,y\n"), "--topic", "load-missing")
    assert done.code == 1
    assert "has no column 'origin', which the topic's schema asks for; it has id, dest" in done.error
    assert mainstem_log.describe_topic("load-missing").offsets == 0


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("a,b\n1,2\n3\n", (), "row 3"),
        ("a,b\n1,2\n", ("--key", "id"), "has no column 'id', which is the key"),
        ("a,b\n1,2\n", ("--derive", "id={x}"), "has no column 'x', which a derived column needs"),
        ("a,b\n1,2\n", ("--derive", "id=plain"), "invalid template"),
        ("", (), "is empty"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_no_topic_made(
    command: Commands, tmp_path: Path, mainstem_log: Log, text: str, arguments: tuple[str, ...], words: str
) -> None:
    done = command.run("load", written(tmp_path, text), "--topic", "load-never", *arguments)
    assert (done.code, done.out) == (1, "")
    assert words in done.error
    assert "load-never" not in mainstem_log.topics()


def test_a_row_without_its_key_is_named(command: Commands, tmp_path: Path) -> None:
    done = command.run("load", written(tmp_path, "id,n\na,1\n,2\n"), "--topic", "load-null", "--key", "id")
    assert (done.code, "row 3: key column 'id' is null" in done.error) == (1, True)


def test_a_file_that_is_not_there_or_of_no_known_kind_is_refused(command: Commands, tmp_path: Path) -> None:
    missing = command.run("load", str(tmp_path / "no.csv"), "--topic", "t")
    unknown = command.run("load", written(tmp_path, "x", "x.docx"), "--topic", "t")
    assert (missing.code, "no such file" in missing.error) == (1, True)
    assert (unknown.code, "its name does not show its format" in unknown.error) == (1, True)


def test_files_directories_and_patterns_are_loaded_in_turn(
    command: Commands, tmp_path: Path, mainstem_log: Log
) -> None:
    (tmp_path / "in").mkdir()
    first, second = written(tmp_path, "id;n\na;1\n", "in/1.csv"), written(tmp_path, "id;n\nb;1.5\n", "in/2.csv.gz")
    copy = written(tmp_path, "id;n\na;1\n", "copy-1.csv")
    arguments = (first, str(tmp_path / "in"), str(tmp_path / "copy-*"), "--topic", "load-many", "--delimiter", ";")
    done = command.run("load", *arguments, "--json")
    assert (done.code, done.json["records"], done.json["records_before"]) == (0, 3, 0)
    # One column, one type; a file with the content of another is another.
    values = [record.value for record in mainstem_log.read("load-many")]
    assert values == [b'{"id":"a","n":1.0}', b'{"id":"b","n":1.5}', b'{"id":"a","n":1.0}']
    again = command.run("load", *arguments, "--json")
    assert (again.json["records"], again.json["records_before"]) == (0, 3)
    assert Path(second).is_file()
    assert Path(copy).is_file()


def test_one_broken_file_of_several_is_refused_with_all(command: Commands, tmp_path: Path, mainstem_log: Log) -> None:
    good, bad = written(tmp_path, '[{"a": 1}]', "1.json"), written(tmp_path, '{"a": 1}\n{"a": "\\ud800"}\n', "2.jsonl")
    done = command.run("load", good, bad, "--topic", "load-none")
    assert done.code == 1
    assert f"{bad}: line 2 is not JSON: it has a lone surrogate" in done.error
    assert "load-none" not in mainstem_log.topics()


@pytest.mark.parametrize("delimiter", ["ab", '"', ""])
def test_a_delimiter_is_one_character(command: Commands, tmp_path: Path, delimiter: str) -> None:
    path = written(tmp_path, "a\n1\n")
    done = command.run("load", path, "--topic", "load-delimiter", "--delimiter", delimiter)
    assert "invalid delimiter" in done.error
