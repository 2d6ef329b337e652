"""The logger of librdkafka's own log lines, ``mainstem.client.librdkafka``; they do not go to standard error.

They are about failures that librdkafka retries, so they are dropped unless the program adds a handler. Permanent
failures are raised as errors.
"""

from __future__ import annotations

import logging
from typing import Final

LIBRDKAFKA_LOG: Final = logging.getLogger("mainstem.client.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())
