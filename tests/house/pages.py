"""The pages of the documentation and their blocks of code, with the mark of each: whether and how a test runs it.

A comment before a block, which the site does not show, is its mark: ``<!-- run: app -->``, or ``<!-- run: first: CODE
-->`` with code that prepares the block, or ``<!-- run: skip: REASON -->`` with a reason of ``REASONS``. A block that
is not skipped runs, on the pages that tests/house/test_docs_run.py and tests/spark/test_lessons.py run, or where MARKS
says; on every page its text is checked (test_docs_parse.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
JAVASCRIPT: Final = {"js", "html"}
CODE: Final = {"python", "bash", "console", "sql", "toml", *JAVASCRIPT}
"""The languages whose blocks run, or say why not."""
REASONS: Final = {
    "a server": "it starts what the test has started, or waits without end",
    "a cluster": "it needs machines, or an Apache Kafka, that the test does not have",
    "a database": "it needs a database of another product",
    "a secured log": "it needs a log with users, certificates or tokens",
    "a file": "it needs files that only the reader has",
    "a fragment": "it is part of a program or a file that the page does not have in full",
    "an installation": "it installs something, or needs a file system of its own",
    "Spark": "it starts Spark: the tests of that page run it, or none where it would take too long",
}
ELSEWHERE: Final = {"app", "flights", "node", "pytest", "spark"}
"""Marks of blocks that do not run in their turn on the page."""
MARKS: Final = {"app", "declares", "flights", "node", "pytest", "spark"}
"""``app``: the App that the page is about; the test serves it. ``declares`` and ``spark``: an App, and a program, that
run with Spark. ``node`` and ``pytest``: commands that start nodes, and tests; ``flights``: they need the flights.
tests/node/page_session.py runs them for the tests of these pages.
"""
_BLOCK: Final = re.compile(r"(?:^<!-- run: ([^\n]*) -->\n)?^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_VARIES: Final = re.compile(r'(?<="timestamp_ms":)\d+|(?<=^retry: )\d+', re.MULTILINE)
_FORMS: Final = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\b[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9A-F]+/[0-9A-F]{6,}\b", "LSN"),
        (r"'[^']*'", "'TEXT'"),
        (r'(?<=:)"[^"]*"', '"TEXT"'),
        (r"-?\b\d+(?:\.\d+)?(?:-\d+)?\b", "0"),
        (r"[\w.-]+/0:0(?:, ?[\w.-]+/0:0)*", "PLACE"),
        (r"\b(pipeline|view|from) [\w.-]+", r"\1 NAME"),
        (r"[\w.-]+ (?=was derived)", "NAME "),
        (r"─+", "─"),
        (r"\s+", " "),
    )
)
"""What differs from run to run, in the order in which it is made the same."""
_SHOWN: Final = re.compile(r"\n+((?:    [^\n]*\n|\n(?=\n*    ))+)")


class Block(NamedTuple):
    """A fenced block: the mark before it, its language and text, and the indented output that follows at once."""

    mark: str
    language: str
    text: str
    shown: str
    line: int


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found[1] or "",
            found[2],
            found[3],
            _shown_after(text[found.end() + 1 :]),
            text.count("\n", 0, found.start()) + 1,
        )
        for found in _BLOCK.finditer(text)
    ]


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether ``printed`` is as a page shows it, where ``…`` is any text; as the last line, it may be none."""
    shown, printed = (_VARIES.sub("0", text.strip()) for text in (shown, printed))
    if shown.endswith("\n…"):
        printed += "\n"
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed, re.DOTALL) is not None


def not_in_form(shown: str, printed: str) -> list[str]:
    """The lines that a page shows and that ``printed`` lacks: in any order, with other times, numbers, names and keys.

    Of a line with ``…`` that is any text.
    """
    forms = [_form(line) for line in printed.splitlines()]
    patterns = {line: ".*".join(map(re.escape, _form(line).split("…"))) for line in shown.splitlines()}
    return [line for line, pattern in patterns.items() if not any(re.fullmatch(pattern, form) for form in forms)]


def _form(line: str) -> str:
    for pattern, plain in _FORMS:
        line = pattern.sub(plain, line)
    return line.strip()


def _shown_after(text: str) -> str:
    found = _SHOWN.match("\n" + text)
    return "".join(f"{line[4:]}\n" for line in found[1].splitlines()) if found else ""


def reason_of(block: Block) -> str | None:
    """Why no test runs a block; None if one does."""
    return block.mark.removeprefix("skip: ") if block.mark.startswith("skip: ") else None


def first_of(block: Block) -> str:
    """The code that prepares what a block needs and the page does not show: Python, or in JavaScript the imports."""
    return block.mark.removeprefix("first: ") if block.mark.startswith("first: ") else ""


def lines_of_shell(text: str) -> Iterator[str]:
    """The commands of a block for a shell: without prompts and output, continued lines as one."""
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = joined.splitlines()
    if any(line.lstrip().startswith("$ ") for line in lines):
        lines = [line.lstrip().removeprefix("$ ") for line in lines if line.lstrip().startswith("$ ")]
    yield from (line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def lines_of_console(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block that shows a console, and what it shows after each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield re.sub(r" +#.*", "", line), shown


def indented_commands(page: Path) -> Iterator[tuple[str, str]]:
    """The commands in indented blocks of a page, and what it shows after each: lines that begin with our programs."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    command, shown = "", ""
    for line in [*re.sub(r"\\\n\s*", " ", text).splitlines(), ""]:
        found = re.match(r"    +(?:\$ )?((?:mainstem|curl|make|python) .*)", line)
        if command and (found or not line.startswith("    ")):
            yield command, shown
            command, shown = "", ""
        if found:
            command = found[1]
        elif command:
            shown += f"{line[4:]}\n"


def spans_of(page: Path) -> Iterator[str]:
    """The commands of ours that the text names in passing: ``mainstem views list``."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    yield from re.findall(r"(?<!`)`(mainstem [a-z][^`]*)`", text)
