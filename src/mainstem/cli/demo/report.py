"""The demo's output while it runs, and at its end. With ``quiet`` it prints nothing: the JSON document has it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mainstem.cli.output import out, out_rows, out_table
from mainstem.cli.records.progress_bar import OnProgress, progress_bar, simple_bar

if TYPE_CHECKING:
    from mainstem.cli.demo.questions import DemoQuestion
    from mainstem.connectors.loads import Loaded

_ROWS_SHOWN = 12


class DemoReport:
    """The demo's voice."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def started(self, bootstrap: str) -> None:
        """The log is up; the rest is starting."""
        self._say(f"The log runs at {bootstrap}; Spark, the views and HTTP start while the files load.\n")

    @contextmanager
    def loading(self, topic: str) -> Iterator[OnProgress]:
        """A bar for one file."""
        with progress_bar(topic, shown=not self._quiet) as on_progress:
            yield on_progress

    def loaded(self, loaded: Loaded) -> None:
        """One file is in."""
        rate = f"{loaded.records_per_second:>9,.0f} records/s"
        self._say(f"  {loaded.topic:<10}{loaded.records:>9,} records  {loaded.seconds:>5.1f} s  {rate}")

    @contextmanager
    def catching_up(self, flights: int) -> Iterator[Callable[[int], None]]:
        """A bar for the flights that the pipelines have processed."""
        self._say("\nThree pipelines on Spark derive three topics; five views index them.")
        with simple_bar("pipelines", flights, shown=not self._quiet) as on_progress:
            yield on_progress

    def answer(self, question: DemoQuestion, rows: list[dict[str, Any]]) -> None:
        """A question and its answer."""
        if self._quiet:
            return
        out("")
        if len(rows) > _ROWS_SHOWN and len(rows[0]) == 1:
            out(f"{question.title} (view {question.view}): {len(rows)}")
            out("  " + " ".join(str(next(iter(row.values()))) for row in rows))
            return
        shown = _pivoted(rows) if question.name == "delay_by_month_and_origin" else rows[:_ROWS_SHOWN]
        out_rows(shown, title=f"{question.title} (view {question.view})")
        if len(shown) < len(rows) and shown == rows[:_ROWS_SHOWN]:
            out(f"and {len(rows) - len(shown)} more")

    def read_your_writes(self, position: str, before: int, after: int, milliseconds: float) -> None:
        """One more flight, read back through two topics and Spark."""
        included = "includes it" if after == before + 1 else "does NOT include it"
        self._say(
            f"\nOne more flight of UA, appended over HTTP at {position}: the carrier's row, asked for at least there, "
            f"{included} ({before:,} → {after:,} departures) after {milliseconds:,.0f} ms."
        )

    def verified(self, name: str, result: Mapping[str, Any]) -> None:
        """A view against the replay of its topic."""
        verdict = "equal" if result["equal"] else f"DIFFERENT: {result['differences'][:1]}"
        self._say(f"View {name} and a replay of {result['records']:,} records: {verdict}.")

    def finished(self, seconds: Mapping[str, float], url: str, *, stays: bool) -> None:
        """Where the time went."""
        if self._quiet:
            return
        out("")
        out_table(["step", "seconds"], [[name, value] for name, value in seconds.items()])
        if stays:
            out(f"The console: {url}/")
            out(f"HTTP API: {url} (its description: {url}/openapi.json). To try, in another terminal:\n")
            out(f"  curl {url}/views/carriers/keys/UA")
            out(f"  mainstem views query airports kennedy --url {url}")
            out(f"  mainstem views path routes EWR LAX --url {url}\n\nctrl-C stops everything.")

    def _say(self, text: str) -> None:
        if not self._quiet:
            out(text)


def _pivoted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each month, a column for each airport."""
    months: dict[int, dict[str, Any]] = {}
    for row in rows:
        months.setdefault(row["month"], {"month": row["month"]})[row["origin"]] = row["mean_dep_delay"]
    return list(months.values())
