"""The conformance suite of Durable Streams itself, and its JavaScript client, against a gateway."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.house.pages import ROOT, blocks_of
from tests.support.foreign_programs import DURABLE_CLIENT as CLIENT
from tests.support.foreign_programs import DURABLE_SUITE as SUITE
from tests.support.foreign_programs import ask, node_argv, node_env, npm_directory

_PROGRAM: Final = """
import { runConformanceTests } from "@durable-streams/server-conformance-tests"
runConformanceTests({ baseUrl: process.env.URL })
"""
_TIMEOUT_S: Final = 400


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT_S + 60)
def test_the_suite_of_the_protocol_passes(durable: httpx.Client, durable_topic: str) -> None:
    directory = npm_directory(SUITE)
    (directory / "suite.test.mjs").write_text(_PROGRAM)
    environment = {**os.environ, "URL": f"{durable.base_url}/streams/{durable_topic}", "NO_COLOR": "1"}
    argv = ["node", "node_modules/vitest/vitest.mjs", "run", "suite.test.mjs", "--root", str(directory)]
    argv.append("--testTimeout=60000")  # its own five seconds are short on a loaded machine
    argv += ["--sequence.concurrent", "--maxConcurrency=4"]  # many wait until a stream ends
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment, cwd=directory
    )
    said = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, said
    passed, skipped = (int(re.findall(rf"(\d+) {word}", done.stdout)[-1]) for word in ("passed", "skipped"))
    assert passed >= 332, said
    assert skipped == 6, "subscriptions and webhooks alone are left out"


@pytest.mark.slow
def test_its_javascript_client_appends_and_follows(durable: httpx.Client, durable_topic: str) -> None:
    url = f"{durable.base_url}/streams/{durable_topic}/javascript"
    program = Path(__file__).with_name("client.cjs")
    found = ask(node_argv(program, CLIENT), {"url": url}, env=node_env(CLIENT))
    assert found == {"read": [{"n": 1}, {"n": 2}], "followed": [{"n": 1}, {"n": 2}, {"n": 3}]}


@pytest.mark.slow
def test_the_program_of_the_page_appends_and_reads(durable: httpx.Client, durable_topic: str) -> None:
    [block] = (each for each in blocks_of(ROOT / "docs/howto/durable-streams.md") if each.language == "js")
    directory, url = npm_directory(CLIENT), f"{durable.base_url}/streams/{durable_topic}/page"
    text = re.sub(r"http://127\.0\.0\.1:8080/streams/\S+(?=\")", url, block.text)
    (directory / "page.mjs").write_text(f"{text}\nconsole.log(JSON.stringify(items))\nprocess.exit(0)")
    done = subprocess.run(
        ["node", str(directory / "page.mjs")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ('[{"say":"hello"}]\n', "")
