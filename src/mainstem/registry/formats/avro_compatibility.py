"""Whether one Avro schema reads data of another: the rules of "Schema Resolution" in the Avro specification.

Names are compared without their namespaces, and with the reader's aliases, as Avro's Java library does.

Contract: each pair of types is looked at once, without recursion: time is bounded by the product of the numbers of
types. Where several branches of a reader's union could take a named type, the one of the same full name counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mainstem.registry.formats.avro_types import MISSING, AvroType, Container, Named, RecordField, Union
from mainstem.registry.formats.schema_format import Incompatibility

_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
_PAIRS_MAX: Final = 1_000_000
_FOUND_MAX: Final = 100

_Pair = tuple[AvroType, AvroType, str]
"""A reader's type, a writer's, and where the reader's stands."""


def incompatibilities_between(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Why data of ``writer`` cannot be read by ``reader``; at most a hundred reasons."""
    found: list[Incompatibility] = []
    unchecked: list[_Pair] = [(reader, writer, "")]
    seen: set[tuple[int, int]] = set()
    while unchecked and len(found) < _FOUND_MAX:
        pair = unchecked.pop()
        identity = (id(pair[0]), id(pair[1]))
        if identity in seen:
            continue
        seen.add(identity)
        if len(seen) > _PAIRS_MAX:
            return [Incompatibility("TOO_COMPLEX", pair[2], "the two schemas have too many types to compare")]
        for each in _checked(*pair):
            if isinstance(each, Incompatibility):
                found.append(each)
            else:
                unchecked.append(each)
    return found


def _checked(reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility | _Pair]:
    """The differences of a pair itself, and the pairs that it leads to."""
    if isinstance(writer, Union):
        for nth, branch in enumerate(writer.branches):
            if isinstance(reader, Union) and _branch_for(reader, branch) is None:
                yield _missing_branch(branch, f"{path}/{nth}")
            else:
                yield reader, branch, path
    elif isinstance(reader, Union):
        taken = _branch_for(reader, writer)
        if taken is None:
            yield _missing_branch(writer, path)
        else:
            yield reader.branches[taken], writer, f"{path}/{taken}"
    elif reader.kind != writer.kind:
        if writer.kind not in _PROMOTIONS.get(reader.kind, ()):
            text = f"the reader's type {reader.kind} cannot read the writer's type {writer.kind}"
            yield Incompatibility("TYPE_MISMATCH", path, text)
    elif isinstance(reader, Container) and isinstance(writer, Container):
        yield reader.items, writer.items, f"{path}/{'items' if reader.kind == 'array' else 'values'}"
    elif isinstance(reader, Named) and isinstance(writer, Named):
        yield from _named(reader, writer, path)


def _named(reader: Named, writer: Named, path: str) -> Iterator[Incompatibility | _Pair]:
    if not _same_name(reader, writer):
        yield Incompatibility("NAME_MISMATCH", f"{path}/name", f"expected {writer.full_name}, not {reader.full_name}")
    if reader.kind == "fixed" and reader.size != writer.size:
        text = f"expected {writer.size} bytes, not {reader.size}"
        yield Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", text)
    if reader.kind == "enum":
        missing = sorted(set(writer.symbols) - set(reader.symbols))
        if missing and reader.default is None:
            text = f"the reader lacks the symbols {', '.join(missing[:20])}, and has no default"
            yield Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)
    written = {each.name: each for each in writer.fields}
    for nth, each in enumerate(reader.fields):
        source = _source_of(each, written)
        if source is not None:
            yield each.type, source.type, f"{path}/fields/{nth}/type"
        elif each.default is MISSING:
            text = f"the field {each.name} has no default, and the writer's {writer.full_name} does not have it"
            yield Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", f"{path}/fields/{nth}", text)


def _source_of(field: RecordField, written: dict[str, RecordField]) -> RecordField | None:
    """The writer's field that a reader's field reads."""
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _branch_for(reader: Union, writer: AvroType) -> int | None:
    """Which branch of a reader's union takes a type of the writer's: the same type before a promoted one."""
    fitting = [nth for nth, branch in enumerate(reader.branches) if _may_take(branch, writer)]
    return min(fitting, key=lambda nth: not _is_same(reader.branches[nth], writer), default=None)


def _may_take(reader: AvroType, writer: AvroType) -> bool:
    if reader.kind != writer.kind:
        return writer.kind in _PROMOTIONS.get(reader.kind, ())
    return not isinstance(reader, Named) or not isinstance(writer, Named) or _same_name(reader, writer)


def _is_same(reader: AvroType, writer: AvroType) -> bool:
    if isinstance(reader, Named) and isinstance(writer, Named):
        return reader.full_name == writer.full_name
    return reader.kind == writer.kind


def _same_name(reader: Named, writer: Named) -> bool:
    return reader.name == writer.name or writer.full_name in reader.aliases


def _missing_branch(writer: AvroType, path: str) -> Incompatibility:
    name = writer.full_name if isinstance(writer, Named) else writer.kind
    return Incompatibility("MISSING_UNION_BRANCH", path, f"the reader's union lacks the writer's type {name}")
