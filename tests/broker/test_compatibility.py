"""What is served beside what Apache Kafka serves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from scripts import compatibility
from scripts.compatibility import KAFKA_APIS, NOT_SERVED, OTHER_VERSIONS

from mainstem.broker.api_features import features
from mainstem.broker.apis import APIS
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.schema import VersionRange


def test_versions_are_apache_kafkas_where_no_reason_is_given() -> None:
    different = {
        number
        for number, api in APIS.items()
        if number not in KAFKA_APIS or (api.advertised or api.versions) != KAFKA_APIS[number].versions
    }
    assert different == set(OTHER_VERSIONS)


def test_what_is_said_not_to_be_served_is_not() -> None:
    assert set(NOT_SERVED) <= set(KAFKA_APIS)
    assert not set(NOT_SERVED) & set(APIS)


def test_names_are_those_of_the_protocol() -> None:
    for number, kafka in KAFKA_APIS.items():
        if number in ApiKey._value2member_map_:
            assert kafka.name.lower() == ApiKey(number).name.replace("_", "").lower()


def test_a_handler_says_what_it_leaves_out() -> None:
    assert "no followers" in compatibility.gap(APIS[ApiKey.FETCH])
    assert compatibility.gap(APIS[ApiKey.HEARTBEAT]) == ""


def test_features_are_those_whose_apis_are_served() -> None:
    def levels(apis: dict[int, Any]) -> dict[str, int]:
        return {feature.name: feature.level for feature in features(apis)}

    def served(first: int, last: int) -> Any:
        return cast("Any", SimpleNamespace(versions=VersionRange(first, last)))

    assert levels({}) == {}
    assert levels({ApiKey.END_TXN: served(0, 4), ApiKey.SHARE_FETCH: served(1, 2)}) == {"share.version": 1}
    assert levels({ApiKey.END_TXN: served(0, 5)}) == {"transaction.version": 2}
