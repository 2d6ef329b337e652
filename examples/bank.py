"""A bank that cannot be overdrawn, however many write at once.

mainstem run examples/bank.py
python examples/bank.py ada 100
python examples/bank.py ada -30
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import mainstem as ms

GATEWAY = "http://127.0.0.1:8080"

app = ms.App("bank")
payments = app.topic(
    "payments",
    schema="account STRING NOT NULL, amount BIGINT NOT NULL",
    key="account",
    partitions=4,
    configs={"mainstem.key.index": "true", "mainstem.conditional.append": "true"},
)


def balance(state: dict[str, int], record: Any) -> dict[str, int]:
    """An account after a payment: what it holds, and which payment was its last."""
    return {"balance": state["balance"] + record.value["amount"], "last": record.offset}


app.view("balances", payments, ms.KeyValue(fold=balance, initial={"balance": 0, "last": -1}))


class OverdraftError(Exception):
    """There is not enough in the account."""


def pay(gateway: str, account: str, amount: int) -> ms.Position:
    """Pay into an account, or out of it; the position from which the new balance is seen. Raises OverdraftError."""
    seen = None
    while True:
        now = look(gateway, account, seen)
        if now["balance"] + amount < 0:
            if seen is None:  # nobody is refused by a balance that may be behind
                seen = end_of(gateway, account)
                continue
            raise OverdraftError(f"{account} has {now['balance']}, which is less than {-amount}")
        try:
            return append(gateway, account, amount, last=now["last"])
        except HTTPError as refused:
            if refused.code != 412:
                raise
            refused.close()  # somebody else paid meanwhile: look again, at what is there by now
            seen = end_of(gateway, account)


def look(gateway: str, account: str, at_least: ms.Position | None = None) -> dict[str, Any]:
    """The account's balance, as of ``at_least`` or later."""
    row = ms.views(gateway)["balances"].get(account, at_least=at_least).row
    return row or {"balance": 0, "last": -1}


def append(gateway: str, account: str, amount: int, *, last: int) -> ms.Position:
    """Append a payment if ``last`` is still the account's last one; HTTP status 412 if not."""
    body = {"records": [{"key": account, "value": {"account": account, "amount": amount}}]}
    headers = {"Content-Type": "application/json", "If-Match": f'"{last}"'}
    request = urllib.request.Request(f"{gateway}/topics/payments/records", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return ms.Position.parse(answer.headers["Mainstem-Position"])


def end_of(gateway: str, account: str) -> ms.Position:
    """The position after all payments of the account."""
    with urllib.request.urlopen(f"{gateway}/topics/payments/keys/{quote(account)}?from=latest", timeout=60) as answer:
        return ms.Position.parse(answer.headers["Mainstem-Position"])


def main(account: str, amount: str) -> None:
    """Pay, and read the balance that this payment made."""
    try:
        position = pay(GATEWAY, account, int(amount))
    except OverdraftError as error:
        sys.exit(f"OverdraftError: {error}")
    print(account, "has", look(GATEWAY, account, position)["balance"])


if __name__ == "__main__":
    main(*sys.argv[1:])
