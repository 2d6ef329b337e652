"""Runs protoc, as ``grpcio-tools`` brings it, in a process of its own with bounded time and memory.

Why a process: the compiler writes its errors to the process's standard error, is not made for hostile input, and a
crash of it must not end the server. Cost: about 0.04 s for each schema that was not compiled lately.

Contract: thread-safe. Nothing is read but the files that are given, and the imports that come with this module and with
the compiler.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from mainstem.errors import MissingDependencyError
from mainstem.registry.formats.protobuf.protobuf_text import file_text, pool_of
from mainstem.registry.formats.schema_format import InvalidSchemaError

MAIN: Final = "registered-schema.proto"
"""The name of the schema that is compiled; one that no import is likely to have."""
_TIMEOUT_S: Final = 20
_MEMORY_BYTES: Final = 2 << 30
_CPU_S: Final = 20
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-/ ]{1,500}")
_PART_MAX: Final = 255
# The compiler alone: what ``grpc_tools.protoc`` adds is for programs that import .proto files, and takes the longest.
_PROGRAM: Final = f"""
import resource, sys, types
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({_CPU_S}, {_CPU_S}))
package = sys.modules["grpc_tools"] = types.ModuleType("grpc_tools")
package.__path__ = [sys.argv[1]]
from grpc_tools import _protoc_compiler
sys.exit(_protoc_compiler.run_main([b"protoc", *map(str.encode, sys.argv[2:])]))
"""
_ERROR: Final = re.compile(r"(?:/.*/files/)?(?P<file>[^: ]+\.proto):(?P<place>\d+:\d+:)? (?P<text>.*)")
_IMPORTS: Final = Path(__file__).parent / "imports"


def compiled(text: str, references: Mapping[str, str]) -> list[Any]:
    """The descriptors (FileDescriptorProto) of a schema, named ``MAIN`` and last, and of all that it imports.

    Each text is .proto source, or a FileDescriptorProto in base64. Raises InvalidSchemaError.
    """
    with tempfile.TemporaryDirectory(prefix="mainstem-protoc-") as directory:
        files = Path(directory, "files")
        files.mkdir()
        paths = {name: _path(files, name) for name in references}
        directories = {parent for path in paths.values() for parent in path.parents}
        for name, path in paths.items():
            if path in directories:
                raise InvalidSchemaError(f"the import name {name!r} is a directory of another import")
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, _source(references[name], files))
        return _compiled(_source(text, files), files)


def _compiled(source: str, files: Path) -> list[Any]:
    """The descriptors of ``source``, whose imports lie in ``files``."""
    result = files.parent / "result"
    _write(files / MAIN, source)
    _run(files, result)
    try:
        return list(descriptor_pb2.FileDescriptorSet.FromString(result.read_bytes()).file)
    except (OSError, DecodeError) as error:
        raise InvalidSchemaError(f"the compiler gave no result: {error}") from error


def _run(files: Path, result: Path) -> None:
    known = files.parent / "known"
    if not known.exists():
        (known / "google").mkdir(parents=True)
        (known / "google" / "type").symlink_to(_directory_of("google.type"))
    tools = _directory_of("grpc_tools")
    includes = (files, known, tools / "_proto", _IMPORTS)
    arguments = [*(f"-I{each}" for each in includes), f"--descriptor_set_out={result}", "--include_imports", MAIN]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(tools), *arguments],
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidSchemaError(f"the compiler took longer than {_TIMEOUT_S} s; make the schema smaller") from error
    if done.returncode != 0:
        raise InvalidSchemaError(_first_error(done.stderr.decode(errors="replace")))


@cache
def _directory_of(package: str) -> Path:
    """Where an installed package lies. Raises MissingDependencyError."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(f"{package} must be installed for Protobuf: pip install 'mainstem[registry]'")
    return Path(next(iter(spec.submodule_search_locations)))


def _first_error(printed: str) -> str:
    """The first error that protoc printed; its line and column are of the schema's text."""
    for line in printed.splitlines():
        match = _ERROR.fullmatch(line)
        if match is not None and not match["text"].startswith("warning:"):
            file = "" if match["file"] == MAIN else f"{match['file']}:"
            return f"{file}{match['place'] or ''} {match['text'][:500]}".strip()
    return "the compiler failed; is the schema too large, or nested too deeply?"


def _source(text: str, files: Path) -> str:
    """.proto source of either form of a schema. What a descriptor imports lies in ``files``."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return text
    file.name = MAIN
    imports = "".join(f'import "{name}";\n' for name in file.dependency if _NAME.fullmatch(name))
    imported = _compiled(f'syntax = "proto3";\n{imports}', files)[:-1] if imports else []
    descriptors = [*imported, file]
    return file_text(descriptors, pool_of(descriptors))


def _write(path: Path, source: str) -> None:
    try:
        path.write_bytes(source.encode())
    except UnicodeEncodeError as error:
        raise InvalidSchemaError("the schema has a character that UTF-8 does not have: half of a pair") from error


def _path(root: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    is_allowed = _NAME.fullmatch(name) and not name.startswith("/") and ".." not in parts and name != MAIN
    if not is_allowed or not parts or max(map(len, parts)) > _PART_MAX:
        raise InvalidSchemaError(f"invalid import name {name[:100]!r}: use a relative path, such as 'shop/order.proto'")
    return root.joinpath(*parts)
