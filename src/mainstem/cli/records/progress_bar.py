"""A progress bar on standard error for a load: bytes, records, rate. Nothing where there is no terminal to show it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.connectors.loads import LoadProgress

OnProgress = Callable[["LoadProgress"], None]


@contextmanager
def progress_bar(label: str, *, shown: bool) -> Iterator[OnProgress]:
    """Yields what ``load`` calls; the bar goes when the block ends."""
    if not shown or not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:>12}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[records]:>9,} records  {task.fields[rate]:>9,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(label, total=None, records=0, rate=0.0)

        def show(state: LoadProgress) -> None:
            progress.update(
                task, total=state.bytes_total, completed=state.bytes_read, records=state.records, rate=state.rate
            )

        yield show


@contextmanager
def simple_bar(label: str, total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar towards ``total``; yields what takes how far it is."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(f"{label:>12}", total=total)
        yield lambda done: progress.update(task, completed=done)


def _ignore(_: LoadProgress) -> None:
    """No terminal, no bar."""
