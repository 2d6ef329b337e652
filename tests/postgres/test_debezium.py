"""The envelope of Debezium beside Debezium's own engine, on one database: the same changes, field by field.

``in_our_form`` is the list of deliberate differences; docs/reference/postgres.md has it, too.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any, Final

import pytest

from tests.postgres.conftest import TIMEOUT_S, Shop
from tests.support.apache_kafka import KafkaUnavailableError
from tests.support.debezium_engine import Change, DebeziumEngine, debezium_jars
from tests.support.postgres import PostgresCluster

TABLES: Final = ("items", "wholes", "typed")
TABLES_DDL: Final = """
CREATE TABLE items (id int PRIMARY KEY, item text, note text);
ALTER TABLE items ALTER note SET STORAGE EXTERNAL;
CREATE TABLE wholes (id int PRIMARY KEY, item text, note text);
ALTER TABLE wholes REPLICA IDENTITY FULL, ALTER note SET STORAGE EXTERNAL;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE typed (
    id bigint PRIMARY KEY, small smallint, flag boolean, single real, twice double precision, price numeric(12,3),
    free numeric, word varchar(20), letters char(5), day date, moment time, at timestamp, zoned timestamptz,
    span interval, data bytea, tags jsonb, doc json, uid uuid, mood mood, share percent, numbers int[], words text[],
    address inet, mask cidr
);
"""
VALUES: Final[dict[str, tuple[str, ...]]] = {
    "small": ("-32768", "7"),
    "flag": ("true", "false"),
    "single": ("0.1", "-3.5e10"),
    "twice": ("0.1", "1e-300", "12345678.875"),
    "price": ("1.5", "-99999999.999", "0"),
    "free": ("123456789012345678901234567890.123456789", "-0.50"),
    "word": ("'a\"b\\c'", "E'tab\\t line\\n'", "'\u65e5\u672c \u00e9'", "''"),
    "letters": ("'ab'",),
    "day": ("'2024-02-29'", "'1969-12-31'"),
    "moment": ("'01:02:03'", "'23:59:59.123456'"),
    "at": ("'2024-01-02 03:04:05'", "'1969-12-31 23:59:59.5'"),
    "zoned": ("'2024-01-02 03:04:05.123456+02'", "'1969-12-31 23:59:59Z'"),
    "span": ("'1 year 2 months 3 days 04:05:06.789'", "'-1 day'", "'0'"),
    "data": ("'\\x00ff10'", "''"),
    "tags": ('\'{"a": [1, null, "x"]}\'', "'3'"),
    "doc": ("'{\"b\": 2.5}'",),
    "uid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",),
    "mood": ("'good'", "'bad'"),
    "share": ("100",),
    "numbers": ("'{1,NULL,3}'", "'{}'"),
    "words": ("'{a,\"b c\",NULL}'",),
    "address": ("'10.0.0.1'",),
    "mask": ("'10.0.0.0/8'",),
}
ZONELESS: Final = ("day", "moment", "at")
DOCUMENTS: Final = ("tags", "doc")
UNKNOWN: Final = "__debezium_unavailable_value"
TOAST_BYTES: Final = 1900
PREPARED: Final = 20


def history(seed: int) -> list[str]:
    """Statements that insert, update, delete and move rows, some of them together in a transaction."""
    draw = random.Random(seed)
    statements = []
    for _ in range(120):
        table = draw.choice(TABLES)
        group = [_statement(table, draw) for _ in range(draw.choice((1, 1, 1, 4)))]
        statements.append(f"BEGIN; {'; '.join(group)}; COMMIT" if len(group) > 1 else group[0])
    return statements


def _statement(table: str, draw: random.Random) -> str:
    row = draw.randrange(PREPARED * 2)
    kind = draw.random()
    if kind < 0.15:
        return f"DELETE FROM {table} WHERE id = {row}"
    if kind < 0.25:
        is_free = f"NOT EXISTS (SELECT FROM {table} WHERE id = {row + 1000})"
        return f"UPDATE {table} SET id = id + 1000 WHERE id = {row} AND {is_free}"
    if table == "typed":
        name = draw.choice(list(VALUES))
        value = draw.choice((*VALUES[name], "NULL"))
        insert = f"INSERT INTO typed (id, {name}) VALUES ({row}, {value})"
        return f"{insert} ON CONFLICT (id) DO UPDATE SET {name} = excluded.{name}"
    note = f"repeat('{draw.choice('xyz')}', {draw.choice((5, 9000, 90000))})"
    change = draw.choice(("item = 'i' || t.item", f"note = {note}", "item = NULL"))
    return f"INSERT INTO {table} AS t VALUES ({row}, 'new', {note}) ON CONFLICT (id) DO UPDATE SET {change}"


def in_our_form(change: Change, ours: dict[str, Any] | None) -> tuple[str, dict[str, Any] | None]:
    """A change of Debezium with the key and the values as a capture writes them."""
    key = str(change.key["id"])
    if change.value is None:
        return key, None
    before, after = (_row(change.value[name]) for name in ("before", "after"))
    for mine, theirs in ((before, (ours or {}).get("before")), (after, (ours or {}).get("after"))):
        for name in mine or ():
            if mine[name] == UNKNOWN:  # a large value that was not changed: a capture knows it
                assert theirs is not None
                assert len(theirs[name]) > TOAST_BYTES
                mine[name] = theirs[name]
    source = change.value["source"]
    is_snapshot = change.value["op"] == "r"
    return key, {
        "op": change.value["op"],
        "before": before,
        "after": after,
        "place": (source["db"], source["schema"], source["table"], None if is_snapshot else source["txId"]),
    }


def _row(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    changed = dict(row)
    for name in ZONELESS:
        if changed.get(name) is not None:
            changed[name] = changed[name].removesuffix("Z")
    if changed.get("zoned") is not None:
        changed["zoned"] = changed["zoned"].replace(".000000Z", "Z")
    if changed.get("single") is not None:  # Java 17 writes more digits than a float has
        [changed["single"]] = struct.unpack("f", struct.pack("f", changed["single"]))
    for name in DOCUMENTS:
        if changed.get(name) is not None:
            changed[name] = json.loads(changed[name])
    changed.pop("span", None)  # P1DT2H is P0Y0M1DT2H0M0S
    return changed


def ours_of(shop: Shop, table: str) -> list[tuple[str, dict[str, Any] | None]]:
    found: list[tuple[str, dict[str, Any] | None]] = []
    for key, value in shop.records(table):
        if value is None:
            found.append((key, None))
            continue
        source = value["source"]
        rows = {name: value[name] and dict(value[name]) for name in ("before", "after")}
        for row in filter(None, rows.values()):
            row.pop("span", None)
            if row.get("single") is not None:
                [row["single"]] = struct.unpack("f", struct.pack("f", row["single"]))
        place = (source["db"], source["schema"], source["table"], None if value["op"] == "r" else source["txId"])
        found.append((key, {"op": value["op"], **rows, "place": place}))
    return found


@pytest.mark.maven
@pytest.mark.slow
def test_changes_are_those_of_debezium(shop: Shop, postgres_cluster: PostgresCluster, tmp_path: Path) -> None:
    try:
        debezium_jars()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    name = shop.name.replace("-", "_")
    shop.execute(TABLES_DDL)
    for table in ("items", "wholes"):
        shop.execute(
            f"INSERT INTO {table} SELECT n, 'old', repeat('o', n * 1000) FROM generate_series(1, {PREPARED}) n"
        )
    for column, values in VALUES.items():
        for number, value in enumerate(values):
            insert = f"INSERT INTO typed (id, {column}) VALUES ({number}, {value})"
            shop.execute(f"{insert} ON CONFLICT (id) DO UPDATE SET {column} = excluded.{column}")
    shop.execute(f"CREATE ROLE {name} SUPERUSER LOGIN REPLICATION PASSWORD 'p'")
    dsn = {"host": "127.0.0.1", "port": str(postgres_cluster.port), "user": name, "password": "p"}
    engine = DebeziumEngine(
        {**dsn, "dbname": shop.database.name}, name, [f"public.{each}" for each in TABLES], tmp_path
    )
    rows = 2 * PREPARED + max(map(len, VALUES.values()))
    try:
        with shop.capture(*TABLES, envelope="debezium") as capture, engine:
            capture.caught_up(shop.database)
            changes = [engine.next(4 * TIMEOUT_S)]  # the first one waits for a JVM and a compiler
            changes += [engine.next(TIMEOUT_S) for _ in range(rows - 1)]
            for statement in history(seed=1):
                shop.execute(statement)
            shop.execute("INSERT INTO items VALUES (99999, 'last', NULL)")
            while changes[-1].key != {"id": 99999}:
                changes.append(engine.next(TIMEOUT_S))
            capture.caught_up(shop.database)
    finally:
        shop.database.cluster.drop_slot(f"{name}_debezium")
        shop.execute(f"DROP PUBLICATION {name}_debezium; DROP ROLE {name}")
    for table in TABLES:
        ours = ours_of(shop, table)
        theirs = [change for change in changes if change.topic == f"{name}.public.{table}"]
        assert len(ours) == len(theirs) > 50
        theirs.sort(key=_order)  # a snapshot of Debezium is in no order
        for mine, change in zip(ours, theirs, strict=True):
            assert mine == in_our_form(change, mine[1])


def _order(change: Change) -> tuple[bool, int]:
    is_snapshot = change.value is not None and change.value["op"] == "r"
    return not is_snapshot, change.key["id"] if is_snapshot else 0
