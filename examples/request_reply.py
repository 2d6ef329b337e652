"""A worker answers HTTP requests over the log. Neither side knows the other, and either may be restarted.

mainstem serve
python examples/request_reply.py work
python examples/request_reply.py ask EWR SFO
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

import mainstem as ms

TOPIC = "quotes"
MILES = {("EWR", "SFO"): 2565, ("JFK", "LAX"): 2475, ("LGA", "BOS"): 184}


def quote(request: ms.Record) -> dict[str, Any]:
    """The worker's function: from a request to its reply. What it raises goes to who asked."""
    wanted = json.loads(request.value or b"{}")
    miles = MILES.get((wanted["from"], wanted["to"]))
    if miles is None:
        raise LookupError(f"nobody flies from {wanted['from']} to {wanted['to']}")
    return {"miles": miles, "price": round(40 + miles * 0.11, 2)}


def ask(gateway: str, origin: str, dest: str, *, later: bool = False) -> dict[str, Any]:
    """Ask for a quote; ``later``: do not wait for it."""
    body = json.dumps({"value": {"from": origin, "to": dest}, "timeout_s": 30}).encode()
    headers = {"Content-Type": "application/json", **({"Prefer": "respond-async"} if later else {})}
    return fetch(urllib.request.Request(f"{gateway}/topics/{TOPIC}/requests", body, headers))


def look(gateway: str, request_id: str) -> dict[str, Any]:
    """What became of a request that was not waited for."""
    return fetch(urllib.request.Request(f"{gateway}/requests/{request_id}?timeout=30"))


def fetch(request: urllib.request.Request) -> dict[str, Any]:
    """The JSON that answers."""
    with urllib.request.urlopen(request, timeout=60) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def main(command: str = "ask", origin: str = "EWR", dest: str = "SFO") -> None:
    """Work, or ask."""
    if command == "ask":
        print(ask("http://127.0.0.1:8080", origin, dest)["reply"]["value"])
        return
    with ms.Log("127.0.0.1:9092") as log:
        log.create_topic(TOPIC, exist_ok=True)
        with ms.Worker(log, TOPIC, quote) as worker:
            print("quotes prices until ctrl-C", flush=True)
            worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
