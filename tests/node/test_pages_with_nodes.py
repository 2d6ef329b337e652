"""The pages on operation run as a reader would run them: backups, mirrors, verifiable history, and pytest's tests."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import mainstem as ms
from mainstem.client.log import Log
from mainstem.protocol.apis import ApiKey
from mainstem.tlog.key_file import read_keys
from tests.house.pages import ROOT, Block, blocks_of, lines_of_console, lines_of_shell, not_in_form
from tests.node.page_session import PageSession
from tests.support.apache_kafka import tool_argv
from tests.support.ports import free_port
from tests.tlog.witness import SpecWitness, answering, key_text

LESSON = "docs/learn/7-test-it.md"
PYTEST = ("README.md", "docs/howto/testing.md", pytest.param(LESSON, marks=pytest.mark.spark))
SHOP = """
import mainstem as ms

app = ms.App("shop")
orders = app.topic("orders", "id STRING, total INT, pieces INT", key="id")


def totals(state, record):
    return {"each": record.value["total"] / record.value["pieces"]}


app.view("orders", orders, ms.KeyValue(fold=totals, initial={"each": 0.0}))
"""
SIGNING = "/etc/mainstem/signing-keys.txt"


def of_node(page: str) -> list[Block]:
    """The blocks of a page that start nodes or need one."""
    return [block for block in blocks_of(ROOT / page) if block.mark == "node"]


def write_app(page: str, path: Path) -> None:
    """Save the App of a page."""
    [app] = (block for block in blocks_of(ROOT / page) if block.mark == "app")
    path.write_text(app.text)


def any_address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("page", PYTEST)
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    found = [block for block in blocks_of(ROOT / page) if block.mark == "pytest"]
    for number, block in enumerate(found):
        (tmp_path / f"test_page_{number}.py").write_text(block.text)
    if page == LESSON:
        write_app("docs/learn/4-a-pipeline.md", tmp_path / "cafe.py")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert run.returncode == 0, run.stdout
    assert f"{sum(block.text.count('def test_') for block in found)} passed" in run.stdout


def test_a_backup_is_made_restored_and_verified(tmp_path: Path) -> None:
    start, settings, tiered, restore, restored, drill, stopped = of_node("docs/operate/backup.md")
    places = {"s3://backups": f"file://{tmp_path}", "orders/0:1700": "orders/0:1"}
    places |= {"127.0.0.1:19092": any_address(), "127.0.0.1:18080": any_address()}
    places |= {
        "mainstem serve --backup": "mainstem serve --backup-every 0.5s --backup",
        'every = "5s"': 'every = "0.5s"',
    }
    with PageSession(tmp_path, places) as session:
        session.run(start)
        with Log(session.log) as log:
            log.create_topic("orders")
            log.append("orders", {"id": 1})
        points, *restores = lines_of_shell(restore.text)
        session.until(points, lambda said: "orders/0:1" in said, "a point with the record")
        session.stop()
        (tmp_path / "mainstem.toml").write_text(session.here(settings.text))
        session.line("mainstem serve")
        with Log(session.log) as log:
            log.append("orders", {"id": 2})
        session.until(points, lambda said: "orders/0:2" in said, "a point by the settings of the file")
        session.run(tiered)
        session.stop()
        (tmp_path / "mainstem.toml").unlink()
        for line in restores:
            if "2026-01-31" in line:  # there was no log yet at this time
                assert "before" in session.fails(line, 1)
            else:
                session.line(line)
        session.run(restored)
        session.stop()
        verify, *rest = lines_of_shell(drill.text)
        assert "no damage" in session.line(verify)
        assert '{"id":1}' in "".join(map(session.line, rest))
        session.stop()
        _, *copied = lines_of_shell(stopped.text)
        for line in copied:
            session.line(line)


def test_a_mirror_is_promoted_as_planned_back_and_when_its_source_is_lost(tmp_path: Path) -> None:
    mirror, promote, back, lost, losses = of_node("docs/operate/mirror.md")
    first, second = any_address(), any_address()
    with PageSession(tmp_path, {"log1:9092": first, "log2:9092": second}) as session:
        for name, address in (("first", first), ("second", second)):
            session.line(f"mainstem serve --no-http --data {name} --listen {address}")
        with Log(first) as one, Log(second) as two:
            one.create_topic("orders")
            end = one.append("orders", {"id": 1})
            session.run(mirror)
            status = f"mainstem mirror --from {first} --to {second} --status"
            session.until(status, lambda said: "orders" in said, "the topic at the second log")
            session.run(promote)
            assert two.end("orders") == end
            two.append("orders", {"id": 2})
            session.run(back)
            assert one.end("orders") == two.end("orders")
            one.append("orders", {"id": 3})
        session.run(mirror)
        with Log(second) as two:
            session.until(status, lambda _: two.end("orders")[ms.TopicPartition("orders", 0)] == 3, "all records")
        begun = _transaction(first)  # the copy ends within it
        begun.begin_transaction()
        begun.produce("orders", b"{}")
        assert begun.flush(30) == 0
        session.until(status, lambda _: _end_offset(second) == 4, "the record of the transaction")
        session.stop()
        session.line(f"mainstem serve --no-http --data second --listen {second}")
        session.run(lost)
        session.line(f"mainstem serve --no-http --data first --listen {first}")
        _transaction(first)  # it aborts the one before
        with Log(first) as one:
            one.append("orders", {"id": 4})
        said, _ = (session.line(line) for line in _narrowed(losses))
        assert "orders/0:4" in said
        assert not_in_form(losses.shown, said) == []


def _transaction(bootstrap: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "cashier", "log_level": 0})
    producer.init_transactions(30)
    return producer


def _end_offset(bootstrap: str) -> int:
    """The end of the topic with what is not committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": "read_uncommitted"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)
    finally:
        consumer.close()
    return int(end)


def _narrowed(losses: Block) -> list[str]:
    """The lines of the block, with the offsets that were lost here."""
    text = losses.text.replace("orders/0:1200", "orders/0:4").replace("orders/0:1216", "orders/0:6")
    return list(lines_of_shell(text))


def test_history_is_proved_watched_and_its_key_rotated(tmp_path: Path) -> None:
    start, topic, prove, verify, view, watch, fsck, witnessed, rotate = of_node("docs/howto/verifiable.md")
    places = {SIGNING: "signing-keys.txt", "ledger/0:4711": "ledger/0:1", "http://127.0.0.1:8080": "http://GATEWAY"}
    with PageSession(tmp_path, places) as session:
        key = session.run(start).splitlines()[0]
        session.set("PUBLIC_KEY", key)
        session.run(topic)
        with Log(session.log) as log:
            log.append("ledger", {"amount": 1}, key="ada")
            log.append("ledger", {"amount": 2}, key="ada")
        session.run(prove)
        session.run(verify)
        spec = SpecWitness(read_keys(tmp_path / "signing-keys.txt")[0])
        with answering(spec.answer) as url:
            session.set("WITNESS", f"{key_text(spec.key)} {url}")
            for line in list(lines_of_shell(witnessed.text))[1:]:
                session.line(line)
        assert spec.sizes
        session.run(watch)
        with Log(session.log) as log:
            log.append("ledger", {"amount": 3})
        session.line("cp monday.checkpoint first.checkpoint")
        session.run(watch)
        assert (tmp_path / "first.checkpoint").read_bytes() != (tmp_path / "tuesday.checkpoint").read_bytes()
        origin, show, *_ = lines_of_shell(fsck.text)  # the rest is fsck: tests/tlog/test_foreign_checkers.py
        session.line(f"{origin}; {show}")
        assert (tmp_path / "public-key.txt").read_text().startswith("log.example.com/ledger/")
        turn, retire = lines_of_shell(rotate.text)
        session.line(turn)
        session.line(retire.replace("530d903a", key.split("+")[1]))
        assert key not in session.line("mainstem keys show --file signing-keys.txt")
        _ask_with_checkpoints(view, session, tmp_path)


def _ask_with_checkpoints(view: Block, session: PageSession, directory: Path) -> None:
    """A view over the ledger, in an App beside the node."""
    program = "import mainstem as ms\n\napp = ms.App('bank')\n"
    program += "app.view('balances', app.topic('ledger', 'amount INT'), ms.KeyValue())\n"
    (directory / "bank.py").write_text(program)
    session.set("MAINSTEM_HTTP", other := any_address())
    session.line(f"mainstem run bank.py --bootstrap {session.log} --data bank")
    names: dict[str, Any] = {"ms": ms}
    with Log(session.log) as log:
        end = log.end("ledger")
    asked = view.text.replace("localhost:8080", other).replace('"ada", ', f'"ada", at_least={str(end)!r}, timeout=60, ')
    exec(asked, names)
    assert names["answer"].checkpoints["ledger/0"]


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("docs/learn/1-a-log.md", ""),
        ("docs/learn/3-a-view.md", "cafe.py"),
        ("docs/howto/alert.md", "health.py"),
        ("docs/reference/commands.md", ""),
    ],
)
def test_what_a_page_starts_is_ready(page: str, file: str, tmp_path: Path) -> None:
    places = {"https://alerts.example.com/hook": f"http://{any_address()}/hook", "/var/lib/mainstem": "mainstem-data"}
    places |= {"s3://backups": f"file://{tmp_path}"}
    with PageSession(tmp_path, places) as session:
        session.place("127.0.0.1:9092", session.log)
        session.place("127.0.0.1:8080", session.http)
        if file:
            write_app(page, tmp_path / file)
        shown = dict(pair for block in of_node(page) for pair in lines_of_console(block.text))
        for line in (line for block in of_node(page) for line in lines_of_shell(block.text)):
            if line.startswith(("mainstem serve", "mainstem run")):
                session.stop()
                ready = session.line(line)
                assert ready.startswith("ready: ")
                assert ready == session.here(shown.get(line, ready))
            elif line.startswith("mainstem backup s3"):
                assert session.line(line).startswith("ready: backup file://")
            elif line.startswith("mainstem backup points"):
                session.until(line, bool, "a point")
            elif line.startswith("mainstem restore"):
                session.fails(line, 1)  # there was no log yet at its time
            else:
                session.line(line)


def test_agents_get_the_address_that_the_page_shows(tmp_path: Path) -> None:
    [block] = of_node("docs/howto/agents.md")
    [(line, shown)] = lines_of_console(block.text)
    with PageSession(tmp_path, {"127.0.0.1:8090": any_address()}) as session:
        session.line("mainstem serve")
        assert session.line(line) == session.here(shown)


def test_the_log_process_writes_its_events_as_the_page_shows(tmp_path: Path) -> None:
    [block] = of_node("docs/operate/operations.md")
    written = ""
    with PageSession(tmp_path) as session:
        for form in ("text", "json"):
            session.line(f"mainstem serve --no-http --data {form} --log-format {form}:info")
            host, _, port = session.log.partition(":")
            with socket.create_connection((host, int(port)), 60) as client:
                client.sendall(struct.pack(">ihhih", 10, ApiKey.FETCH, 99, 1, -1))
                assert client.recv(1) == b""
            session.stop()
            written += (tmp_path / form / "run" / "log.log").read_text()
    assert not_in_form(block.text, written) == []


def test_records_are_consumed_in_the_background(tmp_path: Path) -> None:
    [block] = of_node("docs/howto/consume.md")
    with PageSession(tmp_path) as session:
        session.line("mainstem serve --no-http")
        with Log(session.log) as log:
            log.create_topic("orders")
            log.append("orders", {"id": 1}, key="a")
        (tmp_path / "consume.py").write_text(block.text.replace("localhost:9092", session.log))
        assert session.line("python -u consume.py") == "b'a' b'{\"id\":1}'\n"
        session.stop(signal.SIGTERM)  # asyncio of Python 3.11 may lose a ctrl-C that comes while it begins to wait


@pytest.mark.maven
def test_dead_letters_are_listed_and_marked(tmp_path: Path) -> None:
    listed, shown, handled, share = of_node("docs/howto/dead-letters.md")
    (tmp_path / "shop.py").write_text(SHOP)
    tool = shlex.join(tool_argv("kafka.admin.ConfigCommand"))
    with PageSession(tmp_path, {"kafka-configs.sh": tool}) as session:
        session.line("mainstem run shop.py")
        with Log(session.log) as log:
            for number in range(3):
                log.append("orders", {"id": f"A-{number}", "total": 20, "pieces": 0}, key=f"A-{number}")
            log.append("orders", b"no JSON", key="A-3")
        [command] = lines_of_shell(listed.text)
        session.until(command, lambda said: said.count("view orders") == 2, "both groups of dead letters")
        group = re.search(r"ZeroDivisionError .* (\w+) *\n", session.line(command))
        assert group is not None
        assert not_in_form(listed.shown, session.line(command)) == []
        session.place("0f3b1c86a2d4", group[1])
        session.place("0:131", "0:0")
        assert not_in_form(shown.shown, session.run(shown)) == []
        session.run(handled)
        session.place("localhost:9092", session.log)
        session.run(share)
        with Log(session.log) as log:
            assert "dlq.orders" in log.topics()
