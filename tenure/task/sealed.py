"""Sealed payloads: encrypted where they are written, opened where they are read, so that stores, backups and servers
hold nothing that they can read.

Each payload has a data key of its own, which is wrapped by a named key of the codec. A sealed payload is

    4 bytes     "TSL" and a zero byte
    1 byte      version, 1
    1 byte      n, then n bytes: the id of the key, in ASCII
    1 byte      m, then m bytes: the name of the codec inside, in ASCII
                these together are the header
    40 bytes    the data key, wrapped by the named key: AES key wrap, RFC 3394
    the rest    AES-256-GCM by the data key: what the codec inside wrote, and a tag of 16 bytes; the associated data are
                the header and the wrapped key, the nonce is twelve zero bytes

The nonce is constant because a data key encrypts once. The wrap has no nonce at all, so that there is no number of
payloads after which a key would have to be changed.

To change it: a new version number, its reader beside `_open`, chosen by the version; write the new one only when every
worker reads it. Versions that were ever released stay readable. tests/task/test_sealed.py pins a payload of each.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from tenure.core import bound
from tenure.core.error import InvalidRequest
from tenure.task.codec import Codec, Decode, JsonCodec, MsgpackCodec, Undecodable

MAGIC = b"TSL\0"
VERSION = 1
KEY_BYTES = 32
WRAPPED_BYTES = 40
NONCE = bytes(12)
LABEL_CHARS_MAX = 64  # of a key id, and of the name of the codec inside

INNER: dict[str, Callable[[], Codec]] = {"json": JsonCodec, "msgpack": MsgpackCodec}


class SealedCodec:
    """`keys` are 32 bytes each, by id. The one named `current` seals; all of them open."""

    is_sealed = True

    def __init__(
        self,
        inner: str | Codec = "json",
        *,
        keys: Mapping[str, bytes],
        current: str = "",
        name: str = "sealed",
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.name = str(bound.name("name", name))
        self.inner = _inner(inner)
        self._keys = {_label("key id", id): _checked(id, key) for id, key in keys.items()}
        self._current = _chosen(self._keys, current)
        self._random = random
        self._header = _header(self._current, self.inner.name)

    @staticmethod
    def make_key() -> bytes:
        return os.urandom(KEY_BYTES)

    def encode(self, value: object) -> bytes:
        body = self.inner.encode(value)
        key = self._random(KEY_BYTES)
        head = self._header + aes_key_wrap(self._keys[self._current], key)
        return head + AESGCM(key).encrypt(NONCE, body, head)

    def decoder(self, type: Any) -> Decode:
        decode = self.inner.decoder(type)

        def read(data: bytes) -> Any:
            body = self._open(data)
            try:
                return decode(body)
            except Exception:  # its message may quote what is sealed, and errors are stored in the clear
                problem = f"it was opened, but what is inside is not the {self.inner.name} that its task wants"
            raise Undecodable(problem)

        return read

    def _open(self, data: bytes) -> bytes:
        header, id, inner = _read_header(data)
        if inner != self.inner.name:
            raise Undecodable(f"the codec inside is {inner!r}, and {self.name!r} is made for {self.inner.name!r}")
        wrapping = self._keys.get(id)
        if wrapping is None:
            raise Undecodable(f"it is sealed with key {id!r}, which codec {self.name!r} was not given")
        end = len(header) + WRAPPED_BYTES
        try:
            key = aes_key_unwrap(wrapping, data[len(header) : end])
            return AESGCM(key).decrypt(NONCE, data[end:], data[:end])
        except (InvalidUnwrap, InvalidTag, ValueError):
            problem = f"it was changed since it was sealed with key {id!r}, or another key has that id"
        raise Undecodable(problem)


def _inner(given: str | Codec) -> Codec:
    if not isinstance(given, str):
        _label("inner", given.name)
        return given
    if given not in INNER:
        raise InvalidRequest("inner", given, "it must be json, msgpack or a codec")
    return INNER[given]()


def _label(field: str, value: object) -> str:
    text = str(bound.name(field, value))
    if len(text) > LABEL_CHARS_MAX:
        raise InvalidRequest(field, text, f"it must have {LABEL_CHARS_MAX} characters at most")
    return text


def _checked(id: str, key: object) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        shown = f"{len(key)} bytes" if isinstance(key, bytes) else type(key)
        raise InvalidRequest(f"key {id}", shown, f"it must be {KEY_BYTES} bytes; SealedCodec.make_key() makes one")
    return key


def _chosen(keys: Mapping[str, bytes], current: str) -> str:
    if not current and len(keys) == 1:
        return next(iter(keys))
    if current not in keys:
        raise InvalidRequest("current", current, "it must be the id of one of the keys")
    return current


def _header(id: str, inner: str) -> bytes:
    return MAGIC + bytes((VERSION, len(id))) + id.encode() + bytes((len(inner),)) + inner.encode()


def _read_header(data: bytes) -> tuple[bytes, str, str]:
    """The header as it stands, the id of the key, the name of the codec inside."""
    if data[: len(MAGIC)] != MAGIC:
        raise Undecodable("it is not sealed")
    version = data[len(MAGIC) : len(MAGIC) + 1]
    if version != bytes((VERSION,)):
        raise Undecodable(f"it is sealed in version {version.hex() or 'none'}; this release reads version {VERSION}")
    id, at = _read_label(data, len(MAGIC) + 1)
    inner, at = _read_label(data, at)
    return data[:at], id, inner


def _read_label(data: bytes, at: int) -> tuple[str, int]:
    size = data[at] if at < len(data) else 0
    end = at + 1 + size
    text = data[at + 1 : end]
    if not 0 < size <= LABEL_CHARS_MAX or len(text) != size or not text.isascii():
        raise Undecodable("its header is damaged")
    return text.decode("ascii"), end
