"""How long the console's pages take on a busy log: ``python -m benchmarks.console``.

A hundred topics with 10,000 partitions and a record in each, a record of 1 MB, and fifty pipelines. Each page is opened
several times in Chromium: with an empty cache, and again as a second visit. The time ends when the page is connected
and shows its data. The goal is a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.console.stage import gateway
from tests.support.browser import TIMEOUT_MS, chromium_path

from benchmarks.report import judgement, load_line, machine_load
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.model import Position
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC, Counts, PipelineState, Status
from mainstem.testing.broker_process import BrokerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Page

GOAL_S: Final = 1.0
TOPICS, PARTITIONS, PIPELINES = 100, 100, 50
_LARGE: Final = 1_000_000


class ConsolePage(NamedTuple):
    """A page, and a text that it shows once it has its data."""

    name: str
    path: str
    shows: str


PAGES: Final = (
    ConsolePage("flow", "/", "topic-000"),
    ConsolePage("topics", "/console/topics", "topic-000"),
    ConsolePage("a topic of 100 partitions", "/console/topics/topic-000", "a record"),
    ConsolePage("a topic with 1 MB", "/console/topics/large", "xxxx"),
    ConsolePage("its record of 1 MB", "/console/topics/large/records/0/0", "It has arrived"),
    ConsolePage("pipelines", "/console/pipelines", "pipeline-00"),
    ConsolePage("a pipeline", "/console/pipelines/pipeline-00", "topic-000"),
    ConsolePage("groups", "/console/groups", "Groups"),
    ConsolePage("history", "/console/history", "History"),
    ConsolePage("problems", "/console/problems", "Problems"),
)


def fill(log: Log) -> None:
    """The topics, their records, and what fifty drivers of pipelines say."""
    for number in range(TOPICS):
        log.create_topic(f"topic-{number:03d}", partitions=PARTITIONS)
        log.append_many(f"topic-{number:03d}", [NewRecord("a record", partition=each) for each in range(PARTITIONS)])
    log.create_topic("large", partitions=1)
    log.append("large", "x" * _LARGE)
    for topic in (PROGRESS_TOPIC, STATES_TOPIC):
        log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"}, exist_ok=True)
    now_ms = int(time.time() * 1000)
    for number in range(PIPELINES):
        name, source, sink = f"pipeline-{number:02d}", f"topic-{number:03d}", f"topic-{number + PIPELINES:03d}"
        counts = Counts(10, 1_000, 5, 0, 5)
        times = (now_ms - 60_000, now_ms + 3_600_000)
        state = PipelineState(name, "busy", Status.WAITING, "1 second", *times, counts, {}, 250.0)
        progress = Progress(name, 9, log.end(source), log.end(sink), Position(), (source,), (sink,))
        for topic, (key, value) in ((PROGRESS_TOPIC, progress.to_record()), (STATES_TOPIC, state.to_record())):
            log.append(topic, value, key=key)


def measure(url: str, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each page, by its name: of the first visit, and of the second."""
    from playwright.sync_api import sync_playwright

    seconds: dict[str, list[tuple[float, float]]] = {page.name: [] for page in PAGES}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"])
        for _ in range(rounds):
            for asked in PAGES:
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                context.set_default_timeout(TIMEOUT_MS)
                page = context.new_page()
                seconds[asked.name].append((visit(page, url, asked), visit(page, url, asked)))
                context.close()
        browser.close()
    return seconds


def visit(page: Page, url: str, asked: ConsolePage) -> float:
    """Open a page; the seconds until it is there."""
    begin = time.perf_counter()
    page.goto(url + asked.path)
    page.wait_for_function("window.did_handshake")
    page.get_by_text(asked.shows).first.wait_for(state="attached")
    return time.perf_counter() - begin


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    load = machine_load()
    print(load_line(load))
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory) / "data") as broker:
        with Log(broker.bootstrap, timeout_s=60.0) as log:
            fill(log)
        with gateway(broker.bootstrap) as (url, _):
            measure(url, 1)  # the first answers load what the gateway keeps
            for name, found in measure(url, options.rounds).items():
                for what, seconds in zip(("first", "again"), zip(*found, strict=True), strict=True):
                    said = judgement(is_met=median(seconds) <= GOAL_S, load=load)
                    spread = f"{median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"
                    print(f"{name:>26}, {what}: {spread}, goal ≤ {GOAL_S:g}: {said}")


if __name__ == "__main__":
    main(sys.argv[1:])
