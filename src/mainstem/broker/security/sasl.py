"""SASL authentication of one connection: its mechanism, its state, and how long the session lasts.

    CHOOSING ──handshake──► PROVING ──the last token──► DONE ──handshake, if sessions end──► PROVING …
        any wrong step or token ──► FAILED: the answer says so, and the connection ends

Before it is done, a connection may send only ApiVersions, SaslHandshake and SaslAuthenticate, in small frames, and for
a limited time. After a handshake of version 0, tokens arrive as bare frames, without a request around them. A client
that authenticates again must use the same user and the same mechanism. No answer reveals whether the name or the
password was wrong. Concurrency: the event loop only; passwords are hashed in threads.
"""

from __future__ import annotations

import asyncio
import enum
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstem.broker.security.credentials import Credentials
from mainstem.broker.security.oauth import OAUTHBEARER, OauthTokens, remaining_ms
from mainstem.broker.security.principal import ANONYMOUS, USER, Principal
from mainstem.clock import Clock
from mainstem.errors import AuthenticationError, FrameError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.scram import MECHANISMS, ScramServer, is_password

PLAIN: Final = "PLAIN"
SASL_MECHANISMS: Final = (*MECHANISMS, PLAIN, OAUTHBEARER)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The settings that all connections of a node share. A session of 0 ms never ends.

    ``tokens`` checks tokens, in ``token_threads``, where OAUTHBEARER is enabled.
    ``hashing`` are the threads that hash passwords. They are few and do no other work, so a flood of logins delays only
    logins.
    """

    mechanisms: tuple[str, ...]
    session_ms_max: int
    failure_delay_s: float
    frame_bytes_max: int
    timeout_s: float
    hashing: Executor
    tokens: OauthTokens | None = None
    token_threads: Executor | None = None


class SaslState(enum.Enum):
    """The state of an authentication."""

    CHOOSING = "choosing"
    PROVING = "proving"
    DONE = "done"
    FAILED = "failed"


class SaslProgress(NamedTuple):
    """The server's next token, and the session's duration: 0 before authentication is done, or without an end."""

    token: bytes
    session_ms: int


class Authentication:
    """The authentication of one connection: a state machine over its handshakes and tokens."""

    def __init__(self, settings: SaslSettings, credentials: Credentials, clock: Clock) -> None:
        self.settings = settings
        self.state = SaslState.CHOOSING
        self.principal = ANONYMOUS
        self.takes_bare_tokens = False
        self._credentials = credentials
        self._clock = clock
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._proven_by = ""
        self._ends_s: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether this connection has ever been authenticated."""
        return self.principal is not ANONYMOUS

    def admit(self) -> None:
        """Check that requests of the user may be served now. Raises FrameError: then the connection must be closed."""
        if self.state is not SaslState.DONE:
            raise FrameError("a request that requires a user arrived before the user was authenticated")
        if self._ends_s is not None and self._clock.monotonic_s() >= self._ends_s:
            raise FrameError(f"the session of {self.principal} has ended, and the client did not authenticate again")

    def choose(self, mechanism: str, version: int) -> ErrorCode:
        """Process SaslHandshake: the client names its mechanism."""
        may_choose = self.state is SaslState.CHOOSING or (self.state is SaslState.DONE and self._ends_s is not None)
        if not may_choose:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.settings.mechanisms:
            self.state = SaslState.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism, self._scram = mechanism, None
        self.state = SaslState.PROVING
        self.takes_bare_tokens = version == 0
        return ErrorCode.NONE

    async def prove(self, token: bytes) -> SaslProgress:
        """Process SaslAuthenticate: the client's next token.

        Raises AuthenticationError, after the delay for failures, and FrameError when a token cannot be judged now: then
        the connection must be closed.
        """
        try:
            if self.state is not SaslState.PROVING:
                raise AuthenticationError("no mechanism was chosen")
            if self._mechanism == PLAIN:
                user = await self._prove_plain(token)
                return self._proven(user, b"")
            if self._mechanism == OAUTHBEARER:
                return await self._prove_by_token(token)
            return self._prove_scram(token)
        except AuthenticationError:
            self.state = SaslState.FAILED
            await asyncio.sleep(self.settings.failure_delay_s)
            raise

    def _prove_scram(self, token: bytes) -> SaslProgress:
        if self._scram is None:
            self._scram = ScramServer(self._mechanism, lambda user: self._credentials.credential(user, self._mechanism))
        answer = self._scram.step(token)
        if self._scram.is_done:
            return self._proven(self._scram.username, answer)
        return SaslProgress(answer, 0)

    async def _prove_plain(self, token: bytes) -> str:
        parts = token.split(b"\0")
        try:
            authorized_as, user, password = (part.decode() for part in parts)
        except ValueError:
            raise AuthenticationError("a PLAIN token needs a name and a password") from None
        mechanism, credential = self._credentials.for_plain(user)
        loop = asyncio.get_running_loop()
        is_right = await loop.run_in_executor(self.settings.hashing, is_password, mechanism, password, credential)
        if not is_right or authorized_as not in ("", user):
            raise AuthenticationError("the user or the password is wrong")
        return user

    async def _prove_by_token(self, token: bytes) -> SaslProgress:
        """The token's user, for as long as the token is valid."""
        if self.settings.tokens is None:
            raise AuthenticationError("OAUTHBEARER is not enabled")
        loop = asyncio.get_running_loop()
        proven = await loop.run_in_executor(self.settings.token_threads, self.settings.tokens.check, token)
        return self._proven(proven.user, b"", remaining_ms(proven))

    def _proven(self, user: str, token: bytes, valid_ms: int = 0) -> SaslProgress:
        """``valid_ms``: how long the proof is valid; 0 without an end."""
        principal = Principal(USER, user)
        if self.is_done and (principal, self._mechanism) != (self.principal, self._proven_by):
            raise AuthenticationError("a client must authenticate again as the same user, with the same mechanism")
        self.principal, self._proven_by = principal, self._mechanism
        self.state, self._scram, self.takes_bare_tokens = SaslState.DONE, None, False
        session_ms = min(filter(None, (self.settings.session_ms_max, valid_ms)), default=0)
        self._ends_s = self._clock.monotonic_s() + session_ms / 1000 if session_ms else None
        return SaslProgress(token, session_ms)
