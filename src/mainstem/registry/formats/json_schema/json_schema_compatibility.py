"""Whether all data that is valid under a writer's JSON Schema is valid under a reader's.

The rules are those that Confluent documents for JSON Schema: by structure, keyword by keyword, with open, partially
open and closed content models of objects and arrays. Every keyword of the reader must follow from what the writer's
schema says. Where it does not, an Incompatibility says so; the kinds have Confluent's names where it has one.

Two documented rules admit data that a validator of the reader refuses: a property that becomes required is accepted
when it has a default, and the branches of ``oneOf`` may be widened and added even where they then overlap.
``format`` is taken as a note, and ``$dynamicRef`` as ``$ref``. Apart from these, no differences means that all data of
the writer is valid under the reader. The reverse does not hold: rules by structure do not see every inclusion.

How: a pair of a reader's node and a ``Writer`` gives differences, or further pairs that must hold. Pairs wait in a
list, and one that is met again is assumed to hold, so recursive schemas end. That is sound because a pair comes back
only for a part of the data: no schema leads to itself for the same value, and a case has fewer choices than the whole.
A choice (``anyOf``) tries its branches in lists of their own; what they found to hold counts only as long as the
attempt that assumed it.

Contract: pure, thread-safe. Time is bounded by ``STEPS_MAX`` pairs and depth by ``ATTEMPTS_DEEP_MAX`` attempts within
each other; beyond, the schemas are incompatible with kind ``COMPARISON_TOO_COMPLEX``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from mainstem.registry.formats.json_schema.json_schema_contents import array_steps, object_steps
from mainstem.registry.formats.json_schema.json_schema_keywords import assertion_differences
from mainstem.registry.formats.json_schema.json_schema_nodes import SchemaGraph, Subschema, equal_classes
from mainstem.registry.formats.json_schema.json_schema_writer import Obligation, Writer, type_node
from mainstem.registry.formats.schema_format import Incompatibility

STEPS_MAX: Final = 20_000
ATTEMPTS_DEEP_MAX: Final = 50
Pair = tuple[Subschema, Writer]


def incompatibilities(reader: SchemaGraph, writer: SchemaGraph) -> list[Incompatibility]:
    """Why data that is valid under ``writer`` may be invalid under ``reader``; empty when it cannot be."""
    comparison = Comparison(equal_classes(reader, writer))
    found = comparison.differences(reader.root, Writer([writer.root]))
    if comparison.is_exhausted:
        what = "the schemas are too complex to be compared: simplify their choices and recursions"
        found.append(Incompatibility("COMPARISON_TOO_COMPLEX", "", what))
    return found


class Comparison:
    """The state of one comparison: what has failed, what is assumed, and how much work is left."""

    def __init__(self, classes: dict[Subschema, int]) -> None:
        self._classes = classes
        self._failed: set[Pair] = set()
        self._assumed: list[set[Pair]] = []
        self._steps = 0
        self.is_exhausted = False

    def holds(self, reader: Subschema, writer: Writer) -> bool:
        """Whether all data of ``writer`` is valid under ``reader``, given what is assumed."""
        pair = (reader, writer)
        self._count(1)
        if self.is_exhausted:
            return False
        if self.is_equal(reader, writer) or any(pair in assumed for assumed in self._assumed):
            return True
        if pair in self._failed:
            return False
        if self._solve(pair, is_attempt=True):
            self._failed.add(pair)
            return False
        return True

    def _count(self, steps: int) -> None:
        self._steps += steps
        self.is_exhausted = self.is_exhausted or self._steps > STEPS_MAX

    def is_equal(self, reader: Subschema, writer: Writer) -> bool:
        """Whether the pair holds at first sight: the same schema, one that asserts nothing, or no data."""
        if reader.is_true or not writer.types:
            return True
        own = self._classes.get(reader)
        return reader in writer.nodes or (own is not None and any(self._classes.get(n) == own for n in writer.nodes))

    def differences(self, reader: Subschema, writer: Writer) -> list[Incompatibility]:
        """All differences of the pair, and of the pairs that follow from it."""
        return [] if self.is_equal(reader, writer) else self._solve((reader, writer), is_attempt=False)

    def _solve(self, root: Pair, *, is_attempt: bool) -> list[Incompatibility]:
        """The differences; for an attempt the first alone. What an attempt proves joins what its parent assumes."""
        if len(self._assumed) >= ATTEMPTS_DEEP_MAX:
            self.is_exhausted = True
        seen: set[Pair] = {root}
        self._assumed.append(seen)
        pending = [(root, "")]
        found: list[Incompatibility] = []
        while pending and not (self.is_exhausted or (is_attempt and found)):
            (reader, writer), path = pending.pop()
            self._count(_cost(reader, writer))
            for step in self._steps_of(reader, writer):
                if isinstance(step, Incompatibility):
                    found.append(Incompatibility(step.kind, _joined(path, step.path), step.description))
                    if is_attempt:
                        break
                else:
                    pair = (step.reader, step.writer)
                    if not (self.is_equal(*pair) or any(pair in assumed for assumed in self._assumed)):
                        seen.add(pair)
                        pending.append((pair, _joined(path, step.place)))
        self._assumed.pop()
        failed = bool(found) or self.is_exhausted
        if not failed and self._assumed:
            self._assumed[-1] |= seen
        if self.is_exhausted and not found:
            found = [Incompatibility("COMPARISON_TOO_COMPLEX", "", "the comparison ended early")] if is_attempt else []
        return found

    def _steps_of(self, reader: Subschema, writer: Writer) -> Iterator[Incompatibility | Obligation]:
        """The steps of a pair: differences, and the pairs that must hold as well."""
        if reader.plain is not None:
            yield Obligation("", reader.plain, writer)
        elif not self._holds_by_choice(reader, writer):
            yield from self._plain_steps(reader, writer)
        for keyword in ("anyOf", "oneOf"):
            if keyword in reader.many:
                yield from self._choice_steps(reader, keyword, writer)

    def _plain_steps(self, reader: Subschema, writer: Writer) -> Iterator[Incompatibility | Obligation]:
        for kind, place, description in assertion_differences(reader, writer):
            yield Incompatibility(kind, place, description)
        if "ref" in reader.one:
            yield Obligation("", reader.one["ref"], writer)
        yield from self._product_steps(reader, writer)
        if "object" in writer.types:
            yield from object_steps(reader, writer, self.holds)
        if "array" in writer.types:
            yield from array_steps(reader, writer, self.holds)
        yield from self._not_steps(reader, writer)
        yield from self._if_steps(reader, writer)
        for keyword, atom in (("unevaluatedProperties", "object"), ("unevaluatedItems", "array")):
            if keyword in reader.one and atom in writer.types:
                kind = "REMOVED" if reader.one[keyword].is_false else "NARROWED"
                name = "UNEVALUATED_PROPERTIES" if atom == "object" else "UNEVALUATED_ITEMS"
                what = f"{keyword} stands beside other schemas, and these are not the same as before"
                yield Incompatibility(f"{name}_{kind}", keyword, what)

    def _product_steps(self, reader: Subschema, writer: Writer) -> Iterator[Incompatibility | Obligation]:
        branches = reader.many.get("allOf", ())
        former = max((len(node.many.get("allOf", ())) for node in writer.nodes), default=0)
        for index, branch in enumerate(branches):
            if len(branches) <= max(former, 1):
                yield Obligation(f"allOf/{index}", branch, writer)
            elif not self.holds(branch, writer):
                what = "data must now be valid under one more schema"
                yield Incompatibility("PRODUCT_TYPE_EXTENDED", f"allOf/{index}", what)

    def _holds_by_choice(self, reader: Subschema, writer: Writer) -> bool:
        """Whether, for one of the writer's choices, each branch by itself makes the pair hold."""
        rest = writer.without_choices
        return any(
            all(self.holds(reader, Writer([*rest, branch])) for branch in branches) for _, branches in writer.choices()
        )

    def _choice_steps(self, reader: Subschema, keyword: str, writer: Writer) -> Iterator[Incompatibility | Obligation]:
        branches = reader.many[keyword]
        must_differ = keyword == "oneOf" and not _are_disjoint(branches)
        choices = writer.choices()
        if not (must_differ and choices) and any(self.holds(branch, writer) for branch in branches):
            return
        if len(writer.types) > 1:
            choices.append(("anyOf", tuple(type_node(atom) for atom in sorted(writer.types))))
        for former, parts in choices:
            if must_differ and former != "oneOf":
                continue
            if self._parts_hold(branches, parts, writer.without_choices, must_differ=must_differ):
                return
        yield _choice_difference(keyword, branches, writer)

    def _parts_hold(
        self,
        branches: tuple[Subschema, ...],
        parts: tuple[Subschema, ...],
        rest: Iterable[Subschema],
        *,
        must_differ: bool,
    ) -> bool:
        """Whether each part of a choice meets a branch; with ``must_differ`` one of its own.

        A part that a branch repeats goes with that branch: if there is any matching, there is one with this pair. So
        two long choices that are nearly the same take few comparisons.
        """
        same = {self._classes.get(branch, -1): branch for branch in branches}
        taken: set[Subschema] = set()
        open_parts = []
        for part in parts:
            branch = same.get(self._classes.get(part, -2))
            if branch is None or (must_differ and branch in taken):
                open_parts.append(part)
            else:
                taken.add(branch)
        free = [branch for branch in branches if branch not in taken] if must_differ else branches
        edges = []
        for part in open_parts:
            data = Writer([*rest, part])
            found = (index for index, branch in enumerate(free) if self.holds(branch, data))
            edges.append(list(found) if must_differ else list(itertools.islice(found, 1)))
            if self.is_exhausted or not edges[-1]:
                return False
        return not must_differ or _is_matched(edges)

    def _not_steps(self, reader: Subschema, writer: Writer) -> Iterator[Incompatibility]:
        refused = reader.one.get("not")
        if refused is None or not writer.types & Writer([refused]).types:
            return
        if not any(self.holds(former, Writer([refused])) for former in writer.below("not")):
            yield Incompatibility("NOT_TYPE_EXTENDED", "not", "data that was valid may be refused by not")

    def _if_steps(self, reader: Subschema, writer: Writer) -> Iterator[Incompatibility]:
        if "if" not in reader.one:
            return
        condition = reader.one["if"]
        same = [node for node in writer.nodes if "if" in node.one and self.is_same(condition, node.one["if"])]
        for keyword in ("then", "else"):
            if keyword in reader.one:
                known = [node.one[keyword] for node in same if keyword in node.one]
                given = [condition] if keyword == "then" else []
                if not self.holds(reader.one[keyword], writer.joined(*known, *given)):
                    what = f"data must meet another schema under {keyword}"
                    yield Incompatibility("CONDITIONAL_SCHEMA_CHANGED", keyword, what)

    def is_same(self, reader: Subschema, writer: Subschema) -> bool:
        """Whether two nodes assert the same."""
        return reader is writer or self._classes.get(reader, -1) == self._classes.get(writer, -2)


def _joined(path: str, place: str) -> str:
    return f"{path}/{place}" if place and len(path) < 2000 else path


def _cost(reader: Subschema, writer: Writer) -> int:
    """The steps that a pair counts for: more where many patterns meet many names."""
    patterns = len(reader.named.get("patternProperties", ()))
    patterns += sum(len(node.named.get("patternProperties", ())) for node in writer.nodes)
    names = len(reader.named.get("properties", ())) + sum(len(n.named.get("properties", ())) for n in writer.nodes)
    return 1 + patterns * (names + patterns) // 100


def _are_disjoint(branches: tuple[Subschema, ...]) -> bool:
    """Whether no two branches have a type in common."""
    types = [Writer([branch]).types for branch in branches]
    return sum(map(len, types)) == len(frozenset().union(*types))


def _choice_difference(keyword: str, branches: tuple[Subschema, ...], writer: Writer) -> Incompatibility:
    choices = writer.choices()
    if not choices:
        return Incompatibility("TYPE_CHANGED", keyword, "no branch admits all data")
    if keyword == "oneOf" and all(former == "anyOf" for former, _ in choices) and not _are_disjoint(branches):
        return Incompatibility("COMBINED_TYPE_CHANGED", keyword, "data could be valid under several branches of anyOf")
    if any(len(branches) < len(former) for _, former in choices):
        return Incompatibility("SUM_TYPE_NARROWED", keyword, "a branch was removed, and no other admits its data")
    return Incompatibility("COMBINED_TYPE_SUBSCHEMAS_CHANGED", keyword, "no branch admits all data of a former one")


def _is_matched(edges: list[list[int]]) -> bool:
    """Whether every row can have a column of its own among its edges (Kuhn's bipartite matching, breadth first)."""
    row_of: dict[int, int] = {}
    for start in range(len(edges)):
        came_from: dict[int, int] = {}  # column → the row that reached it
        pending, free = [start], None
        while pending and free is None:
            row = pending.pop()
            for column in edges[row]:
                if column not in came_from:
                    came_from[column] = row
                    if column not in row_of:
                        free = column
                        break
                    pending.append(row_of[column])
        if free is None:
            return False
        while True:
            row = came_from[free]
            previous = next((column for column, owner in row_of.items() if owner == row), None)
            row_of[free] = row
            if previous is None or row == start:
                break
            free = previous
    return True
