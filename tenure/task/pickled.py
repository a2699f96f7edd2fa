"""Pickle, for those who ask for it: any Python object, signed, because whoever can write a pickle can run code.

    32 bytes   HMAC-SHA256 of LABEL, the codec's name, a zero byte and the pickle, by the newest key
    the rest   a pickle, protocol 5

To change it: another label, so that neither form passes for the other, and a try of both when reading for as long as
there may be jobs of the old one. The sample in tests/task/test_pickled.py pins the form.
"""

import hmac
import pickle
from collections.abc import Iterable
from typing import Any

import msgspec

from tenure.core import bound
from tenure.core.error import InvalidRequest
from tenure.task.codec import Decode, Undecodable, Unencodable

LABEL = b"tenure pickle 1\0"
PROTOCOL = 5
SIGNATURE_BYTES = 32
KEY_BYTES_MIN = 16


class PickleCodec:
    """`key` signs and verifies; of several the first, the newest, signs, and all verify."""

    def __init__(self, key: bytes | Iterable[bytes], *, name: str = "pickle") -> None:
        self.name = str(bound.name("name", name))
        self._keys = _checked((key,) if isinstance(key, bytes) else tuple(key))

    def encode(self, value: object) -> bytes:
        try:
            body = pickle.dumps(value, PROTOCOL)
        except Exception as error:  # of the value's own methods, too
            raise Unencodable(f"it cannot be pickled: {error}") from error
        return self._sign(self._keys[0], body) + body

    def decoder(self, type: Any) -> Decode:
        """Values come back as they were: the type says only what a call's arguments are gathered in."""

        def read(data: bytes) -> Any:
            return _gathered(_unpickle(self._verified(data)), type)

        return read

    def _sign(self, key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, LABEL + self.name.encode() + b"\0" + body, "sha256")

    def _verified(self, data: bytes) -> bytes:
        signature, body = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        if not any(hmac.compare_digest(signature, self._sign(key, body)) for key in self._keys):
            raise Undecodable(
                "the signature is wrong: no key of this codec signed these bytes, so they are not unpickled"
            )
        return body


def _checked(keys: tuple[bytes, ...]) -> tuple[bytes, ...]:
    if not keys:
        raise InvalidRequest("key", keys, "give at least one")
    for key in keys:
        if not isinstance(key, bytes):
            raise InvalidRequest("key", type(key), "it must be bytes")
        if len(key) < KEY_BYTES_MIN:
            raise InvalidRequest("key", f"one of {len(key)} bytes", f"it must have {KEY_BYTES_MIN} bytes or more")
    return keys


def _unpickle(body: bytes) -> Any:
    try:
        return pickle.loads(body)
    except Exception as error:  # a class that moved, and whatever constructors raise
        raise Undecodable(f"it cannot be unpickled: {error!r}") from error


def _gathered(value: Any, wanted: Any) -> Any:
    if not (isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)) or isinstance(value, wanted):
        return value
    if not isinstance(value, dict):
        raise Undecodable(f"a {type(value).__name__} where a call's arguments by name were expected")
    try:
        return wanted(**{name: value[name] for name in wanted.__struct_fields__ if name in value})
    except TypeError as error:
        raise Undecodable(str(error)) from error
