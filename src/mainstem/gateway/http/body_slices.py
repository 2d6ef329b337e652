"""The records of a large append, each as a slice of the body, found without parsing them.

A JSON parser holds the interpreter until it is through, in whatever thread it runs. So a large body is cut into its
records first, in many short steps of a thread; then each record is parsed by itself, and the event loop runs in
between. A record has a bounded number of JSON values, which bounds how long one step takes.

Nothing is judged here but brackets, strings and commas: the parser refuses what else is wrong. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_HEAD: Final = re.compile(rb'\s*\{\s*"records"\s*:\s*\[')
_TAIL: Final = re.compile(rb"\]\s*\}\s*")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]+|[\]}]+|,', re.DOTALL)


def record_slices(body: bytes, values_max: int) -> Iterator[tuple[bytes, int]]:
    """Each element of ``{"records": […]}``, and how many values it has at most.

    An element with more than ``values_max`` is not looked at to its end: the part that was comes as the last one.
    Raises ValueError where the body is anything else.
    """
    head = _HEAD.match(body)
    if head is None:
        raise ValueError("the body does not begin with its records")
    start, depth, values = head.end(), 0, 0
    for token in _TOKEN.finditer(body, start):
        match body[token.start()]:
            case 0x22:  # a string
                continue
            case 0x2C:  # a comma
                values += 1
                if depth == 0:
                    yield body[start : token.start()], values
                    start, values = token.end(), 0
            case 0x5B | 0x7B:
                depth += len(token[0])
                values += len(token[0])
            case _:
                depth -= len(token[0])
        if values > values_max:
            yield body[start : token.start()], values
            return
        if depth < 0:
            end = token.end() + depth  # where the bracket stands that ends the records
            if start > head.end() or body[start:end].strip():
                yield body[start:end], values
            if _TAIL.fullmatch(body, end) is None:
                raise ValueError("something follows the records")
            return
    raise ValueError("the records do not end")
