"""The leases that a worker holds, in memory that it shares with its keeper: one record per job that runs.

A record is 64 bytes: id (8), lease in ms (8), number of the record's use (8), length of the token (1), token (32), and
a byte that the keeper sets when the lease is lost. The worker writes the id last when it takes a record and first when
it leaves it. The keeper may still read a record that is just being changed: the store refuses what it then asks for,
and the number of the use tells whose answer it is.
"""

import mmap
import os
import struct
from collections.abc import Iterator

RECORD = struct.Struct("<QQQB32sB6x")
ID = struct.Struct("<Q")
HEAD = 64  # before the records: how many rounds the keeper has made (8)
LOST_AT = 8 + 8 + 8 + 1 + 32
TOKEN_MAX = 32


class Table:
    def __init__(self, descriptor: int, records: int) -> None:
        self.descriptor = descriptor
        self.records = records
        self._memory = mmap.mmap(descriptor, HEAD + records * RECORD.size)

    @staticmethod
    def make(records: int) -> "Table":
        descriptor = os.memfd_create("tenure-leases")
        os.ftruncate(descriptor, HEAD + records * RECORD.size)
        return Table(descriptor, records)

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)

    # The worker.

    def take(self, at: int, id: int, lease_ms: int, use: int, token: bytes) -> None:
        start = HEAD + at * RECORD.size
        RECORD.pack_into(self._memory, start, 0, lease_ms, use, len(token), token, 0)
        ID.pack_into(self._memory, start, id)

    def leave(self, at: int) -> None:
        ID.pack_into(self._memory, HEAD + at * RECORD.size, 0)

    def is_lost(self, at: int) -> bool:
        return self._memory[HEAD + at * RECORD.size + LOST_AT] != 0

    def forget_rounds(self) -> None:
        """Another keeper begins."""
        ID.pack_into(self._memory, 0, 0)

    @property
    def rounds(self) -> int:
        (found,) = ID.unpack_from(self._memory, 0)
        return int(found)

    # The keeper.

    def taken(self) -> Iterator[tuple[int, int, int, int, bytes]]:
        """Record, id, lease in ms, use, token of each that is taken."""
        for at, found in enumerate(RECORD.iter_unpack(self._memory[HEAD:])):
            id, lease_ms, use, length, token, lost = found
            if id and not lost:
                yield at, id, lease_ms, use, token[:length]

    def count_round(self) -> None:
        ID.pack_into(self._memory, 0, self.rounds + 1)

    def mark_lost(self, at: int, id: int, use: int) -> None:
        start = HEAD + at * RECORD.size
        found = RECORD.unpack_from(self._memory, start)
        if found[0] == id and found[2] == use:
            self._memory[start + LOST_AT] = 1
