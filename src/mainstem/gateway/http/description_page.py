"""``GET /docs``: the description of the API (``/openapi.json``) as one page, without scripts and without a network.

It is made from the same document at the first visit. Open to everyone. Stateless apart from that page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from starlette.responses import HTMLResponse

PATH: Final = "/docs"
_HEADERS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{font:14px ui-monospace,monospace}summary{cursor:pointer;padding:.3rem 0}"
    "table{border-collapse:collapse;width:100%}"
    "td{border-top:1px solid #8884;padding:.3rem .5rem;vertical-align:top}"
)


def add_description_page(app: FastAPI) -> None:
    """Serve the description of ``app`` as a page."""

    @cache
    def page() -> str:
        return "".join(_page(app.openapi()))

    @app.get(PATH, include_in_schema=False)
    async def show() -> HTMLResponse:
        return HTMLResponse(page(), headers=_HEADERS)


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}: the API</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style><h1>{title}: the API</h1>'
    yield '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>'
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            fields = list(body_fields(operation, document))
            yield from _operation(f"{method.upper()} {path}", resolved(operation, document), fields)
    yield "</html>"


def _operation(name: str, operation: Mapping[str, Any], fields: Sequence[BodyField]) -> Iterator[str]:
    summary = escape(str(operation.get("summary", "")))
    yield f"<details><summary><code>{escape(name)}</code> {summary}</summary>"
    if text := operation.get("description"):
        yield f"<p>{escape(str(text))}</p>"
    rows = [(each["name"], each["in"], each.get("description", "")) for each in operation.get("parameters", ())]
    rows += [(each.name, f"body, {each.type}", each.meaning) for each in fields]
    rows += [(code, "answer", answer["description"]) for code, answer in sorted(operation["responses"].items())]
    yield "<table>"
    for first, kind, meaning in rows:
        yield f"<tr><td><code>{escape(first)}</code><td>{escape(kind)}<td>{escape(meaning)}"
    yield "</table></details>"


class BodyField(NamedTuple):
    """A field of a request's body. ``type``: in words, with *required* where it must be there."""

    name: str
    type: str
    meaning: str


def body_fields(operation: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[BodyField]:
    """The fields of an operation's JSON body; none where it has no body, or one of any form."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = _schema(content.get("application/json", {}).get("schema", {}), document)
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        words = _type_in_words(field, document)
        yield BodyField(name, f"{words}, required" if name in required else words, str(field.get("description", "")))


def _schema(part: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in part:
        part = document["components"]["schemas"][part["$ref"].rsplit("/", 1)[1]]
    return part


def _type_in_words(part: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    schema = _schema(part, document)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type_in_words(each, document) for each in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(str(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type_in_words(schema.get('items', {}), document)}"
    return str(schema.get("type", "any JSON"))


def resolved(part: Any, document: Mapping[str, Any]) -> Any:
    """A part of an operation with the parameters and answers that it refers to; schemas stay references."""
    if isinstance(part, list):
        return [resolved(each, document) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        return document["components"][kind][name]
    return {name: each if name == "schema" else resolved(each, document) for name, each in part.items()}
