"""The lists of a page are asked for while the browser still loads it."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.own_environment import own_environment

TREND = "/history?series={}&since=15m&points=60"
EARLY = {
    "/": ["/pipelines", "/topics?offsets=true", "/views"],
    "/console/topics": [TREND.format("topic/%2A/records_in_per_s"), "/topics?offsets=true"],
    "/console/pipelines": [TREND.format("pipeline/%2A/lag"), "/pipelines"],
    "/console/views": [TREND.format("view/%2A/lag"), "/views"],
}


def test_lists_are_asked_for_before_a_browser_is_connected_and_errors_wait_for_it() -> None:
    argv = [sys.executable, "-m", "tests.console.pages_without_a_browser", *EARLY]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True, env=own_environment())
    assert (json.loads(ended.stdout), ended.stderr) == (EARLY, "")
