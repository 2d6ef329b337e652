"""The generated pages of docs/reference say what the code says."""

from __future__ import annotations

import pytest
from scripts import reference


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == reference.PAGES[name](), f"docs/reference/{name} is out of date: run `make reference`"
