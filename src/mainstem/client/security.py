"""How a client authenticates, and how it checks the log's identity: Kafka's security options as one value.

The names are librdkafka's, so that one mapping serves everything: ``security.protocol``, ``sasl.mechanism``,
``sasl.username``, ``sasl.password``, ``ssl.ca.location``, ``ssl.certificate.location``, ``ssl.key.location``,
``ssl.key.password``, ``ssl.endpoint.identification.algorithm`` (``https``, or ``none`` to take any host's certificate);
for OAUTHBEARER ``sasl.oauthbearer.token.endpoint.url`` (an identity provider, or a file that has a token),
``sasl.oauthbearer.client.id``, ``.client.secret`` and ``.scope``.
A client that gives no options takes them from the environment: ``MAINSTEM_SECURITY_PROTOCOL``,
``MAINSTEM_SASL_USERNAME``, …. So a process that a command starts has the command's options. Secrets are never printed.
Values; safe from any thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mainstem.errors import ConfigError
from mainstem.protocol.scram import MECHANISMS

if TYPE_CHECKING:
    import ssl

    from mainstem.client.oauth_tokens import OauthToken

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "security.protocol": "protocol",
        "sasl.mechanism": "mechanism",
        "sasl.mechanisms": "mechanism",
        "sasl.username": "username",
        "sasl.password": "password",
        "sasl.oauthbearer.method": "oauth_method",
        "sasl.oauthbearer.token.endpoint.url": "token_url",
        "sasl.oauthbearer.client.id": "client_id",
        "sasl.oauthbearer.client.secret": "client_secret",
        "sasl.oauthbearer.scope": "scope",
        "ssl.ca.location": "ca_location",
        "ssl.certificate.location": "certificate_location",
        "ssl.key.location": "key_location",
        "ssl.key.password": "key_password",
        "ssl.endpoint.identification.algorithm": "identification",
    }
)
"""The options by name, each with the field that it sets."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIX: Final = "MAINSTEM_"
_OAUTH: Final = "sasl.oauthbearer."


@dataclass(frozen=True, slots=True)
class Security:
    """The options of one client. Raises ConfigError for what cannot be."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_location: str = ""
    certificate_location: str = ""
    key_location: str = ""
    key_password: str = field(default="", repr=False)
    identification: str = "https"
    oauth_method: str = ""
    token_url: str = field(default="", repr=False)
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""

    def __post_init__(self) -> None:
        if self.protocol not in _PROTOCOLS:
            raise ConfigError(f"security.protocol={self.protocol!r}: use one of {', '.join(_PROTOCOLS)}")
        if self.identification not in ("https", "none"):
            raise ConfigError(f"ssl.endpoint.identification.algorithm={self.identification!r}: https or none")
        if not self.has_sasl:
            return
        known = (*MECHANISMS, PLAIN, OAUTHBEARER)
        if self.mechanism not in known:
            raise ConfigError(f"sasl.mechanism={self.mechanism!r}: use one of {', '.join(known)}")
        if self.mechanism == OAUTHBEARER:
            self._check_oauth()
        elif not self.username or not self.password:
            raise ConfigError(f"{self.protocol} needs sasl.username and sasl.password")

    def _check_oauth(self) -> None:
        from mainstem.client.oauth_tokens import is_token_address

        if not is_token_address(self.token_url):
            raise ConfigError(
                f"{_OAUTH}token.endpoint.url: OAUTHBEARER needs https://… of an identity provider, file:///… of a "
                "token, or http:// on this machine"
            )
        if self.oauth_method not in ("", "oidc"):
            raise ConfigError(f"{_OAUTH}method={self.oauth_method!r}: oidc, or leave it out")
        if not self.token_url.startswith("file:") and not (self.client_id and self.client_secret):
            raise ConfigError(f"{_OAUTH}token.endpoint.url needs {_OAUTH}client.id and {_OAUTH}client.secret")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Security:
        """The options by Kafka's names. Raises ConfigError for one that is unknown or impossible."""
        values = {}
        for name, value in options.items():
            if name not in OPTIONS:
                raise ConfigError(f"unknown security option {name!r}; there are {', '.join(OPTIONS)}")
            values[OPTIONS[name]] = value
        if "protocol" in values:
            values["protocol"] = values["protocol"].upper()
        return cls(**values)

    @classmethod
    def from_environment(cls) -> Security:
        """The settings in the ``MAINSTEM_…`` variables. Raises ConfigError."""
        found = {name: os.environ.get(variable_of(name), "") for name in OPTIONS}
        return cls.of({name: value for name, value in found.items() if value})

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether a user is proven."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def to_librdkafka(self) -> dict[str, Any]:
        """The options that librdkafka is given; nothing for a client that is not secured. It gets tokens from us."""
        if self.protocol == "PLAINTEXT":
            return {}
        names = {field_name: name for name, field_name in OPTIONS.items() if name != "sasl.mechanisms"}
        values = {name: getattr(self, field_name) for field_name, name in names.items()}
        given = {name: value for name, value in values.items() if value and not name.startswith(_OAUTH)}
        if self.has_sasl and self.mechanism == OAUTHBEARER:
            given["oauth_cb"] = lambda _: tuple(self.token())
        return given

    def token(self) -> OauthToken:
        """A token that holds now, with OAUTHBEARER. Raises AuthenticationError, LogUnavailableError."""
        from mainstem.client.oauth_tokens import token_source

        return token_source(self.token_url, self.client_id, self.client_secret, self.scope).token()

    def tls_context(self) -> ssl.SSLContext:
        """The client's side of TLS. Raises ConfigError that names the file which is wrong."""
        import ssl  # costs 10 ms, which clients without TLS need not pay

        try:
            context = ssl.create_default_context(cafile=self.ca_location or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ssl.ca.location={self.ca_location}: {_reason(error)}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.identification == "https"
        if self.certificate_location:
            try:
                context.load_cert_chain(
                    self.certificate_location, self.key_location or None, password=lambda: self.key_password
                )
            except (OSError, ssl.SSLError, ValueError) as error:
                raise ConfigError(f"ssl.certificate.location={self.certificate_location}: {_reason(error)}") from error
        return context


def variable_of(name: str) -> str:
    """The environment variable of an option."""
    return _PREFIX + name.upper().replace(".", "_")


def _reason(error: Exception) -> str:
    """Why a file cannot be used, in the short words of the TLS library or of the system."""
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return str(reason).lower().replace("_", " ")
