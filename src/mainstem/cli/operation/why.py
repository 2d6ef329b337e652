"""``mainstem why flights/0:4711``: the journey of a record; of a view's row with ``--view``. It asks the HTTP gateway.

Exit code 0 when nothing on the way waits, 5 when something does, and the output says what.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from mainstem.cli import options
from mainstem.cli.output import out, out_json
from mainstem.errors import InputError
from mainstem.exit_codes import DONE, NO

_PLACE: Final = re.compile(r"([A-Za-z0-9._-]{1,249})/(\d{1,10}):(\d{1,19})")
_TIMEOUT_S: Final = 60.0


def why(
    place: Annotated[
        str, typer.Argument(metavar="RECORD", help="TOPIC/PARTITION:OFFSET, such as flights/0:4711; with --view a key.")
    ],
    view: Annotated[
        str | None, typer.Option("--view", metavar="VIEW", help="Where the row of this key in a view came from.")
    ] = None,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> int:
    """Where a record is: what read it, when, what came of it, and what it waits for. Exit code 5 if it waits."""
    from mainstem.client.http.http import JsonHttp

    http = JsonHttp(url)
    if view is not None:
        row = http.call("GET", f"/views/{quote(view, safe='')}/journey", {"key": place}, timeout_s=_TIMEOUT_S)
        return _show_row(row, as_json=json)
    match = _PLACE.fullmatch(place)
    if match is None:
        raise InputError(f"invalid record {place[:100]!r}: give TOPIC/PARTITION:OFFSET, such as flights/0:4711")
    path = f"/topics/{quote(match[1], safe='')}/records/{int(match[2])}/{int(match[3])}/journey"
    journey = http.call("GET", path, timeout_s=_TIMEOUT_S)
    if json:
        out_json(journey)
    else:
        _print(journey)
    return NO if _waits(journey) else DONE


def _show_row(row: dict[str, Any], *, as_json: bool) -> int:
    journey = row["journey"]
    if as_json:
        out_json(row)
    else:
        covers = f", which covers {row['covers']}" if row["covers"] else ""
        out(f"view {row['view']} is at {row['position'] or 'its beginning'}{covers}")
        if journey is None:
            out(f"  it has no record with key {row['key']!r}" + (f": {row['note']}" if row["note"] else ""))
        else:
            out("  the newest record of the key that it has:")
            _print(journey, 2)
    return NO if journey is None or _waits(journey) else DONE


def _print(journey: dict[str, Any], depth: int = 0) -> None:
    from mainstem.pipelines.journey.sentences import journey_lines

    for line in journey_lines(journey):
        out("  " * (depth + line.depth) + line.text)


def _waits(journey: dict[str, Any]) -> bool:
    steps = (*journey["pipelines"], *journey["views"])
    return journey["state"] in ("not written", "behind an open transaction") or any(each["waits_for"] for each in steps)
