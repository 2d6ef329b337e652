"""The common part of AlterConfigs and IncrementalAlterConfigs: each resource is changed or refused independently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mainstem.broker.configs.config_entries import ChangeableConfigs
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.slices import in_turns
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode


class Changed(NamedTuple):
    """The result for one resource."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


async def change_configs(
    configs_of: Callable[[int, str], ChangeableConfigs],
    resources: Iterable[Any],
    change: Callable[[ChangeableConfigs, Iterable[Any]], dict[str, str]],
    *,
    validate_only: bool,
) -> list[Changed]:
    """Change the configs of each resource of a request as ``change`` computes; ``validate_only`` changes nothing.

    ``configs_of`` finds the configs of a resource by its type and name; it raises a MainstemError if there are none.
    """
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    results = []
    async for asked in in_turns(resources):
        place = (asked.resource_type, asked.resource_name)
        try:
            if counts[place] > 1:
                raise refusal(ErrorCode.INVALID_REQUEST, "a resource is named twice in the request")
            if len({config.name for config in asked.configs}) < len(asked.configs):
                raise refusal(ErrorCode.INVALID_REQUEST, "a config is named twice in the request")
            configs = configs_of(*place)
            configs.replace(change(configs, asked.configs), validate_only=validate_only)
            results.append(Changed(ErrorCode.NONE, None, *place))
        except MainstemError as error:
            results.append(Changed(error_code(error), str(error), *place))
    return results


def value_of(config: Any) -> str:
    """Return the value that a request gives a config. Raises RemoteError when it gives none."""
    if config.value is None:
        raise refusal(ErrorCode.INVALID_REQUEST, f"config {config.name} has no value")
    return str(config.value)
