"""The plugin as its users have it: a pytest of its own, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from mainstem.client.log import Log
from mainstem.testing import EmbeddedBroker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "testing.md"


def pytest_of_a_user(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(argv, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def test_the_fixtures_share_a_broker_and_not_a_topic(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    assert mainstem_log.bootstrap == mainstem_broker.bootstrap
    assert mainstem_log.describe_topic(mainstem_topic).offsets == 0


def test_the_tests_on_the_page_run_as_they_stand(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        (tmp_path / f"test_{number}.py").write_text(block)
    done = pytest_of_a_user(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(blocks)} passed" in done.stdout


def test_pytest_lists_the_fixtures_with_what_they_give(tmp_path: Path) -> None:
    listed = pytest_of_a_user(tmp_path, "--fixtures").stdout
    assert "mainstem_broker [session scope]" in listed
    assert "A ``mainstem.Log`` connected to ``mainstem_broker``" in listed
    assert "The name of a new topic of one partition" in listed


def test_the_plugin_loads_nothing_for_those_who_do_not_use_it(tmp_path: Path) -> None:
    loaded = "import sys; print([m for m in sys.modules if m.startswith('mainstem')])"
    (tmp_path / "test_other.py").write_text(f"def test_other():\n    {loaded}\n")
    done = pytest_of_a_user(tmp_path, "-s", "-q")
    assert "['mainstem', 'mainstem.testing', 'mainstem.testing.plugin']" in done.stdout, done.stdout
