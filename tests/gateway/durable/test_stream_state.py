"""The state of a stream: the same by its last record, by its events, and for a gateway that keeps nothing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mainstem.client.log import Log
from mainstem.errors import MainstemError, StreamConflictError
from mainstem.gateway.durable import stream_changes
from mainstem.gateway.durable.stream_changes import StreamChanges
from mainstem.gateway.durable.stream_checks import StreamRefusedError
from mainstem.gateway.durable.stream_fields import AppendFields, CreateFields, ForkFields, ProducerFields
from mainstem.gateway.durable.stream_log import StreamLog, StreamName
from mainstem.gateway.durable.stream_messages import joined
from mainstem.gateway.durable.stream_offsets import START, StreamPosition, cursor, parse_position
from tests.gateway.durable.conftest import CONFIGS

_NAMES = itertools.count(1)
_JSON = "application/json"
_POSITIONS = st.builds(StreamPosition, st.integers(1, 10**16 - 1), st.integers(0, 2**63 - 1))


@given(_POSITIONS, _POSITIONS)
def test_tokens_sort_as_their_positions_and_say_them(one: StreamPosition, other: StreamPosition) -> None:
    assert parse_position(one.token) == one
    assert (one.token < other.token) == (one < other)
    assert parse_position("-1") == START


@given(st.integers(0, 10**15 - 1))
def test_a_cursor_is_always_later_than_the_one_that_came(given_: int) -> None:
    assert int(cursor(str(given_))) > given_ or given_ < int(cursor(None))


class _Histories(RuleBasedStateMachine):
    """Two gateways change one stream; the second keeps no states. A plain list says what it has to hold."""

    log: Log
    topic: str

    @initialize()
    def begin(self) -> None:
        self.name = StreamName(self.topic, f"history-{next(_NAMES)}")
        self.logs = [StreamLog(self.log), StreamLog(self.log, kept_bytes=0)]
        self.changes = [StreamChanges(each) for each in self.logs]
        self.values: list[int] | None = None
        self.numbers = itertools.count()
        self.producers: dict[str, tuple[int, int]] = {}
        self.is_closed = False

    @rule(gateway=st.integers(0, 1))
    def create(self, gateway: int) -> None:
        fields = CreateFields(_JSON, None, None, closed=False, fork=None)
        try:
            outcome = self.changes[gateway].create(self.name, fields, b"")
        except MainstemError:
            assert self.is_closed  # a stream that is open is asked for
            return
        assert outcome.is_new == (self.values is None)
        if outcome.is_new:
            self.values, self.is_closed, self.producers = [], False, {}

    @rule(gateway=st.integers(0, 1), count=st.integers(1, 3), closes=st.booleans())
    def append(self, gateway: int, count: int, closes: bool) -> None:
        added = [next(self.numbers) for _ in range(count)]
        fields = AppendFields(_JSON, None, closed=closes, producer=None)
        if self._does(gateway, fields, added) and self.values is not None:
            self.values += added
            self.is_closed = closes

    @rule(gateway=st.integers(0, 1), producer=st.sampled_from("abcdefgh"), is_repeat=st.booleans())
    def append_as_a_producer(self, gateway: int, producer: str, is_repeat: bool) -> None:
        epoch, seq = self.producers.get(producer, (0, -1))
        is_repeat = is_repeat and seq >= 0
        fields = AppendFields(
            _JSON, None, closed=False, producer=ProducerFields(producer, epoch, seq + (not is_repeat))
        )
        added = [next(self.numbers)]
        if is_repeat and self.values is not None:
            assert not self.changes[gateway].append(self.name, fields, json.dumps(added).encode()).is_new
        elif self._does(gateway, fields, added) and self.values is not None:
            self.values += added
            self.producers[producer] = (epoch, seq + 1)

    @rule(gateway=st.integers(0, 1))
    def delete(self, gateway: int) -> None:
        try:
            self.changes[gateway].delete(self.name)
        except MainstemError:
            assert self.values is None
            return
        assert self.values is not None
        self.values, self.is_closed = None, False

    @rule(gateway=st.integers(0, 1), bytes_max=st.sampled_from([1, 40, 1 << 20]))
    def read(self, gateway: int, bytes_max: int) -> None:
        position, found = START, []
        while True:
            page = self.logs[gateway].page(self.name, position, bytes_max)
            if page.found.state is None:
                assert self.values is None
                return
            found += json.loads(joined(_JSON, page.values))
            if page.is_up_to_date:
                break
            position = parse_position(page.end.token)
        assert found == self.values
        assert page.state.is_closed == self.is_closed
        assert dict(page.state.producers) == self.producers

    def _does(self, gateway: int, fields: AppendFields, added: list[int]) -> bool:
        """Whether the append is taken; it is not where the stream is closed or gone."""
        try:
            self.changes[gateway].append(self.name, fields, json.dumps(added).encode())
        except (MainstemError, StreamRefusedError):
            assert self.values is None or self.is_closed
            return False
        assert self.values is not None
        assert not self.is_closed
        return True


def test_whatever_two_gateways_do_a_stream_holds_what_was_taken(session_log: Log, durable_topic: str) -> None:
    machine = type("Histories", (_Histories,), {"log": session_log, "topic": durable_topic})
    run_state_machine_as_test(machine, settings=settings(max_examples=10, stateful_step_count=80, deadline=None))  # type: ignore[no-untyped-call]


def test_a_recreated_topic_has_none_of_the_streams_that_a_gateway_knows(session_log: Log) -> None:
    topic = f"recreated-{next(_NAMES)}"
    fields, name = CreateFields(_JSON, None, None, closed=False, fork=None), StreamName(topic, "s")
    streams = StreamLog(session_log)
    changes = StreamChanges(streams)
    for _ in range(2):
        session_log.create_topic(topic, partitions=1, configs=CONFIGS)
        assert streams.find(name).state is None
        assert changes.create(name, fields, b"[1]").is_new
        assert streams.find(name).state is not None
        session_log.delete_topic(topic)


def test_two_gateways_that_create_a_fork_at_once_keep_one_note_of_it(session_log: Log, durable_topic: str) -> None:
    source, fork = (StreamName(durable_topic, f"fork-{next(_NAMES)}") for _ in range(2))
    one, other = (StreamChanges(StreamLog(session_log)) for _ in range(2))
    one.create(source, CreateFields(_JSON, None, None, closed=False, fork=None), b"[1]")
    fields = CreateFields(None, None, None, closed=False, fork=ForkFields(source.key, None, 0))

    def noted() -> tuple[str, ...]:
        state = StreamLog(session_log).find(source).state
        assert state is not None
        return tuple(state.forks)

    other._planned(fork, fields, fields.fork)
    other_planned, other._planned = other._planned, lambda *arguments: late(other_planned(*arguments))  # type: ignore[method-assign]

    def late(plan: Any) -> Any:
        assert one.create(fork, fields, b"").is_new
        assert one.append(fork, AppendFields(_JSON, None, closed=True, producer=None), b"").is_new
        return plan

    with pytest.raises(StreamConflictError):  # it is closed by now
        other.create(fork, fields, b"")
    assert noted() == (fork.key,)
    one.delete(fork)
    assert noted() == ()


def test_a_fork_that_is_created_while_the_one_before_is_deleted_keeps_its_note(
    session_log: Log, durable_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_changes, "FORKS_MAX", 1)
    source, fork = (StreamName(durable_topic, f"fork-{next(_NAMES)}") for _ in range(2))
    one, other = (StreamChanges(StreamLog(session_log)) for _ in range(2))
    one.create(source, CreateFields(_JSON, None, None, closed=False, fork=None), b"[1]")
    fields = CreateFields(None, None, None, closed=False, fork=ForkFields(source.key, None, 0))
    one.create(fork, fields, b"")
    release = one._release

    def release_late(*arguments: Any) -> None:
        assert other.create(fork, fields, b"").is_new
        release(*arguments)

    monkeypatch.setattr(one, "_release", release_late)
    one.delete(fork)
    state = StreamLog(session_log).find(source).state
    assert state is not None
    assert state.forks == (fork.key,)


def test_an_append_by_a_state_from_before_goes_to_no_recreated_topic(session_log: Log) -> None:
    topic = f"recreated-{next(_NAMES)}"
    name, fields = StreamName(topic, "s"), CreateFields(_JSON, None, None, closed=False, fork=None)
    session_log.create_topic(topic, partitions=1, configs=CONFIGS)
    one, other = (StreamChanges(StreamLog(session_log)) for _ in range(2))
    one.create(name, fields, b"[1, 2, 3]")
    session_log.delete_topic(topic)
    session_log.create_topic(topic, partitions=1, configs=CONFIGS)
    other.create(name, fields, b"[9]")
    one.append(name, AppendFields(_JSON, None, closed=False, producer=None), b"[10]")
    page = StreamLog(session_log).page(name, START, 1 << 20)
    assert json.loads(joined(_JSON, page.values)) == [9, 10]
