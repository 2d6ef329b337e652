"""The console and the commands over Apache Kafka itself: the main pages and the commands that read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

import mainstem as ms
from mainstem.cli.main import execute
from mainstem.client.log import Log
from mainstem.pipelines.deploy import deploy
from tests.console.stage import gateway
from tests.support.kafka_or_skip import kafka_or_skip

if TYPE_CHECKING:
    from tests.support.browser import NewPage

pytestmark = pytest.mark.maven
RECORDS, COMMITTED = 30, 12


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """A topic with a schema, and a group that has read a part of it."""
    with kafka_or_skip() as kafka, Log(kafka.bootstrap, timeout_s=30) as log:
        app = ms.App("on-apache-kafka")
        app.topic("con-people", schema="id STRING NOT NULL, name STRING", key="id", partitions=1)
        deploy(app, log)
        log.append_many("con-people", [(f"P{n:02d}", {"id": f"P{n:02d}", "name": "Ada"}) for n in range(RECORDS)])
        reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "con-readers"})
        reader.commit(offsets=[TopicPartition("con-people", 0, COMMITTED)], asynchronous=False)
        reader.close()
        yield log


@pytest.mark.browser
def test_the_main_pages_show_what_is_true(log: Log, new_page: NewPage) -> None:
    from playwright.sync_api import expect

    with gateway(log.bootstrap) as (url, _):
        page = new_page(viewport={"width": 1280, "height": 800})
        for path, texts in {
            "/": ("con-people", f"{RECORDS} offsets"),
            "/console/topics": ("con-people", f"{RECORDS}"),
            "/console/topics/con-people": ("P29", '"name": "Ada"'),
            "/console/topics/con-people?tab=partitions": ("100.0 %",),
            "/console/topics/con-people?tab=consumers": ("con-readers",),
            "/console/topics/con-people?tab=schema": ("STRING NOT NULL", "Version 1"),
            "/console/topics/con-people?tab=configs": ("retention.ms", "7 days (604800000)"),
            "/console/groups": ("con-readers", f"{RECORDS - COMMITTED}"),
            "/console/groups/con-readers": ("con-people", f"{RECORDS - COMMITTED}"),
            "/console/pipelines": ("No pipelines yet",),
            "/console/schemas": ("No subjects yet",),
            "/console/config": ("Broker 1", "advertised.listeners"),
        }.items():
            page.goto(url + path)
            page.wait_for_function("window.did_handshake")
            for each in texts:
                expect(page.get_by_text(each).filter(visible=True).first).to_be_visible()
            expect(page.locator(".banner")).to_be_hidden()
            assert page.locator(".problem").count() == 0, path


def answer(log: Log, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert execute([*words, "--bootstrap", log.bootstrap]) == 0, words
    return capsys.readouterr().out


def test_the_commands_that_read_tell_what_is_true(log: Log, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    listed = json.loads(answer(log, capsys, "topics", "list", "--json"))["topics"]
    assert {each["topic"]: each["offsets"] for each in listed}["con-people"] == RECORDS
    assert "con-people" in answer(log, capsys, "topics", "list")
    described = json.loads(answer(log, capsys, "topics", "describe", "con-people", "--json"))
    assert (described["offsets"], described["end"]) == (RECORDS, f"con-people/0:{RECORDS}")
    assert "con-readers" in answer(log, capsys, "topics", "consumers", "con-people")
    assert f"{RECORDS}" in answer(log, capsys, "topics", "partitions", "con-people")
    read = answer(log, capsys, "read", "con-people", "--limit", "3", "--json").splitlines()
    assert [json.loads(line)["key"] for line in read] == ["P00", "P01", "P02"]
    assert "P07" in answer(log, capsys, "read", "con-people", "--key", "P07")
    groups = json.loads(answer(log, capsys, "groups", "list", "--json"))["groups"]
    assert {each["group"]: each["lag"] for each in groups}["con-readers"] == RECORDS - COMMITTED
    assert "con-people" in answer(log, capsys, "groups", "describe", "con-readers")
    answer(log, capsys, "pipelines", "list")
