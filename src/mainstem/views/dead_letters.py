"""Where a view's poison goes: a topic of its own, with the reason and the place it came from as headers.

Key and value are those of the poison record. Headers: ``mainstem-view``, ``mainstem-error``, and
``mainstem-position``, the poison's own place, ``flights/0:17``. They are durable before the view moves on; after a
crash in between a letter may stand there twice, which its position tells. Thread-safe, as the log's client is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import RecordTooLargeError, UnknownTopicError
from mainstem.model import Position, TopicPartition
from mainstem.views.store import Poison


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
        try:
            self._log.append_many(self.name, self._letters(poisons, with_value=True))
        except RecordTooLargeError:  # the headers made it too large; its position still finds the record
            self._log.append_many(self.name, self._letters(poisons, with_value=False))

    def _letters(self, poisons: Sequence[Poison], *, with_value: bool) -> Iterator[NewRecord]:
        for poison in poisons:
            headers = {
                "mainstem-view": self._view,
                "mainstem-error": poison.error,
                "mainstem-position": f"{self._topic}/{poison.partition}:{poison.offset}",
            }
            yield NewRecord(poison.value if with_value else None, poison.key, headers)
