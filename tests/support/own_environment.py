"""The environment that a process under test gets."""

from __future__ import annotations

import os
from collections.abc import Mapping


def own_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without pytest's variables, and ``more``.

    A library that sees them behaves otherwise: NiceGUI leaves its compression away.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | dict(more or {})
