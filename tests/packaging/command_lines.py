"""Command lines in files of deployments, read as the product reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from mainstem.cli.main import command_line

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
HEALTH_PATH = "/healthz"


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of ``mainstem WORDS``, by their Python names. Raises for one that the command does not have."""
    name, *options = words
    commands = typer.main.get_command(command_line(name)).commands  # type: ignore[attr-defined]
    return dict(commands[name].make_context(name, options).params)
