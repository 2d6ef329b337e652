"""``mainstem doctor``: look at this machine, and say what to do about what is missing."""

from __future__ import annotations

from mainstem.cli import options
from mainstem.cli.output import out, out_json, out_table
from mainstem.exit_codes import DONE, NO


def doctor(data: options.Data = options.DEFAULT_DATA, json: options.Json = False) -> int:
    """Check what this machine has and lacks: Java, packages, disk, ports, limits. Exit code 5 when a check failed."""
    from mainstem.cli.operation.checks import run_checks

    checks = list(run_checks(data))
    failed = any(check.state == "failed" for check in checks)
    if json:
        out_json({"ok": not failed, "checks": [check._asdict() for check in checks]})
    else:
        rows = [[check.name, check.state, check.found, check.advice] for check in checks]
        out_table(["check", "state", "found", "what to do"], rows)
        out("something is missing" if failed else "ready")
    return NO if failed else DONE
