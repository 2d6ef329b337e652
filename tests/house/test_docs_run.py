"""The pages run, block after block, on a real log, view host and gateway, and print what they show.

Each lesson, and each page that declares an App of its own, gets a node with that App. All other pages share a node with
the App of the README; each finds it without the topics of the page before. tests/house/pages.py has the marks of
blocks; ``first: CODE`` is what a block needs and the page does not show.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

import mainstem as ms
from mainstem.cli.main import execute
from mainstem.client.log import Log
from mainstem.errors import InputError, StorageError
from mainstem.lake.reading import read_lake
from mainstem.pipelines.app import App
from mainstem.views.stores.lake import lake
from tests.examples.serving import serving
from tests.house.command_lines import words_of
from tests.house.pages import (
    ELSEWHERE,
    JAVASCRIPT,
    ROOT,
    Block,
    blocks_of,
    first_of,
    is_as_shown,
    lines_of_shell,
    not_in_form,
    reason_of,
)
from tests.support.eventually import eventually
from tests.support.page_modules import module_of, run_module

pytestmark = pytest.mark.slow
LEARN = ("1-a-log.md", "2-keys-and-partitions.md", "3-a-view.md", "6-when-things-break.md", "7-test-it.md")
WITH_AN_APP = [*(f"docs/learn/{each}" for each in LEARN), "docs/howto/alert.md"]
WITH_AN_APP += ["docs/reference/views.md", "docs/reference/lake.md"]
_HOW_TO = (
    "browser",
    "configs",
    "dead-letters",
    "delete-user",
    "durable-streams",
    "exactly-once-worker",
    "export",
    "fastapi",
    "load-csv",
)
SHARED = [
    "README.md",
    *(f"docs/howto/{each}.md" for each in (*_HOW_TO, "requests", "traces", "upsert")),
    *(f"docs/reference/{each}.md" for each in ("client", "http", "commands", "registry", "sinks")),
]
RUN = {*WITH_AN_APP, *SHARED}
_RUNNING = {"python", "bash", "toml", *JAVASCRIPT}
_SERVERS = {"serve", "run", "demo", "mcp"}
_STREAM_S = "2"


def _run(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<documentation>", "exec"), names)
    return printed.getvalue()


def _run_shell(text: str, gateway: str) -> str:
    """What the commands of a block print. Ours run in this process; those that serve without end do not run."""
    printed = ""
    for line in lines_of_shell(text):
        words = words_of(line)
        if words[0] == "mainstem" and not (words[1] in _SERVERS or "--follow" in words):
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = execute(words[1:])
            assert code == 0, f"{line}: {output.getvalue()}"
            printed += output.getvalue()
        elif words[0] == "curl":
            printed += _run_curl([re.sub("(http://)?(localhost|127.0.0.1):8080", gateway, word) for word in words])
    return printed


def _run_curl(words: list[str]) -> str:
    more = ["--max-time", _STREAM_S] if "-N" in words else ["--fail-with-body"]
    done = subprocess.run([*words, "-sS", *more], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (28 if "-N" in words else 0), f"{shlex.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def test_a_wrong_output_is_seen() -> None:
    assert is_as_shown("a … c\n", "a b c\n")
    assert is_as_shown("…\nb\n…\n", "a\nb\n\n")
    assert not is_as_shown("…\nb\n…\n", "a\nbc\n")
    assert not is_as_shown("orders/0:1", "orders/0:2")
    assert not_in_form("a/0:1-2 of producer 7, aborted\nb/1:3", "a/0:5 of producer 12, aborted\nc/0:1") == []
    assert not_in_form("2026-01-01T00:00:00Z started\n1 row", "2027-01-01T00:00:00Z stopped\n2 rows") == [
        "2026-01-01T00:00:00Z started",
        "1 row",
    ]
    assert is_as_shown('retry: 12\n{"timestamp_ms":17}', 'retry: 9\n{"timestamp_ms":1}')


def app_of(page: str) -> App:
    """The App that a page declares; an empty one if it declares none."""
    names: dict[str, Any] = {"app": App("documentation")}
    for block in blocks_of(ROOT / page):
        if block.mark == "app":
            _run(block.text, names)
    found = names["app"]
    assert isinstance(found, App)
    return found


def run_page(page: str, log: Log, gateway: str, places: Mapping[str, str] | None = None) -> None:
    """Run a page's blocks, and compare what they print with the output that the page shows after them.

    ``places``: directories and addresses of the page, and what the test has for them.
    """
    names: dict[str, Any] = {"ms": ms, "log": log, "Path": Path, "wait_until": eventually}
    names["has_records"] = _has_records
    printed = ""
    for block in blocks_of(ROOT / page):
        if block.language == "text" and printed and reason_of(block) is None:
            assert is_as_shown(block.text, printed), (
                f"{page}:{block.line} shows {block.text!r}, and it prints {printed!r}"
            )
            printed = ""
        elif block.language in _RUNNING and reason_of(block) is None and block.mark not in ELSEWHERE:
            assert not (printed and "/learn/" in page), f"{page} does not show {printed!r}"
            printed = _run_block(block, names, lambda code: _addressed(code, log, gateway, places or {}), gateway)
            if block.shown and printed:
                assert is_as_shown(block.shown, printed), f"{page}:{block.line} shows {block.shown!r}, not {printed!r}"
    assert not (printed and "/learn/" in page), f"{page} does not show {printed!r}"
    if names["log"] is not log:
        names["log"].close()


def _has_records(lake: str) -> bool:
    """Whether the lake of a view, in its directory, has a commit."""
    try:
        return any(read_lake(store) for store in Path(lake).glob("*/store"))
    except (InputError, StorageError):  # no records yet, or not all of its files
        return False


def _run_block(block: Block, names: dict[str, Any], addressed: Callable[[str], str], gateway: str) -> str:
    if block.language in JAVASCRIPT:
        module, elements = module_of(block.language, block.text)
        run_module(f"{first_of(block)}\n{module}", gateway, elements)
        return ""
    _run(addressed(first_of(block)), names)
    if block.language == "bash":
        return _run_shell(addressed(block.text), gateway)
    if block.language == "toml":
        Path("mainstem.toml").write_text(block.text)
        assert execute(["version"]) == 0
        Path("mainstem.toml").unlink()
        return ""
    return _run(addressed(block.text), names)


def _addressed(code: str, log: Log, gateway: str, places: Mapping[str, str]) -> str:
    """A program of a page with the addresses and directories of the test's node."""
    for place, ours in places.items():
        code = code.replace(place, ours)
    code = re.sub("http://(?:localhost|127.0.0.1):8080|localhost:8080", gateway, code)
    return code.replace("ms.views()", f"ms.views({gateway!r})").replace("localhost:9092", log.bootstrap)


@pytest.mark.parametrize("page", WITH_AN_APP)
def test_a_page_with_an_app_prints_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lake, "DEFAULT_LIMITS", lake.LakeLimits(commit_s=0.5))  # the page waits for a commit
    app, views = app_of(page), tmp_path / "views"
    if page.endswith("lake.md"):
        app.view("flights", "flights", ms.KeyValue())  # the other view that the page rebuilds from the lake
    with serving(app, views) as (log, gateway), _addresses(log, gateway):
        run_page(page, log, gateway, {"/var/lib/mainstem/views": str(views)})


@contextlib.contextmanager
def _addresses(log: Log, gateway: str) -> Iterator[None]:
    """The log and the gateway as the commands' defaults."""
    former = dict(os.environ)
    os.environ |= {"MAINSTEM_BOOTSTRAP": log.bootstrap, "MAINSTEM_URL": gateway}
    os.environ.pop("MAINSTEM_DEBUG", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= former


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Log, str, set[str]]]:
    app = app_of("README.md")
    app.view("delays", "flights", ms.Metrics(by=("carrier", "origin"), values=("dep_delay",)))
    app.view("pages", app.topic("visits", schema="page STRING"), ms.KeyValue())
    with serving(app, tmp_path_factory.mktemp("views")) as (log, gateway), _addresses(log, gateway):
        yield log, gateway, set(log.topics())


@pytest.mark.parametrize("page", SHARED)
def test_a_page_prints_what_it_shows(
    page: str, node: tuple[Log, str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)  # a page that sets one sets it for itself alone
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    log, gateway, declared = node
    try:
        run_page(page, log, gateway)
    finally:
        for topic in set(log.topics()) - declared:
            if not topic.startswith("_"):
                log.delete_topic(topic)
