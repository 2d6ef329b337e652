"""The error codes of the coordinator's refusals: codes that the client knows and can act on."""

from __future__ import annotations

from mainstem.broker.failures import error_code
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode


def coordinator_code(error: MainstemError, *, knows_fenced: bool = True) -> ErrorCode:
    """The code for a coordinator's client.

    A client that does not know PRODUCER_FENCED (KIP-588) gets INVALID_PRODUCER_EPOCH. A storage error becomes
    COORDINATOR_NOT_AVAILABLE: clients then look for the coordinator again, but a storage error would end the producer.
    """
    code = error_code(error)
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
