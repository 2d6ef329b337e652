"""The pages on operation run as a reader would run them: backups, mirrors, verifiable history, and pytest's tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mainstem as ms
from mainstem.client.log import Log
from tests.house.pages import ROOT, Block, blocks_of, lines_of_shell
from tests.node.page_session import PageSession
from tests.support.ports import free_port

PYTEST = ("README.md", "docs/howto/testing.md", "docs/learn/7-test-it.md")
SIGNING = "/etc/mainstem/signing-keys.txt"


def of_node(page: str) -> list[Block]:
    """The blocks of a page that start nodes or need one."""
    return [block for block in blocks_of(ROOT / page) if block.mark == "node"]


def any_address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("page", PYTEST)
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    found = [block for block in blocks_of(ROOT / page) if block.mark == "pytest"]
    for number, block in enumerate(found):
        (tmp_path / f"test_page_{number}.py").write_text(block.text)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout
    assert f"{sum(block.text.count('def test_') for block in found)} passed" in run.stdout


def test_a_backup_is_made_restored_and_verified(tmp_path: Path) -> None:
    start, restore, restored, drill, stopped = of_node("docs/operate/backup.md")
    places = {"s3://backups": f"file://{tmp_path}", "orders/0:1700": "orders/0:1"}
    places |= {"127.0.0.1:19092": any_address(), "127.0.0.1:18080": any_address()}
    with PageSession(tmp_path, places) as session:
        session.run(start)
        with Log(session.log) as log:
            log.create_topic("orders")
            log.append("orders", {"id": 1})
        points, *restores = lines_of_shell(restore.text)
        session.until(points, lambda said: "orders/0:1" in said, "a point with the record")
        session.stop()
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
        session.stop()
        session.line(f"mainstem serve --no-http --data second --listen {second}")
        session.run(lost)
        session.line(f"mainstem serve --no-http --data first --listen {first}")
        with Log(first) as one:
            one.append("orders", {"id": 4})
        said, _ = (session.line(line) for line in _narrowed(losses))
        assert "orders/0:3" in said


def _narrowed(losses: Block) -> list[str]:
    """The lines of the block, with the offsets that were lost here."""
    text = losses.text.replace("orders/0:1200", "orders/0:3").replace("orders/0:1216", "orders/0:4")
    return list(lines_of_shell(text))


def test_history_is_proved_watched_and_its_key_rotated(tmp_path: Path) -> None:
    start, topic, prove, verify, watch, fsck, rotate = of_node("docs/howto/verifiable.md")
    places = {SIGNING: "signing-keys.txt", "ledger/0:4711": "ledger/0:1", "http://127.0.0.1:8080": "http://GATEWAY"}
    with PageSession(tmp_path, places) as session:
        key = session.run(start).strip()
        session.set("PUBLIC_KEY", key)
        session.run(topic)
        with Log(session.log) as log:
            log.append_many("ledger", [{"amount": 1}, {"amount": 2}])
        session.run(prove)
        session.run(verify)
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
