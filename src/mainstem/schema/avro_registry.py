"""A schema registry with Confluent's API: the schemas by which framed Avro values were written.

A schema never changes under its id, so that each process asks for it once. Thread-safe.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from mainstem.errors import AuthenticationError, LogUnavailableError, SchemaError

_TIMEOUT_S: Final = 30.0
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_KNOWN: dict[tuple[str, int], str | None] = {}


@dataclass(frozen=True, slots=True)
class AvroRegistry:
    """Where it is; ``auth`` is ``USER:PASSWORD``, or nothing. The password shows in no text form."""

    url: str
    auth: str = field(default="", repr=False)

    def schema(self, schema_id: int) -> str | None:
        """The schema of this id; None when there is none. Raises LogUnavailableError, AuthenticationError."""
        known = (self.url, schema_id)
        if known not in _KNOWN:
            answer = self._get(f"/schemas/ids/{schema_id}")
            _KNOWN[known] = None if answer is None else _avro_of(answer)
        return _KNOWN[known]

    def latest(self, subject: str) -> str:
        """The latest schema of a subject. Raises SchemaError when there is none, and as ``schema`` does."""
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        text = None if answer is None else _avro_of(answer)
        if text is None:
            raise SchemaError(f"the schema registry at {self.url} has no Avro schema for {subject}; give avroSchema")
        return text

    def _get(self, path: str) -> dict[str, Any] | None:
        import urllib.error  # takes 30 ms, which those who ask for nothing need not wait
        import urllib.request

        request = urllib.request.Request(self.url.rstrip("/") + path)
        if self.auth:
            request.add_header("Authorization", "Basic " + base64.b64encode(self.auth.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                document = json.loads(answer.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code in (401, 403):
                raise AuthenticationError(f"the schema registry at {self.url} refused this client's login") from error
            raise LogUnavailableError(f"the schema registry at {self.url} answered {error.code}") from error
        except (OSError, ValueError) as error:
            raise LogUnavailableError(f"the schema registry at {self.url} cannot be reached: {error}") from error
        return document if isinstance(document, dict) else None


def _avro_of(answer: dict[str, Any]) -> str | None:
    """The schema's text; None for one that is not Avro (JSON Schema, Protobuf), or refers to others."""
    if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
        return None
    return str(answer["schema"]) if "schema" in answer else None
