"""Columns in one piece (`core.packed`) as messages say them."""

from typing import Annotated

from msgspec import Meta, Struct

from tenure.core.packed import GAP_MAX, Packed, compressed


class InOnePiece(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A column as the bytes of all its entries, as they are or as a frame of zstd, and where each of them ends: 4 bytes
    a number, the lowest byte first. Before each entry are `gap` bytes that are not of it."""

    content: bytes
    ends: bytes
    zstd: bool = False
    gap: Annotated[int, Meta(ge=0, le=GAP_MAX)] = 0


def in_one_piece(packed: Packed) -> InOnePiece:
    return InOnePiece(packed.content, packed.ends, packed.is_compressed, int(packed.gap))


def squeezed(packed: Packed) -> InOnePiece:
    """For the way over a network: compressed where that makes it shorter."""
    content = None if packed.is_compressed else compressed(packed.content)
    return in_one_piece(packed) if content is None else InOnePiece(content, packed.ends, True, int(packed.gap))


def packed_of(piece: InOnePiece) -> Packed:
    return Packed(piece.content, piece.ends, piece.zstd, piece.gap)
