"""Where librdkafka's own log lines go: to the logger ``mainstem.client.append.librdkafka``, and not to standard error.

What it retries is nobody's news unless somebody listens; what it gives up on comes as an error.
"""

from __future__ import annotations

import logging
from typing import Final

LOGGER: Final = logging.getLogger("mainstem.client.librdkafka")
LOGGER.addHandler(logging.NullHandler())
