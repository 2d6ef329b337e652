"""The table of served APIs: what each module in ``handlers`` declares as its ``API``. A new module there is served."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from mainstem.broker import handlers
from mainstem.broker.api import Api


def _declared() -> Iterator[Api]:
    for module in pkgutil.iter_modules(handlers.__path__, f"{handlers.__name__}."):
        yield importlib.import_module(module.name).API


APIS: Final[Mapping[int, Api]] = MappingProxyType(
    {api.key: api for api in sorted(_declared(), key=lambda api: api.key)}
)
