"""Batches of lists as batches in one piece."""

import sys
from typing import cast

from tenure.core.packed import Packed, Texts, ends_of, pack, pack_texts
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


FORMS = 4
CHUNK_FORMS = 3  # a chunk of a load has no gaps


def in_form(batch: Batch, form: int) -> Batch:
    """As it is, in one piece, that compressed, or with gaps."""
    if form % FORMS == 0:
        return batch
    found = in_one_piece(batch, form % FORMS == 2)
    if form % FORMS == 3:
        found.payloads = gapped(cast("list[bytes]", batch.payloads), 6)
    return found


def gapped(contents: list[bytes], gap: int) -> Packed:
    ends = ends_of([gap + len(content) for content in contents])
    return Packed(b"".join(b"#" * gap + content for content in contents), ends, False, gap)
