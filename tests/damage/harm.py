"""Ways to harm a file, as disks, controllers and careless tools do."""

import random
from collections.abc import Callable

BLOCK = 4096
SECTOR = 512

Harm = Callable[[bytearray, random.Random], str]  # what it did


def flip(content: bytearray, chance: random.Random) -> str:
    at, bit = chance.randrange(len(content)), chance.randrange(8)
    content[at] ^= 1 << bit
    return f"flip bit {bit} of byte {at}"


def flip_head_of_block(content: bytearray, chance: random.Random) -> str:
    """Where SQLite keeps what it must know of a page."""
    at = chance.randrange(len(content) // BLOCK) * BLOCK + chance.randrange(32)
    bit = chance.randrange(8)
    content[at] ^= 1 << bit
    return f"flip bit {bit} of byte {at}"


def scribble(content: bytearray, chance: random.Random) -> str:
    at, size = chance.randrange(len(content)), chance.choice((2, 8, 64, 600))
    size = min(size, len(content) - at)
    content[at : at + size] = chance.randbytes(size)
    return f"scribble over {size} bytes at {at}"


def zero_block(content: bytearray, chance: random.Random) -> str:
    size = chance.choice((BLOCK, BLOCK, SECTOR))
    at = chance.randrange(max(len(content) // size, 1)) * size
    content[at : at + size] = bytes(len(content[at : at + size]))
    return f"zero {size} bytes at {at}"


def swap_blocks(content: bytearray, chance: random.Random) -> str:
    one, other = (chance.randrange(len(content) // BLOCK) * BLOCK for _ in range(2))
    first, second = content[one : one + BLOCK], content[other : other + BLOCK]
    content[one : one + BLOCK], content[other : other + BLOCK] = second, first
    return f"swap blocks at {one} and {other}"


def copy_block(content: bytearray, chance: random.Random) -> str:
    """A write that went to the wrong place."""
    one, other = (chance.randrange(len(content) // BLOCK) * BLOCK for _ in range(2))
    content[other : other + BLOCK] = content[one : one + BLOCK]
    return f"copy the block at {one} to {other}"


def truncate(content: bytearray, chance: random.Random) -> str:
    size = chance.choice((chance.randrange(len(content)), chance.randrange(len(content) // BLOCK) * BLOCK))
    del content[size:]
    return f"truncate to {size}"


HARMS: tuple[Harm, ...] = (
    flip,
    flip,
    flip_head_of_block,
    flip_head_of_block,
    scribble,
    zero_block,
    swap_blocks,
    copy_block,
    truncate,
)
