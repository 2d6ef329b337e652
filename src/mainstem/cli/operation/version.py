"""``mainstem version``."""

from __future__ import annotations

import mainstem
from mainstem.cli import options
from mainstem.cli.output import out, out_json


def version(json: options.Json = False) -> None:
    """The version of Mainstem."""
    if json:
        import platform

        out_json({"version": mainstem.__version__, "python": platform.python_version()})
    else:
        out(f"mainstem {mainstem.__version__}")
