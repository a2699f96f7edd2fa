"""Batches of lists as batches in one piece."""

import sys
from typing import cast

from tenure.core.packed import Packed, Texts, pack, pack_texts
from tenure.core.request import Batch

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd


def in_one_piece(batch: Batch, is_compressed: bool) -> Batch:
    payloads = pack(cast("list[bytes]", batch.payloads))
    keys = None if batch.keys is None else pack_texts(list(batch.keys))
    if is_compressed:
        payloads = squeezed(payloads)
        keys = None if keys is None else Texts(squeezed(keys.packed))
    return Batch(batch.options, payloads, batch.extras, batch.each, batch.atomic, batch.pasts, keys)


def squeezed(packed: Packed) -> Packed:
    return Packed(zstd.compress(packed.content), packed.ends, True, packed.gap)


def in_form(batch: Batch, form: int) -> Batch:
    """As it is, in one piece, or that compressed."""
    return batch if form % 3 == 0 else in_one_piece(batch, form % 3 == 2)
