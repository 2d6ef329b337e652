"""UpdateFeatures (57), versions 0–2: features are as this version of Mainstem serves them; nothing can be switched.

An update to the level that a feature has succeeds; any other one fails all of them with INVALID_UPDATE_VERSION.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.api_features import features
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import update_features as messages

_RESULTS_UNTIL: Final = 1


def handle(node: Node, call: Call) -> messages.UpdateFeaturesResponse:
    body: messages.UpdateFeaturesRequest = call.body
    levels = {feature.name: feature.level for feature in features(node.apis)}
    for update in body.feature_updates:
        problem = _problem(levels, update)
        if problem is not None:
            return messages.UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=problem, results=()
            )
    results = [
        messages.UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)
        for update in body.feature_updates
        if call.api_version <= _RESULTS_UNTIL
    ]
    return messages.UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _problem(levels: dict[str, int], update: messages.FeatureUpdateKey) -> str | None:
    level = levels.get(update.feature)
    if level is None:
        return f"there is no feature {update.feature[:300]!r} here"
    if update.max_version_level != level:
        return f"feature {update.feature} is at level {level}, and is not switched at run time"
    return None


API = Api(messages.UpdateFeaturesRequest, handle, on_cluster(Operation.ALTER))
