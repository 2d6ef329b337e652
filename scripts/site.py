"""Builds the documentation site: ``make docs`` puts it in ``build/site``; its pages need no network.

The pages of ``docs/`` and those of the root (README, ARCHITECTURE, CONTRIBUTING, CHANGELOG) are copied into
``build/docs``, with their links rewritten to the places there; files of the repository that a page links to, such as
examples, are copied beside them. Zensical builds the site from there by ``mkdocs.yml``, and refuses links that lead
nowhere. Mermaid, which draws the diagrams, comes with NiceGUI and is copied as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_STAGED: Final = ROOT / "build" / "docs"
SITE: Final = ROOT / "build" / "site"
_CONFIG: Final = ROOT / "build" / "mkdocs.yml"
"""The builder removes the folder ``.cache`` beside its file. That of the repository has what the tests fetch."""
_FILES: Final = "files"
_BUILD_TIMEOUT_S: Final = 300
HOMES: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "contributing/architecture.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "about/changelog.md",
    "SECURITY.md": "about/security-policy.md",
    "tests/conformance/GAPS.md": "about/gaps.md",
    "docs/decisions/README.md": "decisions/index.md",
    "docs/decisions": "decisions/index.md",
    "docs/internals": "internals/broker.md",
}
"""Where pages from outside of docs/ go, and what the link to a folder leads to."""
_LINK: Final = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?(\))")
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_DIAGRAMS: Final = """import {mermaid} from "./mermaid/index.js";
const isDark = document.body.dataset.mdColorScheme === "slate" ||
  (!document.body.dataset.mdColorScheme && matchMedia("(prefers-color-scheme: dark)").matches);
mermaid.initialize({startOnLoad: false, theme: isDark ? "dark" : "default"});
for (const block of document.querySelectorAll("pre.diagram")) {
  const drawing = document.createElement("div");
  drawing.className = "diagram";
  drawing.textContent = block.textContent;
  block.replaceWith(drawing);
}
mermaid.run({querySelector: "div.diagram"});
"""
"""The theme would load Mermaid from another host for the class `mermaid`; so diagrams have a class of their own."""
_REFERENCE: Final = re.compile(r"<(a|link|script|img)\b[^>]*?(?:href|src)=\"?([^\"\s>]+)")


def place_of(source: str) -> str | None:
    """Return the place of a page of the repository within the site's pages; None if it is not one of them."""
    if source in HOMES:
        return HOMES[source]
    return source.removeprefix("docs/") if source.startswith("docs/") and source.endswith(".md") else None


def stage() -> None:
    """Copy the pages and what they link to into ``build/docs``."""
    shutil.rmtree(_STAGED, ignore_errors=True)
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in HOMES if name.endswith(".md"))]
    for page in sorted({each for each in pages if each.is_file()}):
        source = page.relative_to(ROOT).as_posix()
        place = place_of(source)
        assert place is not None, f"{source} is a page"
        _write(place, _with_links(page.read_text(encoding="utf-8"), Path(source), Path(place)))
    shutil.copytree(ROOT / "docs" / "images", _STAGED / "images")
    shutil.copyfile(ROOT / "docs" / "llms.txt", _STAGED / "llms.txt")
    scripts = _STAGED / "javascripts"
    found = find_spec("nicegui.elements.mermaid")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("make docs: nicegui is missing, which has Mermaid; run make setup")
    shutil.copytree(Path(next(iter(found.submodule_search_locations))) / "dist", scripts / "mermaid")
    (scripts / "diagrams.js").write_text(_DIAGRAMS, encoding="utf-8")


def _write(place: str, text: str) -> None:
    target = _STAGED / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def _with_links(text: str, source: Path, place: Path) -> str:
    """The page with its links as they are from its place in the site; code is left alone."""

    def rewritten(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        path = os.path.normpath(source.parent / target)
        return before + os.path.relpath(_staged(path), place.parent) + (anchor or "") + after

    pieces = _FENCE.split(text)
    blocks = [*_FENCE.findall(text), ""]
    return "".join(_LINK.sub(rewritten, piece) + block for piece, block in zip(pieces, blocks, strict=True))


def _staged(path: str) -> str:
    """The place in the site of what a link leads to; a file that is not a page is copied."""
    place = place_of(path)
    if place is not None:
        return place
    if path.startswith("docs/images/"):
        return path.removeprefix("docs/")
    found = ROOT / path
    if not found.is_file():
        raise SystemExit(f"make docs: a page links to {path}, which is not a file")
    copy = f"{_FILES}/{path}"
    (_STAGED / copy).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(found, _STAGED / copy)
    return copy


def broken_links(site: Path = SITE) -> Iterator[str]:
    """Name what the built pages refer to and is not there, and what a browser would load from another host."""
    for page in site.rglob("*.html"):
        for tag, address in _REFERENCE.findall(page.read_text(encoding="utf-8")):
            if address.startswith(("http:", "https:", "//")):
                if tag in ("script", "img"):
                    yield f"{page.relative_to(site)} loads {address}"
                continue
            path = re.split("[?#]", address)[0]
            if not path or path.startswith(("mailto:", "data:")):
                continue
            target = site / path.lstrip("/") if path.startswith("/") else page.parent / path
            if not target.exists():
                yield f"{page.relative_to(site)} leads to {address}"


def main() -> None:
    """Stage the pages and build the site; a warning of the builder ends it."""
    stage()
    _CONFIG.write_text((ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace(" build/", " "), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--config-file", str(_CONFIG), "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, timeout=_BUILD_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    if found := sorted(set(broken_links())):
        raise SystemExit("make docs: links that lead nowhere, or to another host:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
