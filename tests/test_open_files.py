from __future__ import annotations

import resource

import pytest

from mainstem.open_files import connections_limit, segment_files_limit


@pytest.mark.parametrize(
    ("limit", "segments", "connections"), [(64, 16, 32), (256, 64, 128), (1024, 256, 512), (1 << 20, 512, 1_047_488)]
)
def test_segments_and_connections_share_what_a_process_may_open(
    limit: int, segments: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert segment_files_limit() == segments
    assert connections_limit() == connections
    assert segments + connections < limit
