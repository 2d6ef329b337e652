"""The ApiVersions API (18): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+", default="")
    client_software_version: str = string("3+", default="")


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


class FinalizedFeatureKey(Struct):
    name: str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


class ApiVersionsResponse(Message, key=18, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: Sequence[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", default=0)
    supported_features: Sequence[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", default=(), tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: Sequence[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", default=(), tag=2)
    zk_migration_ready: bool = boolean("3+", default=False, tag=3)
