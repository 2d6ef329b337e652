"""``mainstem mirror``: a second copy of a log, at equal offsets; and ``--status``, how far it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from mainstem.cli import options
from mainstem.cli.output import note, out, out_json, out_rows

if TYPE_CHECKING:
    from mainstem.mirror.link import Link
    from mainstem.mirror.mirror import MirrorReport

_TIMEOUT_S = 15.0

Source: TypeAlias = Annotated[
    str, typer.Option("--from", metavar="HOST:PORT", help="The source: Mainstem or Apache Kafka.")
]
Target: TypeAlias = Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="The target: Mainstem.")]
Topics: TypeAlias = Annotated[
    str, typer.Option("--topics", metavar="REGEX", help="Topics whose whole name matches; all without it.")
]
SourceConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option("--from-config", metavar="FILE", help="Security options for the source, lines of NAME=VALUE."),
]
TargetConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option("--to-config", metavar="FILE", help="Security options for the target, lines of NAME=VALUE."),
]


def mirror(  # noqa: PLR0913 - a command's options are its parameters
    source: Source,
    target: Target,
    topics: Topics = ".*",
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="BYTES", help="At most so many bytes per second, e.g. 20M.")
    ] = None,
    source_config: SourceConfig = None,
    target_config: TargetConfig = None,
    rights: Annotated[
        bool, typer.Option("--rights", help="Also copy ACLs and quotas; users are never copied.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="Write metrics there, for Prometheus. A node shows those in its DATA/run/mirror.prom.",
        ),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Copy nothing; show how far the copy is.")] = False,
    json: options.Json = False,
) -> None:
    """Copy a log to another one for ever, at equal offsets, with topics and committed offsets; ctrl-C stops it."""
    from mainstem.cli.foreground import stopping_cleanly
    from mainstem.cli.service_manager import notify_ready, notify_stopping
    from mainstem.mirror.mirror import Mirror, MirrorOptions
    from mainstem.mirror.rate import parse_rate

    bytes_per_s = parse_rate(rate)
    with connected(source, target, topics, source_config, target_config) as link:
        if status:
            _show_status(link, as_json=json)
            return
        running = Mirror(link, MirrorOptions(bytes_per_s, rights=rights), note, _reporter(metrics, as_json=json))
        with stopping_cleanly():
            try:
                running.begin()
                line = f"ready: mirror {source} to {target}"
                if json:
                    out_json({"ready": {"from": source, "to": target}})
                else:
                    out(line)
                notify_ready(line)
                running.run()
            except KeyboardInterrupt:
                notify_stopping()
                note("stopping")
            finally:
                running.close()


def _reporter(metrics: Path | None, *, as_json: bool) -> Callable[[MirrorReport], None]:
    """A function that shows each report and writes the metrics."""
    from mainstem.clock import SystemClock
    from mainstem.mirror.metrics import MirrorMetrics

    file = None if metrics is None else MirrorMetrics(metrics, SystemClock(), note)

    def report(state: MirrorReport) -> None:
        _show_report(state, as_json=as_json)
        if file is not None:
            file.publish(state)

    return report


def connected(source: str, target: str, topics: str, source_config: Path | None, target_config: Path | None) -> Link:
    """The two logs; nothing connects before the first call."""
    from mainstem.client.wire.cluster.cluster import WireClient
    from mainstem.mirror.link import Link

    clients = [
        WireClient(address, client_id="mainstem-mirror", timeout_s=_TIMEOUT_S, security=_security(config))
        for address, config in ((source, source_config), (target, target_config))
    ]
    return Link(clients[0], clients[1], topics)


def _security(path: Path | None) -> Any:
    """The options in a file; None: those of the environment."""
    if path is None:
        return None
    from mainstem.cli.settings import properties
    from mainstem.client.security import Security

    return Security.of(properties(path))


def _show_report(report: MirrorReport, *, as_json: bool) -> None:
    if as_json:
        out_json(
            {
                "topics": report.topics,
                "partitions": report.partitions,
                "copied_bytes": report.copied_bytes,
                "lag_records": report.lag_records,
                "lag_s": None if report.lag_s is None else round(report.lag_s, 3),
                "set_aside": report.set_aside,
            }
        )
        return
    behind = "not known yet" if report.lag_s is None else f"{report.lag_s:.1f} s"
    out(
        f"{report.topics:,} topics, {report.partitions:,} partitions: {report.copied_bytes:,} bytes copied, "
        f"{report.lag_records:,} records to copy, lag {behind}"
    )


def _show_status(link: Link, *, as_json: bool) -> None:
    from mainstem.mirror.status import copy_status

    rows = [
        {
            "partition": str(each.topic_partition),
            "state": each.state,
            "source_end": each.source_end,
            "copied": each.copied,
            "lag_records": each.lag_records,
            "lag_s": None if each.lag_s is None else round(each.lag_s, 3),
        }
        for each in copy_status(link)
    ]
    if as_json:
        out_json({"partitions": rows})
    elif rows:
        out_rows(rows)
    else:
        out("the source has none of these topics")
