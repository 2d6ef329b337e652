"""A real broker in the test's own process: its event loop in a thread, a real socket, a directory of its own.

It is the product's broker and not a stand-in: what a test sees is what a user gets, fsync included. It is ready in well
under a second. ``restart`` keeps the directory and the port, so that clients come back to it. To see what SIGKILL does,
take ``BrokerProcess``.

Concurrency: the broker lives in its thread alone; the methods here may be called from one other thread at a time.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.security.listeners import Listener, Protocol
from mainstem.broker.server import Broker
from mainstem.clock import Clock
from mainstem.log.files.disk import Disk
from mainstem.protocol.scram import MECHANISMS, SHA_256, make_credential

_TIMEOUT_S: Final = 30.0
_HOST: Final = "127.0.0.1"


class EmbeddedBroker:
    """A broker at ``bootstrap``, from ``start`` to ``stop``; a context manager."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        port: int = 0,
        disk: Disk | None = None,
        clock: Clock | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """Name a broker; nothing runs before ``start``.

        Args:
            directory: Where its data is. Without it, it makes one, and removes it at the end.
            settings: Settings of the broker, by Kafka's names.
            port: Its port; 0 is a free one.
            disk: The disk under the log, such as a ``FaultyDisk``.
            clock: The time, such as a ``ManualClock``.
            users: Passwords by name. Then only these users are let in: over TLS when ``ssl.keystore.location`` is set.

        Examples:
            >>> from mainstem.testing import EmbeddedBroker
            >>> with EmbeddedBroker(settings={"num.partitions": "3"}) as broker, ms.Log(broker.bootstrap) as log:
            ...     log.create_topic("flights").partitions
            3
        """
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="mainstem-test-"))
        self.port = port
        self._settings = dict(settings or {})
        self._users = dict(users or {})
        self._disk = disk
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def bootstrap(self) -> str:
        """The broker's address, for any Kafka client."""
        return f"{_HOST}:{self.port}"

    def security(self, user: str) -> dict[str, str]:
        """Kafka's options by which a client is let in as ``user``; for TLS it has to say what authority it believes.

        Examples:
            >>> from mainstem.testing import EmbeddedBroker
            >>> with EmbeddedBroker(users={"ada": "secret"}) as broker:
            ...     with ms.Log(broker.bootstrap, security=broker.security("ada")) as log:
            ...         len(log.topics())
            0
        """
        return {
            "security.protocol": self._protocol.value,
            "sasl.mechanism": SHA_256,
            "sasl.username": user,
            "sasl.password": self._users[user],
        }

    @property
    def _protocol(self) -> Protocol:
        if not self._users:
            return Protocol.PLAINTEXT
        return Protocol.SASL_SSL if "ssl.keystore.location" in self._settings else Protocol.SASL_PLAINTEXT

    def start(self) -> EmbeddedBroker:
        """Start it, and return when it accepts connections. Raises what the broker raises."""
        started: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="mainstem-embedded-broker", daemon=True)
        self._thread.start()
        try:
            self.port = started.result(_TIMEOUT_S)
        except BaseException:
            self._join()
            raise
        return self

    def stop(self) -> None:
        """Stop it cleanly, and remove its directory if it was made here. Stopping twice does nothing."""
        self._stop_broker()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """Stop it cleanly, and start it again on the same directory and port.

        Examples:
            >>> from mainstem.testing import EmbeddedBroker
            >>> with EmbeddedBroker() as broker, ms.Log(broker.bootstrap) as log:
            ...     position = log.append(log.create_topic("flights").name, "UA-1545")
            ...     broker.restart()
            ...     print(next(iter(log.read("flights"))).value)
            b'UA-1545'
        """
        self._stop_broker()
        self.start()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _stop_broker(self) -> None:
        if self._thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._join()

    def _join(self) -> None:
        assert self._thread is not None, "joined only after a start"
        self._thread.join(_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the embedded broker did not stop within {_TIMEOUT_S:g} s")
        self._thread = self._loop = self._stopping = None

    def _run(self, started: Future[int]) -> None:
        try:
            # Not on uvloop: it runs Python's handlers of forks in each process that it starts, and those of py4j and
            # others would close the connections of the program around this broker.
            asyncio.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[int]) -> None:
        listeners = (Listener(self._protocol, _HOST, self.port),)
        config = BrokerConfig(data_dir=self.directory, settings=self._settings, listeners=listeners)
        broker = Broker(config, self._disk, self._clock)
        _, port = await broker.start()
        broker.node.security.credentials.change(
            {(user, name): make_credential(name, word) for user, word in self._users.items() for name in MECHANISMS}
        )
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        started.set_result(port)
        try:
            await self._stopping.wait()
        finally:
            await broker.stop()
