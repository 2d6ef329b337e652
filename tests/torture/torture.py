"""Work that goes on until it is done, whatever is killed: drivers are replaced, queries and the log started again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import ApacheKafka
from tests.torture.drivers import Driver, DriverDiedError
from tests.torture.orders import Orders
from tests.torture.processes import jvm_below, planners_below, workers_below
from tests.torture.truth import Given, to_value
from tests.torture.work import Work

_WORK_S = 900.0
_FAILURES_MAX = 20
_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.02
KINDS = ("worker", "planner", "jvm", "driver", "log")
_WEIGHTS = (4, 2, 2, 2, 2)


class Input:
    """Feeds a topic with records of some keys, and keeps what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, keys: int = 20) -> None:
        self.topic = topic
        self.given: list[Given] = []
        self._bootstrap = bootstrap
        self._keys = keys
        self._numbers: Counter[str] = Counter()
        self._generation = 0

    def feed(self, count: int) -> None:
        """Append ``count`` records, and wait for each one's acknowledgement."""
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        for turn in range(count):
            key = f"g{self._generation}k{turn % self._keys}"
            number = self._numbers[key]
            self._numbers[key] += 1
            value = to_value(key, number)
            producer.produce(self.topic, value, key, on_delivery=self._noted(key, number))
        assert producer.flush(_WORK_S) == 0, "the log does not acknowledge"

    def use_other_keys(self) -> None:
        """As after the number of partitions has changed: a key's records would go elsewhere."""
        self._generation += 1

    def _noted(self, key: str, number: int) -> Callable[[KafkaError | None, Message], None]:
        def noted(error: KafkaError | None, message: Message) -> None:
            place = (None, None) if error is not None else (message.partition(), message.offset())
            self.given.append(Given(key, number, *place))

        return noted


def create_topics(bootstrap: str, **partitions: int) -> None:
    """Topics, each with so many partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        future.result(_TIMEOUT_S)


def add_partitions(bootstrap: str, **partitions: int) -> None:
    """Raise the topics' numbers of partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(name, count) for name, count in partitions.items()]).values():
        future.result(_TIMEOUT_S)


class Torture:
    """A log, a driver, another that stands by where it is to be killed, and orders to kill. A context manager."""

    def __init__(
        self, directory: Path, log: LogProcess | ApacheKafka, *, mutant: str = "", stands_by: bool = False
    ) -> None:
        self.orders = Orders(directory / "orders")
        self.counts: Counter[str] = Counter()
        self._log = log
        self._mutant = mutant
        self._stands_by = stands_by
        self._drivers: list[Driver] = []
        self._ended: list[Driver] = []
        self._stopped = threading.Event()
        self.log_is_away_s = 0.0
        """How long the log stays away when it has been killed."""
        self._keeper: threading.Thread | None = None
        self._keeper_failure: Exception | None = None

    @property
    def driver(self) -> Driver:
        """The one that works; waits until it is ready."""
        while True:
            while len(self._drivers) < (2 if self._dies_soon else 1):
                self._drivers.append(Driver(self.orders.directory, self._log.bootstrap, mutant=self._mutant))
            try:
                self._drivers[0].wait_until_ready()
            except DriverDiedError:
                self.replace_driver()
            else:
                return self._drivers[0]

    @property
    def _dies_soon(self) -> bool:
        """Whether another driver is to stand by."""
        return self._stands_by or any(order.target in ("jvm", "driver") for order in self.orders.left)

    def replace_driver(self) -> None:
        """Leave the driver behind, dead or not: what is left of it may live on for a while, as in real life."""
        self.counts["drivers"] += 1
        self._ended.append(self._drivers.pop(0))

    def do(self, work: Work) -> None:
        """Until the driver says that it is done. Raises AssertionError when that does not come to an end."""
        driver, failures, deadline_s = self.driver, 0, time.monotonic() + _WORK_S
        driver.do(work)
        while True:
            assert time.monotonic() < deadline_s, f"{work} does not come to an end"
            if self._keeper_failure is not None:
                raise AssertionError("the log did not start again") from self._keeper_failure
            said = driver.said(0.1)
            if said is not None and "done" in said:
                return
            if said is not None and "failed" in said:
                self.counts["queries failed"] += 1
                failures += 1
                assert failures < _FAILURES_MAX, said["failed"]
                driver.do(work)
            elif said is None and not driver.is_alive:
                self.replace_driver()
                driver = self.driver
                driver.do(work)

    def kill_one(self, choice: random.Random) -> str | None:
        """SIGKILL a process of the driver that works, or the log; its kind, or None when there was none of it."""
        drivers, kind = self._drivers[:1], choice.choices(KINDS, weights=_WEIGHTS)[0]
        if not drivers:
            return None
        driver = drivers[0]
        pids = {
            "worker": lambda: workers_below(driver.pid),
            "planner": lambda: planners_below(driver.pid),
            "jvm": lambda: [pid for pid in [jvm_below(driver.pid)] if pid is not None],
            "driver": lambda: [driver.pid],
            "log": lambda: [self._log.pid] if isinstance(self._log, LogProcess) and self._log.is_alive else [],
        }[kind]()
        if not pids:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(choice.choice(pids), signal.SIGKILL)
            self.counts[f"killed {kind}"] += 1
            return kind
        return None

    def _keep_log(self, log: LogProcess) -> None:
        """In a thread of its own: start the log again whenever it was killed; ``do`` raises what it fails with."""
        try:
            self._restart_log(log)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the test has failed, and says so at once
            self._keeper_failure = failure

    def _restart_log(self, log: LogProcess) -> None:
        self.orders.name_process("log", log.pid)
        while not self._stopped.wait(_LOOK_EVERY_S):
            if not log.is_alive:
                log.kill()
                self._stopped.wait(self.log_is_away_s)
                log.start()
                self.orders.name_process("log", log.pid)
                self.counts["log restarts"] += 1

    def __enter__(self) -> Torture:
        if isinstance(self._log, LogProcess):
            self._keeper = threading.Thread(target=self._keep_log, args=(self._log,))
            self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._keeper is not None:
            self._keeper.join()
        for driver in (*self._drivers, *self._ended):
            driver.end()


class Killer:
    """Kills at random times, in a thread of its own, until it has killed so many; a context manager.

    It waits before each kill until some step has been done: to kill a driver that has not begun yet tells nothing.
    """

    def __init__(self, torture: Torture, seed: int, kills: int, pause_s_max: float = 2.0) -> None:
        self._torture = torture
        self._random = random.Random(seed)
        self._left = kills
        self._pause_s_max = pause_s_max
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self._left and self._wait_for_a_step() and not self._stopped.wait(self._pause_s()):
            if self._torture.kill_one(self._random) is not None:
                self._left -= 1

    def _pause_s(self) -> float:
        return self._random.uniform(0.0, self._pause_s_max)

    def _wait_for_a_step(self) -> bool:
        before = len(self._torture.orders.steps)
        while not self._stopped.wait(_LOOK_EVERY_S):
            if len(self._torture.orders.steps) > before:
                return True
        return False

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
