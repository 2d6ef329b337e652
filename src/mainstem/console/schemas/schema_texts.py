"""Schemas as lines of text, and the lines that differ between two of them. Pure functions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Final

LINES_MAX: Final = 4_000
"""Longer schemas are not compared: the time grows with the square of the lines."""
_NEAR_LINES: Final = 3


def lines_of(schema: str) -> list[str]:
    """The lines of a schema. Avro and JSON are indented; Protobuf has its own lines."""
    try:
        document = json.loads(schema)
    except (ValueError, RecursionError):
        return schema.splitlines()
    return json.dumps(document, indent=2, ensure_ascii=False).splitlines()


def differing_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The lines that differ, with some around them: each with ``added``, ``removed``, ``near`` or ``gap``."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 1_000)
    for number, group in enumerate(matcher.get_grouped_opcodes(_NEAR_LINES)):
        if number:
            yield "gap", "…"
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from (("near", f"  {line}") for line in new[new_from:new_to])
                continue
            yield from (("removed", f"− {line}") for line in old[old_from:old_to])
            yield from (("added", f"+ {line}") for line in new[new_from:new_to])
