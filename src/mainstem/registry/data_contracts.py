"""Metadata and rules of schemas: what a subject's config adds to them when a schema is registered.

``defaultMetadata`` lies below what a request brings (or, where it brings none, what the latest version has), and
``overrideMetadata`` above it; rule sets in the same way. Of two values of a property, and of two lists of tags of a
path, the upper one counts. ``sensitive`` is the union. A rule replaces the one of its name, and comes after those
that stay.

Contract: pure functions. Values of other shapes than the API's, which another program may have stored, are replaced as
a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mainstem.registry.requests import check_extra
from mainstem.schemas_topic.records import Document, sorted_json

_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")


def with_contract(config: Document, metadata: str | None, rule_set: str | None) -> tuple[str | None, str | None]:
    """Metadata and rules with what a config adds to them. Raises RegistryError when the result is too large."""
    if not any(config.get(f"{level}{part}") for level in ("default", "override") for part in ("Metadata", "RuleSet")):
        return metadata, rule_set
    return _merged(config, "Metadata", metadata), _merged(config, "RuleSet", rule_set)


def _merged(config: Document, part: str, given: str | None) -> str | None:
    layers = (config.get(f"default{part}"), given and json.loads(given), config.get(f"override{part}"))
    merged: Document | None = None
    for upper in layers:
        if isinstance(upper, dict):
            merged = upper if merged is None else _above(merged, upper)
    check_extra("what the config adds to the schema", merged)
    return sorted_json(merged)


def _above(lower: Document, upper: Document) -> Document:
    return {**lower, **{name: _field(name, lower.get(name), value) for name, value in upper.items()}}


def _field(name: str, lower: Any, upper: Any) -> Any:
    if upper is None:
        return lower
    if isinstance(lower, dict) and isinstance(upper, dict):
        return {**lower, **upper}
    if not isinstance(lower, list) or not isinstance(upper, list):
        return upper
    if name in _RULE_LISTS:
        names = {_name_of(each) for each in upper}
        return [*(each for each in lower if _name_of(each) not in names), *upper]
    return sorted({str(each) for each in (*lower, *upper)}) if name == "sensitive" else upper


def _name_of(rule: Any) -> object:
    return str(rule.get("name")) if isinstance(rule, Mapping) else id(rule)
