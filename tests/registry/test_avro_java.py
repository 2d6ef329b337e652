"""Random Avro schemas: Avro's Java library writes the same text, refuses the same, and agrees on compatibility."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any, Final

import pyspark

from mainstem.registry.formats.avro.avro_format import FORMAT
from mainstem.registry.formats.schema_format import InvalidSchemaError
from tests.support.foreign_programs import compiled_argv

PAIRS: Final = 750
JARS: Final = Path(pyspark.__file__).parent / "jars"
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS: Final = (None, True, 0, 3_000_000_000, 1.5, "", "A", [], {}, {"x": 1})


class Generator:
    """Schemas that are mostly right, from few names, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._defined: list[str] = []

    def schema(self) -> Any:
        self._defined = []
        return self._type(0)

    def changed(self, schema: Any) -> Any:
        """The schema with one thing changed somewhere, or another one."""
        if self._random.random() < 0.2:
            return self.schema()
        copy = json.loads(json.dumps(schema))
        places = list(_objects(copy))
        if places:
            self._change(self._random.choice(places))
        return copy

    def _change(self, place: dict[str, Any]) -> None:
        if "fields" in place and self._random.random() < 0.6:
            if place["fields"] and self._random.random() < 0.5:
                place["fields"].pop(self._random.randrange(len(place["fields"])))
            else:
                place["fields"].append(self._field("new"))
        elif "symbols" in place:
            place["symbols"] = self._random.sample("ABCD", self._random.randint(1, 4))
        elif "size" in place:
            place["size"] = self._random.randint(1, 3)
        elif "name" in place and self._random.random() < 0.3:
            place["name"] = self._random.choice("RST") if "fields" in place else self._random.choice("abc")
        elif "type" in place and "name" in place and isinstance(place["type"], str):
            place["type"] = self._random.choice(PRIMITIVES)
        elif "default" in place:
            del place["default"]

    def _type(self, depth: int) -> Any:
        kinds = ["primitive"] * 4 + (["record"] * 3 + ["enum", "fixed", "array", "map", "union", "name"]) * (depth < 4)
        kind = self._random.choice(kinds) if depth else "record"
        return getattr(self, f"_{kind}")(depth)

    def _primitive(self, _: int) -> Any:
        kind = self._random.choice(PRIMITIVES)
        if self._random.random() < 0.2:
            return {"type": kind, "logicalType": self._random.choice(["date", "uuid", "x"])}
        return {"type": kind} if self._random.random() < 0.1 else kind

    def _named(self, kind: str) -> dict[str, Any]:
        name = f"{self._random.choice('RST')}{len(self._defined) if self._random.random() < 0.9 else 0}"
        document: dict[str, Any] = {"type": kind, "name": name}
        if self._random.random() < 0.3:
            document["namespace"] = self._random.choice(["n", "n.m", ""])
        if self._random.random() < 0.1:
            document["name"] = f"q.{name}"
        if self._random.random() < 0.2:
            document["doc"] = "what it is \u2013 é"
        if self._random.random() < 0.2:
            document["aliases"] = [self._random.choice(["R0", "S1", "n.R0", "q.T1"])]
        if self._random.random() < 0.2:
            document["extra"] = {"b": 1, "a": [None]}
        self._defined.append(document["name"])
        return document

    def _record(self, depth: int) -> Any:
        document = self._named("record")
        count = self._random.randint(0, 3)
        document["fields"] = [self._field(name, depth + 1) for name in self._random.sample("abcd", count)]
        return document

    def _field(self, name: str, depth: int = 9) -> dict[str, Any]:
        field: dict[str, Any] = {"name": name, "type": self._type(depth)}
        if self._random.random() < 0.4:
            field["default"] = self._random.choice(DEFAULTS)
        if self._random.random() < 0.1:
            field["order"] = self._random.choice(["ignore", "ascending", "descending"])
        if self._random.random() < 0.2:
            field["aliases"] = [self._random.choice("abcd")]
        if self._random.random() < 0.1:
            field["doc"], field["more"] = "d", 5
        return field

    def _enum(self, _: int) -> Any:
        document = self._named("enum")
        document["symbols"] = self._random.sample("ABCD", self._random.randint(1, 4))
        if self._random.random() < 0.3:
            document["default"] = self._random.choice("AB")
        return document

    def _fixed(self, _: int) -> Any:
        return {**self._named("fixed"), "size": self._random.randint(1, 3)}

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self._type(depth + 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self._type(depth + 1)}

    def _union(self, depth: int) -> Any:
        return [self._type(depth + 1) for _ in range(self._random.randint(1, 3))]

    def _name(self, _: int) -> Any:
        return self._random.choice(self._defined or ["int"])


def _objects(document: Any) -> Any:
    if isinstance(document, dict):
        yield document
        document = list(document.values())
    if isinstance(document, list):
        for each in document:
            yield from _objects(each)


def test_java_agrees_on_random_schemas() -> None:
    generator = Generator(1)
    schemas = [generator.schema() for _ in range(PAIRS)]
    pairs = [(json.dumps(generator.changed(each)), json.dumps(each)) for each in schemas]
    program = compiled_argv(Path(__file__).parent / "AvroJava.java", JARS)
    asked = "\n".join(json.dumps(pair) for pair in pairs)
    done = subprocess.run(program, input=asked, capture_output=True, text=True, timeout=120, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(pairs)
    wrong = [
        (pair, answer, ours)
        for pair, answer in zip(pairs, answers, strict=True)
        if "matches multiple fields" not in str(answer[1])  # Java has no answer; ours takes the field of the same name
        and (ours := _ours(*pair)) != (answer if answer[0] else [None, None])
    ]
    assert not wrong, "\n".join(map(str, wrong[:5])) + f"\n{len(wrong)} differ"
    assert sum(answer[1] is True for answer in answers) > PAIRS / 10  # each answer is there often
    assert sum(answer[1] is False for answer in answers) > PAIRS / 10
    assert sum(answer[0] is None for answer in answers) > PAIRS / 50


def _ours(reader_text: str, writer_text: str) -> list[Any]:
    try:
        reader, writer = FORMAT.parse(reader_text, {}), FORMAT.parse(writer_text, {})
    except InvalidSchemaError:
        return [None, None]
    assert FORMAT.parse(reader.canonical, {}).canonical == reader.canonical
    return [reader.canonical, not FORMAT.incompatibilities(reader, writer)]
