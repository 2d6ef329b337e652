"""Reads the entries of a small topic about pipelines, and steps over those that cannot be read.

A record of ``__mainstem_progress`` or of ``__mainstem_pipeline_states`` may be damaged on the disk, or not parse. It
must not keep a pipeline from starting or a command from answering: each is one line in the log, and the next record of
its pipeline replaces it. ``is_uncertain`` says that the newest entry may be among them.

Used by one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from mainstem.errors import SchemaError
from mainstem.model import Position, Record

if TYPE_CHECKING:
    from mainstem.client.log import Log

_LOG = logging.getLogger("mainstem.pipelines")
_Entry = TypeVar("_Entry")


class EntryReader(Iterator[tuple[str, _Entry | None]], Generic[_Entry]):
    """The records of a topic up to its end: key and entry, None for a tombstone. With ``key`` those of one pipeline.

    Raises UnknownTopicError, LogUnavailableError.
    """

    def __init__(
        self,
        log: Log,
        topic: str,
        parse: Callable[[Record], _Entry | None],
        *,
        key: str | None = None,
        start: Position | None = None,
    ) -> None:
        begin = start or "earliest"
        self._records = log.read(topic, key=key, every_partition=True, start=begin, on_damaged="skip")
        self._parse = parse
        self._damaged = 0
        self.is_uncertain = False
        """Whether a record that cannot be read follows the last entry."""

    @property
    def position(self) -> Position:
        return self._records.position

    def __next__(self) -> tuple[str, _Entry | None]:
        while True:
            record = next(self._records, None)
            self._note_damage()
            if record is None:
                raise StopIteration
            try:
                entry = self._parse(record)
            except SchemaError as error:
                self._skipped(str(error))
                continue
            self.is_uncertain = False
            return (record.key or b"").decode(errors="replace"), entry

    def _note_damage(self) -> None:
        for damage in self._records.damaged[self._damaged :]:
            self._damaged += 1
            self._skipped(str(damage))

    def _skipped(self, what: str) -> None:
        self.is_uncertain = True
        _LOG.warning("skipped a record about pipelines: %s", what)
