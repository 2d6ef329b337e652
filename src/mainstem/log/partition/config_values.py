"""How the text of a config becomes a value, and a value becomes text again: Kafka's ``ConfigDef``, type by type.

Parsers take text and return the value; they raise ValueError, whose message begins with "must" when it says more than
the type. ``as_parsed`` is the text that Kafka shows for a value: ``TRUE`` is shown as ``true``, a ratio of ``1`` as
``1.0``. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_REPLICAS: Final = re.compile(r"([0-9]+:[0-9]+)?")


def integer(text: str) -> int:
    """A whole number as Java reads it: ``1_000``, which Python takes, is none."""
    if _INTEGER.fullmatch(text.strip()) is None:
        raise ValueError("not a whole number")
    return int(text)


def whole(low: int, high: int = INT32_MAX) -> Callable[[str], int]:
    """A parser of whole numbers from ``low`` to ``high``."""

    def parse(text: str) -> int:
        value = integer(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return parse


def long(low: int = -(2**63)) -> Callable[[str], int]:
    """A parser of whole numbers of 64 bits."""
    return whole(low, INT64_MAX)


def decimal(text: str) -> float:
    """A number as Java reads it."""
    found = _DECIMAL.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a number")
    return float(found[1])


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    value = decimal(text)
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return value


def boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("must be true or false")
    return lowered == "true"


def gzip_level(text: str) -> int:
    """From 1 to 9, or -1."""
    value = integer(text)
    if value != -1 and not 1 <= value <= 9:
        raise ValueError("must be from 1 to 9, or -1")
    return value


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of some words."""

    def parse(text: str) -> str:
        word = text.strip()
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return parse


def words_of(text: str) -> list[str]:
    """A list with commas between, and white space around them."""
    return [word.strip() for word in text.split(",")] if text.strip() else []


def cleanup_policy(text: str) -> frozenset[str]:
    """Any of ``delete`` and ``compact``, each once."""
    words = words_of(text)
    if len(set(words)) != len(words) or not set(words) <= {"compact", "delete"}:
        raise ValueError("must be delete, compact, both with a comma between, or empty")
    return frozenset(words)


def throttled_replicas(text: str) -> list[str]:
    """``*``, or partitions with a broker of each."""
    words = words_of(text)
    if "".join(words) != "*" and not all(_REPLICAS.fullmatch(word) for word in words):
        raise ValueError("must be * or a list of partition:broker with commas between")
    return words


class Typed(Protocol):
    """The definition of a config, of which this module needs the type alone."""

    @property
    def type(self) -> str: ...


def as_stored(stored: Mapping[str, str], definitions: Mapping[str, Typed]) -> dict[str, str]:
    """Configs that were stored, in the form that today's parsers take.

    Earlier versions of Mainstem took and stored whatever Python reads as a number: ``1_000`` becomes ``1000``. So a
    change of the rules for what may be set never keeps a node from starting.
    """
    return {
        name: _today(definitions[name].type, text) if name in definitions else text for name, text in stored.items()
    }


def _today(kind: str, text: str) -> str:
    try:
        if kind in ("int", "long", "short"):
            return str(int(text))
        if kind == "double" and _DECIMAL.fullmatch(text.strip()) is None:
            return str(float(text))
    except ValueError:
        return text  # no version took it: its parser says what is wrong
    return text


def as_parsed(kind: str, text: str) -> str:
    """The text that Kafka shows for a config of type ``kind`` that was set to the valid value ``text``."""
    if kind == "boolean":
        return text.strip().lower()
    if kind in ("int", "long", "short"):
        return str(integer(text))
    if kind == "double":
        return _java_double(decimal(text))
    return ",".join(words_of(text)) if kind == "list" else text.strip()


def _java_double(value: float) -> str:
    """``Double.toString``: from a thousandth to ten million without an exponent, and always with a point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:e}".partition("e")
    shortest = (
        repr(float(mantissa)) if float(f"{float(mantissa)!r}e{exponent}") == value else repr(value).partition("e")[0]
    )
    return f"{shortest}E{int(exponent)}"
