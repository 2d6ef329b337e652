"""Looks whether a record is a dead letter of a view or a pipeline: set aside, and not in what they show.

Bounded: only the newest ``LETTERS_MAX`` letters of a topic are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mainstem.client.dead_letters import DeadLetter
from mainstem.errors import LogUnavailableError, MainstemError
from mainstem.model import Position

if TYPE_CHECKING:
    from mainstem.client.log import Log

LETTERS_MAX: Final = 1_000
_PLACES_MAX: Final = 10
_ERROR_MAX: Final = 1_000


def letter_note(log: Log, letters: str, start: Position, until: Position, *, may_read: bool = True) -> str:
    """A sentence about the letter in the topic ``letters`` of one of the records between two positions; or empty.

    Who may not read that topic sees neither its name nor the error. Only a few records are looked for: of a larger
    range it is not known which came of the record. Raises LogUnavailableError.
    """
    if sum(offset - start.get(tp, 0) for tp, offset in until.items()) > _PLACES_MAX:
        return ""
    try:
        end = log.end(letters)
        low = {tp: max(log.beginning(letters).get(tp, 0), offset - LETTERS_MAX) for tp, offset in end.items()}
        for record in log.read(letters, start=Position(low), on_damaged="skip"):
            letter = DeadLetter.of(record)
            if letter.source is None:
                continue
            tp, offset = letter.source
            if start.get(tp, 0) <= offset < until.get(tp, 0):
                said = f"it could not use {tp}:{offset} and set it aside as dead letter"
                place = f"{record.topic}/{record.partition}:{record.offset}"
                return f"{said} {place}: {letter.error[:_ERROR_MAX]}" if may_read else said
    except LogUnavailableError:
        raise
    except MainstemError:  # the topic does not exist, or may not be read
        return ""
    return ""
