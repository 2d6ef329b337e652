"""A JSON Schema as a graph: every subschema is a node, every ``$ref`` an edge to the node that it names.

The graph hides the drafts: ``const`` is an ``enum`` of one value, a list under ``items`` is ``prefixItems``, draft 4's
boolean ``exclusiveMaximum`` is a number, ``dependencies`` is split in two, and keywords that a draft does not know are
left out. The comparison of schemas reads nodes alone.

Contract: loading is iterative, so depth costs no stack, and bounded by ``NODES_MAX``. It fetches nothing: a ``$ref``
leads into the document, into a given reference, or to a meta-schema, else InvalidSchemaError. A graph never changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs

from mainstem.registry.formats.schema_format import InvalidSchemaError

NODES_MAX: Final = 50_000
BASE: Final = "http://schema.invalid/"
"""The address of a schema without ``$id``. Nothing is fetched from it."""
DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
DIALECTS: Final = {draft: uri for uri, draft in DRAFTS.items()}
OFFLINE: Final = jsonschema_rs.Registry([])  # with a registry, jsonschema_rs fetches nothing

_SINCE: Final = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "items", "properties", "patternProperties"), 4),
    **dict.fromkeys(("additionalProperties", "definitions", "additionalItems", "dependencies"), 4),
    **dict.fromkeys(("contains", "propertyNames", "const"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("dependentSchemas", "dependentRequired", "unevaluatedItems", "unevaluatedProperties"), 2019),
    **dict.fromkeys(("$defs", "minContains", "maxContains"), 2019),
    "prefixItems": 2020,
}
"""Keyword → the first draft that has it. Those that are not listed are in all, or never looked at."""
_UNTIL: Final = {"dependencies": 2019, "additionalItems": 2020}
_SUBSCHEMAS: Final = frozenset(_SINCE) - {"const", "dependentRequired", "minContains", "maxContains"}
_IN_PLACE: Final = ("ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
_SAME_VALUE: Final = frozenset({*_IN_PLACE, "then", "else"})
_COPIED: Final = (
    *("minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    *("type", "enum", "required"),
)


@dataclass(eq=False, slots=True)
class Subschema:
    """A subschema. Its assertions are as the newest drafts write them; what it holds is split by shape.

    ``one`` is keyword → node, ``many`` keyword → nodes, ``named`` keyword → name → node. ``ref`` is among ``one``.
    """

    asserts: dict[str, Any] = field(default_factory=dict)
    one: dict[str, Subschema] = field(default_factory=dict)
    many: dict[str, tuple[Subschema, ...]] = field(default_factory=dict)
    named: dict[str, dict[str, Subschema]] = field(default_factory=dict)
    has_default: bool = False
    is_false: bool = False
    plain: Subschema | None = None
    """The node without ``anyOf`` and ``oneOf``, where it has one of them."""
    own: Subschema | None = None
    """The node without these, ``allOf`` and ``$ref``."""

    @property
    def is_true(self) -> bool:
        """Whether everything is valid under it, because it asserts nothing."""
        return not (self.is_false or self.asserts or self.one or self.many or self.named)

    def children(self) -> Iterator[tuple[str, Subschema]]:
        """The nodes that it holds, each with its place, in an order that equal schemas share."""
        yield from sorted(self.one.items())
        for keyword, nodes in sorted(self.many.items()):
            yield from ((f"{keyword}/{index}", node) for index, node in enumerate(nodes))
        for keyword, named in sorted(self.named.items()):
            yield from ((f"{keyword}/{name}", node) for name, node in sorted(named.items()))


TRUE: Final = Subschema()
FALSE: Final = Subschema(is_false=True)


def draft_of(tree: Any, default: int) -> int:
    """The draft that a document declares with ``$schema``; ``default`` when it declares none that is known."""
    declared = tree.get("$schema") if isinstance(tree, dict) else None
    if not isinstance(declared, str):
        return default
    uri = declared.removesuffix("#").replace("https://json-schema.org/draft-0", "http://json-schema.org/draft-0")
    return DRAFTS.get(uri, default)


def validate(tree: Any, draft: int, where: str = "") -> None:
    """Check a schema against the meta-schema of its draft. Raises InvalidSchemaError."""
    try:
        if isinstance(tree, dict):
            jsonschema_rs.meta.validate({**tree, "$schema": DIALECTS[draft]}, registry=OFFLINE)
        elif not isinstance(tree, bool) or draft == 4:
            raise InvalidSchemaError(f"a JSON Schema{where} must be a JSON object or true or false")
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{part}" for part in error.instance_path)
        raise InvalidSchemaError(f"{_line(error.message)} (at {path or '/'}{where})") from None
    except jsonschema_rs.ReferencingError as error:
        raise InvalidSchemaError(f"{_line(str(error))}{where}") from None
    except ValueError:  # jsonschema_rs has a limit of its own
        raise InvalidSchemaError(f"the schema{where} is nested too deeply") from None


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"


def _subschemas(raw: dict[str, Any], draft: int) -> Iterator[tuple[str, str | int | None, Any]]:
    """The subschemas of ``raw``: keyword, name or index, and the raw schema."""
    if draft < 2019 and isinstance(raw.get("$ref"), str):
        return
    for keyword in raw.keys() & _SUBSCHEMAS:
        value = raw[keyword]
        if not _SINCE[keyword] <= draft < _UNTIL.get(keyword, 9999):
            continue
        if keyword in {"properties", "patternProperties", "dependencies", "dependentSchemas", "definitions", "$defs"}:
            yield from ((keyword, name, sub) for name, sub in value.items() if not isinstance(sub, list))
        elif isinstance(value, list):
            yield from ((keyword, index, sub) for index, sub in enumerate(value))
        else:
            yield keyword, None, value


class SchemaGraph:
    """The nodes of a document and of its references."""

    def __init__(self, tree: Any, draft: int, references: Mapping[str, Any]) -> None:
        self._resources: dict[str, Any] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._scopes: dict[int, tuple[dict[str, Any], str, int]] = {}  # by id() of the raw schema, which it keeps alive
        self._targets: dict[int, Any] = {}
        base = self._identify(tree, BASE, draft)
        for name, text in references.items():
            address = _join(base, name)
            for uri in (name.removesuffix("#"), _join(BASE, name), address):
                self._resources.setdefault(uri, text)
            self._walk(text, address, draft_of(text, draft) if isinstance(text, dict) else draft)
        self._resources[base] = tree
        self._walk(tree, base, draft)
        self._check_patterns()
        self._resolve_all()
        self._nodes: dict[int, Subschema] = {key: Subschema() for key in self._scopes}
        for key, (raw, _, known) in self._scopes.items():
            self._fill(self._nodes[key], raw, known)
        for key, (raw, _, known) in self._scopes.items():
            if known >= 2019 or "ref" not in self._nodes[key].one:
                _unify_drafts(self._nodes[key], raw, known)
        for node in self._nodes.values():
            if node.many.keys() & {"anyOf", "oneOf"}:
                rest = {keyword: nodes for keyword, nodes in node.many.items() if keyword not in {"anyOf", "oneOf"}}
                node.plain = replace(node, many=rest)
            one = {keyword: child for keyword, child in node.one.items() if keyword != "ref"}
            many = {keyword: nodes for keyword, nodes in node.many.items() if keyword == "prefixItems"}
            node.own = replace(node, one=one, many=many, plain=None)
        self.root = self._node(tree)
        self._check_recursion()

    def _check_recursion(self) -> None:
        """Refuse a schema that comes back to itself for the same value: no validator could end."""
        users: dict[Subschema, list[Subschema]] = {}
        left = dict.fromkeys(self._nodes.values(), 0)
        for node in left:
            for place, child in node.children():
                if place.partition("/")[0] in _SAME_VALUE and child in left:
                    users.setdefault(child, []).append(node)
                    left[node] += 1
        pending = [node for node, count in left.items() if not count]
        ended = 0
        while pending:
            ended += 1
            for user in users.get(pending.pop(), ()):
                left[user] -= 1
                if not left[user]:
                    pending.append(user)
        if ended < len(left):
            raise InvalidSchemaError(
                "the schema refers to itself without end: put the $ref below a property or an item"
            )

    def nodes(self) -> list[Subschema]:
        """Every node."""
        return list(self._nodes.values())

    def _node(self, raw: Any) -> Subschema:
        if isinstance(raw, bool):
            return TRUE if raw else FALSE
        return raw if isinstance(raw, Subschema) else self._nodes[id(raw)]

    def _identify(self, raw: Any, base: str, draft: int) -> str:
        own = raw.get("id" if draft == 4 else "$id") if isinstance(raw, dict) else None
        if not isinstance(own, str) or (draft < 2019 and "$ref" in raw):
            return base
        uri, fragment = urldefrag(_join(base, own))
        if fragment:
            self._anchors[uri, fragment] = raw
        return uri if not own.startswith("#") else base

    def _walk(self, tree: Any, base: str, draft: int) -> None:
        """Enter ``tree`` and all below it into the scopes, and what they are called."""
        pending = [(tree, base)]
        while pending:
            raw, outer = pending.pop()
            if not isinstance(raw, dict) or id(raw) in self._scopes:
                continue
            own = self._identify(raw, outer, draft)
            if own != outer:
                self._resources.setdefault(own, raw)
            self._scopes[id(raw)] = (raw, own, draft)
            if len(self._scopes) > NODES_MAX:
                raise InvalidSchemaError(f"the schema has more than {NODES_MAX} subschemas: split it up")
            for anchor in (raw.get("$anchor"), raw.get("$dynamicAnchor")):
                if isinstance(anchor, str):
                    self._anchors[own, anchor] = raw
            pending.extend((sub, own) for _, _, sub in _subschemas(raw, draft))

    def _check_patterns(self) -> None:
        """Refuse regular expressions that cannot be compiled; only the meta-schemas of old drafts do so themselves."""
        patterns: set[str] = set()
        for raw, _, _ in self._scopes.values():
            patterns.update(raw.get("patternProperties", ()))
            patterns.update(value for value in [raw.get("pattern")] if isinstance(value, str))
        validate({"allOf": [{"pattern": each} for each in sorted(patterns)] or [True]}, 7)

    def _resolve_all(self) -> None:
        done = 0
        while done < len(self._scopes):  # resolving enters new scopes
            fresh = list(self._scopes.values())[done:]
            done += len(fresh)
            for raw, base, draft in fresh:
                keywords = ("$ref", "$dynamicRef") if draft >= 2020 else ("$ref",)
                for name in keywords:
                    if isinstance(raw.get(name), str):
                        self._targets[id(raw)] = self._resolve(raw[name], base, draft)
                if draft == 2019 and "$recursiveRef" in raw:
                    self._targets[id(raw)] = self._resolve("#", base, draft)

    def _resolve(self, ref: str, base: str, draft: int) -> Any:
        """The raw schema that ``ref`` names, entered into the scopes; for a meta-schema a node."""
        uri, fragment = urldefrag(_join(base, ref))
        plain = urldefrag(ref)[0]
        home = uri if uri in self._resources else plain
        if home not in self._resources:
            return _meta_schema(uri, fragment, ref)
        resource = self._resources[home]
        _, scope, known = self._scopes.get(id(resource), (None, uri, draft))
        target = self._anchors.get((scope, fragment)) if fragment and fragment[0] != "/" else _at(resource, fragment)
        if target is None:
            raise InvalidSchemaError(f"$ref {_line(ref)!r} names a place that the schema does not have")
        if isinstance(target, dict) and id(target) in self._scopes:
            return target
        validate(target, known, f" of $ref {_line(ref)!r}")
        self._walk(target, scope, known)
        return target

    def _fill(self, node: Subschema, raw: dict[str, Any], draft: int) -> None:
        node.has_default = "default" in raw
        if id(raw) in self._targets:
            node.one["ref"] = self._node(self._targets[id(raw)])
            if draft < 2019:
                return
        node.asserts.update({key: raw[key] for key in _COPIED if key in raw and _SINCE.get(key, 4) <= draft})
        for keyword, place, sub in _subschemas(raw, draft):
            if keyword in {"definitions", "$defs"}:
                continue
            if isinstance(place, str):
                node.named.setdefault(keyword, {})[place] = self._node(sub)
            elif place is None:
                node.one[keyword] = self._node(sub)
            else:
                node.many[keyword] = (*node.many.get(keyword, ()), self._node(sub))
        if "const" in raw and draft >= 6:
            node.asserts["enum"] = [raw["const"]]


def _unify_drafts(node: Subschema, raw: dict[str, Any], draft: int) -> None:
    """Write what older drafts say as the newest does, and leave out what says nothing."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if draft == 4 and node.asserts.pop(exclusive, False):
            node.asserts[exclusive] = node.asserts.pop(bound)
    if draft < 2020:
        beyond = node.one.pop("additionalItems", None)
        if "items" in node.many:
            node.many["prefixItems"] = node.many.pop("items")
            node.one.update({"items": beyond} if beyond else {})
    dependencies = raw.get("dependencies" if draft < 2019 else "dependentRequired", {})
    lists = {name: names for name, names in dependencies.items() if isinstance(names, list)}
    if lists:
        node.asserts["dependentRequired"] = lists
    if "dependencies" in node.named:
        node.named["dependentSchemas"] = node.named.pop("dependencies")
    for keyword in ("anyOf", "oneOf"):
        if len(node.many.get(keyword, ())) == 1:
            node.many["allOf"] = (*node.many.get("allOf", ()), *node.many.pop(keyword))
    if "if" not in node.one or not node.one.keys() & {"then", "else"}:
        for keyword in ("if", "then", "else"):
            node.one.pop(keyword, None)
    for keyword, rest in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        unevaluated = node.one.get(keyword)
        is_simple = not any(each in holder for each in _IN_PLACE for holder in (node.one, node.many, node.named))
        if unevaluated and (rest in node.one or unevaluated.is_true):
            del node.one[keyword]  # nothing is left unevaluated
        elif unevaluated and is_simple and not (rest == "items" and "contains" in node.one):
            node.one[rest] = node.one.pop(keyword)
    for keyword in ("additionalProperties", "items"):
        if keyword in node.one and node.one[keyword].is_true:
            del node.one[keyword]


def _join(base: str, ref: str) -> str:
    try:
        return urljoin(base, ref).removesuffix("#")
    except ValueError:
        raise InvalidSchemaError(f"{_line(ref)!r} is not a URI") from None


def _at(resource: Any, pointer: str) -> Any:
    """The part of ``resource`` at a JSON pointer; None when it has none."""
    found = resource
    for token in unquote(pointer).split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict) and key in found:
            found = found[key]
        else:
            return None
    return found


def _meta_schema(uri: str, fragment: str, ref: str) -> Subschema:
    """A node for a meta-schema, or for a part of one. It equals itself alone."""
    root = uri.replace("https://json-schema.org/draft-0", "http://json-schema.org/draft-0")
    draft = next((each for start, each in DRAFTS.items() if root.startswith(start.removesuffix("schema"))), None)
    missing = InvalidSchemaError(f"$ref {_line(ref)!r} is neither in the schema nor among its references")
    if draft is None:
        raise missing
    address = f"{root}#{fragment}"
    try:
        jsonschema_rs.validator_for({"$schema": DIALECTS[draft], "allOf": [{"$ref": address}]}, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        raise missing from None
    return Subschema(asserts={"meta-schema": address})


def equal_classes(*graphs: SchemaGraph) -> dict[Subschema, int]:
    """A number for every node: nodes of one number assert the same, through all references.

    Partition refinement: nodes are apart as soon as what they hold is apart. Empty when that takes too many rounds.
    """
    nodes = {node for graph in graphs for node in graph.nodes()} | {TRUE, FALSE}
    nodes |= {child for node in list(nodes) for _, child in node.children()}
    shapes = {node: _shape(node) for node in nodes}
    parts = {node: [child for _, child in node.children()] for node in nodes}
    numbers: dict[object, int] = {}
    classes = {node: numbers.setdefault(shapes[node], len(numbers)) for node in nodes}
    for _ in range(8 + 500_000 // len(nodes)):
        refined: dict[tuple[int, ...], int] = {}
        finer = {
            node: refined.setdefault((classes[node], *(classes[child] for child in parts[node])), len(refined))
            for node in nodes
        }
        if len(refined) == len(set(classes.values())):
            return classes
        classes = finer
    return {}


def _shape(node: Subschema) -> tuple[bool, str, tuple[str, ...]]:
    return node.is_false, json.dumps(node.asserts, sort_keys=True), tuple(place for place, _ in node.children())
