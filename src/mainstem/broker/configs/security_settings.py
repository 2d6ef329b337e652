"""The broker's settings for security and quotas: Kafka's names and defaults, as rows of the settings table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mainstem.broker.security.certificates import parse_rules
from mainstem.broker.security.principal import Principal
from mainstem.broker.security.sasl import SASL_MECHANISMS
from mainstem.errors import ConfigError

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Row(NamedTuple):
    """One setting: its name, type, default, parser and documentation."""

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


def _number(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not low <= int(text) <= high:
            raise ValueError(f"must be from {low} to {high}")
        return int(text)

    return parse


def _words_of(*words: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        parts = tuple(part.strip() for part in text.split(",") if part.strip())
        if not parts or any(part not in words for part in parts):
            raise ValueError(f"must be of {', '.join(words)}, with commas between")
        return parts

    return parse


SECURITY_SETTINGS: Final = (
    Row("quota.window.num", "int", "11", _number(1, 1000), "Over how many windows rates of quotas are measured"),
    Row("quota.window.size.seconds", "int", "1", _number(1, 3600), "How long each of these windows is"),
    Row(
        "controller.quota.window.num",
        "int",
        "11",
        _number(1, 1000),
        "Over how many windows changes of partitions are measured",
    ),
    Row("controller.quota.window.size.seconds", "int", "1", _number(1, 3600), "How long each of these windows is"),
    Row(
        "advertised.listeners",
        "string",
        "",
        str,
        "PROTOCOL://HOST:PORT that clients of the listener with that protocol connect to; several with commas between",
    ),
    Row(
        "sasl.enabled.mechanisms",
        "list",
        ",".join(SASL_MECHANISMS),
        _words_of(*SASL_MECHANISMS),
        "By which mechanisms users may prove who they are (Kafka: GSSAPI)",
    ),
    Row(
        "connections.max.reauth.ms",
        "long",
        "0",
        _number(0, _INT64_MAX),
        "How long a user's session lasts before the client has to authenticate again; 0: without an end",
    ),
    Row(
        "connection.failed.authentication.delay.ms",
        "int",
        "100",
        _number(0, _INT32_MAX),
        "How long the answer to a failed authentication takes, so that guessing is slow",
    ),
    Row(
        "sasl.server.max.receive.size",
        "int",
        "65536",
        _number(1, _INT32_MAX),
        "The largest request before the user is proven (Kafka: 524288)",
    ),
    Row(
        "mainstem.authentication.timeout.ms",
        "long",
        "30000",
        _number(1, _INT32_MAX),
        "A connection whose TLS handshake or user is not complete after so long is closed",
    ),
    Row("ssl.keystore.type", "string", "PEM", _one_of("PEM"), "Certificates and keys are PEM files"),
    Row("ssl.keystore.location", "string", "", str, "A PEM file with the node's private key and its certificate chain"),
    Row("ssl.certificate.location", "string", "", str, "The chain alone, where the key is in another file"),
    Row("ssl.key.location", "string", "", str, "The private key, where it is not in the file of the chain"),
    Row(
        "ssl.key.password",
        "password",
        "",
        str,
        "The private key's password, or where it is: ${env:NAME} or ${file:PATH}",
    ),
    Row("ssl.truststore.type", "string", "PEM", _one_of("PEM"), "Certificates of authorities are PEM files"),
    Row(
        "ssl.truststore.location", "string", "", str, "A PEM file with the authorities that clients' certificates need"
    ),
    Row(
        "ssl.client.auth",
        "string",
        "none",
        _one_of("none", "requested", "required"),
        "Whether clients are asked for a certificate; its name is then their principal",
    ),
    Row(
        "ssl.principal.mapping.rules",
        "string",
        "DEFAULT",
        parse_rules,
        "How a certificate's name becomes a principal: RULE:pattern/replacement/[LU] and DEFAULT",
    ),
    Row(
        "ssl.enabled.protocols",
        "list",
        "TLSv1.2,TLSv1.3",
        _words_of("TLSv1.2", "TLSv1.3"),
        "Versions of TLS: from the least to the greatest that is named",
    ),
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
