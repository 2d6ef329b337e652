"""The part of a path that is a record's key: all that follows, whatever it is.

The framework's own ``path`` ends at a line break, so a key that ends in one would be answered with another key's data,
and one that has one inside would be nowhere. A key has any text. Routes and access rules take ``KEY``, so that both
read the same key; that it is known to the framework is this module's doing.
"""

from __future__ import annotations

from typing import Final

from starlette.convertors import Convertor, register_url_convertor


class TextConvertor(Convertor[str]):
    """Any text, slashes and line breaks included, as far as ``regex`` goes."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _KeyConvertor(TextConvertor):
    """Any text up to the very end of the path."""

    regex = r"[\s\S]*\Z"


register_url_convertor("record_key", _KeyConvertor())
register_url_convertor("group_name", TextConvertor())
KEY: Final = "{key:record_key}"
GROUP: Final = "{group:record_key}"
"""A group at the end of a path; its name is any text, too."""
USER: Final = "{user:record_key}"
GROUP_WITHIN: Final = "{group:group_name}"
