"""``ConfigDef``, one config as Kafka defines it: of a topic, of the broker or of a group; and the types of configs.

A type has Kafka's word and a parser, which takes text and returns the value. The parser raises ValueError, whose
message begins with "must" when it says more than the type. ``definitions`` makes definitions from a table of literals.
``as_parsed`` is the text that Kafka shows for a value: ``TRUE`` is shown as ``true``, a ratio of ``1`` as ``1.0``. Pure
functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mainstem.errors import ConfigError

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_MIRRORED: Final = re.compile(r"[A-Za-z0-9_.-]{1,249}/[A-Za-z0-9_-]{22}")
_REPLICAS: Final = re.compile(r"([0-9]+:[0-9]+)?")


_LOOKS_LIKE: Final = {"int": "a whole number", "long": "a whole number", "double": "a number"}


class ConfigType(NamedTuple):
    """Kafka's word for a type (int, long, double, boolean, string, list, password), and the parser of its values."""

    word: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One config: Kafka's name, its type, its default as text, and what it is for.

    Of the broker: ``topic_config`` names the topic config whose default it is, if any; ``scale`` is the number of that
    config's units in one unit of this one. Of a group: ``setting`` names the broker's setting with its default, if any;
    ``bounds`` those with its least (0 for an empty name) and its greatest value.
    """

    name: str
    type: str
    default: str
    doc: str
    parse: Callable[[str], Any]
    topic_config: str | None = None
    scale: int = 1
    setting: str | None = None
    bounds: tuple[str, str] | None = None

    def value(self, text: str, kind: str) -> Any:
        """The value of ``text``. Raises ConfigError, which names the config after ``kind``, such as "setting"."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise self.refusal(text, kind, str(error)) from error

    def refusal(self, text: str, kind: str, reason: str) -> ConfigError:
        """The error for an invalid value: ``reason`` if it says what the value must be, or else the type."""
        if not reason.startswith("must"):
            reason = f"must be {_LOOKS_LIKE.get(self.type, f'a {self.type}')}"
        return ConfigError(f"{kind} {self.name}={text!r}: {reason}")


def definitions(table: Mapping[tuple[str, ConfigType, str | int], str]) -> dict[str, ConfigDef]:
    """Definitions by name, from (name, type, default) → documentation."""
    return {
        name: ConfigDef(name, kind.word, str(default), doc, kind.parse) for (name, kind, default), doc in table.items()
    }


def integer(text: str) -> int:
    """A whole number as Java reads it: ``1_000``, which Python takes, is none."""
    if _INTEGER.fullmatch(text.strip()) is None:
        raise ValueError("not a whole number")
    return int(text)


def whole(low: int, high: int = INT32_MAX, word: str = "int") -> ConfigType:
    """Whole numbers from ``low`` to ``high``."""

    def parse(text: str) -> int:
        value = integer(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return ConfigType(word, parse)


def long(low: int = -(2**63), high: int = INT64_MAX) -> ConfigType:
    """Whole numbers of 64 bits."""
    return whole(low, high, "long")


def decimal(text: str) -> float:
    """A number as Java reads it."""
    found = _DECIMAL.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a number")
    return float(found[1])


def _ratio(text: str) -> float:
    value = decimal(text)
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return value


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("must be true or false")
    return lowered == "true"


def _gzip_level(text: str) -> int:
    value = integer(text)
    if value != -1 and not 1 <= value <= 9:
        raise ValueError("must be from 1 to 9, or -1")
    return value


def _mirror_of(text: str) -> str:
    value = text.strip()
    if value and _MIRRORED.fullmatch(value) is None:
        raise ValueError("must be CLUSTER_ID/TOPIC_ID, as mainstem mirror sets it, or nothing")
    return value


def one_of(*words: str) -> ConfigType:
    """One of some words; an empty one is allowed only if it is among them."""

    def parse(text: str) -> str:
        word = text.strip()
        if word not in words:
            raise ValueError(f"must be one of {', '.join(each or 'nothing' for each in words)}")
        return word

    return ConfigType("string", parse)


def any_of(*words: str) -> ConfigType:
    """One or more of some words, with commas between."""

    def parse(text: str) -> tuple[str, ...]:
        parts = tuple(part for part in words_of(text) if part)
        if not parts or any(part not in words for part in parts):
            raise ValueError(f"must be of {', '.join(words)}, with commas between")
        return parts

    return ConfigType("list", parse)


def words_of(text: str) -> list[str]:
    """A list with commas between, and white space around them."""
    return [word.strip() for word in text.split(",")] if text.strip() else []


def _cleanup_policy(text: str) -> frozenset[str]:
    words = words_of(text)
    if len(set(words)) != len(words) or not set(words) <= {"compact", "delete"}:
        raise ValueError("must be delete, compact, both with a comma between, or empty")
    return frozenset(words)


def _throttled_replicas(text: str) -> list[str]:
    words = words_of(text)
    if "".join(words) != "*" and not all(_REPLICAS.fullmatch(word) for word in words):
        raise ValueError("must be * or a list of partition:broker with commas between")
    return words


BOOLEAN: Final = ConfigType("boolean", _boolean)
TEXT: Final = ConfigType("string", str)
PASSWORD: Final = ConfigType("password", str)
RATIO: Final = ConfigType("double", _ratio)
GZIP_LEVEL: Final = ConfigType("int", _gzip_level)
CLEANUP_POLICY: Final = ConfigType("list", _cleanup_policy)
THROTTLED_REPLICAS: Final = ConfigType("list", _throttled_replicas)
MIRROR_SOURCE: Final = ConfigType("string", _mirror_of)


def as_stored(stored: Mapping[str, str], known: Mapping[str, ConfigDef]) -> dict[str, str]:
    """Configs that were stored, in the form that today's parsers take.

    Earlier versions of Mainstem took and stored whatever Python reads as a number: ``1_000`` becomes ``1000``. So a
    change of the rules for what may be set never keeps a node from starting.
    """
    return {name: _today(known[name].type, text) if name in known else text for name, text in stored.items()}


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
