"""Compares two Avro schemas: can data written with one be read with the other?

The rules are those of "schema resolution" in Avro's specification, with the kinds of Avro's Java library for what is
wrong, and its two additions: the names of types match without their namespaces, and a string may be read as bytes and
the reverse.

Each pair of a reader's and a writer's type is looked at once. A pair needs other pairs, all of them or one of several,
and recursive types make cycles. So every pair counts as readable at first; then each failure is carried to the pairs
that need it. The work is linear in the number of pairs and their needs, and nothing recurses.

Contract: pure and thread-safe. More than ``NEEDS_MAX`` needs raise InvalidSchemaError.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from mainstem.registry.formats.avro.avro_types import AvroNode
from mainstem.registry.formats.schema_format import Incompatibility, InvalidSchemaError

NEEDS_MAX: Final = 200_000
REPORTED_MAX: Final = 100
"""At most so many incompatibilities are listed."""
_PROMOTIONS: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
"""Kind of the writer's type → the kinds of a reader's type that can read it."""
_Path = tuple[Any, ...]
"""The path to the pair above, and the step from there; empty at the root."""


def incompatibilities(reader: AvroNode, writer: AvroNode) -> list[Incompatibility]:
    """Why data of type ``writer`` cannot be read as ``reader``, at most ``REPORTED_MAX``; empty when it can."""
    comparison = _Comparison()
    root = comparison.pair(reader, writer)
    comparison.run()
    return _report(root)


@dataclass(eq=False, slots=True)
class _Pair:
    """A reader's and a writer's type. Of a reader's union, one branch must do: ``alternatives`` are left."""

    reader: AvroNode
    writer: AvroNode
    is_readable: bool = True
    findings: list[_Finding] = field(default_factory=list)
    alternatives: int = 0
    needed_by: list[_Pair] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A reason, or a ``pair`` that has some if it is not readable; a ``kind`` is then listed instead of these."""

    step: str
    kind: str = ""
    problem: str = ""
    pair: _Pair | None = None


class _Choices:
    """The branches of a reader's union by what they can read, so that long unions compare in linear time."""

    def __init__(self, union: AvroNode) -> None:
        self._branches: dict[tuple[str, str], list[AvroNode]] = {}
        for branch in union.branches:
            for name in dict.fromkeys([branch.simple_name, *(f"alias {alias}" for alias in branch.aliases)]):
                self._branches.setdefault((_shape(branch), name), []).append(branch)

    def of(self, writer: AvroNode) -> list[AvroNode]:
        """The branches that may read a type: their names match, or it promotes to theirs."""
        found = []
        for shape in _PROMOTIONS.get(writer.kind, (_shape(writer),)):
            for name in (writer.simple_name, f"alias {writer.name}"):
                found += self._branches.get((shape, name), [])
        return list(dict.fromkeys(found))


class _Comparison:
    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int], _Pair] = {}
        self._new: list[_Pair] = []
        self._needs = 0
        self._choices: dict[int, _Choices] = {}

    def pair(self, reader: AvroNode, writer: AvroNode) -> _Pair:
        key = id(reader), id(writer)
        if key not in self._pairs:
            self._pairs[key] = _Pair(reader, writer)
            self._new.append(self._pairs[key])
        return self._pairs[key]

    def run(self) -> None:
        """Look at every pair that the first one needs, then carry failures to the pairs that need them."""
        failed = []
        while self._new:
            pair = self._new.pop()
            self._look_at(pair)
            if not pair.is_readable:
                failed.append(pair)
        while failed:
            for above in failed.pop().needed_by:
                above.alternatives -= 1
                if above.is_readable and above.alternatives <= 0:
                    above.is_readable = False
                    failed.append(above)

    def _look_at(self, pair: _Pair) -> None:
        reader, writer = pair.reader, pair.writer
        if writer.kind == "union":
            kind = "MISSING_UNION_BRANCH" if reader.kind == "union" else ""
            for index, branch in enumerate(writer.branches):
                self._need(pair, reader, branch, _Finding(f"/{index}", kind, kind and _lacks(branch)))
        elif reader.kind == "union":
            self._choose(pair)
        elif _shape(reader) != _shape(writer):
            if reader.kind not in _PROMOTIONS.get(writer.kind, ()):
                problem = f"the reader's {_shown(reader)} cannot read the writer's {_shown(writer)}"
                _fail(pair, "TYPE_MISMATCH", "", problem)
        elif reader.items is not None and writer.items is not None:
            step = "/items" if reader.kind == "array" else "/values"
            self._need(pair, reader.items, writer.items, _Finding(step))
        elif reader.name:
            _look_at_name(pair)
            self._look_at_fields(pair)

    def _need(self, pair: _Pair, reader: AvroNode, writer: AvroNode, finding: _Finding) -> None:
        needed = self._needed(pair, reader, writer)
        pair.findings.append(replace(finding, pair=needed))

    def _needed(self, pair: _Pair, reader: AvroNode, writer: AvroNode) -> _Pair:
        self._needs += 1
        if self._needs > NEEDS_MAX:
            raise InvalidSchemaError(f"the schemas take more than {NEEDS_MAX} comparisons: split them")
        needed = self.pair(reader, writer)
        needed.needed_by.append(pair)
        return needed

    def _choose(self, pair: _Pair) -> None:
        reader, writer = pair.reader, pair.writer
        if id(reader) not in self._choices:
            self._choices[id(reader)] = _Choices(reader)
        for branch in self._choices[id(reader)].of(writer):
            self._needed(pair, branch, writer)
            pair.alternatives += 1
        pair.is_readable = pair.alternatives > 0
        pair.findings.append(_Finding("", "MISSING_UNION_BRANCH", _lacks(writer)))

    def _look_at_fields(self, pair: _Pair) -> None:
        written = {each.name: each for each in pair.writer.fields or ()}
        for index, each in enumerate(pair.reader.fields or ()):
            step = f"/fields/{index}"
            found = [name for name in dict.fromkeys([each.name, *each.aliases]) if name in written]
            if len(found) > 1:
                problem = f"the reader's field {each.name} matches several of the writer's: {', '.join(found)}"
                _fail(pair, "NAME_MISMATCH", step, problem)
            elif found:
                self._need(pair, each.type, written[found[0]].type, _Finding(f"{step}/type"))
            elif not each.has_default:
                problem = f"the writer lacks the field {each.name}, and the reader has no default for it"
                _fail(pair, "READER_FIELD_MISSING_DEFAULT_VALUE", step, problem)


def _look_at_name(pair: _Pair) -> None:
    reader, writer = pair.reader, pair.writer
    if reader.simple_name != writer.simple_name and writer.name not in reader.aliases:
        problem = f"the reader's type {reader.name} has neither the name nor an alias {writer.name}"
        _fail(pair, "NAME_MISMATCH", "/name", problem)
    if reader.size != writer.size:
        problem = f"the reader's size is {reader.size}, the writer's is {writer.size}"
        _fail(pair, "FIXED_SIZE_MISMATCH", "/size", problem)
    missing = set(writer.symbols) - set(reader.symbols)
    if missing and reader.default is None:
        problem = f"the reader has neither a default nor the symbols {', '.join(sorted(missing))}"
        _fail(pair, "MISSING_ENUM_SYMBOLS", "/symbols", problem)


def _fail(pair: _Pair, kind: str, step: str, problem: str) -> None:
    pair.is_readable = False
    pair.findings.append(_Finding(step, kind, problem))


def _report(root: _Pair) -> list[Incompatibility]:
    """The reasons, from the root down in the order of the reader's schema; those of a pair are listed once."""
    found: list[Incompatibility] = []
    seen: set[int] = set()
    waiting: list[tuple[_Path, _Finding]] = [((), _Finding("", pair=root))]
    while waiting and len(found) < REPORTED_MAX:
        above, finding = waiting.pop()
        path = (above, finding.step)
        if finding.pair is not None and finding.pair.is_readable:
            continue
        if finding.kind:
            found.append(Incompatibility(finding.kind, _pointer(path), finding.problem))
        elif finding.pair is not None and id(finding.pair) not in seen:
            seen.add(id(finding.pair))
            waiting += [(path, each) for each in reversed(finding.pair.findings)]
    return found


def _pointer(path: _Path) -> str:
    steps = []
    while path:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps))


def _shape(node: AvroNode) -> str:
    return "record" if node.kind == "error" else node.kind


def _shown(node: AvroNode) -> str:
    return f"{node.kind} {node.name}" if node.name else node.kind


def _lacks(writer: AvroNode) -> str:
    return f"no branch of the reader's union reads the writer's {_shown(writer)}"
