"""Readers and writers for the messages of ``mainstem.protocol.messages``: one pair for each message and version.

Each is made once, as the source of a few straight Python functions: neighbouring fields of fixed size become one
``struct`` call, and no field is looked up by name at run time.

What a reader promises about hostile bytes:

* every length is checked against the end of the buffer before anything is taken from it,
* every string of a request or a response has at most ``MAX_STRING_BYTES``, as in Kafka's generated readers,
* every array's count is checked against the bytes that are left and against ``Budget`` before the array is made,
  so what a frame can make the reader allocate is bounded by the frame's size,
* whatever is wrong ends in FrameError, and nothing else.

A reader returns record batches as memoryviews into the buffer; all else is copied out of it. Stateless and thread-safe
after the first call for a message and version.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from mainstem.errors import FrameError
from mainstem.protocol.schema import ZERO_UUID, Buffer, Field, Message, Struct

M = TypeVar("M", bound=Message)
Writer: TypeAlias = Callable[[Any, list[Any]], None]

MAX_ELEMENTS: Final = 1_000_000
MAX_TAGGED_FIELDS: Final = 10_000
MAX_STRING_BYTES: Final = 0x7FFF
_FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


class LargeFrameError(FrameError):
    """A frame that holds more elements than the reader was allowed to read."""


class Budget:
    """How many array elements and tagged fields one frame may still hold."""

    __slots__ = ("left", "limit")

    def __init__(self, elements: int = MAX_ELEMENTS) -> None:
        self.left = self.limit = elements

    def take(self, count: int, bytes_left: int, bytes_each: int) -> None:
        """Raises FrameError for a count that the bytes cannot hold, or that is over what a frame may hold."""
        if count < 0 or count * bytes_each > bytes_left:
            raise FrameError(f"an array of {count} elements does not fit into the {bytes_left} bytes that are left")
        self.left -= count
        if self.left < 0:
            raise LargeFrameError(f"the frame holds more than {self.limit} array elements")


def read_uvarint(buffer: Buffer, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 31 bits, and the index after it. Raises FrameError."""
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise FrameError("a length is longer than five bytes")
    if value > 0x7FFFFFFF:
        raise FrameError(f"a length of {value} is over the protocol's limit")
    return value, at


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(bytes([value]) for value in range(0x80))


def reader(message: type[M], version: int, elements_max: int = MAX_ELEMENTS) -> Callable[[Buffer, int], tuple[M, int]]:
    """``read(buffer, at) -> (message, index after it)``. It raises FrameError for bytes that are not such a message,
    LargeFrameError for one with more array elements and tagged fields than ``elements_max``.
    """
    read_struct = _compiled(message, version)[0]

    def read(buffer: Buffer, at: int) -> tuple[M, int]:
        try:
            result: tuple[M, int] = read_struct(buffer, at, len(buffer), Budget(elements_max))
        except (struct.error, IndexError) as error:
            raise FrameError(f"{message.__name__} version {version} ends too early") from error
        except UnicodeDecodeError as error:
            raise FrameError(f"{message.__name__} version {version} holds a string that is not UTF-8") from error
        return result

    return read


def writer(message: type[Message], version: int) -> Writer:
    """``write(message, chunks)``: appends the message's bytes to ``chunks``; record batches are appended uncopied."""
    return _compiled(message, version)[1]


def _compiled(message: type[Message], version: int) -> tuple[Callable[..., Any], Writer]:
    made = _MADE.get((message, version))
    if made is None:
        made = _MADE[message, version] = _make(message, version)
    return made


_MADE: Final[dict[tuple[type[Message], int], tuple[Callable[..., Any], Writer]]] = {}


def _make(message: type[Message], version: int) -> tuple[Callable[..., Any], Writer]:
    if version not in message.__versions__:
        raise FrameError(f"{message.__name__} has no version {version}")
    namespace: dict[str, Any] = {
        "FrameError": FrameError,
        "new": object.__new__,
        "UUID": uuid.UUID,
        "ZERO_UUID": ZERO_UUID,
        "read_uvarint": read_uvarint,
        "uvarint": uvarint,
        "clipped": _clipped,
        "unpack": struct.unpack_from,
        "pack": struct.pack,
        "total_size": _total_size,
        "append_records": _append_records,
        "I16": struct.Struct(">h"),
        "I32": struct.Struct(">i"),
        "SMALL": _SMALL,
        "MAX_TAGGED_FIELDS": MAX_TAGGED_FIELDS,
    }
    # Records that earlier versions wrote may hold longer strings: what is kept stays readable.
    string_bytes_max = None if message.__name__.endswith(("Key", "Value")) else MAX_STRING_BYTES
    source = _Source(version, version in message.__flexible__, namespace, string_bytes_max)
    source.add(message)
    exec(compile("\n".join(source.lines), f"<{message.__name__} v{version}>", "exec"), namespace)
    return namespace[f"read_{message.__name__}"], namespace[f"write_{message.__name__}"]


def _clipped(text: bytes) -> bytes:
    """The beginning of an error's text that no client can read whole: it quotes what the request named."""
    return text[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def _total_size(records: Any) -> int:
    if isinstance(records, (bytes, bytearray, memoryview)):
        return len(records)
    return sum(len(part) for part in records)


def _append_records(out: Callable[[Any], None], records: Any) -> None:
    if isinstance(records, (bytes, bytearray, memoryview)):
        out(records)
    else:
        for part in records:
            out(part)


def _runs(fields: Sequence[Field]) -> Iterator[list[Field]]:
    """The fields in order; neighbours of fixed size together, every other field alone."""
    run: list[Field] = []
    for field in fields:
        if field.kind in _FIXED:
            run.append(field)
            continue
        if run:
            yield run
            run = []
        yield [field]
    if run:
        yield run


class _Source:
    """The source text of the readers and writers of one message at one version."""

    def __init__(
        self, version: int, flexible: bool, namespace: dict[str, Any], string_bytes_max: int | None = None
    ) -> None:
        self.lines: list[str] = []
        self._string_bytes_max = string_bytes_max
        self._version = version
        self._flexible = flexible
        self._namespace = namespace
        self._done: dict[type[Struct], int] = {}

    def add(self, cls: type[Struct]) -> int:
        """Add what reads and writes ``cls`` and the structs in it; returns the fewest bytes it takes on the wire."""
        if cls in self._done:
            return self._done[cls]
        present = [field for field in cls.__fields__ if self._version in field.versions]
        plain = self._plain(cls)
        tagged = [field for field in present if self._version in field.tagged]
        tagged.sort(key=lambda field: -1 if field.tag is None else field.tag)
        smallest = {id(field): self._smallest(field) for field in present}
        self._namespace[cls.__name__] = cls
        self._add_reader(cls, plain, tagged)
        self._add_writer(cls, plain, tagged)
        self._done[cls] = sum(smallest[id(field)] for field in plain) + self._flexible
        return self._done[cls]

    def _smallest(self, field: Field) -> int:
        if field.kind in _FIXED:
            return _FIXED[field.kind][1]
        inner = self.add(field.struct) if field.struct is not None else 0
        if field.kind == "struct":
            return 1 if self._version in field.nullable else inner
        if self._flexible:
            return 1
        return 2 if field.kind == "string" else 4

    def _constant(self, name: str, value: Any) -> str:
        self._namespace[name] = value
        return name

    # ---- reading

    def _add_reader(self, cls: type[Struct], plain: list[Field], tagged: list[Field]) -> None:
        add = self.lines.append
        add(f"def read_{cls.__name__}(b, p, end, budget):")
        for field in cls.__fields__:
            if field not in plain:
                default = self._constant(f"d_{cls.__name__}_{field.name}", field.default_value())
                add(f" v_{field.name} = {default}")
        for number, run in enumerate(_runs(plain)):
            if run[0].kind in _FIXED:
                self._read_fixed(f"{cls.__name__}_{number}", run)
            else:
                self._read_variable(run[0], " ")
        if self._flexible:
            self._read_tags(cls, tagged)
        add(f" {self._made(cls, lambda field: f'v_{field.name}')}")
        add(" return s, p")

    def _read_fixed(self, name: str, run: list[Field], indent: str = " ") -> None:
        layout = struct.Struct(">" + "".join(_FIXED[field.kind][0] for field in run))
        unpack = self._constant(f"u_{name}", layout.unpack_from)
        targets = "".join(f"v_{field.name}, " for field in run)
        self.lines.append(f"{indent}{targets}= {unpack}(b, p); p += {layout.size}")
        for field in run:
            if field.kind == "uuid":
                self.lines.append(f"{indent}v_{field.name} = UUID(bytes=v_{field.name})")

    def _read_count(self, kind: str, indent: str) -> None:
        """Read a length or a count into ``n``; null is -1."""
        if self._flexible:
            self.lines.append(f"{indent}n = b[p]; p += 1")
            self.lines.append(f"{indent}if n > 127: n, p = read_uvarint(b, p - 1)")
            self.lines.append(f"{indent}n -= 1")
        else:
            unpack, size = ("I16", 2) if kind == "string" else ("I32", 4)
            self.lines.append(f"{indent}n, = {unpack}.unpack_from(b, p); p += {size}")

    def _read_variable(self, field: Field, indent: str, *, in_tag: bool = False) -> None:
        add, value = self.lines.append, f"v_{field.name}"
        nullable = self._version in field.nullable
        if field.kind == "struct":
            assert field.struct is not None
            read = f"{value}, p = read_{field.struct.__name__}(b, p, end, budget)"
            if nullable and in_tag:
                add(f"{indent}n, p = read_uvarint(b, p)")
                add(f"{indent}if n == 0: {value} = None")
                add(f"{indent}else: {read}")
            elif nullable:
                add(f"{indent}n = b[p]; p += 1")
                add(f"{indent}if n > 127: {value} = None")
                add(f"{indent}else: {read}")
            else:
                add(f"{indent}{read}")
            return
        self._read_count(field.kind, indent)
        if nullable or field.kind == "records":
            add(f"{indent}if n == -1: {value} = None")
            add(f"{indent}else:")
            indent += " "
        if field.kind.startswith("array"):
            self._read_array(field, value, indent)
            return
        self._check_length(field, field.kind, indent)
        take = {"string": "str(b[p:e], 'utf-8')", "bytes": "bytes(b[p:e])", "records": "memoryview(b)[p:e]"}
        add(f"{indent}{value} = {take[field.kind]}; p = e")

    def _check_length(self, field: Field, kind: str, indent: str) -> None:
        """Compute ``e``, the end of ``n`` bytes, after checking that they are there and not too many."""
        add, most = self.lines.append, self._string_bytes_max
        add(f"{indent}e = p + n")
        add(f"{indent}if n < 0 or e > end: raise FrameError(f'{field.name}: {{n}} bytes, {{end - p}} are left')")
        if kind == "string" and most is not None and self._flexible:
            add(f"{indent}if n > {most}: raise FrameError(f'{field.name}: {{n}} bytes, a string has at most {most}')")

    def _read_array(self, field: Field, value: str, indent: str) -> None:
        add = self.lines.append
        if field.struct is not None:
            smallest = max(1, self.add(field.struct))
            add(f"{indent}budget.take(n, end - p, {smallest})")
            if self._is_of_fixed_size(field.struct):
                self._read_fixed_structs(field.struct, smallest, value, indent)
                if not self._flexible:
                    return
                add(f"{indent}else:")
                indent += " "
            add(f"{indent}{value} = []")
            add(f"{indent}for _ in range(n):")
            add(f"{indent} item, p = read_{field.struct.__name__}(b, p, end, budget); {value}.append(item)")
            return
        kind = field.kind.partition(":")[2]
        if kind in _FIXED:
            code, size = _FIXED[kind]
            add(f"{indent}budget.take(n, end - p, {size})")
            if kind == "uuid":
                add(f"{indent}e = p + n * 16")
                add(f"{indent}{value} = [UUID(bytes=bytes(b[at:at + 16])) for at in range(p, e, 16)]; p = e")
                return
            one = self._constant(f"u_{kind}", struct.Struct(f">{code}").unpack_from)
            # Most have one value or none.
            add(f"{indent}if n < 2: {value} = list({one}(b, p)) if n else []")
            add(f"{indent}else: {value} = list(unpack(f'>{{n}}{code}', b, p))")
            add(f"{indent}p += n * {size}")
            return
        add(f"{indent}budget.take(n, end - p, {1 if self._flexible else 2})")
        add(f"{indent}{value} = []; count = n")
        add(f"{indent}for _ in range(count):")
        self._read_count(kind, indent + " ")
        self._check_length(field, kind, indent + " ")
        take = "str(b[p:e], 'utf-8')" if kind == "string" else "bytes(b[p:e])"
        add(f"{indent} {value}.append({take}); p = e")

    def _is_of_fixed_size(self, cls: type[Struct]) -> bool:
        """Whether each instance without tagged fields takes the same number of bytes, and no value is converted."""
        plain = self._plain(cls)
        return bool(plain) and all(field.kind in _FIXED and field.kind != "uuid" for field in plain)

    def _may_be_tagged(self, cls: type[Struct]) -> bool:
        return any(self._version in field.tagged for field in cls.__fields__)

    def _plain(self, cls: type[Struct]) -> list[Field]:
        """The fields that are not tagged, in the order of the wire."""
        present = (field for field in cls.__fields__ if self._version in field.versions)
        return [field for field in present if self._version not in field.tagged]

    def _read_fixed_structs(self, cls: type[Struct], size: int, value: str, indent: str) -> None:
        """Read all structs of an array at once, unless one has tagged fields. It takes a third of the time."""
        add, plain = self.lines.append, self._plain(cls)
        unpack = self._constant(f"a_{cls.__name__}", self._layout(plain).iter_unpack)
        targets = "".join(f"i_{field.name}, " for field in plain)
        add(f"{indent}e = p + n * {size}; data = bytes(b[p:e])")
        if self._flexible:  # the last byte of each is the number of its tagged fields
            add(f"{indent}if data[{size - 1}::{size}].count(0) == n:")
            indent += " "
        add(f"{indent}{value} = []")
        add(f"{indent}for {targets}in {unpack}(data):")
        made = self._made(cls, lambda each: f"{'i' if each in plain else f'd_{cls.__name__}'}_{each.name}")
        add(f"{indent} {made}")
        add(f"{indent} {value}.append(s)")
        add(f"{indent}p = e")

    def _made(self, cls: type[Struct], value: Callable[[Field], str]) -> str:
        """The source that makes an instance ``s`` by its attributes. A call with keywords takes twice as long."""
        return "; ".join([f"s = new({cls.__name__})", *(f"s.{each.name} = {value(each)}" for each in cls.__fields__)])

    def _layout(self, plain: list[Field]) -> struct.Struct:
        """The fields of a struct of fixed size; where there may be tagged fields, with a byte of 0 for none."""
        codes = "".join(_FIXED[field.kind][0] for field in plain)
        return struct.Struct(f">{codes}{'x' if self._flexible else ''}")

    def _read_tags(self, cls: type[Struct], tagged: list[Field]) -> None:
        add = self.lines.append
        add(" tags = b[p]; p += 1")
        add(" if tags:")
        add("  if tags > 127: tags, p = read_uvarint(b, p - 1)")
        add("  if tags > MAX_TAGGED_FIELDS: raise FrameError(f'{tags} tagged fields')")
        add("  budget.take(tags, end - p, 2)")
        add("  for _ in range(tags):")
        add("   tag, p = read_uvarint(b, p); size, p = read_uvarint(b, p); after = p + size")
        add("   if after > end: raise FrameError(f'tagged field {tag}: {size} bytes, {end - p} are left')")
        for field in tagged:
            add(f"   if tag == {field.tag}:")
            if field.kind in _FIXED:
                self._read_fixed(f"{cls.__name__}_tag{field.tag}", [field], "    ")
            else:
                self._read_variable(field, "    ", in_tag=True)
            add(f"    if p != after: raise FrameError('tagged field {field.name} is not {{size}} bytes long')")
        add("   p = after")

    # ---- writing

    def _add_writer(self, cls: type[Struct], plain: list[Field], tagged: list[Field]) -> None:
        add = self.lines.append
        add(f"def write_{cls.__name__}(s, chunks):")
        add(" out = chunks.append")
        for number, run in enumerate(_runs(plain)):
            if run[0].kind in _FIXED:
                self._write_fixed(f"{cls.__name__}_{number}", run, " ")
            else:
                self._write_variable(run[0], " ")
        if self._flexible and tagged:
            self._write_tags(cls, tagged)
        elif self._flexible:
            add(" out(SMALL[0])")

    def _write_fixed(self, name: str, run: list[Field], indent: str) -> None:
        layout = struct.Struct(">" + "".join(_FIXED[field.kind][0] for field in run))
        pack = self._constant(f"p_{name}", layout.pack)
        values = ", ".join(f"s.{field.name}.bytes" if field.kind == "uuid" else f"s.{field.name}" for field in run)
        self.lines.append(f"{indent}out({pack}({values}))")

    def _write_count(self, kind: str, count: str, indent: str) -> None:
        if self._flexible and count == "len(v)":
            self.lines.append(f"{indent}n = len(v) + 1; out(SMALL[n] if n < 128 else uvarint(n))")
        elif self._flexible:
            self.lines.append(f"{indent}out(uvarint({count} + 1))")
        else:
            self.lines.append(f"{indent}out({'I16' if kind == 'string' else 'I32'}.pack({count}))")

    def _write_variable(self, field: Field, indent: str, *, in_tag: bool = False) -> None:
        add = self.lines.append
        add(f"{indent}v = s.{field.name}")
        if field.kind == "struct":
            assert field.struct is not None
            if self._version in field.nullable:
                # Kafka marks a null struct with the byte -1; in a tagged field with the unsigned number 0.
                null = "SMALL[0]" if in_tag else "b'\\xff'"
                add(f"{indent}if v is None: out({null})")
                add(f"{indent}else:")
                add(f"{indent} out(b'\\x01'); write_{field.struct.__name__}(v, chunks)")
            else:
                add(f"{indent}write_{field.struct.__name__}(v, chunks)")
            return
        if self._version in field.nullable or field.kind == "records":
            add(f"{indent}if v is None:")
            self._write_count(field.kind, "-1", indent + " ")
            add(f"{indent}else:")
            indent += " "
        if field.kind.startswith("array"):
            self._write_array(field, indent)
        elif field.kind == "records":
            self._write_count(field.kind, "total_size(v)", indent)
            add(f"{indent}append_records(out, v)")
        else:
            if field.kind == "string":
                add(f"{indent}v = v.encode()")
                if field.name == "error_message":
                    add(f"{indent}if len(v) > {MAX_STRING_BYTES}: v = clipped(v)")
            self._write_count(field.kind, "len(v)", indent)
            add(f"{indent}out(v)")

    def _write_array(self, field: Field, indent: str) -> None:
        add = self.lines.append
        self._write_count("array", "len(v)", indent)
        kind = field.kind.partition(":")[2]
        if field.struct is not None and self._is_of_fixed_size(field.struct) and not self._may_be_tagged(field.struct):
            plain = self._plain(field.struct)
            pack = self._constant(f"w_{field.struct.__name__}", self._layout(plain).pack)
            values = ", ".join(f"item.{each.name}" for each in plain)
            add(f"{indent}out(b''.join([{pack}({values}) for item in v]))")
        elif field.struct is not None:
            add(f"{indent}for item in v: write_{field.struct.__name__}(item, chunks)")
        elif kind == "uuid":
            add(f"{indent}out(b''.join([each.bytes for each in v]))")
        elif kind in _FIXED:
            add(f"{indent}if v: out(pack(f'>{{len(v)}}{_FIXED[kind][0]}', *v))")
        else:
            add(f"{indent}for item in v:")
            if kind == "string":
                add(f"{indent} item = item.encode()")
            self._write_count(kind, "len(item)", indent + " ")
            add(f"{indent} out(item)")

    def _write_tags(self, cls: type[Struct], tagged: list[Field]) -> None:
        add = self.lines.append
        add(" all_chunks = chunks; tags = []")
        for field in tagged:
            default = self._constant(f"d_{cls.__name__}_{field.name}", field.default_value())
            empty_array = field.default_value() == ()
            add(f" if s.{field.name}:" if empty_array else f" if s.{field.name} != {default}:")
            add("  chunks = []; out = chunks.append")
            if field.kind in _FIXED:
                self._write_fixed(f"{cls.__name__}_tag{field.tag}", [field], "  ")
            else:
                self._write_variable(field, "  ", in_tag=True)
            add(f"  tags.append(({field.tag}, b''.join(chunks)))")
        add(" all_chunks.append(uvarint(len(tags)))")
        add(" for tag, data in tags:")
        add("  all_chunks.append(uvarint(tag) + uvarint(len(data)) + data)")
