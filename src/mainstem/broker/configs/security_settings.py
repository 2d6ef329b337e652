"""The broker's settings for security and quotas: Kafka's names and defaults, as rows of the settings table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mainstem.broker.security.certificates import parse_rules
from mainstem.broker.security.oauth_keys import parse_jwks_address
from mainstem.broker.security.principal import Principal
from mainstem.broker.security.sasl import PLAIN, SASL_MECHANISMS
from mainstem.errors import ConfigError
from mainstem.log.partition.config_values import (
    BOOLEAN,
    INT32_MAX,
    PASSWORD,
    TEXT,
    ConfigType,
    any_of,
    long,
    one_of,
    whole,
    words_of,
)
from mainstem.protocol.scram import MECHANISMS

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _principals(text: str) -> tuple[Principal, ...]:
    try:
        return tuple(Principal.parse(part) for part in text.split(";") if part.strip())
    except ConfigError as error:
        raise ValueError("must be TYPE:NAME, several with ; between them, e.g. User:alice;User:bob") from error


def _claim(text: str) -> str:
    if not text.strip():
        raise ValueError("must be the name of a claim")
    return text.strip()


SECURITY_SETTINGS: Final[Mapping[tuple[str, ConfigType, str | int], str]] = {
    ("quota.window.num", whole(1, 1000), 11): "Over how many windows rates of quotas are measured",
    ("quota.window.size.seconds", whole(1, 3600), 1): "How long each of these windows is",
    ("controller.quota.window.num", whole(1, 1000), 11): "Over how many windows changes of partitions are measured",
    ("controller.quota.window.size.seconds", whole(1, 3600), 1): "How long each of these windows is",
    ("advertised.listeners", TEXT, ""): "PROTOCOL://HOST:PORT that clients of the listener with that protocol connect "
    "to; several with commas between",
    ("sasl.enabled.mechanisms", any_of(*SASL_MECHANISMS), ",".join((*MECHANISMS, PLAIN))): "By which mechanisms users "
    "may prove who they are; OAUTHBEARER has to be named (Kafka: GSSAPI)",
    ("sasl.oauthbearer.jwks.endpoint.url", ConfigType("string", parse_jwks_address), ""): "The keys of the issuer of "
    "OAUTHBEARER tokens, as a JWKS document: https://…, or file:///… for a file",
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", long(1), 3_600_000): "How often that document is read again; also "
    "when a token names another key",
    ("sasl.oauthbearer.expected.issuer", TEXT, ""): "The issuer that a token must name (iss); empty: any",
    ("sasl.oauthbearer.expected.audience", ConfigType("list", words_of), ""): "The audiences of which a token must "
    "name one (aud), with commas between; empty: any",
    ("sasl.oauthbearer.sub.claim.name", ConfigType("string", _claim), "sub"): "The claim of a token that names its "
    "user",
    ("sasl.oauthbearer.clock.skew.seconds", whole(0), 30): "How far the issuer's clock may be off",
    ("connections.max.reauth.ms", long(0), 0): "How long a user's session lasts before the client has to authenticate "
    "again; 0: without an end",
    ("connection.failed.authentication.delay.ms", whole(0), 100): "How long the answer to a failed authentication "
    "takes, so that guessing is slow",
    (
        "sasl.server.max.receive.size",
        whole(1),
        65_536,
    ): "The largest request before the user is authenticated (Kafka: 524288)",
    ("mainstem.authentication.timeout.ms", long(1, INT32_MAX), 30_000): "A connection whose TLS handshake or user is "
    "not complete after so long is closed",
    ("mainstem.signing.keys", TEXT, ""): "The file of the keys that sign the checkpoints of verifiable topics, made by "
    "mainstem keys create; empty: checkpoints are not served",
    ("ssl.keystore.type", one_of("PEM"), "PEM"): "Certificates and keys are PEM files",
    ("ssl.keystore.location", TEXT, ""): "A PEM file with the node's private key and its certificate chain",
    ("ssl.certificate.location", TEXT, ""): "The chain alone, where the key is in another file",
    ("ssl.key.location", TEXT, ""): "The private key, where it is not in the file of the chain",
    ("ssl.key.password", PASSWORD, ""): "The private key's password, or where it is: ${env:NAME} or ${file:PATH}",
    ("ssl.truststore.type", one_of("PEM"), "PEM"): "Certificates of authorities are PEM files",
    ("ssl.truststore.location", TEXT, ""): "A PEM file with the authorities that clients' certificates need",
    ("ssl.client.auth", one_of("none", "requested", "required"), "none"): "Whether clients are asked for a "
    "certificate; its name is then their principal",
    ("ssl.principal.mapping.rules", ConfigType("string", parse_rules), "DEFAULT"): "How a certificate's name becomes a "
    "principal: RULE:pattern/replacement/[LU] and DEFAULT",
    ("ssl.enabled.protocols", any_of("TLSv1.2", "TLSv1.3"), "TLSv1.2,TLSv1.3"): "Versions of TLS: from the lowest to "
    "the highest that is named",
    (
        "authorizer.class.name",
        one_of("", STANDARD_AUTHORIZER),
        "",
    ): f"{STANDARD_AUTHORIZER} authorizes every request by "
    "ACLs; without it, and without super.users, every request is allowed",
    ("super.users", ConfigType("string", _principals), ""): "Principals that may do everything, separated by ;. "
    "Naming one switches authorization by ACLs on",
    ("allow.everyone.if.no.acl.found", BOOLEAN, "false"): "Whether everyone may use a resource that no ACL names, "
    "while requests are authorized by ACLs",
}
