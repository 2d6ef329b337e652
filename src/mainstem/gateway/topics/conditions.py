"""Conditions and idempotency keys of an append, by HTTP headers, and the entity tag of a key.

A key's entity tag is the offset of its last record in its partition, ``"-1"`` when it has none. So ``If-Match`` says
"only if nothing was appended to this key since", ``If-None-Match: *`` "only if the key has no record", and
``Mainstem-Expect-End`` names the partition's end; ``Idempotency-Key`` lets a request be repeated. They are for an
append of one record. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mainstem.client.append.append_options import AppendOptions
from mainstem.errors import InputError

_TAG = re.compile(r'"(-1|[0-9]{1,18})"')
_OFFSET = re.compile(r"[0-9]{1,18}")
_ABSENT: Final = -1


def append_options_of(headers: Mapping[str, str], record_count: int) -> AppendOptions:
    """The append options in a request's headers, for ``record_count`` records. Raises InputError."""
    options: AppendOptions = {}
    match, none_match = headers.get("if-match"), headers.get("if-none-match")
    if match is not None and none_match is not None:
        raise InputError("If-Match and If-None-Match: send one of them")
    if match is not None:
        tag = _TAG.fullmatch(match.strip())
        if tag is None:
            raise InputError("If-Match takes one entity tag as a key's read gives it: an offset in quotation marks")
        options["expect_key_offset"] = int(tag[1])
    if none_match is not None:
        if none_match.strip() != "*":
            raise InputError("If-None-Match takes * alone: the key has no record")
        options["expect_key_offset"] = _ABSENT
    end = headers.get("mainstem-expect-end")
    if end is not None:
        if _OFFSET.fullmatch(end.strip()) is None:
            raise InputError("Mainstem-Expect-End takes an offset in decimal digits")
        options["expect_end"] = int(end)
    key = headers.get("idempotency-key")
    if key is not None:
        options["idempotency_key"] = key
    if options and record_count != 1:
        raise InputError(f"conditions and idempotency keys are for an append of one record, not of {record_count}")
    return options


def entity_tag(last_offset: int) -> str:
    """The entity tag of a key whose last record has this offset."""
    return f'"{last_offset}"'
