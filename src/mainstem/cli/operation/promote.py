"""``mainstem promote``: opens a mirror's target to writers; and ``--losses``, what only the former source has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.operation.mirror import SourceConfig, Target, TargetConfig, Topics, connected
from mainstem.cli.output import note, out, out_json
from mainstem.errors import InputError

if TYPE_CHECKING:
    from mainstem.mirror.link import Link


def promote(  # noqa: PLR0913 - a command's options are its parameters
    target: Target,
    source: Annotated[
        str | None, typer.Option("--from", metavar="HOST:PORT", help="The source; without it: --source-is-lost.")
    ] = None,
    topics: Topics = ".*",
    source_is_lost: Annotated[
        bool, typer.Option("--source-is-lost", help="Do not ask the source: open the copy as it is.")
    ] = False,
    losses: Annotated[
        bool, typer.Option("--losses", help="Change nothing; name what only the former source has.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, max=3600, metavar="SECONDS", help="How long both may take to be level.")
    ] = 60.0,
    source_config: SourceConfig = None,
    target_config: TargetConfig = None,
    json: options.Json = False,
) -> None:
    """Open the target of a mirror to writers, at a position that both logs have, and write that position down."""
    from mainstem.mirror import promotion

    if source is None and not source_is_lost:
        raise InputError("name the source with --from, or say --source-is-lost if it cannot be reached")
    if source_is_lost and losses:
        raise InputError("--losses asks the source: leave out --source-is-lost")
    with connected(source or target, target, topics, source_config, target_config) as link:
        if losses:
            _show_losses(link, as_json=json)
            return
        done = promotion.promote_alone(link) if source_is_lost else promotion.promote(link, note, timeout)
    if json:
        out_json({**done.promotion.to_json(), "topics": list(done.topics)})
        return
    out(f"promoted at {done.promotion.position}")
    for each in done.promotion.aborted:
        out(f"aborted the transaction of producer {each.producer_id} in {each.topic_partition}:{each.first_offset}")


def _show_losses(link: Link, *, as_json: bool) -> None:
    from mainstem.mirror.promotion import losses

    found = [each.text for each in losses(link)]
    if as_json:
        out_json({"losses": found})
        return
    for text in found:
        out(text)
    if not found:
        out("the former source holds nothing that the copy does not")
