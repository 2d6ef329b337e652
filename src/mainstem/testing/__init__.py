"""For the tests of those who use Mainstem: a broker in the test's own process, or in one that can be killed.

* ``plugin``: the fixtures, which pytest finds by itself
* ``embedded``: a real broker in the test's own process
* ``broker_process``: a broker in a process that a test can kill
* ``disk``: a disk in memory that loses unsynced data
* ``clock``: a clock that only a test moves

Nothing in the product imports this package. The public names load on first use, so that the plugin costs nothing to
those who do not ask for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.testing.broker_process import BrokerProcess as BrokerProcess
    from mainstem.testing.clock import ManualClock as ManualClock
    from mainstem.testing.disk import FaultyDisk as FaultyDisk
    from mainstem.testing.embedded import EmbeddedBroker as EmbeddedBroker

_HOMES = {
    "BrokerProcess": "mainstem.testing.broker_process",
    "EmbeddedBroker": "mainstem.testing.embedded",
    "FaultyDisk": "mainstem.testing.disk",
    "ManualClock": "mainstem.testing.clock",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
