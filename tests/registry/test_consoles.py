"""The calls that consoles make, with their own queries and headers: each is answered, with the fields that they read.

The calls of Redpanda Console (by franz-go's ``sr`` client), of kafka-ui (by its own client and Confluent's) and of AKHQ
(by Confluent's ``RestService``) were listed from their sources: Console of August 2026, kafka-ui of July 2026, AKHQ of
February 2025.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import httpx
import pytest

from tests.registry.test_subjects import BROKEN_USER, USER, USER_2, register

ADDRESS: Final = json.dumps({"type": "record", "name": "Address", "fields": []})
PERSON: Final = json.dumps({"type": "record", "name": "Person", "fields": [{"name": "home", "type": "Address"}]})
JSON_TYPE: Final = "application/vnd.schemaregistry.v1+json"
GO: Final = {"Content-Type": JSON_TYPE, "Accept": JSON_TYPE, "User-Agent": "redpanda-console"}
SPRING: Final = {"Accept": "application/json"}
JAVA: Final = {"Content-Type": JSON_TYPE, "Accept": "text/html, image/gif, image/jpeg, */*; q=0.2"}


class Call(NamedTuple):
    """A request, and what the console reads of the answer: fields with their values, or the whole of it."""

    request: str
    reads: Any
    body: Any = None
    status: int = 200


NEW: Final = {"schema": USER_2}
RPCONSOLE: Final = (
    Call("GET /mode", {"mode": "READWRITE"}),
    Call("GET /config", {"compatibilityLevel": "BACKWARD"}),
    Call("GET /contexts", [".", ".lab"]),
    Call("GET /mode/:.lab:", {"error_code": 40409}, status=404),  # shown as DEFAULT
    Call("GET /config/:.lab:", {"error_code": 40408}, status=404),
    Call("PUT /config/users", {"compatibility": "FULL"}, {"compatibility": "FULL"}),
    Call("GET /config/users", {"compatibilityLevel": "FULL"}),
    Call("DELETE /config/users", {"compatibilityLevel": "FULL"}),
    Call("GET /config/users", {"error_code": 40408}, status=404),
    Call("PUT /mode/users", {"mode": "READONLY"}, {"mode": "READONLY"}),
    Call("DELETE /mode/users", {"mode": "READONLY"}),
    Call("GET /mode/users", {"error_code": 40409}, status=404),
    Call("GET /subjects", [":.lab:users", "address", "person", "users"]),
    Call("GET /subjects?deleted=true", [":.lab:users", "address", "gone", "person", "users"]),
    Call("GET /subjects?deleted=true&subjectPrefix=%3A.lab%3A", [":.lab:users"]),
    Call(
        "GET /schemas?latestOnly=true&limit=2&offset=1", [{"subject": "address", "version": 1}, {"subject": "person"}]
    ),
    Call("GET /schemas?deletedOnly=true", [{"subject": "gone", "version": 1}]),
    Call("GET /schemas?deleted=true&subjectPrefix=gone", [{"subject": "gone", "id": 1}]),
    Call("GET /subjects/users/versions", [1, 2]),
    Call("GET /subjects/gone/versions?deleted=true", [1]),
    Call("GET /subjects/gone/versions", {"error_code": 40401}, status=404),
    Call("GET /subjects/users/versions/2?deleted=true", {"subject": "users", "version": 2, "id": 2}),
    Call("GET /subjects/users/versions/latest", {"version": 2}),
    Call("GET /subjects/:.lab:users/versions/latest", {"subject": ":.lab:users", "id": 1}),
    Call("GET /subjects/person/versions/1", {"references": [{"name": "Address", "subject": "address", "version": 1}]}),
    Call("GET /subjects/address/versions/1/referencedby?deleted=true", [4]),
    Call("GET /schemas/ids/4/versions?deleted=true", [{"subject": "person", "version": 1}]),
    Call("GET /schemas/ids/1/versions?subject=%3A.lab%3Ausers", [{"subject": ":.lab:users", "version": 1}]),
    Call("GET /schemas/ids/2", {"schema": None}),
    Call("GET /schemas/types", ["JSON", "PROTOBUF", "AVRO"]),
    Call(
        "POST /compatibility/subjects/users/versions/latest?verbose=true", {"is_compatible": True, "messages": []}, NEW
    ),
    Call("POST /subjects/users/versions?normalize=true", {"id": 2}, {**NEW, "schemaType": "AVRO"}),
    Call("POST /security/acls", {"error_code": 404}, [{"resource_type": "NOT_A_RESOURCE_TYPE"}], 404),  # it has none
    Call("DELETE /subjects/users/versions/1", 1),
    Call("DELETE /subjects/users/versions/1?permanent=true", 1),
    Call("DELETE /subjects/users", [2]),
    Call("DELETE /subjects/users?permanent=true", [2]),
)
KAFKA_UI: Final = (
    Call("GET /subjects?deleted=false", [":.lab:users", "address", "person", "users"]),
    Call("GET /subjects/users/versions", [1, 2]),
    Call(
        "GET /subjects/users/versions/latest?deleted=false", {"id": 2, "subject": "users", "version": 2, "schema": None}
    ),
    Call("GET /subjects/users/versions/1?deleted=false", {"id": 1, "version": 1}),
    Call("GET /subjects/none/versions/latest?deleted=false", {"error_code": 40401}, status=404),
    Call("GET /config/users?defaultToGlobal=true", {"compatibilityLevel": "BACKWARD"}),
    Call("GET /config", {"compatibilityLevel": "BACKWARD"}),
    Call("PUT /config", {"compatibility": "FULL"}, {"compatibility": "FULL"}),
    Call("PUT /config/users", {"compatibility": "BACKWARD"}, {"compatibility": "BACKWARD"}),
    Call(
        "POST /compatibility/subjects/users/versions/latest?verbose=true",
        {"is_compatible": False},
        {"schema": BROKEN_USER, "schemaType": "AVRO", "references": []},
    ),
    Call("POST /subjects/users/versions", {"error_code": 40901}, {"schema": BROKEN_USER, "schemaType": "AVRO"}, 409),
    Call("POST /subjects/users/versions", {"error_code": 42201}, {"schema": "{", "schemaType": "AVRO"}, 422),
    Call("POST /subjects/users/versions", {"id": 2}, {**NEW, "schemaType": "AVRO", "references": []}),
    Call("GET /schemas/ids/1?fetchMaxId=false&subject=", {"schema": None}),
    Call("GET /schemas/ids/99?fetchMaxId=false&subject=", {"error_code": 40403}, status=404),
    Call("GET /schemas/ids/1/versions?deleted=false", [{"subject": "users", "version": 1}]),
    Call("DELETE /config/users", {"compatibilityLevel": "BACKWARD"}),
    Call("DELETE /subjects/users/versions/latest?permanent=false", 2),
    Call("DELETE /subjects/users?permanent=false", [1]),
)
AKHQ: Final = (
    Call("GET /subjects", [":.lab:users", "address", "person", "users"]),
    Call("GET /schemas/ids/1/versions?deleted=false", [{"subject": "users", "version": 1}]),
    Call("GET /subjects/%3A.lab%3Ausers/versions/latest", {"subject": ":.lab:users", "version": 1, "id": 1}),
    Call("GET /subjects/none/versions/latest", {"error_code": 40401}, status=404),  # how it asks whether one exists
    Call("GET /subjects/users/versions?deleted=false&deletedOnly=false", [1, 2]),
    Call("GET /subjects/users/versions/1?deleted=false", {"subject": "users", "version": 1, "id": 1, "schema": None}),
    Call("POST /subjects/users?normalize=false&deleted=true", {"version": 1, "id": 1}, {"schema": USER}),
    Call(
        "POST /compatibility/subjects/users/versions/latest?normalize=false&verbose=false", {"is_compatible": True}, NEW
    ),
    Call("POST /subjects/users/versions?normalize=false", {"id": 2}, NEW),
    Call("GET /config", {"compatibilityLevel": "BACKWARD"}),
    Call("GET /config/users?defaultToGlobal=true", {"compatibilityLevel": "BACKWARD"}),
    Call("PUT /config/users", {"compatibility": "FULL"}, {"compatibility": "FULL"}),
    Call("DELETE /subjects/users/versions/1", 1),
    Call("DELETE /subjects/users", [2]),
)


@pytest.mark.parametrize(
    ("calls", "headers"), [(RPCONSOLE, GO), (KAFKA_UI, SPRING), (AKHQ, JAVA)], ids=["console", "kafka-ui", "akhq"]
)
def test_a_console_gets_what_it_reads(registry: httpx.Client, calls: tuple[Call, ...], headers: dict[str, str]) -> None:
    for subject, schema in (("gone", USER), ("users", USER), ("users", USER_2), ("address", ADDRESS)):
        register(registry, subject, schema)
    register(registry, "person", PERSON, references=[{"name": "Address", "subject": "address", "version": 1}])
    register(registry, ":.lab:users", USER)
    registry.delete("/subjects/gone")
    for call in calls:
        method, _, path = call.request.partition(" ")
        answer = registry.request(method, path, json=call.body, headers=headers)
        assert answer.status_code == call.status, (call.request, answer.text)
        assert holds(answer.json(), call.reads), (call.request, answer.text)
        assert "json" in answer.headers["content-type"]


def holds(found: Any, read: Any) -> bool:
    """Whether an answer has the fields that a console reads; a field that is None here may have any value."""
    if isinstance(read, dict):
        return all(name in found and (value is None or holds(found[name], value)) for name, value in read.items())
    if isinstance(read, list):
        return len(found) == len(read) and all(holds(*pair) for pair in zip(found, read, strict=True))
    return bool(found == read)
