"""A command whose texts, paths and flags are taken as they are given, without pydantic, which typer loads for them.

pydantic takes longer to load than ``mainstem serve`` takes for all else. What is not of the parameter's plain type (a
number in ``mainstem.toml``) still goes through typer. This uses private names of typer, whose minor version is pinned;
``tests/bare`` holds that ``mainstem serve`` loads no pydantic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """For ``app.command(cls=PlainCommand)``."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _made_plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """For ``Typer(cls=PlainGroup)``."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _made_plain(super().get_params(ctx))


class _Plain:
    """In the place of typer's coercion of one parameter."""

    def __init__(self, given: Any, kind: Any) -> None:
        self._given = given
        self._kind = kind

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple else None
        values = value if param.multiple else [value]
        if isinstance(values, list | tuple) and all(isinstance(each, self._given) for each in values):
            return [self._kind(each) for each in values] if param.multiple else self._kind(value)
        from typer._coercion import build_runtime_param

        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)


_TEXT: Final = _Plain(str, str)
_PLAIN: Final[dict[Any, _Plain]] = {
    str: _TEXT,
    list[str]: _TEXT,
    bool: _Plain(bool, bool),
    Path: _Plain(str | Path, Path),
}


def _made_plain(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        plain = _PLAIN.get(parameter.type_descriptor.annotation)
        if plain is not None:
            parameter._runtime_param = plain
    return parameters
