"""How arguments and results become bytes, by name: a job says which codec wrote it.

JSON is the default and MessagePack is there; anything else is registered. What neither knows of (pydantic models,
paths) is made plain before and built anew after, by the annotation that asks for it.
"""

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Protocol

import msgspec

from tenure.core.error import CodecNotFound, InvalidRequest


class Undecodable(Exception):
    """Bytes that are not what their codec and type say."""


class Unencodable(Exception):
    """A value that its codec cannot write."""


Decode = Callable[[bytes], Any]


class Codec(Protocol):
    @property
    def name(self) -> str: ...

    def encode(self, value: object) -> bytes:
        """Raises `Unencodable`."""

    def decoder(self, type: Any) -> Decode:
        """Reads values of the type; raises `Undecodable`."""


def to_plain(value: Any) -> Any:
    """What msgspec does not know, as what it knows."""
    dump = getattr(value, "model_dump", None)  # pydantic, which is not imported for it
    if dump is not None and hasattr(type(value), "model_validate"):
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be written; use a dataclass, a Struct or plain values")


def from_plain(wanted: Any, value: Any) -> Any:
    validate = getattr(wanted, "model_validate", None)
    if validate is not None:
        return validate(value)
    if isinstance(wanted, type) and issubclass(wanted, PurePath):
        return wanted(value)
    raise NotImplementedError(f"{wanted} cannot be read; use a dataclass, a Struct or plain values")


class JsonCodec:
    name = "json"

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=to_plain)

    def encode(self, value: object) -> bytes:
        return _encode(self._encoder.encode, value)

    def decoder(self, type: Any) -> Decode:
        return _reading(msgspec.json.Decoder(type, dec_hook=from_plain).decode)


class MsgpackCodec:
    name = "msgpack"

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=to_plain)

    def encode(self, value: object) -> bytes:
        return _encode(self._encoder.encode, value)

    def decoder(self, type: Any) -> Decode:
        return _reading(msgspec.msgpack.Decoder(type, dec_hook=from_plain).decode)


def _encode(encode: Callable[[object], bytes], value: object) -> bytes:
    try:
        return encode(value)
    except (TypeError, NotImplementedError, ValueError, OverflowError, RecursionError) as error:
        raise Unencodable(str(error)) from error


def _reading(decode: Decode) -> Decode:
    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except (msgspec.DecodeError, NotImplementedError, ValueError, TypeError, RecursionError) as error:
            raise Undecodable(str(error)) from error

    return read


class Codecs:
    """The codecs of an app, by name."""

    def __init__(self, default: str = "json") -> None:
        self._known: dict[str, Codec] = {}
        self.default = default
        for codec in (JsonCodec(), MsgpackCodec()):
            self.add(codec)

    def add(self, codec: Codec) -> None:
        if codec.name in self._known:
            raise InvalidRequest("codec", codec.name, "there is a codec of that name already")
        self._known[codec.name] = codec

    def get(self, name: str) -> Codec:
        found = self._known.get(name)
        if found is None:
            raise CodecNotFound(name)
        return found
