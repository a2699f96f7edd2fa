"""Getting the content of a chunk or a blob back, or knowing that it is not what was stored."""

import zlib
from hashlib import sha256

from tenure.ops.error import BackupDamaged
from tenure.ops.manifest import Blob, Chunk
from tenure.ops.place import Missing, Place


def fetch(place: Place, chunk: Chunk, length: int) -> bytes:
    try:
        packed = place.get(chunk.object)
    except Missing:
        raise BackupDamaged(f"{place.title}: {chunk.object} is missing; restore a backup without it") from None
    if len(packed) != chunk.stored_bytes:
        raise _damaged(place, chunk, f"it has {len(packed)} bytes instead of {chunk.stored_bytes}")
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, length + 1)
    except zlib.error:
        raise _damaged(place, chunk, "it cannot be unpacked") from None
    if len(content) != length or sha256(content).hexdigest() != chunk.sha256:
        raise _damaged(place, chunk, "its content is not what its name says")
    return content


def fetch_blob(place: Place, blob: Blob) -> bytes:
    try:
        content = place.get_large(blob.object, blob.size_bytes)
    except Missing:
        raise BackupDamaged(f"{place.title}: {blob.object} is missing; restore a backup without it") from None
    if len(content) != blob.size_bytes:
        raise _damaged(place, blob, f"it has not the {blob.size_bytes} bytes that were stored")
    if sha256(content).hexdigest() != blob.sha256:
        raise _damaged(place, blob, "its content is not what its name says")
    return content


def _damaged(place: Place, chunk: Chunk | Blob, how: str) -> BackupDamaged:
    return BackupDamaged(f"{place.title}: {chunk.object} is damaged: {how}; restore a backup without it")
