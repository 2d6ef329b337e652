"""Patterns over routing keys, as AMQP's topic exchanges have them: ``orders.eu.*``, ``orders.#``.

A routing key is words with dots between them. In a pattern ``*`` matches one word, ``#`` any number of words, also
none; any other word matches itself. A record's routing key is its header ``mainstem-routing-key``, or else its key. A
key that is missing, not UTF-8 or longer than 255 bytes counts as empty: only ``#`` matches it. Pure; matching takes at
most words x words steps, whatever the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mainstem.errors import InputError
from mainstem.model import Record

HEADER: Final = "mainstem-routing-key"
BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class RoutePattern:
    """A pattern, read; compares and hashes by its words."""

    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> RoutePattern:
        """Read a pattern. Raises InputError."""
        if not 0 < len(text.encode(errors="replace")) <= BYTES_MAX:
            raise InputError(f"route: a pattern has from 1 to {BYTES_MAX} bytes, e.g. orders.eu.* or orders.#")
        words = tuple(text.split("."))
        for word in words:
            if not word or (len(word) > 1 and ("*" in word or "#" in word)):
                raise InputError(
                    f"route {text[:100]!r}: single dots separate words; * (one word) and # (any number) are words "
                    "of their own, e.g. orders.eu.* or orders.#"
                )
        return cls(words)

    def matches(self, key: str) -> bool:
        """Whether a routing key matches."""
        ways = self._from({0})
        for word in key.split(".") if key else ():
            steps = {
                at if self.words[at] == "#" else at + 1
                for at in ways
                if at < len(self.words) and self.words[at] in ("#", "*", word)
            }
            ways = self._from(steps)
            if not ways:
                return False
        return len(self.words) in ways

    def _from(self, places: set[int]) -> set[int]:
        """The places in the pattern that can be reached without another word: a ``#`` may match none."""
        reached: set[int] = set()
        for place in places:
            at = place
            while at not in reached:
                reached.add(at)
                if at == len(self.words) or self.words[at] != "#":
                    break
                at += 1
        return reached


def routing_key(record: Record) -> str:
    """The routing key of a record; empty when it has none."""
    data = next((value for name, value in record.headers if name == HEADER), record.key)
    if data is None or len(data) > BYTES_MAX:
        return ""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""
