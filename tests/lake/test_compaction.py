from __future__ import annotations

from pathlib import Path
from typing import Any

from mainstem.lake.compaction import TARGET_BYTES, choose
from mainstem.lake.table import LakeFile

NO_ENTRY: Any = None


def files(*sizes: int, schema_id: int = 0) -> list[LakeFile]:
    return [LakeFile(Path(f"{n}"), n, schema_id, 1, size, NO_ENTRY) for n, size in enumerate(sizes)]


def test_eight_small_neighbors_become_one_file_and_seven_do_not() -> None:
    small = files(*[1_000] * 8)
    assert list(choose(small)) == small
    assert not choose(small[:7])
    assert not choose([])


def test_files_of_a_sensible_size_are_left_alone_and_part_what_lies_beside_them() -> None:
    assert not choose(files(*[TARGET_BYTES] * 20))
    assert not choose(files(*[1_000] * 5, TARGET_BYTES, *[1_000] * 5))


def test_the_smallest_files_come_first() -> None:
    chosen = choose(files(*[1 << 20] * 8, *[1_000] * 8))
    assert {file.size_bytes for file in chosen} == {1_000}


def test_a_merge_is_bounded() -> None:
    chosen = choose(files(*[3 << 20] * 40))
    assert len(chosen) >= 8
    assert sum(file.size_bytes for file in chosen) <= TARGET_BYTES + (4 << 20)


def test_files_read_by_an_older_schema_are_not_merged_with_others() -> None:
    assert not choose([*files(*[1_000] * 4, schema_id=0), *files(*[1_000] * 4, schema_id=1)])
