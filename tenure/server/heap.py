"""Gives memory that was freed back to the operating system.

The C library keeps what was freed for the next allocation, and returns little of it by itself. Jobs go in masses, when
their retention ends, often when nothing else happens: then it is asked to return what it can (`malloc_trim` of glibc).
"""

import asyncio
import ctypes
import sys

LOOK_S = 5.0
BLOCKS_MIN = 20_000  # fewer are not worth it


def trim() -> None:
    """Does nothing where the C library has no such function."""
    found = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if found is not None:
        found(0)


async def keep_trimmed() -> None:
    """Trims whenever a quarter of the objects went since their number was highest."""
    most = sys.getallocatedblocks()
    while True:
        await asyncio.sleep(LOOK_S)
        now = sys.getallocatedblocks()
        most = max(most, now)
        if most - now > max(BLOCKS_MIN, most // 4):
            await asyncio.to_thread(trim)  # without the interpreter's lock
            most = now
