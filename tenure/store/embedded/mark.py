"""What is known to be on disk, noted beside the file, so that a write-ahead log that ends too early is noticed.

SQLite takes whatever is behind the first bad frame of its log for an unfinished transaction. So after each sync, when
nothing waits, the position that it made safe is written into `<name>-mark`. That write is not synced: after a loss of
power the mark may be an old one, and never says more than is true. It counts only for the very file that it was made
for, by its secret and its inode: one that was put in its place is not held against it.
"""

import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

MADE = b"tenure\0\0"
_numbers = struct.Struct("<8sqq")  # whose it is, epoch, position
_checksum = struct.Struct("<I")
SIZE = len(MADE) + _numbers.size + _checksum.size


def made(lock: int) -> None:
    """There is a store in the file now: should it ever be empty, something is lost."""
    os.pwrite(lock, MADE, 0)
    os.fsync(lock)


def was_made(lock: int) -> bool:
    return os.pread(lock, len(MADE), 0) == MADE


def identity(path: Path, secret: bytes) -> bytes:
    return blake2b(secret, digest_size=8, salt=path.stat().st_ino.to_bytes(8, "little")).digest()


def note(lock: int, whose: bytes, epoch: int, position: int) -> None:
    numbers = _numbers.pack(whose, epoch, position)
    with suppress(OSError):  # the old mark is true too
        os.pwrite(lock, MADE + numbers + _checksum.pack(crc32(numbers)), 0)


def read(path: Path) -> bytes:
    """The mark of a file that is not ours; empty when it has none."""
    with suppress(OSError):
        return Path(f"{path}-mark").read_bytes()[:SIZE]
    return b""


def reached(lock: int, whose: bytes) -> tuple[int, int]:
    """The epoch and the position that were on disk; (0, 0) when nothing is known."""
    return reached_in(os.pread(lock, SIZE, 0), whose)


def cut(position: int) -> str:
    """What is wrong with a file that ends before its mark."""
    return f"it ends with record {position}, and later ones were on disk; its log is cut, or it is old"


def reached_in(data: bytes, whose: bytes) -> tuple[int, int]:
    if len(data) < SIZE:
        return 0, 0
    numbers = data[len(MADE) : len(MADE) + _numbers.size]
    found, epoch, position = _numbers.unpack(numbers)
    if found != whose or _checksum.pack(crc32(numbers)) != data[-_checksum.size :]:
        return 0, 0
    return epoch, position
