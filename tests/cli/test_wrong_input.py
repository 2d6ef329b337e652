"""Every command with something wrong in its arguments or files: one plain line that names it, and no exit code 0."""

from __future__ import annotations

import io
import socketserver
import threading
from pathlib import Path

import pytest

from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands

HUGE = "99999999999"
APP = 'import mainstem as ms\n\napp = ms.App("a")\n'
FILES = {
    "app.py": APP,
    "exits.py": "import sys\n\nsys.exit(0)\n",
    "partitions.py": APP + 'app.topic("t", partitions="3")\n',
    "named.py": "import mainstem as ms\n\napp = ms.App(None)\n",
    "rows.csv": "a,b\n1,2\n",
    "bad.json": '{"a": 1}\n{bad\n',
    "bytes.json": "{}\n",
    "bad.csv.gz": "junk",
    "options": "nothing",
    "folder/file": "x",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with files of many kinds."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    Path("bytes.json").write_bytes(b'{"a": "\xff"}\n')
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("topics create t --partitions 0", "'--partitions': use 1 or more; see mainstem topics create --help"),
        (f"topics create t --partitions {HUGE}", "a number is outside the range of the Kafka protocol"),
        ("topics create t --partitions 10000000", "invalid number of partitions 10000000: use 1 to "),
        ("topics create a/b", "invalid topic name 'a/b': use letters, digits"),
        ("topics create a b c", "unexpected argument: b c; see mainstem topics create --help"),
        ("topcs list", "No such command 'topcs' (did you mean 'topics'?); see mainstem --help"),
        ("topics delete t --yse", "No such option: --yse (did you mean --yes?); see mainstem topics delete --help"),
        ("views query v k --timeout 400", "'--timeout': use 300 or less; see"),
        ("views rebuild v --from foo", "'--from': 'foo' is not one of 'log', 'left', 'lake', 'snapshot'; see"),
        ("read TOPIC --follow --to latest --to 3", "--follow has no end: leave out --to"),
        ("load bad.json --topic t", "bad.json: line 2 is not JSON: expecting property name enclosed in double quotes"),
        ("load bytes.json --topic t", "bytes.json: line 1 is not JSON: it is not UTF-8 text"),
        ("load bad.csv.gz --topic t", "bad.csv.gz: the compressed file is damaged, cut short, or not .gz data"),
        (f"load rows.csv --topic t --partitions {HUGE}", "a number is outside the range of the Kafka protocol"),
        ("bench --data rows.csv", "rows.csv: not a directory; name another directory (--data)"),
        ("bench --records 1 --record-bytes 9999999", "a record of 9,999,999 bytes cannot be sent"),
        (f"bench --records 1 --record-bytes {HUGE}", "'--record-bytes': use 100000000 or less"),
        ("tokens create a --read topic:", "'topic:' is not topic:NAME, view:NAME, topic:PREFIX* or *"),
        ("users list --data missing", "missing: no such data directory"),
        ("users remove bob --yes --data missing", "missing: no such data directory"),
        ("log verify --data folder", "folder is not a data directory, it has neither meta.properties nor partitions"),
        (f"log verify --data {'d' * 300}", f"{'d' * 300}: file name too long"),
        (f"log dump {'d' * 300}", "file name too long"),
        (f"load {'d' * 300}/*.csv --topic t", "file name too long"),
        (f"tokens list --file {'d' * 300}", "ile name too long"),
        (f"run {'d' * 300}.py", "file name too long"),
        (f"serve --data {'d' * 300} --no-http --listen 127.0.0.1:0", "ile name too long"),
        ("serve --http-tls-key key.pem", "--http-tls-key needs --http-tls-cert"),
        ("serve --listen no-such-host.invalid:19 --insecure --no-http", "cannot listen on no-such-host.invalid:19: "),
        ("run folder", "folder is a directory; name the Python file in it that declares your App"),
        ("run exits.py", "exits.py:3: SystemExit: 0"),
        ("run partitions.py", "partitions.py:4: invalid partitions '3' of topic t: use 1 or more"),
        ("run named.py", "named.py:3: invalid App name None: use letters"),
    ],
)
def test_what_is_wrong_is_one_plain_line(
    command: Commands, here: Path, mainstem_topic: str, mainstem_broker: EmbeddedBroker, arguments: str, words: str
) -> None:
    argv = [mainstem_topic if word == "TOPIC" else word for word in arguments.split()]
    if argv[0] == "bench" and "--data" not in argv:
        argv += ["--bootstrap", mainstem_broker.bootstrap]
    done = command.run(*argv)
    error = done.err.splitlines()[-1]
    assert (done.code in (1, 2, 4), words in error) == (True, True), done
    assert not any(dialect in error for dialect in ("Errno", "Input should", "a defect", "Unknown error")), error
    assert not Path("missing").exists()


class _Refusing(socketserver.BaseRequestHandler):
    """The answer of a web server to bytes that are not HTTP."""

    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_an_address_of_http_is_told_from_one_of_the_log(command: Commands, here: Path) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Refusing) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        address = f"127.0.0.1:{server.server_address[1]}"
        done = command.run("topics", "list", "--bootstrap", address)
        server.shutdown()
        serving.join()
    assert (done.code, f"{address} speaks HTTP, not the Kafka protocol" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[serve]\ndatta = 'x'\n", "mainstem.toml: [serve] has no option 'datta'; see mainstem serve --help"),
        ("[views.diff]\nquick = true\n", "[views.diff] has no option 'quick'; see mainstem views diff --help"),
        ("[topics]\npartitons = 3\n", "[topics] has no option 'partitons'; see mainstem topics --help"),
        ("[serve]\nset = ['num.partitions=x']\nlisten = '127.0.0.1:0'\n", "num.partitions='x': must be a whole number"),
        ("[serve]\nlog-format = 'foo'\n", "invalid log format 'foo'"),
    ],
)
def test_a_settings_file_is_read_by_the_names_of_options(command: Commands, here: Path, toml: str, words: str) -> None:
    Path("mainstem.toml").write_text(toml)
    done = command.run("serve", "--no-http", "--data", "data")
    assert (done.code, words in done.error) == (1, True), done


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "missing cannot be read: no such file or directory; MAINSTEM_CLIENT_CONFIG names it"),
        ("folder", "folder cannot be read: is a directory; MAINSTEM_CLIENT_CONFIG names it"),
        ("options", "options: write lines of NAME=VALUE"),
    ],
)
def test_a_file_of_client_options_that_cannot_be_read_is_named_once(
    command: Commands, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.setenv("MAINSTEM_CLIENT_CONFIG", name)
    assert command.run("topics", "list").error == words


@pytest.mark.parametrize("answer", ["", "no\n", "n"])
def test_a_question_is_answered_with_yes_or_nothing_happens(
    command: Commands, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    done = command.run("topics", "delete", mainstem_topic)
    question, *_, error = done.err.splitlines()
    assert (done.code, done.out, question) == (1, "", f"Delete {mainstem_topic} with all its records? [y/N]: ")
    assert error == "mainstem: error: not confirmed: nothing was changed; --yes answers the question"


def test_a_question_answered_with_yes_is_done(
    command: Commands, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert command.run("topics", "delete", mainstem_topic).out == f"deleted {mainstem_topic}\n"


def test_an_append_of_no_lines_says_so(command: Commands, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    done = command.run("append", mainstem_topic)
    assert (done.code, done.out) == (0, "")
    assert done.err == "mainstem: standard input had no lines: nothing was appended\n"


def test_an_app_without_pipelines_and_views_has_nothing_to_verify(command: Commands, here: Path) -> None:
    done = command.run("verify", "app.py")
    assert (done.code, done.out) == (0, "App a declares no pipelines and no views: there is nothing to verify\n")


def test_a_reason_is_said_once_for_the_views_that_share_it(command: Commands, here: Path) -> None:
    views = "".join(f'app.view("{name}", "t", ms.KeyValue())\n' for name in ("one", "two", "three"))
    Path("views.py").write_text(APP + 'app.topic("t", key="k")\n' + views)
    done = command.run("verify", "views.py", "--url", "http://127.0.0.1:1")
    assert (done.code, done.out.count("cannot be reached"), done.out.count("as above")) == (3, 1, 2)


def test_the_doctor_goes_on_behind_a_directory_that_cannot_be_looked_at(command: Commands) -> None:
    done = command.run("doctor", "--data", "d" * 300, "--json")
    found = {check["name"]: check for check in done.json["checks"]}
    assert (done.code, found["data directory"]["state"], "open files" in found) == (5, "failed", True)
