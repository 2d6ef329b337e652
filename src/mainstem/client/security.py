"""How a client authenticates, and how it checks the log's identity: Kafka's security options as one value.

The names are librdkafka's, so that one mapping serves everything: ``security.protocol``, ``sasl.mechanism``,
``sasl.username``, ``sasl.password``, ``ssl.ca.location``, ``ssl.certificate.location``, ``ssl.key.location``,
``ssl.key.password``, ``ssl.endpoint.identification.algorithm`` (``https``, or ``none`` to take any host's certificate).
A client that gives no options takes them from the environment: ``MAINSTEM_SECURITY_PROTOCOL``,
``MAINSTEM_SASL_USERNAME``, …. So a process that a command starts has the command's options. Secrets are never printed.
Values; safe from any thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mainstem.errors import ConfigError
from mainstem.protocol.scram import MECHANISMS

if TYPE_CHECKING:
    import ssl

PLAIN: Final = "PLAIN"
OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "security.protocol": "protocol",
        "sasl.mechanism": "mechanism",
        "sasl.mechanisms": "mechanism",
        "sasl.username": "username",
        "sasl.password": "password",
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

    def __post_init__(self) -> None:
        if self.protocol not in _PROTOCOLS:
            raise ConfigError(f"security.protocol={self.protocol!r}: use one of {', '.join(_PROTOCOLS)}")
        if self.identification not in ("https", "none"):
            raise ConfigError(f"ssl.endpoint.identification.algorithm={self.identification!r}: https or none")
        if not self.has_sasl:
            return
        if self.mechanism not in (*MECHANISMS, PLAIN):
            raise ConfigError(f"sasl.mechanism={self.mechanism!r}: use one of {', '.join((*MECHANISMS, PLAIN))}")
        if not self.username or not self.password:
            raise ConfigError(f"{self.protocol} needs sasl.username and sasl.password")

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

    def to_librdkafka(self) -> dict[str, str]:
        """The options that librdkafka is given; nothing for a client that is not secured."""
        if self.protocol == "PLAINTEXT":
            return {}
        names = {field_name: name for name, field_name in OPTIONS.items() if name != "sasl.mechanisms"}
        values = {name: getattr(self, field_name) for field_name, name in names.items()}
        return {name: value for name, value in values.items() if value}

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
