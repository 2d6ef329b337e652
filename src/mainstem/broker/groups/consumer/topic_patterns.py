"""Regular expressions that groups subscribe with: RE2's, as Kafka's (RE2/J), in time that grows with the text alone.

The whole name of a topic must match. Python's own ``re`` backtracks: a pattern like ``(a+)+$`` would hold up every
client of the node. The library is loaded when the first group uses a pattern.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from mainstem.broker.error_codes import refusal
from mainstem.protocol.errors import ErrorCode

_MEMORY_BYTES_MAX: Final = 1 << 18
_COMPILED_MAX: Final = 256


class TopicPatterns:
    """Compiled patterns, the most recently used ones."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    def compile(self, pattern: str) -> Callable[[str], object]:
        """A function that returns None for a name that ``pattern`` does not match. Raises RemoteError."""
        compiled = self._compiled.get(pattern)
        if compiled is None:
            compiled = self._compiled[pattern] = _compile(pattern)
            if len(self._compiled) > _COMPILED_MAX:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(pattern)
        fullmatch: Callable[[str], object] = compiled.fullmatch
        return fullmatch


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {reason}") from error
