"""The dashboard and the alert rules: valid files, and each metric in them is one that the node exposes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from scripts.metrics import METRICS

yaml: Any = pytest.importorskip("yaml")
FILES = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
_NAME = re.compile(r"\b((?:mainstem|process)_[a-z_]+)")
_PARTS = ("_bucket", "_sum", "_count")
_OF_PROMETHEUS = {"up"}


def alerts() -> list[dict[str, str]]:
    (group,) = yaml.safe_load((FILES / "prometheus-alerts.yml").read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, object]]:
    return list(json.loads((FILES / "grafana-dashboard.json").read_text())["panels"])


def metrics_in(query: str) -> set[str]:
    """The names of the metrics in a query; a histogram is named without its parts."""
    names = {name.removesuffix(part) for name in _NAME.findall(query) for part in _PARTS if name.endswith(part)}
    return names | {name for name in _NAME.findall(query) if not name.endswith(_PARTS)}


def unknown(query: str) -> set[str]:
    """The metrics in a query that no node exposes."""
    return metrics_in(query) - METRICS.keys()


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_there_are_and_says_what_to_do(rule: dict[str, str]) -> None:
    assert unknown(rule["expr"]) == set()
    assert _NAME.search(rule["expr"]) or _OF_PROMETHEUS & set(re.findall(r"\w+", rule["expr"]))
    assert rule["annotations"].keys() == {"summary", "action"}  # type: ignore[attr-defined]
    assert rule["expr"].count("(") == rule["expr"].count(")")


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_asks_for_metrics_that_there_are(panel: dict[str, object]) -> None:
    queries = [target["expr"] for target in panel["targets"]]  # type: ignore[attr-defined]
    assert queries
    for query in queries:
        assert _NAME.search(query)
        assert unknown(query) == set()


def test_a_wrong_name_is_found() -> None:
    assert unknown("rate(mainstem_flush_seconds_bucket[5m]) + mainstem_nothing") == {"mainstem_nothing"}
