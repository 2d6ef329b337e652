"""Every block of code on every page is right as far as its text shows: syntax, options, routes, names, keywords."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from mainstem.spark.options.options import COMMON_OPTIONS, WRITE_OPTIONS
from mainstem.spark.options.read_options import READ_OPTIONS
from mainstem.spark.options.value_options import VALUE_OPTIONS
from tests.house.api_names import Checker
from tests.house.command_lines import words_of, wrong_in, wrong_sql
from tests.house.pages import (
    CODE,
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

_OF_SPARK = ("checkpointLocation", "columnNameOfCorruptRecord")
HISTORY = {"CHANGELOG.md"}


def _wrong_text(block: Block) -> str | None:
    """What is wrong with a block of data; None if it is right."""
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json" and "…" not in block.text:
        json.loads(block.text)
    elif block.language == "sql" and block.mark != "node":  # those are for databases, and run there
        return wrong_sql(block.text)
    return None


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
    assert wrong_in("mainstem topics create --no-such 3")
    assert wrong_in("mainstem read") is not None
    assert wrong_in("mainstem read", in_passing=True) is None
    assert wrong_in("mainstem no-such", in_passing=True)
    assert wrong_in("mainstem views query v 'SELECT FROM WHERE'")
    assert wrong_in("curl localhost:8080/topics/t/recs")
    assert wrong_in("curl 'localhost:8080/views/v/keys/k?at_last=1'")
    assert words_of("A=1 mainstem read t | head  # some") == ["mainstem", "read", "t"]
