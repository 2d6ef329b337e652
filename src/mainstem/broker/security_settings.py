"""The broker's settings of security and quotas: Kafka's names and defaults, as rows of the settings table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mainstem.broker.principal import Principal
from mainstem.errors import ConfigError

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Row(NamedTuple):
    """One setting: its name, type, default, how its text is read, and what it is."""

    name: str
    type: str
    default: str
    parse: Callable[[str], Any]
    doc: str


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def _principals(text: str) -> tuple[Principal, ...]:
    try:
        return tuple(Principal.parse(part) for part in text.split(";") if part.strip())
    except ConfigError as error:
        raise ValueError("must be TYPE:NAME, several with ; between them, e.g. User:alice;User:bob") from error


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(word or 'nothing' for word in words)}")
        return text

    return parse


SECURITY_SETTINGS: Final = (
    Row(
        "authorizer.class.name",
        "string",
        "",
        _one_of("", STANDARD_AUTHORIZER),
        f"{STANDARD_AUTHORIZER} judges every request by ACLs; without it, and without super.users, all is allowed",
    ),
    Row(
        "super.users",
        "string",
        "",
        _principals,
        "Principals that may do everything, with ; between them; naming one turns the judgement by ACLs on",
    ),
    Row(
        "allow.everyone.if.no.acl.found",
        "boolean",
        "false",
        _boolean,
        "Whether all may use what no ACL is about, once requests are judged by ACLs",
    ),
)
