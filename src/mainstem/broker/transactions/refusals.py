"""What a refusal of the coordinator is called in an answer: by what its client knows, and as what it can act on."""

from __future__ import annotations

from mainstem.broker.failures import error_code
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode


def coordinator_code(error: MainstemError, *, knows_fenced: bool = True) -> ErrorCode:
    """The code for a coordinator's client.

    Who does not know PRODUCER_FENCED (KIP-588) is told INVALID_PRODUCER_EPOCH. A disk that failed is a coordinator that
    is not available: clients look for it again, where a storage error would be the end of the producer.
    """
    code = error_code(error)
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
