"""Somebody writes to a view's store behind its back, and `verify` names the row.

mainstem run examples/drift.py
python examples/drift.py open           # five accounts, some deposits
python examples/drift.py cook           # while nothing runs: a balance is changed in the database itself
mainstem views verify balances
"""

from __future__ import annotations

import sys
from pathlib import Path

import mainstem as ms

app = ms.App("drift")
accounts = app.topic("accounts", schema="owner STRING NOT NULL, balance DOUBLE", key="owner")
app.view("balances", accounts, ms.SQL())

DEPOSITS = [("ada", 120.0), ("bob", 80.5), ("carol", 42.0), ("mallory", 7.25), ("ada", 180.0), ("dave", 63.0)]
STORE = "views/drift/balances/v000001/store/view.duckdb"


def open_accounts(log: ms.Log) -> ms.Position:
    """Write what is true: each record is an owner's new balance."""
    return log.append_many("accounts", [(owner, {"owner": owner, "balance": balance}) for owner, balance in DEPOSITS])


def cook_the_books(data: Path) -> None:
    """Change one balance in the view's database, past the log. The host has to be stopped: DuckDB locks its file."""
    import duckdb

    with duckdb.connect(str(data / STORE)) as database:
        database.execute("UPDATE balances SET balance = 1000000 WHERE owner = 'mallory'")


def main(command: str = "open", data: str = "mainstem-data") -> None:
    """Open the accounts, or cook the books."""
    if command == "cook":
        cook_the_books(Path(data))
        return
    with ms.Log("127.0.0.1:9092") as log:
        print(open_accounts(log))


if __name__ == "__main__":
    main(*sys.argv[1:])
