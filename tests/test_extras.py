"""What is not installed is said before anything starts, with what to install."""

from __future__ import annotations

import pytest

from mainstem import extras
from mainstem.errors import MissingDependencyError


def test_what_is_installed_is_not_missing() -> None:
    assert [name for name in extras.EXTRAS if extras.missing_modules(name)] == []


def test_a_missing_extra_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "gateway", ("fastapi", "no_such_package.part"))
    with pytest.raises(MissingDependencyError, match=r"no_such_package.part .* pip install 'mainstem\[gateway\]', or"):
        extras.require("spark", "gateway", otherwise=", or do without")
