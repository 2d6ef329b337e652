"""Whether what a lake needs is installed. Loads nothing."""

from __future__ import annotations

import importlib.util

from mainstem.errors import MissingDependencyError


def require_iceberg() -> None:
    """Raises MissingDependencyError, which says what to install."""
    if importlib.util.find_spec("pyiceberg") is None or importlib.util.find_spec("sqlalchemy") is None:
        raise MissingDependencyError("a lake needs pyiceberg, which is not installed: pip install 'mainstem[views]'")
