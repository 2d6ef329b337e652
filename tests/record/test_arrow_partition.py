from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.record.arrow_partition import partitions_for
from mainstem.record.partitioner import partition_for
from tests.record.batches import repeatable


@repeatable
@given(keys=st.lists(st.one_of(st.none(), st.binary(max_size=30)), max_size=10), count=st.integers(1, 2**31 - 1))
def test_it_agrees_with_the_plain_partitioner(keys: list[bytes | None], count: int) -> None:
    expected = [-1 if key is None else partition_for(key, count) for key in keys]
    assert partitions_for(pa.array(keys, pa.binary()), count).tolist() == expected


def test_text_is_hashed_as_utf8() -> None:
    assert partitions_for(pa.array(["é"]), 1000).tolist() == [partition_for("é".encode(), 1000)]


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(InputError):
        partitions_for(pa.array([b"k"]), 0)


def test_a_column_of_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="keys are of type int64"):
        partitions_for(pa.array([1]), 3)
