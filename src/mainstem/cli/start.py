"""The entry of ``mainstem``: for ``mainstem serve`` the log process starts to load before the commands' own modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mainstem.node import early_log

_WITHOUT_LOG = ("--http-for", "--help", "-h")
_INTERRUPTED = 130  # as shells have it, and typer


def main() -> None:
    """Run one command and exit."""
    if _starts_a_log(sys.argv[1:]):
        early_log.begin()
    try:
        from mainstem.cli.main import main as run

        run()
    except KeyboardInterrupt:  # before the command has its own way to stop: modules are loading
        sys.exit(_INTERRUPTED)
    finally:
        early_log.discard()


def _starts_a_log(argv: list[str]) -> bool:
    """Whether it certainly does. A settings file may change the environment that the log process gets."""
    has_settings = Path("mainstem.toml").exists() or "MAINSTEM_CLIENT_CONFIG" in os.environ
    return argv[:1] == ["serve"] and not has_settings and not any(word.startswith(_WITHOUT_LOG) for word in argv)


if __name__ == "__main__":
    main()
