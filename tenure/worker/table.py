"""What a worker shares with its keeper: the leases that it holds, its claims under way, and when its loop last ran.

All of it is in memory that both processes see. A record of a lease is 64 bytes: id (8), lease in ms (4), number of the
record's use (8), when the lease was asked for (8), length of the token (1), token (32), and a byte that the keeper sets
when the lease is lost. The worker writes the id last when it takes a record and first when it leaves it. The keeper may
still read a record that is just being changed: the store refuses what it then asks for, and the number of the use tells
whose answer it is.

A claim has a place with the counter of its operation id (8) and the counter that was last withdrawn there (8). Each
side writes its own number before it reads the other's, so that a claim is never both taken and withdrawn unseen.
"""

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator

RECORD = struct.Struct("<QIQdB32sB2x")
ID = struct.Struct("<Q")
TIME = struct.Struct("<d")
HEAD = 64  # before the claims: rounds of the keeper (8), records that were ever taken (8), when the loop last ran (8)
TOP_AT = 8
BEAT_AT = 16
CLAIM = 16
LOST_AT = 8 + 4 + 8 + 8 + 1 + 32
TOKEN_MAX = 32

# What the keeper says of a lease.
EXPIRED = 1
CANCELLED = 2


def _memory() -> int:
    """A file without a name: in memory, or in the folder of temporary files where the system has no such thing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tenure-leases")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Table:
    def __init__(self, descriptor: int, records: int, claims: int) -> None:
        self.descriptor = descriptor
        self.records = records
        self.claims = claims
        self._first = HEAD + claims * CLAIM
        self._top = 0
        self._memory = mmap.mmap(descriptor, self._first + records * RECORD.size)

    @staticmethod
    def make(records: int, claims: int = 0) -> "Table":
        descriptor = _memory()
        os.ftruncate(descriptor, HEAD + claims * CLAIM + records * RECORD.size)
        return Table(descriptor, records, claims)

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)

    def _number(self, at: int) -> int:
        (found,) = ID.unpack_from(self._memory, at)
        return int(found)

    # The worker.

    def take(self, at: int, id: int, lease_ms: int, use: int, asked_at: float, token: bytes) -> None:
        """`asked_at` is of the clock that all processes of a machine share, `time.monotonic()`."""
        start = self._first + at * RECORD.size
        RECORD.pack_into(self._memory, start, 0, lease_ms, use, asked_at, len(token), token, 0)
        ID.pack_into(self._memory, start, id)
        if at >= self._top:
            self._top = at + 1
            ID.pack_into(self._memory, TOP_AT, self._top)

    def leave(self, at: int) -> None:
        ID.pack_into(self._memory, self._first + at * RECORD.size, 0)

    def lost(self, at: int) -> int:
        """0 while the lease is held."""
        return self._memory[self._first + at * RECORD.size + LOST_AT]

    def forget_rounds(self) -> None:
        """Another keeper begins."""
        ID.pack_into(self._memory, 0, 0)

    @property
    def rounds(self) -> int:
        return self._number(0)

    def beat(self, now: float) -> None:
        """The loop runs."""
        TIME.pack_into(self._memory, BEAT_AT, now)

    def begin_claim(self, place: int, counter: int) -> None:
        ID.pack_into(self._memory, HEAD + place * CLAIM, counter)

    def end_claim(self, place: int, counter: int) -> bool:
        """Whether it was withdrawn meanwhile."""
        ID.pack_into(self._memory, HEAD + place * CLAIM, 0)
        return self._number(HEAD + place * CLAIM + 8) == counter

    # The keeper.

    def taken(self) -> Iterator[tuple[int, int, int, int, float, bytes]]:
        """Record, id, lease in ms, use, when it was asked for, token of each that is taken."""
        end = self._first + self._number(TOP_AT) * RECORD.size
        for at, found in enumerate(RECORD.iter_unpack(self._memory[self._first : end])):
            id, lease_ms, use, asked_at, length, token, lost = found
            if id and not lost:
                yield at, id, lease_ms, use, asked_at, token[:length]

    def count_round(self) -> None:
        ID.pack_into(self._memory, 0, self.rounds + 1)

    def mark_lost(self, at: int, id: int, use: int, why: int) -> None:
        start = self._first + at * RECORD.size
        found = RECORD.unpack_from(self._memory, start)
        if found[0] == id and found[2] == use:
            self._memory[start + LOST_AT] = why

    @property
    def beat_at(self) -> float:
        (found,) = TIME.unpack_from(self._memory, BEAT_AT)
        return float(found)

    def claiming(self) -> list[tuple[int, int]]:
        """Place and counter of the claims under way."""
        places = ((place, self._number(HEAD + place * CLAIM)) for place in range(self.claims))
        return [(place, counter) for place, counter in places if counter]

    def withdraw(self, place: int, counter: int) -> bool:
        """False when the worker has taken the answer by now."""
        ID.pack_into(self._memory, HEAD + place * CLAIM + 8, counter)
        return self._number(HEAD + place * CLAIM) == counter
