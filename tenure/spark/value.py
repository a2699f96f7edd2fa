"""Values of a column as a payload has them, the same at the top as inside arrays, structs and maps.

Times with a zone are in UTC, whatever zone the session is in. Decimals are text in plain notation with the scale of
their column. JSON has no NaN and no infinities: they are refused, or become null where the option `nan` says so.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tenure.core.error import InvalidRequest

NAN_ERROR: Final = "error"
NAN_NULL: Final = "null"
NAN_KEEP: Final = "keep"

Convert = Callable[[Any], Any]


def values_of(name: str, column: pa.Array, keys: list[str], nan: str) -> list[Any]:
    """Of the column of that name; `keys` are those of the rows."""
    kind = column.type
    if pa.types.is_floating(kind) and (nan == NAN_KEEP or pc.all(pc.is_finite(column)).as_py() in (True, None)):
        found: list[Any] = column.to_pylist()
        return found
    convert = _converter(kind, nan)
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict") if pa.types.is_nested(kind) else column.to_pylist()
    if convert is None:
        return values
    try:
        return [None if value is None else convert(value) for value in values]
    except _NotFinite:
        raise _refusal(name, values, keys, convert) from None


class _NotFinite(Exception):
    def __init__(self, number: float) -> None:
        self.number = number


def _refusal(name: str, values: list[Any], keys: list[str], convert: Convert) -> InvalidRequest:
    """Names the first row in which such a number stands."""
    for key, value in zip(keys, values, strict=True):
        try:
            if value is not None:
                convert(value)
        except _NotFinite as found:
            rule = (
                f"it is in the row whose key is {key}, and JSON has no such number: replace it, or give the option "
                "nan=null to write null for it"
            )
            return InvalidRequest(name, found.number, rule)
    raise AssertionError("no row has such a number")


def _converter(kind: pa.DataType, nan: str) -> Convert | None:
    """What a value that is not null goes through; None when it stays as it is."""
    if pa.types.is_floating(kind):
        return {NAN_ERROR: _finite, NAN_NULL: _finite_or_null}.get(nan)
    if pa.types.is_decimal(kind):
        return _plain
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _in_utc
    if pa.types.is_map(kind):
        return _map_converter(_converter(kind.key_type, nan), _converter(kind.item_type, nan))
    if pa.types.is_struct(kind):
        fields = {field.name: _converter(field.type, nan) for field in kind}
        return _struct_converter({name: convert for name, convert in fields.items() if convert is not None})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_converter(_converter(kind.value_type, nan))
    return None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise _NotFinite(number)
    return number


def _finite_or_null(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _plain(number: Decimal) -> str:
    return format(number, "f")


def _in_utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def _list_converter(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None
    return lambda values: [None if value is None else inner(value) for value in values]


def _struct_converter(inner: dict[str, Convert]) -> Convert | None:
    if not inner:
        return None

    def convert(struct: dict[str, Any]) -> dict[str, Any]:
        for name, each in inner.items():
            if struct[name] is not None:
                struct = {**struct, name: each(struct[name])}
        return struct

    return convert


def _map_converter(key: Convert | None, item: Convert | None) -> Convert | None:
    if key is None and item is None:
        return None
    of_key, of_item = key or _same, item or _same
    return lambda map: {of_key(name): None if value is None else of_item(value) for name, value in map.items()}


def _same(value: Any) -> Any:
    return value
