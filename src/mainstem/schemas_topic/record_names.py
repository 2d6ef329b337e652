"""The names that schemas give their records: what RecordNameStrategy and TopicRecordNameStrategy make subjects of.

Avro: the full name of the record. JSON Schema: its title. Protobuf: the full name of each message of the file, because
a value may be of any. A text that cannot be read here has no names.

Contract: pure, and of linear time in the text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from mainstem.json_depth import is_too_deep
from mainstem.schemas_topic.records import AVRO, Content

_NAMES_MAX: Final = 10_000
_DEPTH_MAX: Final = 100
_NAME_CHARACTERS_MAX: Final = 1_024
_TOKEN: Final = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[A-Za-z_][\w.]*|[{};]', re.DOTALL
)


def record_names(content: Content) -> frozenset[str]:
    """The names of a schema's records; empty where it names none."""
    if content.schema_type == "PROTOBUF":
        return frozenset(_message_names(content.text))
    try:
        document: Any = None if is_too_deep(content.text) else json.loads(content.text)
    except ValueError:
        return frozenset()
    if not isinstance(document, dict):
        return frozenset()
    name = _avro_name(document) if content.schema_type == AVRO else document.get("title")
    return frozenset({name} if isinstance(name, str) and name else ())


def _avro_name(document: dict[str, Any]) -> object:
    name, namespace = document.get("name"), document.get("namespace")
    if document.get("type") not in ("record", "error") or not isinstance(name, str):
        return None
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace and "." not in name else name


def _message_names(text: str) -> list[str]:
    """The messages of a .proto text, nested ones included."""
    names: list[str] = []
    package, before = "", ["", ""]
    blocks: list[str] = []  # the names of open messages, "" for other blocks
    for token in _TOKEN.findall(text):
        if token[0] in "/\"'":
            continue
        if token == "{":
            is_message = before[0] == "message" and before[1] not in ("{", "}", ";")
            blocks.append(before[1] if is_message else "")
            if is_message and len(names) < _NAMES_MAX and len(blocks) <= _DEPTH_MAX:
                parts = [each for each in (package, *blocks) if each]
                if sum(map(len, parts)) <= _NAME_CHARACTERS_MAX:
                    names.append(".".join(parts))
        elif token == "}":
            if blocks:
                blocks.pop()
        elif before[1] == "package" and not blocks:
            package = token
        before = [before[1], token]
    return names
