"""Contents and requests as parsed schemas: with their references looked up, and with what was parsed lately kept.

Contract: thread-safe. Parsing may take long (a compiler runs for Protobuf), so no lock is held meanwhile: the texts of
references are taken from the state first.
"""

from __future__ import annotations

import importlib
from functools import cache, lru_cache
from typing import Final

from mainstem.errors import MissingDependencyError
from mainstem.registry.errors import RegistryError, invalid_schema
from mainstem.registry.formats.schema_format import InvalidSchemaError, ParsedSchema, SchemaFormat
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.schemas_topic.records import Content, Reference
from mainstem.schemas_topic.state import RegistryState

_FORMATS: Final = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
_REFERENCES_MAX: Final = 1_000
SPELLINGS_MAX: Final = 50
"""So many of a subject's versions are compared with a new schema beyond their text: each may need a compiler's run."""
_LARGE: Final = 20_000
_SMALL_KEPT: Final = 500
_LARGE_KEPT: Final = 4
"""A parsed schema takes up to a hundred times the memory of its text."""

Texts = tuple[tuple[str, str], ...]
"""Names and texts of references, those that others need first."""


def reference_texts(state: RegistryState, references: tuple[Reference, ...]) -> Texts:
    """The texts of references, and of what they refer to.

    Raises RegistryError for one that is missing, and for a circle, which only a record of another program makes. JSON
    Schema allows circles.
    """
    texts: dict[str, str] = {}
    # what is visited last comes out first: a reference follows those that it needs
    unvisited: list[tuple[Reference, bool]] = [(each, False) for each in reversed(references)]
    opened: set[tuple[str, str, int]] = set()
    unfinished: set[tuple[str, str, int]] = set()
    while unvisited:
        reference, is_open = unvisited.pop()
        content = _referenced(state, reference)
        place = (reference.name, reference.subject, reference.version)
        if is_open:
            unfinished.remove(place)
            texts.setdefault(reference.name, content.text)
            continue
        if place in opened:
            if place in unfinished and content.schema_type != "JSON":
                raise invalid_schema(
                    f"the references make a circle: {reference.subject!r} version {reference.version} refers to itself"
                )
            continue
        opened.add(place)
        unfinished.add(place)
        if len(opened) > _REFERENCES_MAX:
            raise invalid_schema(f"the schema refers to more than {_REFERENCES_MAX} others")
        unvisited.append((reference, True))
        unvisited.extend((each, False) for each in reversed(content.references))
    return tuple(texts.items())


def resolved_references(state: RegistryState, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
    """The references with the number of the latest version where they ask for the latest."""
    return tuple(
        Reference(each.name, each.subject, _latest(state, each)) if each.version == LATEST else each
        for each in references
    )


def parse_request(request: SchemaRequest, texts: Texts) -> ParsedSchema:
    """The schema of a request. Raises RegistryError."""
    try:
        return _parse(request.schema_type, request.text, texts)
    except InvalidSchemaError as error:
        raise invalid_schema(f"Invalid schema of type {request.schema_type}: {error}") from error


def parse_content(content: Content, texts: Texts) -> ParsedSchema:
    """A schema that is stored. Raises RegistryError for one that another program stored and that cannot be read."""
    try:
        return _parse(content.schema_type, content.text, texts)
    except (InvalidSchemaError, KeyError) as error:
        raise invalid_schema(f"a stored schema of type {content.schema_type[:40]} cannot be read: {error}") from error


def parse_if_readable(content: Content, texts: Texts) -> ParsedSchema | None:
    """A schema that is stored; None for one that another program stored and that cannot be read here."""
    try:
        return parse_content(content, texts)
    except RegistryError:
        return None


@cache
def format_of(schema_type: str) -> SchemaFormat:
    """The format of this name, loaded when it is first used.

    Raises KeyError for another name, MissingDependencyError when its library is not installed.
    """
    name = _FORMATS[schema_type]
    try:
        module = importlib.import_module(f"mainstem.registry.formats.{name}.{name}_format")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{error.name} must be installed for schemas of type {schema_type}: pip install 'mainstem[registry]'"
        ) from error
    found: SchemaFormat = module.FORMAT
    return found


def _parse(schema_type: str, text: str, texts: Texts) -> ParsedSchema:
    is_large = len(text) + sum(len(each) for _, each in texts) > _LARGE
    return (_parsed_large if is_large else _parsed_small)(schema_type, text, texts)


def _parsed(schema_type: str, text: str, texts: Texts) -> ParsedSchema:
    return format_of(schema_type).parse(text, dict(texts))


_parsed_small = lru_cache(_SMALL_KEPT)(_parsed)
_parsed_large = lru_cache(_LARGE_KEPT)(_parsed)


def _referenced(state: RegistryState, reference: Reference) -> Content:
    stored = state.subjects.get(reference.subject, {}).get(reference.version)
    if stored is None:
        raise invalid_schema(
            f"No schema reference found for subject '{reference.subject}' and version {reference.version}"
        )
    return stored.content


def _latest(state: RegistryState, reference: Reference) -> int:
    versions = state.versions(reference.subject)
    return versions[-1].version if versions else LATEST
