"""The SQL workbench in Chromium, and the files that it makes of an answer."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstem.console.workbench import downloads
from mainstem.console.workbench.kept_queries import KeptQuery, checked
from mainstem.console.workbench.view_tree import identifier
from tests.console.stage import CARRIERS

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open

GROUPED = "SELECT carrier, count(DISTINCT flight) AS flights FROM con_table GROUP BY 1 ORDER BY 1"
ROWS: list[dict[str, Any]] = [
    {"n": 2**62, "at": "2013-01-01T10:00:00+00:00", "sum": "12.50", "words": ["a", "b"], "x": None, "note": 'a,"b"'},
    {"n": None, "at": None, "sum": None, "words": None, "x": 1.5, "note": ""},
]
TYPES = ["BIGINT", "TIMESTAMP WITH TIME ZONE", "DECIMAL(9,2)", "VARCHAR[]", "DOUBLE", "VARCHAR"]


def write(page: Page, query: str) -> None:
    """Put a query into the editor as one types it."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(query)


@pytest.mark.browser
def test_a_query_runs_by_key_and_its_rows_are_saved_as_files(open_at: Open, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/sql?view=con_table")
    expect(page.locator(".tree-column", has_text="delay")).to_contain_text("INTEGER")
    write(page, GROUPED)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("cell", name="UA")).to_be_visible()
    expect(page.locator(".chart")).to_have_count(0)
    assert parse_qs(urlsplit(page.url).query) == {"view": ["con_table"], "q": [GROUPED]}
    expected = [{"carrier": carrier, "flights": 100} for carrier in sorted(CARRIERS)]
    for kind in ("CSV", "JSON", "Parquet"):
        with page.expect_download() as download:
            page.locator(".downloads").get_by_role("button", name=kind).click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        assert _read(file) == expected, kind
    page.get_by_role("button", name="Chart").click()
    page.locator(".chart canvas").first.wait_for()


def _read(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".csv":
        rows = csv.DictReader(io.StringIO(file.read_text()))
        return [{"carrier": row["carrier"], "flights": int(row["flights"])} for row in rows]
    if file.suffix == ".json":
        found: list[dict[str, Any]] = json.loads(file.read_text())
        return found
    table = pq.read_table(file)
    assert table.schema.field("flights").type == pa.int64()
    listed: list[dict[str, Any]] = table.to_pylist()
    return listed


@pytest.mark.browser
def test_a_query_that_came_with_the_address_waits_for_a_click(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/sql?view=con_table&q=SELECT+flight,%0A++nope+FROM+con_table", 390)
    expect(page.locator(".cm-content")).to_contain_text("nope FROM con_table")
    expect(page.get_by_text("It has not run yet")).to_be_visible()
    expect(page.locator(".problem")).to_have_count(0)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("pre.value")).to_have_text("  nope FROM con_table\n  ^")
    write(page, "SELECT carrier FROM con_table")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("pre.plan")).to_contain_text("con_table")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_names_are_completed_and_queries_kept_by_the_browser(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/sql?view=con_table")
    page.locator(".tree-column", has_text="origin").wait_for()
    write(page, "SELECT ")
    page.locator(".tree-column", has_text="origin").click()
    expect(page.locator(".cm-content")).to_contain_text("SELECT origin")
    page.keyboard.type(", carr")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("carrier")
    write(page, GROUPED)
    page.get_by_role("button", name="Run").click()
    page.get_by_role("cell", name="UA").wait_for()
    page.get_by_role("button", name="Queries").click()
    page.get_by_label("Name of this query").fill("By carrier")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".kept-query", has_text="By carrier")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    write(page, "SELECT 1")
    page.reload()
    page.get_by_role("button", name="Queries").click()
    page.locator(".kept-query", has_text="By carrier").get_by_title("Take this query").click()
    expect(page.locator(".cm-content")).to_contain_text("GROUP BY 1")


def test_parquet_has_the_types_of_the_database() -> None:
    table = pq.read_table(io.BytesIO(downloads.as_parquet(ROWS, TYPES)))
    assert [str(field.type) for field in table.schema] == [
        "int64", "timestamp[us, tz=UTC]", "decimal128(9, 2)", "string", "double", "string",
    ]  # fmt: skip
    assert table["n"].to_pylist() == [2**62, None]
    assert table["words"].to_pylist() == ['["a", "b"]', None]


@pytest.mark.parametrize("types", [[], ["TINYINT"] * 6, ["DATE"] * 6, ["DECIMAL(1,1)"] * 6])
def test_parquet_keeps_what_its_type_does_not_hold_as_text(types: list[str]) -> None:
    table = pq.read_table(io.BytesIO(downloads.as_parquet(ROWS, types)))
    assert str(table["n"].to_pylist()[0]) == str(2**62)
    assert table["note"].to_pylist() == ['a,"b"', ""]


def test_csv_and_json_hold_every_value() -> None:
    first = next(csv.DictReader(io.StringIO(downloads.as_csv(ROWS).decode())))
    assert (first["n"], first["words"], first["x"], first["note"]) == (str(2**62), '["a", "b"]', "", 'a,"b"')
    assert json.loads(downloads.as_json(ROWS)) == ROWS


def test_what_the_browser_kept_is_checked() -> None:
    kept = {"saved": [{"name": "n", "view": "v", "query": "q" * 30_000}, {"view": 1, "query": "q"}, "x"] + [{}] * 100}
    assert checked(kept, "saved") == [KeptQuery("n", "v", "q" * 20_000)]
    assert checked(kept, "history") == checked(None, "saved") == checked({"history": 3}, "history") == []


def test_a_name_is_quoted_where_sql_needs_it() -> None:
    assert [identifier(name) for name in ("flights", "carrier-delays", 'a"b', "é", "Table")] == [
        "flights", '"carrier-delays"', '"a""b"', '"é"', '"Table"',
    ]  # fmt: skip
