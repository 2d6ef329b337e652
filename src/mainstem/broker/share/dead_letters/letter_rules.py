"""Which topic takes the dead letters of a group: the group names it, the topic allows it, the node limits its name.

A client that can make a group give up a record causes a write into that topic, whatever its rights are. So the topic
itself must allow it (``errors.deadletterqueue.group.enable``), and its name begins with a prefix. Concurrency: the
event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mainstem.broker.configs.group_configs import GroupConfigs
from mainstem.broker.storage.topics import Topic, Topics
from mainstem.errors import InputError

_PREFIX_CONFIG: Final = "errors.deadletterqueue.topic.name.prefix"
_CREATE_CONFIG: Final = "errors.deadletterqueue.auto.create.topics.enable"
_ALLOWED: Final = "errors.deadletterqueue.group.enable"


class LetterSettings(NamedTuple):
    """The settings of a group: the topic, and whether keys and values are copied."""

    topic: str
    copies: bool


class LetterRules:
    """The rules of one node. ``appliers`` takes changes of its settings while it runs."""

    def __init__(self) -> None:
        self._prefix = ""
        self._creates = False

    @property
    def appliers(self) -> Mapping[str, Callable[[Any], None]]:
        """By the name of a setting, the function that applies its value."""
        return {_PREFIX_CONFIG: self._set_prefix, _CREATE_CONFIG: self._set_creates}

    def _set_prefix(self, prefix: str) -> None:
        self._prefix = prefix

    def _set_creates(self, creates: bool) -> None:
        self._creates = creates

    def target(self, topics: Topics, settings: LetterSettings, source: str) -> Topic:
        """The topic for dead letters of a group; it is created if that is allowed.

        Raises InputError when it must not be used, and what ``Topics.create`` raises.
        """
        name = settings.topic
        if name == source:
            raise InputError(f"topic {name!r} is where the records come from: name another topic for dead letters")
        if name.startswith("__"):
            raise InputError(f"topic {name!r} cannot take dead letters: use a name that does not begin with __")
        if not name.startswith(self._prefix):
            raise InputError(f"topic {name!r} cannot take dead letters: {_PREFIX_CONFIG} is {self._prefix!r}")
        topic = topics.get(name)
        if topic is None:
            if not self._creates:
                raise InputError(f"topic {name!r} for dead letters is missing: create it with {_ALLOWED}=true")
            return topics.create(name, topics.default_partitions, {_ALLOWED: "true"})
        self.require_allowed(topics, topic)
        return topic

    @staticmethod
    def require_allowed(topics: Topics, topic: Topic) -> None:
        """Raise InputError when a topic was deleted, or does not accept dead letters."""
        name, now = topic.name, topics.by_id(topic.topic_id)
        if now is None:
            raise InputError(f"topic {name!r} for dead letters was deleted")
        if now.configs.get(_ALLOWED, "").strip().lower() != "true":
            raise InputError(f"topic {name!r} does not take dead letters: set {_ALLOWED}=true on it")
        if now.is_mirror:
            raise InputError(f"topic {name!r} is a mirror: only its source writes it; name another for dead letters")


def letter_settings(configs: GroupConfigs, group_id: str) -> LetterSettings | None:
    """Return the settings of a group; None without a topic."""
    topic = configs.get(group_id, "errors.deadletterqueue.topic.name")
    if not topic:
        return None
    return LetterSettings(topic, configs.get(group_id, "errors.deadletterqueue.copy.record.enable"))
