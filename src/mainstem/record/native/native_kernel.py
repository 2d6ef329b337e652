"""Compiling the native kernels: numba with its cache on disk, and the few primitives that its Python lacks.

Cost: the first process on a machine compiles each kernel once (some seconds in all) and writes it into
``__pycache__`` beside the source, or into numba's per-user cache directory when that is not writable; later processes
load it in milliseconds. Where no directory is writable, the disk is full or a cache file is damaged, each process
compiles for itself: slower to start, otherwise the same.

Kernels work on addresses and take each from its array once: an array that is passed to a helper or sliced in a loop has
its references counted there, atomically, which costs more than the loop's own work.

Kernels release the GIL, raise nothing, and keep nothing: they are as safe from several threads as their arguments are.
numba's first look at an array asks for ``numpy.ma``. numpy loads that when it is first asked for, and a second thread
that asks in the last moment of the loading gets a RecursionError. So it is loaded here, with the kernels' module.
numba's cache sees changes of a kernel's own file only: after editing this file, delete the ``*.nbi`` beside it.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import llvmlite.binding
import numba
import numpy as np
import numpy.ma  # loaded before any thread asks for it
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

_F = TypeVar("_F", bound=Callable[..., Any])
Native: TypeAlias = Any
"""A value within a kernel: an array or a machine integer of numba's typing, which mypy does not see."""
# numba's own annotations describe how it types its Python, not what calls to it return.
_njit: Any = numba.njit
_intrinsic: Callable[[Any], Any] = intrinsic
_codegen: Any = cgutils
_config: Any = config
_tuple: Any = types.UniTuple
_LOG = logging.getLogger(__name__)

READ_ONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
BYTES = types.Array(types.uint8, 1, "C")
INT32S = types.Array(types.int32, 1, "C")
INT64S = types.Array(types.int64, 1, "C")
INT64_TABLE = types.Array(types.int64, 2, "C")
_MURMUR2_M, _MURMUR2_SEED = 0x5BD1E995, 0x9747B28C


def int64s(count: int) -> Any:
    """The type of a tuple of so many integers."""
    return _tuple(types.int64, count)


def _compile(*signature: Any, **options: bool) -> Callable[[_F], _F]:
    compiler: Callable[[_F], _F] = _njit(*signature, nogil=True, error_model="numpy", **options)
    return compiler


def kernel(*signature: Any, returns: Any) -> Callable[[_F], _F]:
    """Compile a function for these argument types now, through the cache when there is one."""

    def compile_kernel(function: _F) -> _F:
        try:
            return _compile(returns(*signature), cache=True)(function)
        except Exception as error:  # noqa: BLE001 - what is wrong with the kernel itself is raised again below
            # No directory to write to (RuntimeError), a full disk, a cache file that a power cut left in pieces.
            _LOG.info("the native kernel %s is compiled without a cache: %s", function.__name__, error)
            return _compile(returns(*signature))(function)

    return compile_kernel


def machine_code(function: Callable[..., Any], arguments: int, results: int) -> bytes:
    """The function as machine code that runs at any address: for int64 arguments, with a tuple of int64 as its result.

    It uses no instruction that only some x86-64 processors have, and calls nothing. It is called by numba's convention:
    ``int32 (int64 *results, void *, int64 ...)``. Raises ValueError when this function does not come to such code.
    """
    signature = int64s(results)(*[types.int64] * arguments)
    _config.LOOP_VECTORIZE = _config.SLP_VECTORIZE = 0  # vectors bring constants of their own
    compiled: Any = _compile(signature, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    (overload,) = compiled.overloads.values()
    text = overload.library.get_llvm_str().replace("attributes #0 = {", 'attributes #0 = { "no-jump-tables"="true"')
    module = llvmlite.binding.parse_assembly(text)
    defined = [one for one in module.functions if not one.is_declaration]
    target = llvmlite.binding.Target.from_triple(module.triple)
    plain_machine: Any = target.create_target_machine(cpu="x86-64", features="", opt=3, reloc="pic", codemodel="small")
    parts: Any = llvmlite.binding.ObjectFileRef.from_data(plain_machine.emit_object(module)).sections()
    sections = {(part.name() or b"").decode(): part.data() for part in parts if part.size()}
    code = [data for name, data in sections.items() if name in (".text", ".ltext")]
    if len(defined) != 1 or len(code) != 1 or any(name.startswith((".rel", ".rodata", ".data")) for name in sections):
        raise ValueError(f"{function.__name__} is more than one piece of machine code: {', '.join(sections)}")
    return bytes(code[0])


def helper(function: _F) -> _F:
    """A function that is compiled into the kernels that call it."""
    return _compile(forceinline=True)(function)


def rare(function: _F) -> _F:
    """A function that kernels call where it is seldom needed, so that it does not grow their loops."""
    return _compile()(function)


def _pointer(builder: ir.IRBuilder, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


@_intrinsic
def address_of(typing_context: Any, array: Any) -> Any:
    """The address of the array's first byte; valid as long as the array is."""
    signature = types.int64(array)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return signature, generate


@_intrinsic
def load_byte(typing_context: Any, address: Any) -> Any:
    """The byte there, as a 64-bit integer. Checks nothing."""
    signature = types.int64(types.int64)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        byte = builder.load(_pointer(builder, arguments[0], 8), typ=ir.IntType(8))
        return builder.zext(byte, ir.IntType(64))

    return signature, generate


@_intrinsic
def load_word(typing_context: Any, address: Any) -> Any:
    """The eight bytes there, in the machine's own order and at any alignment. Checks nothing."""
    signature = types.uint64(types.int64)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[0], 64), align=1, typ=ir.IntType(64))

    return signature, generate


@_intrinsic
def store_byte(typing_context: Any, address: Any, byte: Any) -> Any:
    """Write the lowest eight bits of a number. Checks nothing."""
    signature = types.void(types.int64, types.int64)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), _pointer(builder, arguments[0], 8))
        return context.get_dummy_value()

    return signature, generate


@_intrinsic
def store_word(typing_context: Any, address: Any, word: Any) -> Any:
    """Write a 64-bit integer, in the machine's own order and at any alignment. Checks nothing."""
    signature = types.void(types.int64, types.int64)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], _pointer(builder, arguments[0], 64), align=1)
        return context.get_dummy_value()

    return signature, generate


@_intrinsic
def copy_bytes(typing_context: Any, target: Any, source: Any, count: Any) -> Any:
    """Memcpy between two addresses. Checks nothing."""
    signature = types.void(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        target, source = (_pointer(builder, address, 8) for address in arguments[:2])
        _codegen.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return signature, generate


def _crc_instructions() -> tuple[str, str] | None:
    """LLVM's names for this machine's CRC32C instructions (of a word, of a byte); None: use the table.

    A processor that was named to numba by hand is not this machine's: what it can do is not known here.
    """
    if _config.CPU_NAME or _config.CPU_FEATURES:
        return None
    features = llvmlite.binding.get_host_cpu_features()
    if platform.machine() == "x86_64" and features.get("sse4.2"):
        return "llvm.x86.sse42.crc32.64.64", "llvm.x86.sse42.crc32.32.8"
    if platform.machine() in ("aarch64", "arm64") and features.get("crc"):
        return "llvm.aarch64.crc32cx", "llvm.aarch64.crc32cb"
    return None


CRC_INSTRUCTIONS = _crc_instructions()


def _crc_intrinsic(name: str, operand_bits: int) -> Any:
    """A step of CRC32C by the processor's instruction, as ``step(crc: uint64, operand: uint64) -> uint64``."""
    x86 = name.startswith("llvm.x86")
    crc_type = ir.IntType(64 if x86 and operand_bits == 64 else 32)
    operand_type = ir.IntType(operand_bits if x86 or operand_bits == 64 else 32)

    @_intrinsic
    def step(typing_context: Any, crc: Any, operand: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            function_type = ir.FunctionType(crc_type, [crc_type, operand_type])
            function = _codegen.get_or_insert_function(builder.module, function_type, name)
            narrowed = [
                value if value.type == wanted else builder.trunc(value, wanted)
                for value, wanted in zip(arguments, (crc_type, operand_type), strict=True)
            ]
            result = builder.call(function, narrowed)
            return result if crc_type.width == 64 else builder.zext(result, ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return step


def _crc_table() -> Any:
    """Slicing by eight: row k holds the CRC of each byte followed by k zero bytes."""
    table = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table[0, byte] = crc
    for row in range(1, 8):
        before = table[row - 1]
        table[row] = before >> np.uint64(8) ^ table[0][before & np.uint64(0xFF)]
    return table


_TABLE = _crc_table()


@helper
def crc_word_by_table(crc: Native, word: Native) -> Native:
    """A step of CRC32C over eight bytes, for machines without the instruction."""
    mixed = np.uint64(crc) ^ np.uint64(word)
    result: Native = np.uint64(0)
    for row in range(8):
        byte = (mixed >> np.uint64(8 * (7 - row))) & np.uint64(0xFF)
        result ^= _TABLE[row, np.int64(byte)]
    return result


@helper
def crc_byte_by_table(crc: Native, byte: Native) -> Native:
    """A step of CRC32C over one byte, for machines without the instruction."""
    return (np.uint64(crc) >> np.uint64(8)) ^ _TABLE[0, np.int64((np.uint64(crc) ^ np.uint64(byte)) & np.uint64(0xFF))]


if CRC_INSTRUCTIONS is None:
    _crc_word, _crc_byte = crc_word_by_table, crc_byte_by_table
else:
    _crc_word, _crc_byte = _crc_intrinsic(CRC_INSTRUCTIONS[0], 64), _crc_intrinsic(CRC_INSTRUCTIONS[1], 8)


@helper
def crc32c(start: Native, end: Native) -> Native:
    """CRC32C of the bytes from one address to the other."""
    crc: Native = np.uint64(0xFFFFFFFF)
    at = start
    while end - at >= 8:
        crc = _crc_word(crc, load_word(at))
        at += 8
    while at < end:
        crc = _crc_byte(crc, np.uint64(load_byte(at)))
        at += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


@helper
def load_little_endian(at: Native, count: Native) -> Native:
    """A number of up to eight bytes. Checks nothing."""
    number: Native = np.int64(0)
    for i in range(count):
        number |= np.int64(load_byte(at + i)) << np.int64(8 * i)
    return number


@helper
def _mix(word: Native) -> Native:
    word = (word * _MURMUR2_M) & 0xFFFFFFFF
    return ((word ^ word >> 24) * _MURMUR2_M) & 0xFFFFFFFF


@helper
def key_partition(at: Native, size: Native, partition_count: Native) -> Native:
    """The partition of a key by Kafka's murmur2; ``partitioner`` has it in plain Python."""
    digest: Native = np.int64(_MURMUR2_SEED) ^ size
    end = at + size
    while end - at >= 4:
        digest = ((digest * _MURMUR2_M) & 0xFFFFFFFF) ^ _mix(load_little_endian(at, np.int64(4)))
        at += 4
    if at < end:
        digest = ((digest ^ load_little_endian(at, end - at)) * _MURMUR2_M) & 0xFFFFFFFF
    digest ^= digest >> 13
    digest = (digest * _MURMUR2_M) & 0xFFFFFFFF
    return ((digest ^ digest >> 15) & 0x7FFFFFFF) % partition_count
