"""The lists of files in CONTRIBUTING ("Adding …") are complete: no other file names what they add."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mainstem"
HANDLERS = SOURCE / "broker" / "handlers"
APIS = sorted(path.stem for path in HANDLERS.glob("[a-z]*.py"))
# The connection serves two cases itself, before a request can be read.
_NAMED_BY_THE_CONNECTION = {"api_versions", "sasl_authenticate"}


@pytest.mark.parametrize("api", APIS)
def test_an_api_takes_a_message_and_a_handler_of_its_name(api: str) -> None:
    assert (SOURCE / "protocol" / "messages" / f"{api}.py").exists()
    assert len(re.findall(r"^API = Api\(", (HANDLERS / f"{api}.py").read_text(), re.MULTILINE)) == 1


def test_no_other_module_names_a_handler() -> None:
    named = {
        name
        for path in SOURCE.rglob("*.py")
        if path.parent != HANDLERS
        for name in re.findall(r"broker\.handlers(?:\.| import )(\w+)", path.read_text())
    }
    assert named == _NAMED_BY_THE_CONNECTION
