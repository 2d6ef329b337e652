"""The security of connections: the TLS of the listeners, the users, and a new connection's session.

Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from mainstem.addresses import is_wildcard
from mainstem.broker.security.certificates import Tls, principal_of
from mainstem.broker.security.credentials import Credentials
from mainstem.broker.security.listeners import Listener, Protocol
from mainstem.broker.security.oauth import OAUTHBEARER, OauthSettings, OauthTokens
from mainstem.broker.security.oauth_keys import OauthKeys
from mainstem.broker.security.sasl import Authentication, SaslSettings
from mainstem.broker.security.session import Session
from mainstem.errors import ConfigError
from mainstem.extras import require

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.clock import Clock
    from mainstem.log.node.metadata import Metadata

_LOG: Final = logging.getLogger("mainstem.broker")
_HASHING_THREADS: Final = 2
_TOKEN_THREADS: Final = 2


class NodeSecurity:
    """The security of one node. Raises ConfigError when a listener needs a certificate that cannot be used."""

    def __init__(self, config: BrokerConfig, metadata: Metadata, clock: Clock) -> None:
        self.credentials = Credentials(metadata)
        self.timeout_s = int(config.get("mainstem.authentication.timeout.ms")) / 1000
        self._clock = clock
        self._hashing = ThreadPoolExecutor(_HASHING_THREADS, thread_name_prefix="passwords")
        self._token_threads = ThreadPoolExecutor(_TOKEN_THREADS, thread_name_prefix="tokens")
        self._rules = config.get("ssl.principal.mapping.rules")
        mechanisms = config.get("sasl.enabled.mechanisms")
        self._sasl = SaslSettings(
            mechanisms=mechanisms,
            session_ms_max=config.get("connections.max.reauth.ms"),
            failure_delay_s=config.get("connection.failed.authentication.delay.ms") / 1000,
            frame_bytes_max=min(config.get("sasl.server.max.receive.size"), config.get("socket.request.max.bytes")),
            timeout_s=self.timeout_s,
            hashing=self._hashing,
            tokens=oauth_tokens(config, mechanisms),
            token_threads=self._token_threads,
        )
        self._tls = Tls(config) if any(each.protocol.has_tls for each in config.all_listeners) else None
        needs_users = any(each.protocol.has_sasl for each in config.all_listeners) and self._sasl.tokens is None
        if needs_users and not self.credentials.users():
            _LOG.warning("there are no users yet: make one with mainstem users add NAME --data %s", config.data_dir)

    def context(self, listener: Listener) -> ssl.SSLContext | None:
        """Return the TLS context of a listener; None for a listener without TLS."""
        return self._tls.context if self._tls is not None and listener.protocol.has_tls else None

    def session(self, listener: Listener, transport: asyncio.Transport) -> Session:
        """Create the session of a new connection. Raises AuthenticationError for a certificate that no rule matches."""
        advertised = listener.advertised or (listener.host, listener.port)
        if listener.advertised is None and is_wildcard(listener.host):
            # The client has reached this machine by this address, so it can use it again.
            advertised = transport.get_extra_info("sockname")[0], listener.port
        if listener.protocol.has_sasl:
            authentication = Authentication(self._sasl, self.credentials, self._clock)
            return Session(advertised, authentication=authentication)
        if listener.protocol is Protocol.SSL:
            return Session(advertised, principal_of(transport.get_extra_info("peercert"), self._rules))
        return Session(advertised)

    def close(self) -> None:
        """End the threads; passwords and tokens that are being checked are dropped."""
        self._hashing.shutdown(wait=False, cancel_futures=True)
        self._token_threads.shutdown(wait=False, cancel_futures=True)

    def renew_certificates(self) -> None:
        """Load certificates whose files have changed, for new connections; an error is logged once per change."""
        try:
            if self._tls is not None and self._tls.renew():
                _LOG.info("the certificates were read again")
        except ConfigError as error:
            _LOG.error("the certificates in use stay: %s", error)


def oauth_tokens(config: BrokerConfig, mechanisms: Sequence[str]) -> OauthTokens | None:
    """The checker of tokens; None where the mechanism is not enabled. Raises ConfigError, MissingDependencyError."""
    if OAUTHBEARER not in mechanisms:
        return None
    address = config.get("sasl.oauthbearer.jwks.endpoint.url")
    if not address:
        raise ConfigError("OAUTHBEARER needs the issuer's keys: set sasl.oauthbearer.jwks.endpoint.url")
    require("oauth")
    settings = OauthSettings(
        issuer=config.get("sasl.oauthbearer.expected.issuer"),
        audience=tuple(config.get("sasl.oauthbearer.expected.audience")),
        user_claim=config.get("sasl.oauthbearer.sub.claim.name"),
        clock_skew_s=int(config.get("sasl.oauthbearer.clock.skew.seconds")),
    )
    refresh_s = int(config.get("sasl.oauthbearer.jwks.endpoint.refresh.ms")) / 1000
    return OauthTokens(settings, OauthKeys(address, refresh_s).key)
