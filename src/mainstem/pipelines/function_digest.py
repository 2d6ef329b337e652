"""``digest``: whether a Python function is still the same, by what it does and not by how it is written.

Two functions have the same digest when their bytecode and constants are equal, and so is all that they reach in user
code: functions that they call, classes, default values, closures, global constants. Comments, line numbers, docstrings,
annotations, and names of functions and of local variables do not count. A library's function counts by its name alone;
``own`` names a package that is the user's, wherever it is installed. Values other than plain data and code (a model, an
open file) count by their type alone: their content is not compared.

Bytecode belongs to a minor version of Python, so digests of different ones cannot be compared. Pure.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

_PLAIN: Final = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
_LIBRARIES: Final = (
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_OF_EVERY_CLASS: Final = frozenset(
    ("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__firstlineno__")
)


def digest(value: Any, own: str = "") -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(repr(_Walk(own).shape(value)).encode()).hexdigest()


class _Walk:
    """One walk over what a value reaches; ``shape`` gives plain tuples that are equal when the values do the same."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is given twice

    def shape(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return (type(value).__name__, repr(value))
        if isinstance(value, tuple):  # which tuples are one object is the interpreter's business
            return ("tuple", *map(self.shape, value))
        if id(value) in self._seen:
            return ("seen", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        return self._compound(value)

    def _compound(self, value: Any) -> Any:
        if isinstance(value, list):
            return ("list", *map(self.shape, value))
        if isinstance(value, set | frozenset):
            return (type(value).__name__, *sorted(repr(_Walk(self._own).shape(entry)) for entry in value))
        if isinstance(value, Mapping):
            return ("mapping", *((self.shape(key), self.shape(entry)) for key, entry in value.items()))
        if isinstance(value, CodeType):
            return self._code(value, {}, None)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return ("method", self.shape(value.__func__), self.shape(value.__self__))
        if isinstance(value, functools.partial):
            return ("partial", *map(self.shape, (value.func, value.args, value.keywords)))
        if isinstance(value, ModuleType | BuiltinFunctionType):
            return ("library", value.__name__)
        if isinstance(value, property):
            return ("property", *map(self.shape, (value.fget, value.fset, value.fdel)))
        if isinstance(value, staticmethod | classmethod):
            return (type(value).__name__, self.shape(value.__func__))
        if isinstance(value, type):
            return self._class(value)
        return self._instance(value)

    def _function(self, function: FunctionType) -> Any:
        if _is_of_library(function.__code__.co_filename) and not self._is_own(function.__module__):
            # a library's closure holds what the user gave it
            return ("library", function.__module__, function.__qualname__, self._closure(function))
        code = self._code(function.__code__, function.__globals__, function.__doc__)
        defaults = (self.shape(function.__defaults__), self.shape(function.__kwdefaults__))
        return ("function", code, *defaults, self._closure(function))

    def _closure(self, function: FunctionType) -> Any:
        return tuple(self.shape(cell.cell_contents) for cell in function.__closure__ or () if _is_filled(cell))

    def _code(self, code: CodeType, names: Mapping[str, Any], docstring: str | None) -> Any:
        constants = list(code.co_consts)
        if docstring is not None and constants and constants[0] == docstring:
            constants[0] = None
        shapes = [
            self._code(entry, names, _docstring(entry)) if isinstance(entry, CodeType) else self.shape(entry)
            for entry in constants
        ]
        # of a global, its value counts; of an attribute, its name
        reached = [self.shape(names[name]) if name in names else name for name in code.co_names]
        return ("code", code.co_code.hex(), code.co_argcount, code.co_kwonlyargcount, *shapes, *reached)

    def _class(self, found: type) -> Any:
        if _is_library_module(found.__module__) and not self._is_own(found.__module__):
            return ("library", found.__module__, found.__qualname__)
        members = sorted((name, entry) for name, entry in vars(found).items() if name not in _OF_EVERY_CLASS)
        return ("class", *map(self.shape, found.__bases__), *((name, self.shape(entry)) for name, entry in members))

    def _is_own(self, module: str | None) -> bool:
        return bool(self._own) and module is not None and module.partition(".")[0] == self._own

    def _instance(self, value: Any) -> Any:
        found = type(value)
        if hasattr(value, "jsonValue"):  # a type of Spark
            return ("type", repr(value.jsonValue()))
        if callable(getattr(value, "func", None)) and hasattr(value, "returnType"):  # a user-defined function of Spark
            return ("udf", self.shape(value.func), repr(value.returnType))
        if _is_library_module(found.__module__) and not self._is_own(found.__module__):
            return ("library", found.__module__, found.__qualname__)
        return ("instance", self._class(found), self.shape(getattr(value, "__dict__", {})))


def _docstring(code: CodeType) -> str | None:
    """The docstring of a nested function: its first constant, when that is text that its code does not use."""
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) and 0 not in _constants_used(code) else None


def _constants_used(code: CodeType) -> Iterable[int]:
    return {entry.arg for entry in dis.get_instructions(code) if entry.opname == "LOAD_CONST" and entry.arg is not None}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _is_of_library(file: str) -> bool:
    return file.startswith(("<frozen", *_LIBRARIES))


def _is_library_module(name: str) -> bool:
    """Whether a module is part of Python or of an installed package."""
    if name == "__main__":
        return False
    if name == "builtins" or name.partition(".")[0] in sys.stdlib_module_names | {"mainstem", "pyspark"}:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and _is_of_library(file)
