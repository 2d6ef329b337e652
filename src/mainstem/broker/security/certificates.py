"""Certificates: the names in them as principals, and TLS contexts from PEM files.

The principal's name is the certificate's distinguished name as Java writes it (RFC 2253, the most specific part first:
``CN=alice,OU=log,O=Example``). The first rule of ``ssl.principal.mapping.rules`` that matches may change it. Callers
must pass certificates that the TLS library has verified. Pure functions, except that some read the files.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mainstem.broker.security.principal import ANONYMOUS, USER, Principal
from mainstem.errors import AuthenticationError, ConfigError

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig

_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_TO_ESCAPE: Final = re.compile(r'([,+"\\<>;])')
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class MappingRule(NamedTuple):
    """One rule of ``ssl.principal.mapping.rules``; without a pattern it is ``DEFAULT``: the whole name."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """Parse Kafka's rules: ``RULE:pattern/replacement/[LU]`` and ``DEFAULT``, comma-separated. Raises ValueError."""
    rules, at = [], 0
    while at < len(text.rstrip()):
        found = _RULE.match(text, at)
        if found is None:
            raise ValueError("must be rules like RULE:^CN=(.*?),.*$/$1/L, and DEFAULT, with commas between them")
        at = found.end()
        try:
            pattern = None if found[1] else re.compile(found[2])
        except re.error as error:
            raise ValueError(f"must have patterns that can be read: {error}") from error
        rules.append(MappingRule(pattern, re.sub(r"\$(\d)", r"\\\1", found[3] or ""), found[4] or ""))
    return tuple(rules)


def principal_of(certificate: Mapping[str, Any] | None, rules: Sequence[MappingRule]) -> Principal:
    """Return the principal of a verified certificate (``getpeercert()``); ``ANONYMOUS`` if there is none.

    Raises AuthenticationError when no rule matches.
    """
    if not certificate:
        return ANONYMOUS
    name = distinguished_name(certificate["subject"])
    for rule in rules:
        if rule.pattern is None:
            return Principal(USER, name)
        if rule.pattern.fullmatch(name):
            made = rule.pattern.sub(rule.replacement, name, count=1)
            made = {"L": made.lower(), "U": made.upper()}.get(rule.case, made)
            if made:
                return Principal(USER, made)
    raise AuthenticationError(f"no rule of ssl.principal.mapping.rules fits the certificate of {name!r}")


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Write a subject, as Python's ``ssl`` gives it, in RFC 2253's text form."""
    parts = ["+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part) for part in subject]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    text = _TO_ESCAPE.sub(r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") else text


class CertificateFiles(NamedTuple):
    """The files that a TLS context is made of; ``trusted`` verifies clients."""

    certificate: str
    key: str
    trusted: str

    def stamps(self) -> tuple[object, ...]:
        """Return a value that changes when one of the files changes. A missing file has no stamp."""
        return tuple(_stamp(path) for path in self if path)


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)  # noqa: PTH116 - a path of the settings, and None is an answer
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def certificate_files(config: BrokerConfig) -> CertificateFiles:
    """Return the files that the settings name. Raises ConfigError when there is no certificate."""
    certificate = config.get("ssl.certificate.location") or config.get("ssl.keystore.location")
    if not certificate:
        raise ConfigError(
            "TLS needs a certificate: set ssl.keystore.location to a PEM file that has the key and the chain, or "
            "ssl.certificate.location and ssl.key.location"
        )
    key = config.get("ssl.key.location") or certificate
    return CertificateFiles(certificate, key, config.get("ssl.truststore.location"))


def server_context(config: BrokerConfig) -> ssl.SSLContext:
    """Create the server's TLS context from the settings. Raises ConfigError that names the wrong file."""
    files = certificate_files(config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in config.get("ssl.enabled.protocols")]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A resumed session would skip the certificate check, so sessions are never resumed: the files may have changed.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    password = secret_of(config.get("ssl.key.password"))
    try:
        context.load_cert_chain(files.certificate, files.key, password=lambda: password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate {files.certificate} cannot be used: {_reason(error)}") from error
    wanted = config.get("ssl.client.auth")
    if wanted == "none":
        return context
    if not files.trusted:
        raise ConfigError(f"ssl.client.auth={wanted} needs ssl.truststore.location: the authorities that are trusted")
    context.verify_mode = ssl.CERT_REQUIRED if wanted == "required" else ssl.CERT_OPTIONAL
    try:
        context.load_verify_locations(files.trusted)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the truststore {files.trusted} cannot be used: {_reason(error)}") from error
    return context


def secret_of(text: str) -> str:
    """Resolve a secret setting: its text, or the value that ``${env:NAME}`` or ``${file:PATH}`` names.

    Raises ConfigError.
    """
    found = re.fullmatch(r"\$\{(env|file):(.+)\}", text)
    if found is None:
        return text
    if found[1] == "env":
        if found[2] not in os.environ:
            raise ConfigError(f"the environment has no {found[2]}")
        return os.environ[found[2]]
    try:
        with open(found[2], encoding="utf-8") as file:  # noqa: PTH123 - a path of the settings
            return file.readline().rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"the secret in {found[2]} cannot be read: {error.strerror}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        text = str(error.reason or error).lower().replace("_", " ")
        return "it is not a PEM file" if "pem lib" in text or "no start line" in text else text
    return getattr(error, "strerror", None) or str(error)


class Tls:
    """The TLS context of a running node, rebuilt when its files change. Concurrency: the event loop only."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError."""
        self._config = config
        self._stamps = certificate_files(config).stamps()
        self._current = server_context(config)
        self.context = server_context(config)
        # Every handshake calls this, whether the client names a server or not.
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current

    def renew(self) -> bool:
        """Load changed files; return whether any had changed. Raises ConfigError: then the old ones stay in use."""
        stamps = certificate_files(self._config).stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self._current = server_context(self._config)
        return True
