"""The process that reads keys and values by their schemas: ``python -m mainstem.encodings.content.content_worker``.

The log process starts it, and ``broker.storage.schema_contents`` says what goes to and fro: lines of JSON, and a batch
after the first. It keeps nothing but schemas. It ends with its standard input, so it never outlives the log process.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any, BinaryIO

from mainstem.encodings.content.content_check import framed_bytes, misfits
from mainstem.encodings.content.value_readers import ValueReader, reader_of
from mainstem.errors import MissingDependencyError


def main() -> None:
    """Serve appends until standard input ends. Ctrl-C goes to the whole group, and the log ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    readers: dict[str, ValueReader] = {}
    while line := source.readline():
        serve(json.loads(line), source, sink, readers)


def serve(head: dict[str, Any], source: BinaryIO, sink: BinaryIO, readers: dict[str, ValueReader]) -> None:
    """Check one append. ``readers`` are those of the schemas that were sent before, by global id."""
    found = framed_bytes(source.read(head["bytes"]), head["parts"], head["limit_bytes"])
    _answer(sink, {"frames": sorted({each.frame.hex() for each in found})})
    schemas = json.loads(source.readline())
    try:
        by_frame = {bytes.fromhex(frame): _reader(schema, readers) for frame, schema in schemas.items()}
    except MissingDependencyError as error:
        _answer(sink, {"missing": str(error)})
        return
    _answer(sink, {"refused": misfits(found, by_frame)})


def _reader(schema: dict[str, Any], readers: dict[str, ValueReader]) -> ValueReader:
    guid = schema["guid"]
    if guid not in readers:
        readers[guid] = reader_of(guid, schema["records"])
    return readers[guid]


def _answer(sink: BinaryIO, answer: dict[str, Any]) -> None:
    sink.write(json.dumps(answer).encode() + b"\n")
    sink.flush()


if __name__ == "__main__":
    main()
