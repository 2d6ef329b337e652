"""The limit on the nesting of JSON from untrusted sources; the same for views and the gateway."""

from __future__ import annotations

import re
from typing import Final

DEPTH_MAX: Final = 400
"""Less than half of the depth that Python's parser accepts at any stack depth, and less than its encoder can write."""
_TEXT_OR_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]+|[\]}]+', re.DOTALL)


def is_too_deep(text: str) -> bool:
    """Whether more than ``DEPTH_MAX`` brackets are open at once; those within strings are none."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:  # so nearly always
        return False
    depth = 0
    for run in _TEXT_OR_BRACKETS.findall(text):
        if run[0] in "[{":
            depth += len(run)
            if depth > DEPTH_MAX:
                return True
        elif run[0] != '"':
            depth -= len(run)
    return False
