"""Reads a program of a page and finds names and keywords that Mainstem does not have, without running it.

It follows what it can know for sure, by the annotations of the source: imports, calls, attributes, loops.
What it does not know it leaves alone; the blocks that run find the rest.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import mainstem

UNKNOWN: Any = object()


class Of(typing.NamedTuple):
    """An instance of a type: a class, or an alias such as ``dict[str, Record]``."""

    type: Any


def _is_ours(value: Any) -> bool:
    module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return isinstance(module, str) and module.split(".")[0] == "mainstem"


@cache
def _names_for_types(module: str) -> dict[str, Any]:
    """The names in which a module's annotations are written, those that it imports for types only included."""
    names = {**vars(typing), **vars(sys.modules[module])}
    source = inspect.getsource(sys.modules[module])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mainstem"):
            for alias in node.names:
                if alias.name not in names:
                    names[alias.asname or alias.name] = getattr(importlib.import_module(node.module), alias.name, None)
    return names


def _evaluated(annotation: Any, module: str) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(_names_for_types(module)))
    except Exception:  # noqa: BLE001  # an annotation that only a type checker can read
        return UNKNOWN


def _instance(annotation: Any) -> Any:
    """An instance of an annotation; of an optional type, of that type."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [each for each in typing.get_args(annotation) if each is not type(None)]
        annotation = parts[0] if len(parts) == 1 else UNKNOWN
    if annotation is UNKNOWN or annotation in (Any, None, inspect.Signature.empty):
        return UNKNOWN
    return Of(annotation)


class Checker:
    """``check`` the blocks of a page one after the other: later ones know the names of earlier ones."""

    def __init__(self) -> None:
        self.wrong: list[tuple[int, str]] = []
        log = importlib.import_module("mainstem.client.log").Log
        app, views = mainstem.App, importlib.import_module("mainstem.client.http.views").Views
        self._names: dict[str, Any] = {"log": Of(log), "app": Of(app), "views": Of(views), "mainstem_log": Of(log)}
        self._first = 0

    def check(self, program: ast.Module, first: int) -> None:
        """Look at a block that begins at line ``first`` of its page."""
        self._first = first
        self._statements(program.body, self._names)

    def _statements(self, body: Iterable[ast.stmt], names: dict[str, Any]) -> None:
        for statement in body:
            self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: dict[str, Any]) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._imports(node, names)
            case ast.Assign():
                value = self._value(node.value, names)
                for target in node.targets:
                    self._bind(target, value, names)
            case ast.For():
                self._bind(node.target, self._item(self._value(node.iter, names)), names)
                self._statements([*node.body, *node.orelse], names)
            case ast.With() | ast.AsyncWith():
                for each in node.items:
                    entered = self._entered(self._value(each.context_expr, names))
                    if each.optional_vars is not None:
                        self._bind(each.optional_vars, entered, names)
                self._statements(node.body, names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, names)
            case ast.ClassDef():
                self._statements(node.body, dict(names))
            case _:
                for field in ast.iter_child_nodes(node):
                    if isinstance(field, ast.expr):
                        self._value(field, names)
                    elif isinstance(field, ast.stmt):
                        self._statement(field, names)
                    elif isinstance(field, ast.ExceptHandler):
                        if field.type is not None:
                            self._bind_error(field, names)
                        self._statements(field.body, names)

    def _bind_error(self, handler: ast.ExceptHandler, names: dict[str, Any]) -> None:
        assert handler.type is not None
        error = self._value(handler.type, names)
        if handler.name:
            names[handler.name] = Of(error) if inspect.isclass(error) else UNKNOWN

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, Any]) -> None:
        for decorator in node.decorator_list:
            self._value(decorator, names)
        inner = dict(names)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            value = self._value(argument.annotation, names) if argument.annotation else UNKNOWN
            known = argument.arg.startswith("mainstem_") and argument.arg in names
            inner[argument.arg] = Of(value) if inspect.isclass(value) else names[argument.arg] if known else UNKNOWN
        self._statements(node.body, inner)
        names[node.name] = UNKNOWN

    def _imports(self, node: ast.Import | ast.ImportFrom, names: dict[str, Any]) -> None:
        for alias in node.names:
            module = alias.name if isinstance(node, ast.Import) else node.module or ""
            bound = alias.asname or alias.name.split(".")[0]
            if module.split(".")[0] != "mainstem":
                names[bound] = UNKNOWN
                continue
            try:
                found = importlib.import_module(module)
                if isinstance(node, ast.ImportFrom):
                    found = self._attribute(found, alias.name, node)
                names[bound] = found if alias.asname or isinstance(node, ast.ImportFrom) else mainstem
            except ImportError as error:
                self._report(node, str(error))
                names[bound] = UNKNOWN

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
            return
        if isinstance(target, ast.List | ast.Tuple):
            for each in target.elts:
                self._bind(each.value if isinstance(each, ast.Starred) else each, UNKNOWN, names)
            return
        self._value(target, names)

    def _value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        """What an expression gives: an object of ours, ``Of`` a type, or UNKNOWN."""
        match node:
            case ast.Name():
                return names.get(node.id, UNKNOWN)
            case ast.Attribute():
                return self._attribute(self._value(node.value, names), node.attr, node)
            case ast.Call():
                return self._call(node, names)
            case ast.Subscript():
                value = self._value(node.value, names)
                self._value(node.slice, names)
                return self._returned(value, "__getitem__") if isinstance(value, Of) else UNKNOWN
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, dict(names))
            case ast.Lambda():
                self._value(node.body, {**names, **{each.arg: UNKNOWN for each in node.args.args}})
                return UNKNOWN
            case _:
                for field in ast.iter_child_nodes(node):
                    if isinstance(field, ast.expr):
                        self._value(field, names)
                return UNKNOWN

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, names: dict[str, Any]
    ) -> Any:
        for part in node.generators:
            self._bind(part.target, self._item(self._value(part.iter, names)), names)
            for condition in part.ifs:
                self._value(condition, names)
        for element in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self._value(element, names)
        return UNKNOWN

    def _attribute(self, base: Any, name: str, node: ast.AST) -> Any:
        if base is UNKNOWN:
            return UNKNOWN
        if isinstance(base, Of):
            return self._member(base, name, node)
        if not _is_ours(base):
            return getattr(base, name, UNKNOWN)
        if base is mainstem and name in mainstem._HOMES:  # `ms.views` is a function, `mainstem.views` a package, too
            return getattr(importlib.import_module(mainstem._HOMES[name]), name)
        if inspect.ismodule(base) and not hasattr(base, name):
            try:
                return importlib.import_module(f"{base.__name__}.{name}")
            except ImportError:
                self._report(node, f"{base.__name__} has no {name}")
                return UNKNOWN
        if not hasattr(base, name) and name not in getattr(base, "__annotations__", {}):
            self._report(node, f"{base.__name__} has no {name}")
        return getattr(base, name, UNKNOWN)

    def _member(self, base: Of, name: str, node: ast.AST) -> Any:
        """An attribute of an instance: a method as it is, a property or a field by its annotation."""
        kind = base.type
        origin = typing.get_origin(kind)
        if origin is not None:
            return self._of_alias(kind, name)
        if not inspect.isclass(kind) or not _is_ours(kind):
            return UNKNOWN
        for each in kind.__mro__:
            found = vars(each).get(name)
            if isinstance(found, property) and found.fget is not None:
                return self._result(found.fget, base)
            if inspect.isfunction(found):
                return types.MethodType(found, base)
            if name in vars(each).get("__annotations__", {}):
                return _instance(_evaluated(vars(each)["__annotations__"][name], each.__module__))
            if found is not None:
                return UNKNOWN
        if not hasattr(kind, "__getattr__") and name not in _set_in_init(kind):
            self._report(node, f"{kind.__name__} has no {name}")
        return UNKNOWN

    def _of_alias(self, kind: Any, name: str) -> Any:
        parts = typing.get_args(kind)
        if name == "values" and len(parts) == 2:
            return Of(Callable[[], Iterable[parts[1]]])  # type: ignore[valid-type]
        return UNKNOWN

    def _call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        function = self._value(node.func, names)
        for argument in [*node.args, *(each.value for each in node.keywords)]:
            self._value(argument, names)
        if isinstance(function, Of):
            return _instance(typing.get_args(function.type)[-1]) if typing.get_args(function.type) else UNKNOWN
        if isinstance(node.func, ast.Name) and node.func.id in ("next", "list", "sorted") and node.args:
            item = self._item(self._value(node.args[0], names))
            return item if node.func.id == "next" or item is UNKNOWN else Of(list[item.type])
        if function is UNKNOWN or not _is_ours(function) or not callable(function):
            return UNKNOWN
        self._arguments(function, node)
        if inspect.isclass(function):
            return Of(function)
        return self._result(getattr(function, "__func__", function), getattr(function, "__self__", None))

    def _arguments(self, function: Any, node: ast.Call) -> None:
        """Whether a call fits a signature; ``**options`` by the names of their TypedDict."""
        if any(each.arg is None for each in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
            return
        signature = inspect.signature(function)
        try:
            signature.bind(*node.args, **{str(each.arg): each for each in node.keywords})
        except TypeError as error:
            self._report(node, f"{function.__name__}: {error}")
            return
        options = next((p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
        if options is not None and str(options.annotation).startswith("Unpack["):
            known = _evaluated(str(options.annotation)[7:-1], function.__module__)
            allowed = set(getattr(known, "__annotations__", ())) | set(signature.parameters)
            for each in node.keywords:
                if known is not UNKNOWN and each.arg not in allowed:
                    self._report(node, f"{function.__name__} has no {each.arg}")

    def _result(self, function: Any, owner: Any) -> Any:
        annotation = function.__annotations__.get("return", UNKNOWN)
        if annotation == "Self":
            return owner if isinstance(owner, Of) else UNKNOWN
        return _instance(_evaluated(annotation, function.__module__))

    def _returned(self, value: Of, method: str) -> Any:
        parts = typing.get_args(value.type)
        if typing.get_origin(value.type) is not None:
            return _instance(parts[-1]) if parts and method == "__getitem__" else UNKNOWN
        found = getattr(value.type, method, None) if inspect.isclass(value.type) and _is_ours(value.type) else None
        return self._result(found, value) if inspect.isfunction(found) else UNKNOWN

    def _item(self, value: Any) -> Any:
        """What iterating gives."""
        if not isinstance(value, Of):
            return UNKNOWN
        parts = typing.get_args(value.type)
        if parts:
            return _instance(parts[0])
        for method in ("__next__", "__iter__"):
            found = self._returned(value, method)
            if isinstance(found, Of):
                inner = typing.get_args(found.type)
                return _instance(inner[0]) if method == "__iter__" and inner else found
        return UNKNOWN

    def _entered(self, value: Any) -> Any:
        return self._returned(value, "__enter__") if isinstance(value, Of) else UNKNOWN

    def _report(self, node: Any, text: str) -> None:
        self.wrong.append((self._first + node.lineno, text))


@cache
def _set_in_init(kind: type) -> set[str]:
    """The attributes that the class and its bases set on themselves, and the slots."""
    found: set[str] = set()
    for each in kind.__mro__:
        if _is_ours(each):
            source = inspect.getsource(sys.modules[each.__module__])
            found |= {
                node.attr
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            }
    return found
