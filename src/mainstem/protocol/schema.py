"""The language that declares the messages of the Kafka protocol: one class for each struct, with all its versions.

A message is a class whose attributes are fields; each field says its type on the wire and the versions that carry it::

    class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
        max_wait_ms: int = int32()
        session_id: int = int32("7+", default=0)

One class serves every version, as in Kafka's own generated code: a field that a version does not carry has its default
after reading, and is left out when writing. So a handler is written once, against the newest shape.

The classes are plain data, mutable until they are sent. They have one owner at a time. ``compiler`` turns a class and a
version into a reader and a writer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, dataclass_transform

Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Buffer | Sequence[Buffer]
"""Record batches as they lie: read as one memoryview into the frame; written from one buffer or several, uncopied."""

ZERO_UUID: Final = uuid.UUID(int=0)
_REQUIRED: Final = object()
_LAST: Final = 32767


class VersionRange(NamedTuple):
    """An inclusive range of versions; empty when ``first > last``."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read Kafka's notation: ``3+``, ``0-12``, ``1``, and the empty string for none."""
        if not text:
            return cls(0, -1)
        first, dash, last = text.partition("-")
        if dash:
            return cls(int(first), int(last))
        return cls(int(text[:-1]), _LAST) if text.endswith("+") else cls(int(text), int(text))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Field:
    """One field of a struct: its type on the wire, and the versions in which it is there, may be null, is a tag."""

    __slots__ = ("default", "kind", "name", "nullable", "struct", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        *,
        default: Any,
        nullable: str = "",
        tag: int | None = None,
        struct: type[Struct] | None = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = VersionRange.parse(versions)
        self.nullable = VersionRange.parse(nullable)
        self.default = default
        self.tag = tag
        self.tagged = VersionRange.parse("" if tag is None else versions)
        self.struct = struct

    def default_value(self) -> Any:
        """The field's value after reading a version that does not carry it."""
        if self.default is not _REQUIRED:
            return self.default
        if self.kind == "struct" and self.struct is not None:
            return self.struct.of_defaults()
        return _ZERO_OF.get(self.kind, ())


_ZERO_OF: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": ZERO_UUID,
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), 0),
}


def _specifier(kind: str) -> Callable[..., Any]:
    def declare(
        versions: str = "0+",
        *,
        default: Any = _REQUIRED,
        nullable: str = "",
        tag: int | None = None,
    ) -> Any:
        return Field(kind, versions, default=default, nullable=nullable, tag=tag)

    declare.__name__ = kind
    declare.__doc__ = f"A field of the wire type {kind}."
    return declare


boolean = _specifier("bool")
int8 = _specifier("int8")
int16 = _specifier("int16")
uint16 = _specifier("uint16")
int32 = _specifier("int32")
uint32 = _specifier("uint32")
int64 = _specifier("int64")
float64 = _specifier("float64")
string = _specifier("string")
bytestring = _specifier("bytes")
records = _specifier("records")
uuid_ = _specifier("uuid")


def array(
    of: str | type[Struct],
    versions: str = "0+",
    *,
    default: Any = _REQUIRED,
    nullable: str = "",
    tag: int | None = None,
) -> Any:
    """A field that is an array: of a primitive wire type, by its name, or of a struct."""
    kind, struct = (f"array:{of}", None) if isinstance(of, str) else ("array", of)
    return Field(kind, versions, default=default, nullable=nullable, tag=tag, struct=struct)


def nested(
    of: type[Struct],
    versions: str = "0+",
    *,
    default: Any = _REQUIRED,
    nullable: str = "",
    tag: int | None = None,
) -> Any:
    """A field that is one struct."""
    return Field("struct", versions, default=default, nullable=nullable, tag=tag, struct=of)


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        string,
        bytestring,
        records,
        uuid_,
        array,
        nested,
    ),
)
class Struct:
    """Base of all structs: keyword-only construction, equality and repr over its fields, in the order of the wire."""

    __fields__: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        fields = []
        for name, value in list(cls.__dict__.items()):
            if isinstance(value, Field):
                value.name = name.rstrip("_")
                fields.append(value)
                delattr(cls, name)
        cls.__fields__ = tuple(fields)
        if fields:
            cls.__init__ = _first_init(cls)  # type: ignore[method-assign]

    @classmethod
    def of_defaults(cls) -> Any:
        """An instance whose every field has its default."""
        return cls(**{field.name: field.default_value() for field in cls.__fields__})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _first_init(cls: type[Struct]) -> Callable[..., None]:
    """Makes the real ``__init__`` when the first instance is: most structs of most APIs are never used."""

    def __init__(self: Struct, **values: Any) -> None:  # noqa: N807 - it stands in for the method of that name
        if cls.__init__ is __init__:
            cls.__init__ = _make_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    return __init__


def _make_init(cls: type[Struct]) -> Callable[..., None]:
    """An ``__init__`` with one keyword for each field: a misspelt or missing one is a TypeError."""
    namespace: dict[str, Any] = {}
    parameters, body = [], []
    for field in cls.__fields__:
        required = field.default is _REQUIRED
        parameters.append(field.name if required else f"{field.name}=_default_{field.name}")
        body.append(f" self.{field.name} = {field.name}")
        if not required:
            namespace[f"_default_{field.name}"] = field.default
    source = f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(body)
    exec(source, namespace)
    made: Callable[..., None] = namespace["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


class Message(Struct):
    """Base of requests, responses and the records of coordinator logs.

    ``__versions__`` are the versions that are declared here, ``__flexible__`` those in the compact encoding with tags.
    """

    __api_key__: ClassVar[int] = -1
    __versions__: ClassVar[VersionRange] = VersionRange(0, -1)
    __flexible__: ClassVar[VersionRange] = VersionRange(0, -1)

    def __init_subclass__(cls, *, key: int, versions: str, flexible: str = "", **keywords: Any) -> None:
        cls.__api_key__ = key
        cls.__versions__ = VersionRange.parse(versions)
        cls.__flexible__ = VersionRange.parse(flexible)
        super().__init_subclass__(**keywords)
