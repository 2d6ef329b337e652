"""Names and numbers of the APIs, and where the messages of each are declared. Modules load when first asked for."""

from __future__ import annotations

import enum
import importlib
from functools import cache

from mainstem.errors import FrameError
from mainstem.protocol.schema import Message


class ApiKey(enum.IntEnum):
    """Kafka's number for each API that its brokers list to clients, served here or not; and Mainstem's own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    LIST_KEY_OFFSETS = 32001
    MIRROR_APPEND = 32002
    READ_TREE = 32003


OWN_APIS = frozenset({ApiKey.LIST_KEY_OFFSETS, ApiKey.MIRROR_APPEND, ApiKey.READ_TREE})
"""APIs that Kafka does not have, with numbers that Kafka is unlikely to reach. Only Mainstem's clients see them."""
OWN_CLIENT = "mainstem"
"""The software name by which such clients ask for the versions."""


@cache
def entity(api_key: int, version: int, request: bool) -> type[Message]:
    """The class of an API's requests or responses, e.g. ``FetchRequest``: the same one for all versions.

    Raises FrameError for an API or a version that is not declared.
    """
    try:
        name = ApiKey(api_key).name
    except ValueError:
        raise FrameError(f"API key {api_key} is unknown") from None
    try:
        module = importlib.import_module(f"mainstem.protocol.messages.{name.lower()}")
    except ModuleNotFoundError:
        raise FrameError(f"API {name} ({api_key}) has no messages here") from None
    camel = "".join(part.capitalize() for part in name.split("_"))
    message: type[Message] = getattr(module, camel + ("Request" if request else "Response"))
    if version not in message.__versions__:
        raise FrameError(f"{camel} has no version {version}")
    return message
