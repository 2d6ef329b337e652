"""Every block of code on every page is right as far as its text shows: syntax, options, routes, names, keywords."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mainstem.cli.main import execute
from mainstem.spark.options.options import COMMON_OPTIONS, WRITE_OPTIONS
from mainstem.spark.options.read_options import READ_OPTIONS
from mainstem.spark.options.value_options import VALUE_OPTIONS
from tests.house.api_names import Checker
from tests.house.command_lines import words_of, wrong_in, wrong_sql
from tests.house.pages import (
    CODE,
    JAVASCRIPT,
    MARKS,
    PAGES,
    REASONS,
    ROOT,
    Block,
    blocks_of,
    first_of,
    indented_commands,
    lines_of_shell,
    name_of,
    reason_of,
    spans_of,
)
from tests.house.test_docs_run import RUN
from tests.spark.test_lessons import RUN_WITH_SPARK
from tests.support.page_modules import module_of, wrong_syntax

_OF_SPARK = ("checkpointLocation", "columnNameOfCorruptRecord")
HISTORY = {"CHANGELOG.md"}


def _wrong_text(block: Block) -> str | None:
    """What is wrong with a block of data; None if it is right."""
    if block.language == "json":
        return _wrong_agent_servers(json.loads(block.text))
    if block.language in ("yaml", "yml"):
        documents = [each for each in yaml.safe_load_all(block.text) if each is not None]
        return next(filter(None, map(_wrong_yaml, documents)), None if documents else "it is empty")
    if block.language == "ini":
        return _wrong_unit(block.text)
    if block.language == "sql" and block.mark != "node":  # those are for databases, and run there
        return wrong_sql(block.text)
    return None


def _wrong_agent_servers(document: Any) -> str | None:
    """The commands in the configuration of an agent."""
    servers = document.get("mcpServers", {}).values()
    lines = (shlex.join([each["command"], *each["args"]]) for each in servers)
    return next(filter(None, map(wrong_in, lines)), None)


def _wrong_yaml(document: Any) -> str | None:
    """What Kubernetes and Prometheus ask of each of their documents."""
    if not isinstance(document, dict):
        return "it is not a mapping"
    if {"apiVersion", "kind"} & set(document):
        lacking = [name for name in ("apiVersion", "kind", "metadata") if not document.get(name)]
        return f"Kubernetes needs {lacking}" if lacking else None
    rules = [rule for group in document.get("groups", ()) for rule in group["rules"]]
    if any("expr" not in rule or not {"alert", "record"} & set(rule) for rule in rules):
        return "a rule of Prometheus has expr, and alert or record"
    absent = [name for name in document.get("rule_files", ()) if not (ROOT / "deploy" / "monitoring" / name).is_file()]
    return f"there is no {absent}" if absent else None


def _wrong_unit(text: str) -> str | None:
    """A unit of systemd: the commands that it starts."""
    configparser.ConfigParser(strict=False, interpolation=None).read_string(text)
    lines = re.findall(r"^ExecStart=/opt/mainstem/bin/(.+)$", text, re.MULTILINE)
    return next(filter(None, map(wrong_in, lines)), None)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_python_of_a_page_names_what_there_is(page: Path) -> None:
    checker = Checker()
    for block in blocks_of(page):
        if block.language == "python":
            checker.check(ast.parse(block.text), block.line)
    assert checker.wrong == []


def test_the_options_of_the_spark_format_are_known() -> None:
    known = {name.lower() for name in (*COMMON_OPTIONS, *READ_OPTIONS, *WRITE_OPTIONS, *VALUE_OPTIONS, *_OF_SPARK)}
    found = [
        (name_of(page), name)
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "python"
        for name in re.findall(r"\.option\(\s*\"([^\"]+)\"", block.text)
    ]
    assert len(found) > 20
    assert [each for each in found if each[1].lower() not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_are_taken(page: Path) -> None:
    shells = [block for block in blocks_of(page) if block.language in ("bash", "console")]
    lines = [line for block in shells for line in lines_of_shell(block.text)]
    found = {line: wrong_in(line) for line in [*lines, *(command for command, _ in indented_commands(page))]}
    if page.name not in HISTORY:
        found |= {line: wrong_in(line, in_passing=True) for line in spans_of(page)}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def test_bash_can_read_the_blocks_for_it() -> None:
    text = "\n".join(f"({block.text}\n)" for page in PAGES for block in blocks_of(page) if block.language == "bash")
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_data_of_a_page_can_be_parsed(page: Path) -> None:
    found = {block.line: _wrong_text(block) for block in blocks_of(page)}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def test_the_settings_files_of_pages_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(name_of(page), block) for page in PAGES for block in blocks_of(page) if block.language == "toml"]
    assert len(found) > 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))  # security options become variables
    for page, block in found:
        Path("mainstem.toml").write_text(block.text, encoding="utf-8")
        assert (page, block.line, execute(["version"])) == (page, block.line, 0)


def test_node_can_read_the_blocks_for_it() -> None:
    blocks = {f"{name_of(page)}:{block.line}": block for page in PAGES for block in blocks_of(page)}
    modules = {
        place: f"{first_of(block)}\n{module_of(block.language, block.text)[0]}"
        for place, block in blocks.items()
        if block.language in JAVASCRIPT
    }
    assert len(modules) > 3
    assert wrong_syntax({**modules, "wrong": "const = 1"}).keys() == {"wrong"}


def test_each_language_of_the_pages_is_checked() -> None:
    used = {block.language for page in PAGES for block in blocks_of(page)}
    elsewhere = {"nginx"}  # tests/console/test_behind_a_proxy.py runs it
    assert used <= CODE | elsewhere | {"json", "yaml", "ini", "text", "mermaid"}, "check blocks of that language, too"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_block_runs_or_says_why_not(page: Path) -> None:
    runs = name_of(page) in RUN or name_of(page) in RUN_WITH_SPARK
    blocks = [block for block in blocks_of(page) if block.language in CODE]
    unknown = [block.line for block in blocks if block.mark and block.mark not in MARKS and not _is_known(block)]
    assert unknown == [], "the mark of a block is one of MARKS, or skip: with one of REASONS"
    assert [block.line for block in blocks if not block.mark and not runs] == [], "run the page, or mark the block"


def test_a_page_whose_blocks_run_elsewhere_is_named_by_a_test_that_runs_it() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    running = [text for text in texts if "PageSession" in text or "blocks_of(ROOT" in text]
    elsewhere = MARKS - {"app", "declares"}
    pages = [page for page in PAGES if any(block.mark in elsewhere for block in blocks_of(page))]
    assert len(pages) > 30
    named = [page for page in pages if any(name_of(page) in text or f'"{page.stem}"' in text for text in running)]
    assert [name_of(page) for page in pages if page not in named] == []


def _is_known(block: Block) -> bool:
    return reason_of(block) in REASONS or bool(first_of(block))


def test_what_is_wrong_is_found() -> None:
    checker = Checker()
    program = """
import mainstem as ms
from mainstem.testing import NoSuchThing
log = ms.Log("a:1", timeout=3)
log.append("t", {}, keys="k")
log.append("t", {}, expect_key=1)
for record in log.read("t"):
    record.valeu
ms.views("u")["v"].get("k", at_last="x/0:1").rwo
"""
    checker.check(ast.parse(program), 0)
    assert [line for line, _ in checker.wrong] == [3, 4, 5, 6, 8, 9, 9]
    assert _wrong_yaml({"kind": "Pod", "metadata": {"name": "a"}})
    assert _wrong_yaml({"groups": [{"rules": [{"alert": "a"}]}]})
    assert _wrong_yaml({"rule_files": ["no-such.yml"]})
    assert _wrong_unit("[Service]\nExecStart=/opt/mainstem/bin/mainstem run --no-such a.py\n")
    assert _wrong_agent_servers({"mcpServers": {"m": {"command": "mainstem", "args": ["mcp", "--no-such"]}}})
    assert wrong_in("mainstem topics create --no-such 3")
    assert wrong_in("mainstem read") is not None
    assert wrong_in("mainstem read", in_passing=True) is None
    assert wrong_in("mainstem no-such", in_passing=True)
    assert wrong_in("mainstem views query v 'SELECT FROM WHERE'")
    assert wrong_in("curl localhost:8080/topics/t/recs")
    assert wrong_in("curl 'localhost:8080/views/v/keys/k?at_last=1'")
    assert words_of("A=1 mainstem read t | head  # some") == ["mainstem", "read", "t"]
