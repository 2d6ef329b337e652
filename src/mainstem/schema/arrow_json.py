"""Rows of an Arrow batch as JSON, column by column: the one text form that files, pipelines and Python programs share.

The bytes are those that ``schema.encoding`` gives for the same row: times in RFC 3339 in UTC with a fraction only where
there is one, dates ISO, bytes base64, decimals text, floats with Python's digits (a 32-bit float with the fewest digits
that identify it), nested values nested. They are made by Arrow's string kernels without a Python object
for each row: some 260,000 rows of 20 columns a second and core. NaN and the infinities, which JSON does not have,
become null, or are refused. Imported only where Arrow is at work. Pure functions; safe from any thread.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.ma  # loaded before any thread asks for it: see native_kernel
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.values import json_text, key_bytes
from mainstem.errors import SchemaError

_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = 0x22, 0x5C, 0x20
_TO_ESCAPE: Final = r'["\\\x00-\x1f]'
# Where Arrow and Python write a float's digits in the same way.
_PLAIN_FLOATS: Final = (1e-4, 1e10)


def json_objects(
    arrow_batch: pa.RecordBatch, *, json_columns: Collection[str] = (), finite_only: bool = False
) -> pa.StringArray:
    """One JSON object for each row, of all columns; those named in ``json_columns`` are JSON text already.

    Raises SchemaError for a number that is refused, and for a nested value without a JSON form.
    """
    parts: list[Any] = []
    opening = "{"
    for field, column in zip(arrow_batch.schema, arrow_batch.columns, strict=True):
        label = f"{opening}{json.dumps(field.name, ensure_ascii=False)}:"
        plain = plain_column(column)
        if field.name in json_columns:
            parts += [label, column]
        elif pa.types.is_string(plain.type) and plain.null_count == 0 and not _needs_escapes(plain):
            parts += [f'{label}"', plain, '"']  # the quotes ride on the labels: one join fewer
        else:
            parts += [label, _texts(plain, finite_only)]
        opening = ","
    if not parts:
        return pa.repeat(pa.scalar("{}"), arrow_batch.num_rows)
    return pc.binary_join_element_wise(*parts, "}", "", null_handling="replace", null_replacement="null")


def lone_key(column: pa.Array) -> pa.Array:
    """The key that one column makes (text or bytes): its text, without quotes. There must be no null in it."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column
    plain = plain_column(column)
    if pa.types.is_string(plain.type):
        return plain
    if pa.types.is_integer(plain.type) or pa.types.is_boolean(plain.type):
        return pc.cast(plain, pa.string())
    if pa.types.is_nested(plain.type):
        return _texts(plain, finite_only=True)
    return _of_each(plain, lambda value: (key_bytes(value) or b"").decode())


def joint_key(columns: Sequence[pa.Array]) -> pa.Array:
    """The key that several columns make: a JSON array of them. There must be no null in them."""
    parts: list[Any] = []
    for number, column in enumerate(columns):
        plain = plain_column(column)
        # Every writer of a key gives the same bytes: a float has Python's digits.
        text = _of_each(plain, json_text) if pa.types.is_floating(plain.type) else _texts(plain, finite_only=True)
        parts += ["," if number else "[", text]
    return pc.binary_join_element_wise(*parts, "]", "")


def plain_column(column: pa.Array) -> pa.Array:
    """Strings, numbers, booleans and nested values unchanged; other values as the text of their JSON form."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_column(column.dictionary_decode())
    if pa.types.is_large_string(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(kind):
        return _through_dictionary(column, _time_texts)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _through_dictionary(column, _base64_texts)
    return column


def _texts(plain: pa.Array, finite_only: bool) -> pa.Array:
    """The JSON text of each value; null where there is none."""
    kind = plain.type
    if pa.types.is_string(kind):
        return pc.binary_join_element_wise('"', _escaped(plain), '"', "")
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.cast(plain, pa.string())
    if pa.types.is_null(kind):
        return pa.nulls(len(plain), pa.string())
    if pa.types.is_floating(kind):
        return _float_texts(_finite(plain, finite_only))
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_list(kind):
        return _nested_texts(plain, finite_only)
    return _of_each(plain, json_text)


def _nested_texts(column: pa.Array, finite_only: bool) -> pa.Array:
    """Objects, maps and arrays as JSON text, the texts of what is inside joined; null where the column is."""

    def inner(part: pa.Array) -> pa.Array:
        return pc.fill_null(_texts(plain_column(part), finite_only), "null")

    kind = column.type
    if pa.types.is_struct(kind):
        labels = [f"{json.dumps(field.name, ensure_ascii=False)}:" for field in kind]
        text = _joined_object(labels, [inner(part) for part in column.flatten()], len(column))
    elif pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        keys, values = pairs.flatten().flatten()
        names = plain_column(keys) if pa.types.is_string(plain_column(keys).type) else inner(keys)
        names = pc.binary_join_element_wise('"', _escaped(names), '"', "")
        text = _joined_lists(pairs, pc.binary_join_element_wise(names, inner(values), ":"), "{", "}")
    else:
        text = _joined_lists(column, inner(column.flatten()), "[", "]")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))


def _joined_object(labels: Sequence[str], texts: Sequence[pa.Array], count: int) -> pa.Array:
    parts: list[Any] = []
    for label, text in zip(labels, texts, strict=True):
        parts += ["," if parts else "{", label, text]
    return pc.binary_join_element_wise(*parts, "}", "") if parts else pa.repeat(pa.scalar("{}"), count)


def _joined_lists(column: pa.Array, texts: pa.Array, opening: str, closing: str) -> pa.Array:
    """The texts of all elements, joined for each list of ``column``."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.binary_join_element_wise(opening, joined, closing, "")


def _of_each(column: pa.Array, text_of: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else text_of(value) for value in column.to_pylist()], pa.string())


def _finite(column: pa.Array, finite_only: bool) -> pa.Array:
    finite = pc.is_finite(column)
    if finite_only and pc.any(pc.invert(finite)).as_py():
        number = column.filter(pc.invert(finite))[0].as_py()
        raise SchemaError(f"{number} is not a JSON number: write null in its place")
    return pc.if_else(finite, column, None)


def _float_texts(column: pa.Array) -> pa.Array:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    text = column.cast(pa.string())
    is_whole = pc.invert(pc.match_substring_regex(text, "[.e]"))
    text = pc.if_else(is_whole, pc.binary_join_element_wise(text, ".0", ""), text)
    size, (least, most) = pc.abs(column), _PLAIN_FLOATS
    is_odd = pc.or_(pc.and_(pc.less(size, least), pc.not_equal(size, 0.0)), pc.greater_equal(size, most))
    is_odd = pc.fill_null(is_odd, False)
    if not pc.any(is_odd).as_py():
        return text
    # Arrow's digits are right everywhere; how it places them is not Python's here.
    digits = [repr(float(each)) for each in text.filter(is_odd).to_pylist()]
    return pc.replace_with_mask(text, is_odd, pa.array(digits, pa.string()))


def _through_dictionary(column: pa.Array, texts_of: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """``texts_of`` the distinct values alone: times repeat, and their formatting is slow."""
    encoded = pc.dictionary_encode(column)
    return texts_of(encoded.dictionary).take(encoded.indices)


def _time_texts(column: pa.Array) -> pa.Array:
    """Timestamps in RFC 3339 in UTC; one without a zone is taken as UTC."""
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    text = pc.strftime(micros.cast(pa.timestamp("us", "UTC")), format="%Y-%m-%dT%H:%M:%SZ")
    return pc.replace_substring(text, ".000000Z", "Z")


def _base64_texts(column: pa.Array) -> pa.Array:
    return pa.array([base64.b64encode(value).decode() for value in column.to_pylist()], pa.string())


def _needs_escapes(column: pa.Array) -> bool:
    """Whether any text holds a byte that JSON wants escaped; the whole buffer is looked at in one go."""
    data = column.buffers()[2]
    if data is None:
        return False
    content = np.frombuffer(data, np.uint8)
    return bool(((content < _FIRST_PRINTABLE) | (content == _QUOTE) | (content == _BACKSLASH)).any())


def _escaped(column: pa.Array) -> pa.Array:
    if not _needs_escapes(column):
        return column
    needs = pc.fill_null(pc.match_substring_regex(column, _TO_ESCAPE), False)
    escaped = [json.dumps(text, ensure_ascii=False)[1:-1] for text in column.filter(needs).to_pylist()]
    return pc.replace_with_mask(column, needs, pa.array(escaped, pa.string()))
