"""Options of typed columns: how values are read, and the treatment of one that does not parse. Immutable values.

A value that does not parse never fails a query unasked. By itself its row has nulls. ``columnNameOfCorruptRecord`` adds
a column with its text; ``deadLetterTopic`` has it appended to a topic, and no row made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mainstem.errors import ConfigError
from mainstem.model import is_topic_name
from mainstem.schema.avro import parse_avro
from mainstem.schema.avro_registry import AvroRegistry
from mainstem.schema.types import ENCODINGS

_OF_AVRO = ("avroSchema", "schemaRegistry", "schemaRegistryAuth", "valueSubject")
_OF_TYPED = ("columnNameOfCorruptRecord", "deadLetterTopic")
VALUE_OPTIONS = ("keyFormat", "valueFormat", *_OF_AVRO, *_OF_TYPED)
AVRO = "avro"
"""The value of ``valueFormat``, which also replaces ``valueSchema``: the Avro schema gives the columns."""
CORRUPT_COLUMN = "_corrupt"
"""Named so in ``.schema(…)``, it is there without an option."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """``shown_corrupt``: the name of the column that the option adds. ``avro_schema`` is the reader's.

    ``encoding``: values have schemas in the registry of the log, and columns are those of the option valueSchema.
    ``has_encoded_keys``: keys have schemas there, and are read as text.
    """

    shown_corrupt: str | None = None
    dead_letter_topic: str | None = None
    is_avro: bool = False
    avro_schema: str | None = None
    registry: AvroRegistry | None = None
    subject: str | None = None
    """Of the registry's schema that says the columns; None: TOPIC-value."""
    encoding: str | None = None
    has_encoded_keys: bool = False

    @property
    def corrupt_column(self) -> str:
        return self.shown_corrupt or CORRUPT_COLUMN

    @classmethod
    def parse(cls, get: Callable[[str], str | None]) -> ValueOptions:
        """Read from all options of the source. Raises ConfigError, which names the option that is wrong."""
        key_format = (get("keyFormat") or "text").lower()
        if key_format not in ("text", *ENCODINGS):
            raise ConfigError(
                f"option keyFormat: unknown format {key_format!r}: use one of text, {', '.join(ENCODINGS)}"
            )
        return replace(cls._of_values(get), has_encoded_keys=key_format in ENCODINGS)

    @classmethod
    def _of_values(cls, get: Callable[[str], str | None]) -> ValueOptions:
        corrupt, dead = get("columnNameOfCorruptRecord"), get("deadLetterTopic")
        value_format = (get("valueFormat") or "json").lower()
        if value_format not in ("json", *ENCODINGS):
            raise ConfigError(
                f"option valueFormat: unknown format {value_format!r}: use one of json, {', '.join(ENCODINGS)}"
            )
        for name in (*_OF_TYPED, "valueFormat"):
            if get(name) is not None and get("valueSchema") is None and value_format != AVRO:
                raise ConfigError(f"option {name} needs the option valueSchema: without it no value is parsed")
        if dead is not None:
            _check_dead_letters(dead, get)
        if value_format in ENCODINGS and _is_encoded_topic(get, value_format):
            return cls(corrupt or None, dead, encoding=value_format)
        if value_format == AVRO:
            return cls(corrupt or None, dead, True, *_avro(get))
        for name in _OF_AVRO:
            if get(name) is not None:
                raise ConfigError(f"option {name} is for valueFormat=avro")
        return cls(corrupt or None, dead)


def _is_encoded_topic(get: Callable[[str], str | None], encoding: str) -> bool:
    """Whether columns are those of the option valueSchema, and values have schemas in the registry of the log itself.

    Raises ConfigError for other options beside these two.
    """
    given = [name for name in _OF_AVRO if get(name) is not None]
    if get("valueSchema") is None:
        if encoding == AVRO:
            return False
        raise ConfigError(f"option valueFormat={encoding} needs the option valueSchema (DDL, or: registered)")
    if "avroSchema" in given:
        return False
    if given:
        raise ConfigError(
            f"option {given[0]} is for valueFormat=avro without valueSchema: with it, schemas come from the registry "
            "in the log itself; leave one of the two out"
        )
    return True


def _avro(get: Callable[[str], str | None]) -> tuple[str | None, AvroRegistry | None, str | None]:
    text, url = get("avroSchema"), get("schemaRegistry")
    if get("valueSchema") is not None:
        raise ConfigError("option valueSchema: the Avro schema says the columns; choose among them by .schema(…)")
    if text is None and url is None:
        raise ConfigError("option valueFormat=avro needs avroSchema (bare values) or schemaRegistry (framed ones)")
    if url is None and get("schemaRegistryAuth") is not None:
        raise ConfigError("option schemaRegistryAuth needs the option schemaRegistry")
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError("option schemaRegistry is not an address: give http://HOST:PORT or https://HOST")
    subject = get("valueSubject")
    if subject is not None and (url is None or text is not None):
        raise ConfigError("option valueSubject needs the option schemaRegistry, and no avroSchema: it says the columns")
    if text is not None:
        parse_avro(text)
    return text, None if url is None else AvroRegistry(url, get("schemaRegistryAuth") or ""), subject


def _check_dead_letters(topic: str, get: Callable[[str], str | None]) -> None:
    if not is_topic_name(topic):
        raise ConfigError(f"option deadLetterTopic: invalid topic name {topic!r}")
    mode = (get("mode") or "DROPMALFORMED").upper()
    if mode != "DROPMALFORMED":
        raise ConfigError(f"option deadLetterTopic: with mode={mode} there are no dead letters; leave mode out")
    if (get("table") or "").lower() == "true":
        raise ConfigError("option deadLetterTopic is not for tables, whose latest values are read again and again")
    if topic in [name.strip() for name in (get("subscribe") or "").split(",")]:
        raise ConfigError(f"option deadLetterTopic: {topic} is read itself; name another topic")
