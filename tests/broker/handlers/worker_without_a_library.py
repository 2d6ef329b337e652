"""A program: the process that reads values by their schemas, where a library that it needs is not installed."""

from __future__ import annotations

from unittest.mock import patch

from mainstem.encodings.content import content_worker
from mainstem.errors import MissingDependencyError

if __name__ == "__main__":
    with patch.object(content_worker, "reader_of", side_effect=MissingDependencyError("pip install 'mainstem[x]'")):
        content_worker.main()
