"""Roles whose processes are a few lines of Python, for the supervisor's tests."""

from __future__ import annotations

import sys
import textwrap

from mainstem.node.roles import Role

UNTIL_PARENT_IS_GONE = """
import os, sys
print("ready: fake", os.getpid(), flush=True)
sys.stdin.read()
"""


def role(program: str, name: str = "fake", **settings: object) -> Role:
    """A role that runs ``program``; its ready line starts with ``ready: fake``."""
    defaults: dict[str, object] = {"ready_timeout_s": 20.0, "grace_s": 5.0}
    argv = (sys.executable, "-S", "-c", textwrap.dedent(program))
    return Role(name, argv, "ready: fake", **{**defaults, **settings})  # type: ignore[arg-type]
