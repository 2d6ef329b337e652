"""A forked process has a value of its own."""

from __future__ import annotations

import os

from mainstem.spark.per_process import PerProcess


def test_a_fork_begins_with_a_value_of_its_own() -> None:
    held: PerProcess[list[str]] = PerProcess(list)
    held.value.append("the parent's")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(len(held.value)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert (os.read(reading, 1), held.value) == (b"0", ["the parent's"])
    os.close(reading)
    os.close(writing)
