"""Where poison goes, over a real log."""

from __future__ import annotations

from mainstem.client.log import Log
from mainstem.model import Record
from mainstem.views.host.dead_letter_topic import DeadLetterTopic
from mainstem.views.stores.store import Poison

HUGE = b"x" * (2 << 20)  # more than a topic takes, unless it is told to


def test_a_letter_that_is_too_large_costs_its_own_value_or_key_alone(mainstem_log: Log) -> None:
    contents = [(b"a", b"no json"), (b"b", HUGE), (b"c", b"no json"), (HUGE, b"{}"), (HUGE, HUGE), (b"d", None)]
    poisons = [Poison(0, offset, key, value, "wrong") for offset, (key, value) in enumerate(contents)]
    letters = DeadLetterTopic(mainstem_log, "v", "letters-of-any-size", "letters-of-any-size-dead")
    letters.send(poisons)
    found = list(mainstem_log.read(letters.name))
    assert [(letter.key, letter.value) for letter in found] == [
        (b"a", b"no json"),
        (b"b", None),
        (b"c", b"no json"),
        (None, None),
        (None, None),
        (b"d", None),
    ]
    expected = [(b"letters-of-any-size", b"0", str(offset).encode()) for offset in range(6)]
    assert [_place(letter) for letter in found] == expected


def test_many_small_letters_find_their_place_where_only_small_ones_fit(mainstem_log: Log) -> None:
    mainstem_log.create_topic("letters-small-dead", partitions=1, configs={"max.message.bytes": "1000"})
    poisons = [Poison(0, offset, b"k", b"x" * size, "wrong") for offset, size in enumerate((1, 2_000, 2))]
    DeadLetterTopic(mainstem_log, "v", "letters-small", "letters-small-dead").send(poisons)
    found = {_place(letter)[2]: letter.value for letter in mainstem_log.read("letters-small-dead")}
    assert found == {b"0": b"x", b"1": None, b"2": b"xx"}


def _place(letter: Record) -> tuple[bytes | None, ...]:
    headers = dict(letter.headers)
    return headers["mainstem.topic"], headers["mainstem.partition"], headers["mainstem.offset"]
