from __future__ import annotations

import random
import subprocess
import sys

import crc32c
import numpy as np
import pytest
from numba import types
from numba.core import caching, config

from mainstem.record.native import native_decode, native_kernel
from mainstem.record.native.native_kernel import READ_ONLY_BYTES, address_of, kernel


def _crc_by_table(data: bytes) -> int:
    crc, whole = 0xFFFFFFFF, len(data) & ~7
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little")
        crc = int(native_kernel.crc_word_by_table(np.uint64(crc), np.uint64(word)))
    for byte in data[whole:]:
        crc = int(native_kernel.crc_byte_by_table(np.uint64(crc), np.uint64(byte)))
    return crc ^ 0xFFFFFFFF


@kernel(READ_ONLY_BYTES, returns=types.int64)
def _crc_by_instruction(data):
    start = address_of(data)
    return native_kernel.crc32c(start, start + data.size)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 1001])
def test_both_ways_to_a_checksum_agree_with_the_library(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert _crc_by_table(data) == crc32c.crc32c(data)
    assert _crc_by_instruction(np.frombuffer(data, np.uint8)) == crc32c.crc32c(data)


def test_a_processor_that_was_named_by_hand_gets_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CPU_NAME", "generic")
    assert native_kernel._crc_instructions() is None


def test_a_kernel_works_where_no_cache_directory_is_writable() -> None:
    names: dict = {}
    exec("def add_one(n):\n    return n + 1", names)  # numba finds no directory for a function without a file
    with pytest.raises(RuntimeError, match="cannot cache"):
        native_kernel._compile(types.int64(types.int64), cache=True)(names["add_one"])
    assert kernel(types.int64, returns=types.int64)(names["add_one"])(1) == 2


@pytest.mark.parametrize("error", [OSError("No space left on device"), EOFError("Ran out of input")])
def test_a_kernel_works_when_the_cache_fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(caching.IndexDataCacheFile, "load", fail)

    def add_two(n):
        return n + 2

    assert kernel(types.int64, returns=types.int64)(add_two)(1) == 3


def test_a_kernel_that_does_not_compile_says_so() -> None:
    def nonsense(n):
        return n.no_such_thing

    with pytest.raises(Exception, match="no_such_thing"):
        kernel(types.int64, returns=types.int64)(nonsense)


def test_a_second_process_loads_the_kernels_from_the_cache() -> None:
    assert native_decode.parse_records.signatures, "this process is the first: its import has filled the cache"
    program = (
        "from mainstem.record.native import native_decode as d\n"
        "kernels = [d.scan_batches, d.parse_records, d.copy_fields]\n"
        "print([sum(kernel.stats.cache_hits.values()) for kernel in kernels])"
    )
    second = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert second.stdout.strip() == "[1, 1, 1]"


def test_the_plain_modules_load_neither_numba_nor_pyarrow() -> None:
    modules = ["constants", "header", "compress", "writer", "reader", "partitioner"]
    imports = "; ".join(f"import mainstem.record.{module}" for module in modules)
    program = f"{imports}; import sys; print({{'numba', 'numpy', 'pyarrow'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


FIRST_CALLS = """
import sys, threading
import numpy as np
from mainstem.record.native.native_compact import hash_key

loaded, called = threading.Event(), threading.Event()

def stop_at_the_end_of_a_load(frame, event, argument):
    if event == "return" and frame.f_code.co_name == "_load_unlocked" and frame.f_locals["spec"].name == "numpy.ma":
        loaded.set()
        called.wait(30)

def call():
    hash_key(np.zeros(1, np.uint8), np.zeros(2, np.uint64), np.zeros(2, np.uint64))

def first():
    sys.setprofile(stop_at_the_end_of_a_load)
    call()
    loaded.set()

def second():
    loaded.wait(30)
    try:
        call()
        print("called")
    finally:
        called.set()

threads = [threading.Thread(target=first), threading.Thread(target=second)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_the_first_calls_of_two_threads_do_not_meet_in_the_loading_of_a_library() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout.strip(), done.stderr) == ("called", "")


@pytest.mark.parametrize(
    "module",
    [
        "encodings.column_numbers",
        "encodings.protobuf.protobuf_nulls",
        "record.arrow_source",
        "schema.arrow_json",
        "spark.sink.task_appender",
        "views.stores.metrics.figures",
    ],
)
def test_numpy_ma_is_there_before_threads_make_arrow_arrays(module: str) -> None:
    """Also without pandas, which loads it."""
    program = f"import sys; sys.modules['pandas'] = None; import mainstem.{module}; print('numpy.ma' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
