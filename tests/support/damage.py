"""Damage in the files of a log that is stopped: what rot, a torn write and a broken producer leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

from crc32c import crc32c

from mainstem.log.files.names import LOG, partition_directory
from mainstem.model import TopicPartition
from mainstem.record.constants import CRC_AT, CRC_COVERS_FROM, HEADER_BYTES
from mainstem.record.header import iter_headers

Damage: TypeAlias = Literal["garbage", "checksum", "torn"]
DAMAGES: Final[tuple[Damage, ...]] = ("garbage", "checksum", "torn")


def plant(data_directory: Path, tp: TopicPartition, offset: int, damage: Damage) -> tuple[int, int]:
    """Damage the batch that holds ``offset``; its first and last offset.

    ``garbage``: its records make no sense, and its checksum is right. ``checksum``: one bit of a record is flipped.
    ``torn``: the second half of the batch is zeros, as after a write that did not reach the disk.
    """
    for path in sorted((data_directory / partition_directory(tp)).glob(f"*{LOG}")):
        data = bytearray(path.read_bytes())
        for at, header in iter_headers(bytes(data)):
            if header.base_offset <= offset <= header.last_offset:
                end = at + header.size_bytes
                if damage == "garbage":
                    data[at + HEADER_BYTES : end] = b"\xff" * (end - at - HEADER_BYTES)
                    crc = crc32c(bytes(data[at + CRC_COVERS_FROM : end]))
                    data[at + CRC_AT : at + CRC_AT + 4] = crc.to_bytes(4, "big")
                elif damage == "checksum":
                    data[end - 3] ^= 1
                else:
                    half = at + HEADER_BYTES + (header.size_bytes - HEADER_BYTES) // 2
                    data[half:end] = bytes(end - half)
                path.write_bytes(data)
                return header.base_offset, header.last_offset
    raise AssertionError(f"no batch of {tp} in {data_directory} holds offset {offset}")
