"""The documentation keeps its word: links lead somewhere, commands exist, code compiles, the README has the example."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mainstem.cli.main import command_line

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _blocks(path: Path, *languages: str) -> list[str]:
    return [text for language, text in _FENCE.findall(path.read_text()) if language in languages]


@cache
def _help(*command: str) -> str:
    done = CliRunner().invoke(command_line(), [*command, "--help"], terminal_width=200)
    assert done.exit_code == 0, f"mainstem {' '.join(command)} --help: {done.output}"
    return done.output


def _commands(path: Path) -> list[list[str]]:
    lines = "\n".join(_blocks(path, "bash", "sh", "console", "shell", "")).splitlines()
    stripped = [re.sub(r"^\s*\$ ", "", line).split("  #")[0].strip() for line in lines]
    return [shlex.split(line, comments=True) for line in stripped if line.startswith("mainstem ")]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", _FENCE.sub("", page.read_text()))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_python_block_compiles(page: Path) -> None:
    for number, block in enumerate(_blocks(page, "python")):
        compile(block, f"{_name(page)}#{number}", "exec")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_and_option_named_exists(page: Path) -> None:
    top = _help()
    for words in _commands(page):
        verb = next((word for word in words[1:] if not word.startswith("-")), None)
        if verb is None:
            continue
        assert re.search(rf"\b{re.escape(verb)}\b", top), f"{_name(page)}: mainstem {verb}"
        text = _help_of(words[1:])
        for option in (word.split("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]+(=.*)?", word)):
            assert option in text or option in top, f"{_name(page)}: {shlex.join(words)} has no {option}"


def _help_of(words: list[str]) -> str:
    verbs = [word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)]
    text = _help(verbs[0])
    return text + _help(*verbs[:2]) if len(verbs) > 1 and "COMMAND" in text else text


def test_the_readme_shows_the_example_as_it_is() -> None:
    program = (ROOT / "examples" / "flights.py").read_text().strip()
    assert program in [block.strip() for block in _blocks(ROOT / "README.md", "python")]


def test_every_make_target_the_readme_names_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", (ROOT / "README.md").read_text()))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named
    assert named <= targets
