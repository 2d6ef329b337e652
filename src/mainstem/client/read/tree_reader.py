"""A partition's verifiable log, read from the node that keeps it: checkpoints, tiles, and proofs made of them.

Nothing that the log says is believed before it fits: a proof is verified before it is returned. Only the signature is
left to the caller, who has the key. Safe from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mainstem.client.failures import error_of
from mainstem.client.read.witnesses import Witness, cosigned
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.pool import Pool
from mainstem.errors import (
    OffsetOutOfRangeError,
    ProofError,
    RemoteError,
    UnavailableError,
    UnknownTileError,
    UnknownTopicError,
    UnsupportedFeatureError,
)
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.read_tree import ReadTreeRequest, ReadTreeResponse
from mainstem.record.header import iter_headers
from mainstem.tlog.checkpoints import Checkpoint, unverified_checkpoint
from mainstem.tlog.leaf import Leaf, decode_leaf
from mainstem.tlog.merkle import consistency_proof, inclusion_proof, leaf_hash, verify_consistency, verify_inclusion
from mainstem.tlog.proofs import BatchProof
from mainstem.tlog.tiles import CHECKPOINT, Tile, TileTree

_BATCH_BYTES: Final = 1 << 20


class TreeReader:
    """The verifiable log of one partition."""

    def __init__(self, pool: Pool[WireClient], tp: TopicPartition) -> None:
        self._pool = pool
        self._tp = tp

    def checkpoint(self) -> bytes:
        """The signed checkpoint of all that is durable now.

        Raises ConfigError (the topic is not verifiable, the node has no keys), UnknownTopicError, LogUnavailableError.
        """
        return self._ask(path=CHECKPOINT).data

    def cosigned(self, witnesses: Sequence[Witness], quorum: int | None = None) -> bytes:
        """The checkpoint, cosigned by ``quorum`` of the witnesses, or by all of them.

        Raises UnavailableError (too few of them cosign), ProofError (a witness has seen another history), and as
        ``checkpoint``.
        """
        note = self.checkpoint()
        size = unverified_checkpoint(note).size
        tree = TileTree(size, self.tile)
        distinct = list({witness.key: witness for witness in witnesses}.values())
        needed = len(distinct) if quorum is None else quorum
        return cosigned(note, distinct, needed, lambda old_size: consistency_proof(old_size, size, tree.node))

    def checkpoint_covering(self, offset: int) -> bytes:
        """A signed checkpoint whose tree has every batch before ``offset``.

        Raises UnavailableError (the tree has not come so far), and as ``checkpoint``.
        """
        note = self.checkpoint()
        index = self._ask(offset=offset - 1).leaf_index if offset > 0 else 0
        if index < 0 or (offset > 0 and index >= unverified_checkpoint(note).size):
            raise UnavailableError(f"no checkpoint of {self._tp} covers all before offset {offset} yet: try again")
        return note

    def resource(self, path: str) -> bytes:
        """A resource of tlog-tiles by its path. Raises as ``checkpoint``, and UnknownTileError."""
        return self._ask(path=path).data

    def tile(self, tile: Tile) -> bytes:
        """The bytes of a tile or a bundle."""
        return self.resource(tile.path)

    def prove(
        self,
        offset: int,
        *,
        with_batch: bool = True,
        witnesses: Sequence[Witness] = (),
        quorum: int | None = None,
    ) -> BatchProof:
        """The proof that the batch which holds ``offset`` is in the history; ``encode`` makes a file of it.

        The node's public key is enough to verify it: ``proof.verify([key])``, or ``mainstem prove --verify``. Without
        ``with_batch``, and where the batch was removed or compacted, the proof has only the batch's hash. With
        ``witnesses`` its checkpoint is cosigned, as of ``cosigned``.

        Raises OffsetOutOfRangeError (no batch with this offset was written), ProofError (what the log says does not fit
        together: its history was changed), and as ``checkpoint``.
        """
        note = self.cosigned(witnesses, quorum) if witnesses else self.checkpoint()
        checkpoint = unverified_checkpoint(note)
        found = self._ask(offset=offset)
        if found.leaf_index < 0 or not _holds(decode_leaf(found.data), offset):
            raise OffsetOutOfRangeError(f"{self._tp} has no leaf for offset {offset}: it was not written yet, or never")
        if found.leaf_index >= checkpoint.size:
            raise OffsetOutOfRangeError(f"the checkpoint of {self._tp} does not cover offset {offset} yet: try again")
        hashes = inclusion_proof(found.leaf_index, checkpoint.size, TileTree(checkpoint.size, self.tile).node)
        verify_inclusion(leaf_hash(found.data), found.leaf_index, checkpoint.size, hashes, checkpoint.root)
        batch = self._batch(decode_leaf(found.data)) if with_batch else b""
        return BatchProof(found.leaf_index, hashes, note, found.data, batch)

    def check_continues(self, former: Checkpoint, checkpoint: Checkpoint) -> list[bytes]:
        """The consistency proof that ``checkpoint`` continues ``former``, verified. Raises ProofError."""
        if former.origin != checkpoint.origin:
            raise ProofError(
                f"the checkpoints are of two logs, {former.origin[:300]} and {checkpoint.origin[:300]}: the topic was "
                "created again, or the key has another name"
            )
        hashes: list[bytes] = []
        if former.size < checkpoint.size:
            hashes = consistency_proof(former.size, checkpoint.size, TileTree(checkpoint.size, self.tile).node)
        verify_consistency(former.size, checkpoint.size, hashes, former.root, checkpoint.root)
        return hashes

    def _batch(self, leaf: Leaf) -> bytes:
        """The batch's bytes; empty where it was removed or compacted."""
        try:
            with self._pool.borrow() as client:
                fetched = client.fetch(
                    {self._tp: leaf.base_offset},
                    partition_max_bytes=_BATCH_BYTES,
                    max_bytes=_BATCH_BYTES,
                    read_committed=False,
                )
        except OffsetOutOfRangeError:
            return b""
        part = fetched.get(self._tp)
        if part is None or isinstance(part.error, OffsetOutOfRangeError):
            return b""
        if part.error is not None:
            raise part.error
        for at, header in iter_headers(part.records):
            if header.base_offset == leaf.base_offset and header.last_offset == leaf.last_offset:
                return bytes(part.records[at : at + header.size_bytes])
        return b""

    def _ask(self, *, path: str = "", offset: int = -1) -> ReadTreeResponse:
        request = ReadTreeRequest(topic=self._tp.topic, partition=self._tp.partition, path=path, offset=offset)
        try:
            with self._pool.borrow() as client:
                answer: ReadTreeResponse = client.request(request, self._leader(client), resends=True)
        except RemoteError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                raise UnsupportedFeatureError(f"this log keeps no verifiable history of {self._tp}") from error
            raise
        if answer.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            raise UnknownTileError(answer.error_message or f"{path} is not in the tree of {self._tp}")
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code, f"the tree of {self._tp} cannot be read", answer.error_message)
        return answer

    def _leader(self, client: WireClient) -> int:
        topic = client.metadata([self._tp.topic]).get(self._tp.topic)
        if topic is None:
            raise UnknownTopicError(f"no topic {self._tp.topic!r}: mainstem topics list shows those that are there")
        partitions = topic.partitions
        if self._tp.partition not in partitions:
            raise UnknownTopicError(f"no partition {self._tp}: the topic has {len(partitions)}, numbered from 0")
        return partitions[self._tp.partition].leader_id


def _holds(leaf: Leaf, offset: int) -> bool:
    return leaf.base_offset <= offset <= leaf.last_offset
