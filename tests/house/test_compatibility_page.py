"""docs/reference/compatibility.md says what the table of APIs and the handlers say."""

from __future__ import annotations

from pathlib import Path

from scripts import compatibility


def test_the_compatibility_page_is_what_the_code_says() -> None:
    written = (Path(__file__).resolve().parents[2] / compatibility.PAGE).read_text(encoding="utf-8")
    assert written == compatibility.page(), f"{compatibility.PAGE} is out of date: run `make compatibility`"
