"""UDFs in an App's module: ``@udf("string")`` works although no Spark session is there when the file is imported.

PySpark asks the JVM what a type's text means as soon as a function is decorated, and the file is imported before Spark
starts, also by processes that never start it (views, commands). ``udf_types_without_session`` lets PySpark read such
text in Python for as long as no session is there: the types of a topic's schema, also nested. Any other text is left to
PySpark, whose error says that a session is missing: give such a type as an object of ``pyspark.sql.types``.

PySpark is not imported here: its module is completed when the user's file imports it. Imports are single-threaded.
"""

from __future__ import annotations

import importlib.machinery
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any, Final

from mainstem.errors import DefinitionError
from mainstem.schema.ddl import columns_of
from mainstem.schema.types import type_name

_UDF_MODULE: Final = "pyspark.sql.udf"
_PARSER: Final = "_parse_datatype_string"
_SPARK_NAMES: Final = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long"}


@contextmanager
def udf_types_without_session() -> Iterator[None]:
    """In the block, PySpark's module of UDFs is completed as soon as it is imported; it stays so."""
    if _UDF_MODULE in sys.modules:
        _complete(sys.modules[_UDF_MODULE])
        yield
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def spark_json(text: str) -> Any:
    """The JSON form that Spark has of a type, e.g. ``"array<int>"``. Raises DefinitionError for text that is none."""
    known = type_name(text)
    if known is None:
        return _struct(text)
    opening, closing = known.find("<"), known.rfind(">")
    inside = known[opening + 1 : closing]
    if known[:6].upper() == "STRUCT":
        return _struct(inside)
    if known[:5].upper() == "ARRAY":
        return {"type": "array", "elementType": spark_json(inside), "containsNull": True}
    if known[:3].upper() == "MAP":
        key, value = _key_and_value(inside)
        return {"type": "map", "keyType": spark_json(key), "valueType": spark_json(value), "valueContainsNull": True}
    return _SPARK_NAMES.get(known, known.lower())


def _struct(text: str) -> Any:
    fields = [
        {"name": column.name, "type": spark_json(column.type), "nullable": column.nullable, "metadata": {}}
        for column in columns_of(text)
    ]
    return {"type": "struct", "fields": fields}


def _key_and_value(inside: str) -> tuple[str, str]:
    depth = 0
    for at, character in enumerate(inside):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            return inside[:at], inside[at + 1 :]
    raise DefinitionError(f"MAP<{inside}> has one type; write MAP<KEY, VALUE>")


def _complete(module: ModuleType) -> None:
    original = getattr(module, _PARSER)
    if getattr(original, "__module__", None) != __name__:
        setattr(module, _PARSER, _parser(original))


def _parser(original: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        from_json, context = sys.modules["pyspark.sql.types"], sys.modules["pyspark"].SparkContext
        if context._active_spark_context is not None:
            return original(text)
        try:
            document = spark_json(text)
        except DefinitionError:
            return original(text)
        return from_json._parse_datatype_json_string(json.dumps(document))

    return parse


class _Finder(MetaPathFinder):
    """Completes PySpark's module of UDFs when it is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _UDF_MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _complete(module)
