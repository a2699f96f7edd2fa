"""JSON and MessagePack: how messages are read and written, and how a payload goes from one to the other.

A payload stays the bytes it came as. `codec` says what they are: `json` and `msgpack` are converted for a reader of the
other format, any other codec is the user's own and travels as binary. What JSON cannot say is `{"$bin": base64}`.
"""

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tenure.core.error import InvalidRequest

JSON = "json"
MSGPACK = "msgpack"
BIN = "$bin"

NONSENSE = (msgspec.MsgspecError, ValueError, RecursionError)  # what reading raises; bad UTF-8 is a ValueError
UNSAYABLE = (*NONSENSE, TypeError, OverflowError)  # what converting raises besides: extension types, large numbers

_json = msgspec.json.Encoder(decimal_format="number")
_msgpack = msgspec.msgpack.Encoder()
_bin_of_json = msgspec.json.Decoder(dict[str, str])
_bin_of_msgpack = msgspec.msgpack.Decoder(bytes).decode


def _to_msgpack(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get(BIN), str):
            try:
                return b64decode(value[BIN], validate=True)
            except BadBase64:
                return value
        return {key: _to_msgpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_msgpack(item) for item in value]
    return value


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {BIN: b64encode(value).decode()}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value


class Format:
    name: str
    encode: Callable[[object], bytes]
    decode: Callable[..., Any]

    def decoder(self, kind: Any) -> Callable[[bytes], Any]:
        raise NotImplementedError

    def binary(self, data: Raw) -> bytes | None:
        """The bytes, when the value is nothing but bytes."""
        raise NotImplementedError

    def own(self, payload: bytes) -> Raw | None:
        """A payload in this format as a part of a message; None when it is not what it says it is."""
        raise NotImplementedError

    def convert(self, payload: bytes) -> bytes:
        """From the other of the two formats into this one."""
        raise NotImplementedError

    def of_bytes(self, payload: bytes) -> object:
        raise NotImplementedError


class _Json(Format):
    name = JSON
    encode = staticmethod(_json.encode)
    decode = staticmethod(msgspec.json.decode)

    def decoder(self, kind: Any) -> Callable[[bytes], Any]:
        return msgspec.json.Decoder(kind).decode

    def binary(self, data: Raw) -> bytes | None:
        text = bytes(data)
        if BIN.encode() not in text:
            return None
        try:
            found = _bin_of_json.decode(text)
            return b64decode(found[BIN], validate=True) if len(found) == 1 else None
        except (*NONSENSE, KeyError):
            return None

    def own(self, payload: bytes) -> Raw | None:
        """On one line, whatever it was: a line is a message."""
        try:
            if not payload.isascii():
                payload.decode()
            return Raw(msgspec.json.format(payload, indent=-1))
        except NONSENSE:
            return None

    def convert(self, payload: bytes) -> bytes:
        return _json.encode(_to_json(msgspec.msgpack.decode(payload)))

    def of_bytes(self, payload: bytes) -> object:
        return {BIN: b64encode(payload).decode()}


class _Msgpack(Format):
    name = MSGPACK
    encode = staticmethod(_msgpack.encode)
    decode = staticmethod(msgspec.msgpack.decode)

    def decoder(self, kind: Any) -> Callable[[bytes], Any]:
        return msgspec.msgpack.Decoder(kind).decode

    def binary(self, data: Raw) -> bytes | None:
        first = memoryview(data)[0]
        return _bin_of_msgpack(data) if first in (0xC4, 0xC5, 0xC6) else None

    def own(self, payload: bytes) -> Raw | None:
        """Read to its end, unless it is nothing but bytes: text that is no UTF-8 would make the whole message
        unreadable."""
        if len(payload) > 1 and payload[0] == 0xC4 and payload[1] == len(payload) - 2:
            return Raw(payload)
        try:
            msgspec.msgpack.decode(payload)
        except NONSENSE:
            return None
        return Raw(payload)

    def convert(self, payload: bytes) -> bytes:
        return _msgpack.encode(_to_msgpack(msgspec.json.decode(payload)))

    def of_bytes(self, payload: bytes) -> object:
        return payload


JSON_FORMAT = _Json()
MSGPACK_FORMAT = _Msgpack()
FORMATS = {JSON: JSON_FORMAT, MSGPACK: MSGPACK_FORMAT}


def nothing(codec: str | UnsetType, form: Format) -> bytes:
    """The payload of a job that was given none: null, or no bytes in a codec of one's own."""
    if codec is UNSET:
        return form.encode(None)
    return FORMATS[codec].encode(None) if codec in FORMATS else b""


def kept(data: Raw, codec: str | UnsetType, form: Format, field: str = "data") -> bytes:
    """The bytes to keep of a value that came in a message, given the codec it was said to have."""
    if codec is UNSET:
        return bytes(data)
    binary = form.binary(data)
    if binary is not None:
        return binary
    if codec == form.name:
        return bytes(data)
    other = FORMATS.get(codec)
    if other is None:
        raise InvalidRequest(field, bytes(data)[:80], f"with the codec {codec!r} it must be binary")
    try:
        return other.convert(bytes(data))
    except UNSAYABLE as error:
        raise InvalidRequest(field, bytes(data)[:80], f"it cannot be said in {codec}: {error}") from error


def shown(payload: bytes, codec: str, form: Format) -> object:
    """A payload as a part of a message: whatever its bytes are, the message stays one."""
    if codec == form.name:
        own = form.own(payload)
        if own is not None:
            return own
    elif codec in FORMATS:
        try:
            return Raw(form.convert(payload))
        except UNSAYABLE:
            pass
    return form.of_bytes(payload)
