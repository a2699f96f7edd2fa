"""Bytes inside of arguments. JSON writes them as base64 text, which only a type that says bytes reads back as bytes."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

PLAIN = frozenset({str, int, float, bool, type(None)})
BINARY = (bytes, bytearray, memoryview)
RULE = (
    "it has bytes where its type does not say bytes, and they would arrive as text;"
    " decode them, annotate them as bytes, or use the codec msgpack"
)


def bytes_in(values: Iterable[Any]) -> Counter[bytes]:
    """Every bytes value in them, however deep in containers, dataclasses and structs, and how often."""
    found: Counter[bytes] = Counter()
    seen: set[int] = set()  # a pickle may contain itself
    left = [value for value in values if type(value) not in PLAIN]
    while left:
        value = left.pop()
        if isinstance(value, BINARY):
            found[bytes(value)] += 1
        elif id(value) not in seen:
            seen.add(id(value))
            members = _members(value)
            if members and not PLAIN.issuperset(map(type, members)):
                left += [each for each in members if type(each) not in PLAIN]
    return found


def _members(value: Any) -> Any:
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return [getattr(value, each.name, None) for each in dataclasses.fields(value)]
    return [getattr(value, each.name, None) for each in getattr(type(value), "__attrs_attrs__", ())]
