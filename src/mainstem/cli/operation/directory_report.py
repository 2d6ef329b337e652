"""The lists of ``graduate`` and ``adopt``: all that goes along, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstem.cli.output import out, out_rows

if TYPE_CHECKING:
    from mainstem.kafka_directory.report import TransferReport


def plan_json(report: TransferReport) -> dict[str, Any]:
    """The list as a document."""
    return {
        "cluster_id": report.cluster_id,
        "topics": [row._asdict() for row in report.topics],
        "groups": report.offsets,
        "transactions": report.transactions,
        "users": report.users,
        "acls": report.acls,
        "quotas": report.quotas,
        "files": report.sizes._asdict(),
        "left_behind": [note._asdict() for note in report.notes],
    }


def print_plan(report: TransferReport) -> None:
    """The list as tables."""
    if report.topics:
        out_rows([row._asdict() for row in report.topics], title="topics")
    if report.offsets:
        rows = [{"group": group, "committed offsets": count} for group, count in report.offsets.items()]
        out_rows(rows, title="groups")
    if report.transactions:
        rows = [{"transactional id": name, "state": state} for name, state in report.transactions.items()]
        out_rows(rows, title="transactions")
    out(f"users: {', '.join(report.users) or 'none'}; {report.acls} ACLs, {report.quotas} quotas")
    sizes = report.sizes
    out(f"{sizes.linked_files:,} files of {sizes.linked_bytes:,} bytes are linked")
    out(f"{sizes.copied_files:,} files of {sizes.copied_bytes:,} bytes are copied")
    if report.notes:
        out_rows([{"does not go along": note.what, "instead": note.instead} for note in report.notes])
