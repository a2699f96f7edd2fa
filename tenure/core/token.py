"""Lease tokens: (epoch, claim number, keyed hash of both).

A token is 20 bytes: epoch (4, big-endian), claim number (8, big-endian), hash (8). The hash is a slice of keyed BLAKE2b
over the epoch and the claim number divided by eight: one hash of 64 bytes serves eight claims in a row. Whoever has the
secret can tell a genuine token from an invented one without remembering it; nobody else can make one. The secret and
the epoch are given, so history replayed gives the same tokens.
"""

from hashlib import blake2b
from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be

TOKEN_BYTES: Final = 20
SECRET_BYTES: Final = 32


class Mint:
    """Makes the tokens of one epoch, and recognises those of any."""

    def __init__(self, secret: bytes, epoch: int) -> None:
        self.secret = secret
        self.epoch = epoch
        self._head = epoch.to_bytes(4, "big")
        self._block = -1
        self._hashes = b""

    def token(self, claim: int) -> bytes:
        block = claim >> 3
        if block != self._block:
            self._hashes = _hashes(self.secret, self._head, block)
            self._block = block
        out = BytesWriter()
        out.write(self._head)
        write_i64_be(out, claim)
        write_i64_be(out, read_i64_be(self._hashes, (claim & 7) * 8))
        return out.getvalue()

    def is_genuine(self, token: bytes) -> bool:
        if len(token) != TOKEN_BYTES:
            return False
        claim = claim_of(token)
        at = (claim & 7) * 8
        return _hashes(self.secret, token[:4], claim >> 3)[at : at + 8] == token[12:]


def epoch_of(token: bytes) -> int:
    return int.from_bytes(token[:4], "big")


def claim_of(token: bytes) -> int:
    return int.from_bytes(token[4:12], "big")


def _hashes(secret: bytes, head: bytes, block: int) -> bytes:
    return blake2b(head + block.to_bytes(8, "big"), key=secret).digest()
