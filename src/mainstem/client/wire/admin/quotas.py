"""Quotas of users and clients by the Kafka protocol; functions over a ``WireClient``, whose contract they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from mainstem.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

QuotaEntity: TypeAlias = frozenset[tuple[str, str | None]]
"""Pairs of type (``user``, ``client-id``) and name; the name None is the default of all that have no quota."""
_ANY: Final = 2
_KINDS: Final = ("user", "client-id")


def quotas(client: WireClient) -> dict[QuotaEntity, dict[str, float]]:
    """The limits of each entity, by their key such as ``producer_byte_rate``. Raises AuthorizationError."""
    found: dict[QuotaEntity, dict[str, float]] = {}
    for kind in _KINDS:
        components = [ComponentData(entity_type=kind, match_type=_ANY, match=None)]
        answer = client.request(DescribeClientQuotasRequest(components=components, strict=False))
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code, "the quotas cannot be listed", answer.error_message)
        for entry in answer.entries or ():
            entity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
            found[entity] = {value.key: value.value for value in entry.values}
    return found


def alter_quotas(
    client: WireClient, entity: QuotaEntity, limits: Mapping[str, float], removed: Iterable[str] = ()
) -> None:
    """Set limits of one entity, and remove others by key. Raises AuthorizationError, RemoteError."""
    ops = [OpData(key=key, value=value, remove=False) for key, value in limits.items()]
    ops += [OpData(key=key, value=0.0, remove=True) for key in removed]
    parts = [RequestEntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str)]
    request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=parts, ops=ops)], validate_only=False)
    for entry in client.request(request).entries:
        if entry.error_code != ErrorCode.NONE:
            raise error_of(entry.error_code, "the quota cannot be changed", entry.error_message)
