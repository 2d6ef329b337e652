"""Archives a topic in a lake, to be killed: ``python -m tests.torture.lake_process BOOTSTRAP TOPIC DIRECTORY``.

It commits each record batch by itself, merges files, and prints after each commit how many offsets the lake has.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.pipelines.kinds import Lake
from mainstem.schema.infer import schema_of
from mainstem.views.feed.feed import Feed, end_of
from mainstem.views.stores.lake.lake import LakeLimits, LakeStore
from mainstem.views.stores.store import StoreDefinition, no_dead_letters
from tests.broker.harness import child_environment
from tests.torture.program import SCHEMA


@contextmanager
def archiving(bootstrap: str, topic: str, directory: Path, commits: int) -> Iterator[None]:
    """Archive in a process that has made ``commits`` commits and goes on; at the end of the block it is killed."""
    argv = [sys.executable, "-m", "tests.torture.lake_process", bootstrap, topic, str(directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=child_environment()) as process:
        try:
            assert process.stdout is not None
            for _ in range(commits):
                assert process.stdout.readline(), "the lake's process ended before its commit"
            yield
        finally:
            process.kill()


def main(bootstrap: str, topic: str, directory: str) -> None:
    definition = StoreDefinition("lake", Lake(), schema_of(SCHEMA))
    store = LakeStore(Path(directory), definition, LakeLimits(commit_s=0.0))
    with WireClient(bootstrap) as client:
        feed = Feed(client, topic, store.bookmark, end_of(client, topic), columns=definition.reads, fetch_bytes=1)
        while not feed.is_at_end:
            if (step := feed.step(max_wait_ms=500)) is not None:
                store.apply(step.arrow_batch, step.bookmark, no_dead_letters)
                store.commit()
                store.settle()
                print(sum(store.position.values()), flush=True)  # noqa: T201 - the test waits for it


if __name__ == "__main__":
    main(*sys.argv[1:])
