"""Where a view's poison goes: a topic of its own, with the reason and the place it came from as headers.

Key and value are those of the poison record; the headers are those of ``mainstem.client.dead_letter_headers`` and
``mainstem.view``. They are durable before the view moves on; after a crash in between a dead letter may be there twice;
its offset shows that. Thread-safe, as the log's client is.

A letter that is too large for the topic goes without its value, and if need be without its key: the offset still
finds the record. That costs no other letter anything, so a large one is sent alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from mainstem.client.dead_letter_headers import dead_letter_of
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import RecordTooLargeError, UnknownTopicError
from mainstem.model import Position, TopicPartition
from mainstem.views.stores.store import Poison

_ALONE_BYTES: Final = 100_000


class DeadLetterTopic:
    """The dead letters of one view."""

    def __init__(self, log: Log, view: str, topic: str, dead_letter_topic: str) -> None:
        self.name = dead_letter_topic
        self._log = log
        self._view = view
        self._topic = topic

    def send(self, poisons: Sequence[Poison], already: Position = Position()) -> None:  # noqa: B008  # immutable
        """Append the poison records, but for those before ``already``, which were sent by an earlier reading.

        Raises LogUnavailableError.
        """
        new = [p for p in poisons if p.offset >= already.get(TopicPartition(self._topic, p.partition), 0)]
        if not new:
            return
        try:
            self._append(new)
        except UnknownTopicError:
            self._log.create_topic(self.name, partitions=1, exist_ok=True)
            self._append(new)

    def _append(self, poisons: Sequence[Poison]) -> None:
        for is_large, run in groupby(poisons, _is_large):
            letters = list(run)
            if is_large or not self._fit([self._letter(poison) for poison in letters]):
                for poison in letters:
                    self._append_what_fits(poison)

    def _append_what_fits(self, poison: Poison) -> None:
        shorter = (poison, replace(poison, value=None))
        if not any(self._fit([self._letter(each)]) for each in shorter):
            self._log.append_many(self.name, [self._letter(replace(poison, value=None, key=None))])

    def _fit(self, letters: Sequence[NewRecord]) -> bool:
        """Append the letters; whether none was too large."""
        try:
            self._log.append_many(self.name, letters)
        except RecordTooLargeError:
            return False
        return True

    def _letter(self, poison: Poison) -> NewRecord:
        source = TopicPartition(self._topic, poison.partition)
        headers = dead_letter_of(poison.error, source, poison.offset, view=self._view)
        return NewRecord(poison.value, poison.key, headers)


def _is_large(poison: Poison) -> bool:
    return len(poison.value or b"") + len(poison.key or b"") > _ALONE_BYTES
