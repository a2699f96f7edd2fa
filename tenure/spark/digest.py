"""What a load contains, in few bytes: by it a load that is written again is told from another one of the same name.

The hashes of the rows are added up, so that the sum is the same in whatever order and in however many tasks the rows
are written. One sum is of the keys, the other of everything else that a row says besides.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

import msgspec

from tenure.core.job import Extras, Options

VERSION: Final = "1"  # of the way it is worked out; those of different versions are not compared
HASH_BYTES: Final = 8
SUM_END: Final = 1 << 8 * HASH_BYTES


class Digest(msgspec.Struct):
    """Sums of rows, of a task or of all of them."""

    rows: int = 0
    keys: int = 0
    content: int = 0

    def add_rows(
        self,
        keys: Sequence[str],
        payloads: Sequence[bytes],
        options: Options,
        each: Sequence[Options] | None,
        extras: Sequence[Extras | None] | None,
    ) -> None:
        names = [key.encode() for key in keys]
        orders: Iterable[bytes] = repeat(_order_of(options, None))
        if each is not None or extras is not None:
            orders = map(_order_of, each or repeat(options), extras or repeat(None, len(names)))
        self.rows += len(names)
        self.keys = (self.keys + _sum_of(names)) % SUM_END
        whole = map(b"\0".join, zip(names, payloads, orders, strict=False))
        self.content = (self.content + _sum_of(whole)) % SUM_END

    def add(self, other: "Digest") -> None:
        self.rows += other.rows
        self.keys = (self.keys + other.keys) % SUM_END
        self.content = (self.content + other.content) % SUM_END

    def to_text(self) -> str:
        return f"{VERSION}-{self.keys:016x}-{self.content:016x}"

    def differs(self, rows: int, text: str) -> str:
        """How it differs from a load that was published with so many rows and that text, which is empty when nobody
        gave one; nothing when it does not."""
        if self.rows != rows:
            return f"{rows} rows, now {self.rows}"
        version, _, sums = text.partition("-")
        if version != VERSION:
            return ""
        keys, _, content = sums.partition("-")
        if int(keys, 16) != self.keys:
            return "other keys"
        return "" if int(content, 16) == self.content else SAME_KEYS


SAME_KEYS: Final = "the same keys with other content"


def _order_of(options: Options, extras: Extras | None) -> bytes:
    """What a row says besides its payload: where its job goes, and how it is treated."""
    said: tuple[object, ...] = (options.queue, options.task, options.priority)
    if extras is not None:
        said += (extras.group, extras.run_at, extras.unique_key, extras.tags)
    return msgspec.msgpack.encode(said)


def _sum_of(contents: Iterable[bytes]) -> int:
    hashes = array("Q")
    hashes.frombytes(b"".join([hashlib.blake2b(each, digest_size=HASH_BYTES).digest() for each in contents]))
    return sum(hashes) % SUM_END
