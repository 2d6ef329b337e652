"""Unexpected errors in threads and tasks of the gateway: no request waits for ever, and work goes on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mainstem.background import failures
from mainstem.client.http.request_reply import reply_topic_of
from mainstem.client.log import Log
from mainstem.client.read.reader import Follower
from mainstem.gateway.streams import topic_tail
from tests.gateway.answering import working


def test_a_reply_is_found_after_its_follower_failed(
    api: httpx.Client, session_log: Log, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = failures().get("reply follower", 0)
    read, broken, replies = Follower.__next__, [True], reply_topic_of(mainstem_topic)

    def once_broken(self: Follower) -> object:
        record = read(self)
        if record.topic == replies and broken:  # other topics are followed meanwhile
            broken.clear()
            raise RuntimeError("unforeseen")
        return record

    monkeypatch.setattr(Follower, "__next__", once_broken)
    with working(session_log, mainstem_topic, lambda _: {"ok": True}):
        for _ in range(2):
            answer = api.post(f"/topics/{mainstem_topic}/requests", json={"value": 1, "timeout_s": 60})
            if answer.status_code == 202:  # it was let go, and told where to look
                answer = api.get(answer.headers["Location"], params={"timeout": 60})
            assert answer.status_code == 200, answer.text
    assert failures()["reply follower"] == before + 1


def test_a_stream_is_ended_and_the_next_one_served_after_a_tail_failed(
    api: httpx.Client, session_log: Log, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = failures().get("topic tail", 0)
    take, broken = topic_tail._next_piece, [True]

    def once_broken(follower: Follower, topic: str, *others: Any) -> object:
        if topic == mainstem_topic and broken:  # other topics are followed meanwhile
            broken.clear()
            raise RuntimeError("unforeseen")
        return take(follower, topic, *others)

    monkeypatch.setattr(topic_tail, "_next_piece", once_broken)
    with api.stream("GET", f"/topics/{mainstem_topic}/stream") as stream:
        assert any("problem" in line for line in stream.iter_lines())
    assert failures()["topic tail"] == before + 1
    session_log.append(mainstem_topic, "later", key="k")
    with api.stream("GET", f"/topics/{mainstem_topic}/stream?from=earliest") as stream:
        assert next(line for line in stream.iter_lines() if "later" in line)
