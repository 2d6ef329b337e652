"""Options of typed columns: what becomes of a value that does not parse. Immutable values.

A value that does not parse never fails a query unasked. By itself its row has nulls. ``columnNameOfCorruptRecord`` adds
a column with its text; ``deadLetterTopic`` has it appended to a topic, and no row made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstem.errors import ConfigError
from mainstem.model import is_topic_name

VALUE_OPTIONS = ("columnNameOfCorruptRecord", "deadLetterTopic")
CORRUPT_COLUMN = "_corrupt"
"""Named so in ``.schema(…)``, it is there without an option."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """``shown_corrupt``: the name of the column that the option adds."""

    shown_corrupt: str | None = None
    dead_letter_topic: str | None = None

    @property
    def corrupt_column(self) -> str:
        return self.shown_corrupt or CORRUPT_COLUMN

    @classmethod
    def parse(cls, get: Callable[[str], str | None]) -> ValueOptions:
        """Read from all options of the source. Raises ConfigError, which names the option that is wrong."""
        corrupt, dead = get("columnNameOfCorruptRecord"), get("deadLetterTopic")
        for name in VALUE_OPTIONS:
            if get(name) is not None and get("valueSchema") is None:
                raise ConfigError(f"option {name} needs the option valueSchema: without it no value is parsed")
        if dead is not None:
            _check_dead_letters(dead, get)
        return cls(corrupt or None, dead)


def _check_dead_letters(topic: str, get: Callable[[str], str | None]) -> None:
    if not is_topic_name(topic):
        raise ConfigError(f"option deadLetterTopic: {topic!r} is no topic's name")
    mode = (get("mode") or "DROPMALFORMED").upper()
    if mode != "DROPMALFORMED":
        raise ConfigError(f"option deadLetterTopic: with mode={mode} there are no dead letters; leave mode out")
    if (get("table") or "").lower() == "true":
        raise ConfigError("option deadLetterTopic is not for tables, whose latest values are read again and again")
    if topic in [name.strip() for name in (get("subscribe") or "").split(",")]:
        raise ConfigError(f"option deadLetterTopic: {topic} is read itself; name another topic")
