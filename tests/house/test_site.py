"""The documentation site builds, its links lead somewhere, and it has every page and every public name."""

from __future__ import annotations

import re
from pathlib import Path

from scripts import screenshots, site

import mainstem

_NAVIGATION = (site.ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_the_navigation_has_every_page() -> None:
    pages = {path.relative_to(site.ROOT).as_posix() for path in (site.ROOT / "docs").rglob("*.md")}
    named = set(re.findall(r"(\S+\.md)$", _NAVIGATION, re.MULTILINE))
    assert {site.place_of(page) for page in pages} - named == set()


def test_the_python_page_has_every_public_name() -> None:
    page = (site.ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    named = {each.rpartition(".")[2] for each in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    assert set(mainstem.__all__) - named - {"__version__"} == set()


def test_the_site_builds_without_a_warning_and_loads_nothing_from_another_host() -> None:
    kept = site.ROOT / ".cache"
    kept.mkdir(exist_ok=True)
    before = kept.stat().st_ino
    site.main()
    assert kept.stat().st_ino == before, "other tests have their programs and jars there"
    page = (site.SITE / "concepts" / "positions" / "index.html").read_text(encoding="utf-8")
    assert "reading your own writes" in page
    addresses = re.findall(r"\]\((\S+)\)", (site.SITE / "llms.txt").read_text(encoding="utf-8"))
    assert len(addresses) > 100
    assert [each for each in addresses if not (site.SITE / each / "index.html").is_file()] == []


def test_the_console_s_pictures_are_those_that_the_command_takes() -> None:
    others = {"shop"}  # the example's own test draws that page
    assert {path.stem for path in screenshots.IMAGES.glob("*.png")} - others == set(screenshots.PICTURES)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<a href="#x">', encoding="utf-8")
    text = '<a href="there.html#x"><a href="/gone/"><a href="https://example.org"><script src="//example.org/a.js">'
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    assert sorted(site.broken_links(tmp_path)) == ["page.html leads to /gone/", "page.html loads //example.org/a.js"]
