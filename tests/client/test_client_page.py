"""The page about the client: its programs run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from mainstem.testing import EmbeddedBroker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "client.md"


def test_every_program_on_the_page_runs(mainstem_broker: EmbeddedBroker) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    programs = [
        block for block in blocks if "ms.views(" not in block and "ms.requests(" not in block
    ]  # those need a gateway
    assert len(programs) >= 5
    namespace: dict[str, object] = {}
    for program in programs:
        exec(compile(program.replace("localhost:9092", mainstem_broker.bootstrap), str(PAGE), "exec"), namespace)
    namespace["log"].close()  # type: ignore[attr-defined]
