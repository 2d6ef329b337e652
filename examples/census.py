"""A census, and a party: how many there are, at any moment, and not only when somebody happens to count heads.

mainstem run examples/census.py
python examples/census.py live          # people move, guests come and go
python examples/census.py count         # now
python examples/census.py count 2026-01-01T12:00:00Z
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import datetime
from typing import Any

import mainstem as ms
from mainstem.client.records import NewRecord

app = ms.App("census")
FOR_EVER = {"retention.ms": "-1"}  # who asks about last year needs last year's records
moves = app.topic("moves", schema="person STRING NOT NULL, city STRING", key="person", partitions=2, configs=FOR_EVER)
door = app.topic("door", schema="party STRING NOT NULL, guest STRING, comes BOOLEAN", key="party", configs=FOR_EVER)


def present(state: dict[str, Any], record: ms.FoldRecord) -> dict[str, Any]:
    """Who is at a party, after one more has come or gone."""
    guests = set(state["guests"]) - {record.value["guest"]}
    if record.value["comes"]:
        guests.add(record.value["guest"])
    return {"guests": sorted(guests), "count": len(guests)}


app.view("residents", moves, ms.SQL())
app.view("parties", door, ms.KeyValue(fold=present, initial={"guests": [], "count": 0}))

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
HOUR_MS = 3_600_000
MOVES = [("ann", "oslo"), ("bob", "oslo"), ("cid", "wien"), ("ann", "wien"), ("bob", None), ("eve", "oslo")]
DOOR = [("ann", True), ("bob", True), ("cid", True), ("bob", False), ("eve", True), ("ann", False)]


def live(log: ms.Log) -> ms.Position:
    """One person moves every hour; None is a death. One guest comes or goes every hour."""
    moved = [
        NewRecord(
            None if city is None else {"person": person, "city": city}, person, timestamp_ms=NOON_MS + n * HOUR_MS
        )
        for n, (person, city) in enumerate(MOVES)
    ]
    passed = [
        NewRecord({"party": "new year", "guest": guest, "comes": comes}, "new year", timestamp_ms=NOON_MS + n * HOUR_MS)
        for n, (guest, comes) in enumerate(DOOR)
    ]
    return log.append_many("moves", moved) | log.append_many("door", passed)


def census(url: str, **fresh: Any) -> dict[str, int]:
    """How many live where: now, or as of a moment."""
    answer = ms.views(url)["residents"].sql("SELECT city, count(*) AS people FROM residents GROUP BY city", **fresh)
    return {row["city"]: row["people"] for row in answer}


def guests(url: str, party: str, **fresh: Any) -> int:
    """How many are at a party: now, or as of a moment."""
    row = ms.views(url)["parties"].get(party, **fresh).row
    return 0 if row is None else int(row["count"])


def census_by_batch(log: ms.Log, end: ms.Position | datetime | None = None) -> dict[str, int]:
    """The same by a plain replay of the log, without any view."""
    home: dict[bytes | None, str] = {}
    for record in log.read("moves", end=end):
        if record.value is None:
            home.pop(record.key, None)
        else:
            home[record.key] = json.loads(record.value)["city"]
    return dict(Counter(home.values()))


def guests_by_batch(log: ms.Log, party: str, end: ms.Position | datetime | None = None) -> int:
    """The same by a plain replay of the log, without any view."""
    inside: dict[str, bool] = {}
    for record in log.read("door", key=party, end=end):
        passing = json.loads(record.value or b"{}")
        inside[passing["guest"]] = passing["comes"]
    return sum(inside.values())


def main(command: str = "count", *moment: str) -> None:
    """Let people live, or count them."""
    if command == "live":
        with ms.Log("127.0.0.1:9092") as log:
            print(live(log))
        return
    fresh = {"as_of": moment[0]} if moment else {}
    print(census("localhost:8080", **fresh), "and at the party", guests("localhost:8080", "new year", **fresh))


if __name__ == "__main__":
    main(*sys.argv[1:])
