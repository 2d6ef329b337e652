"""The verifiable logs of topics over HTTP, as C2SP's tlog-tiles wants them: any of its clients can check them.

The prefix of a partition's log is ``/topics/{topic}/tlog/{partition}``. Tiles and bundles never change and may be kept;
a checkpoint may not. The log process answers: the gateway has no signing key, and hands on bytes.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import READ_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import Answers, Success
from mainstem.gateway.http.queries import NoQuery
from mainstem.gateway.topics.topic_routes import check_name
from mainstem.record.constants import INT32_MAX, INT64_MAX
from mainstem.tlog.tiles import CHECKPOINT, parse_tile

_THREADS_MAX: Final = 4
_NOT_KEPT: Final = {"Cache-Control": "no-cache"}
_KEPT: Final = {"Cache-Control": "max-age=31536000, immutable"}
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
Partition = Annotated[int, Path(ge=0, le=INT32_MAX)]


def tree_router(log: Log) -> Routes:
    """``/topics/{topic}/tlog/{partition}/…``."""
    router, workers = Routes("topics"), Workers(_THREADS_MAX)

    @router.declare(
        "GET",
        "/topics/{topic}/tlog/{partition}/checkpoint",
        "The signed checkpoint of a verifiable topic's partition",
        READ_TOPIC,
        Answers((Success(200, "The checkpoint, a signed note", "Text", ("Cache-Control",), "text/plain"),)),
    )
    async def checkpoint(topic: str, partition: Partition, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        data = await workers.run(log.tree(topic, partition).resource, CHECKPOINT)
        return Response(data, headers=_NOT_KEPT, media_type=_TEXT)

    @router.declare(
        "GET",
        "/topics/{topic}/tlog/{partition}/tile/{tile:path}",
        "A tile of hashes, or an entry bundle, by its path in tlog-tiles",
        READ_TOPIC,
        Answers((Success(200, "The tile", "Bytes", ("Cache-Control",), _BYTES),)),
    )
    async def tile(topic: str, partition: Partition, tile: str, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        path = parse_tile(f"tile/{tile}").path
        data = await workers.run(log.tree(topic, partition).resource, path)
        return Response(data, headers=_KEPT, media_type=_BYTES)

    @router.declare(
        "GET",
        "/topics/{topic}/tlog/{partition}/proof/{offset}",
        "The proof that a record's batch is in the history, as a file",
        READ_TOPIC,
        Answers((Success(200, "The proof, with the batch's bytes if they are there", "Text", (), "text/plain"),)),
    )
    async def proof(
        topic: str,
        partition: Partition,
        offset: Annotated[int, Path(ge=0, le=INT64_MAX)],
        _: Annotated[NoQuery, Query()],
    ) -> Response:
        check_name(topic)
        made = await workers.run(log.prove, topic, partition, offset)
        return Response(made.encode(), headers=_NOT_KEPT, media_type=_TEXT)

    return router
