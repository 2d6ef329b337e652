"""A sequence of requests of a seed: a theme, some topics with records, and then whatever the theme does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.protocol.schema import VersionRange
from tests.differential import group_plans as groups
from tests.differential import log_plans as logs
from tests.differential.plan import Plan
from tests.differential.requests import Step
from tests.differential.transaction_plans import transactions

STEPS = 28
_Action = Callable[[Plan], None]
_RECORDS: tuple[_Action, ...] = (logs.produce, logs.produce, logs.fetch, logs.fetch, logs.list_offsets, logs.epochs)
_RECORDS += (logs.idempotent, logs.idempotent)
_ADMIN: tuple[_Action, ...] = (logs.metadata, logs.describe_topics, logs.change_topics, logs.configs, logs.configs)
_ADMIN += (logs.cluster,)

THEMES: Mapping[str, tuple[_Action, ...]] = {
    "records": (*_RECORDS, logs.change_topics, logs.metadata),
    "admin": (*_ADMIN, logs.produce, logs.list_offsets),
    "classic": (groups.classic,) * 5 + (groups.offsets,) * 2,
    "consumer": (groups.consumer,) * 5 + (groups.offsets, groups.offsets),
    "both": (groups.classic, groups.consumer, groups.offsets),
    "offsets": (groups.offsets,) * 4 + (logs.change_topics, logs.produce),
    "share": (groups.share,) * 8 + (groups.offsets,),
    "transactions": (transactions,) * 6 + (groups.offsets, logs.fetch),
    "all": (*_RECORDS, *_ADMIN, groups.classic, groups.consumer, groups.offsets, groups.share, transactions),
}


def theme_of(seed: int) -> str:
    """The theme of a seed: neighbouring seeds go through all of them."""
    names = list(THEMES)
    return names[seed % len(names)]


def sequence(seed: int, versions: Mapping[str, VersionRange]) -> list[Step]:
    """The requests of a seed, for the versions that both brokers list."""
    plan = Plan(seed, versions)
    theme = theme_of(seed)
    for number in range(plan.random.choice([1, 2])):
        logs.create_topic(plan, f"~t{number}", plan.random.choice([1, 2]))
    if theme == "share":
        plan.limits_records = seed // len(THEMES) % 2 == 1
        reset = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": 32, "resource_name": "~s0", "configs": [reset]}
        plan.ask("incremental_alter_configs", {"resources": [resource], "validate_only": False}, exact=True)
    if theme not in ("offsets", "both"):
        for name in list(plan.topics):
            logs.produce(plan, name)
    while len(plan.steps) < STEPS:
        plan.random.choice(THEMES[theme])(plan)
    return plan.steps
