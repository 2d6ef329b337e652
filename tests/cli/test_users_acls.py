"""``mainstem users`` and ``mainstem acls``, and the security options of every command."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.cli.settings import export_security
from mainstem.client.security import OPTIONS, variable_of
from mainstem.errors import ConfigError
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands

USERS = {"admin": "admin's"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(users=USERS, settings={"super.users": "User:admin"}) as running:
        yield running


@pytest.fixture
def command(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)
    log_in_as(broker, "admin", USERS["admin"], monkeypatch)
    return Commands(capsys)


def log_in_as(broker: EmbeddedBroker, user: str, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**broker.security("admin"), "sasl.username": user, "sasl.password": password}
    for name, value in options.items():
        monkeypatch.setenv(variable_of(name), value)


def type_in(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_user_that_is_not_there_cannot_be_removed(command: Commands) -> None:
    done = command.run("users", "remove", "nemo", "--yes")
    assert (done.code, done.error) == (1, "user 'nemo' does not exist; mainstem users list shows all")


def test_a_user_is_added_may_do_what_an_acl_says_and_is_removed(
    command: Commands, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in("hers\n", monkeypatch)
    assert command.run("users", "add", "alice").out == "added alice\n"
    added = command.run("acls", "add", "User:alice", "--operation", "all", "--on", "topic:a-", "--prefix", "--json")
    (row,) = added.json["acls"]
    assert row == {
        "principal": "User:alice",
        "permission": "Allow",
        "operation": "All",
        "resource": "Topic",
        "name": "a-",
        "pattern": "Prefixed",
        "host": "*",
    }
    log_in_as(broker, "alice", "hers", monkeypatch)
    assert command.run("topics", "create", "a-1").code == 0
    refused = command.run("topics", "create", "b-1")
    assert (refused.code, "authorization" in refused.error.lower()) == (1, True)
    log_in_as(broker, "admin", USERS["admin"], monkeypatch)
    assert command.run("acls", "list", "--on", "topic:a-1", "--json").json["acls"] == [row]
    assert command.run("acls", "list", "--on", "topic:b", "--json").json["acls"] == []
    removed = command.run("acls", "remove", "User:alice", "--on", "topic:a-", "--prefix", "--yes", "--json")
    assert removed.json["acls"] == [row]
    assert command.run("users", "list", "--json").json["users"] == [
        {"user": name, "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]} for name in ("admin", "alice")
    ]
    assert command.run("users", "remove", "alice", "--yes", "--json").json == {"removed": "alice"}
    log_in_as(broker, "alice", "hers", monkeypatch)
    assert "alice" in command.run("topics", "list").error


def test_the_first_user_is_made_before_the_log_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, data = Commands(capsys), str(tmp_path / "data")
    type_in("secret\n", monkeypatch)
    assert command.run("users", "add", "admin", "--mechanism", "SCRAM-SHA-512", "--data", data).code == 0
    assert command.run("users", "list", "--data", data, "--json").json == {
        "users": [{"user": "admin", "mechanisms": ["SCRAM-SHA-512"]}]
    }
    with EmbeddedBroker(tmp_path / "data") as running:
        refused = command.run("users", "list", "--data", data)
        assert (refused.code, data in refused.error) == (4, True)
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", running.bootstrap)
        assert command.run("users", "list", "--json").json["users"][0]["user"] == "admin"
    assert command.run("users", "remove", "admin", "--yes", "--data", data).code == 0
    assert "no users" in command.run("users", "list", "--data", data).out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["acls", "add", "User:a", "--operation", "read"], "--on"),
        (["acls", "add", "User:a", "--on", "topic:t"], "--operation"),
        (["acls", "add", "User:a", "--on", "topic:t", "--operation", "look"], "look"),
        (["acls", "add", "User:a", "--on", "table:t", "--operation", "read"], "table:t"),
        (["acls", "add", "alice", "--on", "topic:t", "--operation", "read"], "User:alice"),
        (["users", "add", "a", "--mechanism", "MD5"], "MD5"),
        (["users", "remove", "nobody", "--yes"], "nobody"),
    ],
)
def test_what_cannot_be_is_one_line(command: Commands, arguments: list[str], says: str) -> None:
    done = command.run(*arguments)
    assert done.code in (1, 2)
    assert says in done.error


def test_an_empty_password_is_refused(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in("\n", monkeypatch)
    assert "password" in command.run("users", "add", "alice").error


@pytest.fixture
def no_options(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without security options, which is put back afterwards."""
    for name in OPTIONS:
        monkeypatch.setenv(variable_of(name), "x")
        monkeypatch.delenv(variable_of(name))
    return monkeypatch


def test_files_say_how_to_log_in_and_the_environment_wins(tmp_path: Path, no_options: pytest.MonkeyPatch) -> None:
    import os

    toml, properties = tmp_path / "mainstem.toml", tmp_path / "client.properties"
    toml.write_text('security.protocol = "SASL_SSL"\nsasl.username = "toml"\n[ssl]\nca.location = "ca.pem"\n')
    properties.write_text("# mine\nbootstrap.servers=x:1\nsasl.username = properties\nsasl.password=a=b\n")
    no_options.setenv("MAINSTEM_SASL_MECHANISM", "PLAIN")
    try:
        export_security(toml, str(properties))
        found = {name: os.environ.get(variable_of(name)) for name in OPTIONS}
    finally:
        for name in OPTIONS:
            os.environ.pop(variable_of(name), None)
    assert {name: value for name, value in found.items() if value} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "properties",
        "sasl.password": "a=b",
        "ssl.ca.location": "ca.pem",
    }


@pytest.mark.parametrize("text", ["no.such.option=1", "nonsense"])
def test_a_file_of_options_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "client.properties").write_text(text)
    with pytest.raises(ConfigError):
        export_security(tmp_path / "none", str(tmp_path / "client.properties"))


@pytest.mark.parametrize("removal", ["users remove admin", "acls remove User:a --on topic:t", "tokens revoke shop"])
def test_a_removal_asks_first(command: Commands, removal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in("n\n", monkeypatch)
    done = command.run(*removal.split())
    assert (done.code, "not confirmed: nothing was changed" in done.err) == (1, True)
