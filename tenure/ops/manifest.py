"""The manifest of a backup: what it is of, and which chunks make it up. It is stored last, so it is the backup.

Names in a place:

    manifests/20260131T101500.250Z-1f0c9a2b.json   a backup; the names sort by time
    chunks/<sha256 of the content>-<8 hex digits>  a piece of a file, compressed with zlib; the digits are of the run
    blobs/<sha256 of the content>-<8 hex digits>   a payload or result that was beside the file, as it was there
    gone/20260131T101500.250Z-1f0c9a2b.json        a backup that was pruned; after the grace time it goes, then objects
    partial/...                                    what a folder has half written

A manifest is {"sha256": "...", "manifest": {...}}: the sum is of the bytes of the second value, as they stand.

To change it: a new optional field needs nothing. Anything else raises VERSION, and `read` goes on reading the old
ones: backups are kept for years.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated

import msgspec

from tenure.core.bound import BLOB_BYTES_MAX
from tenure.ops.error import BackupDamaged

VERSION = 1
CHUNK_BYTES = 256 * 1024
CHUNKS_MAX = 16 * 1024 * 1024  # of a file of 4 TiB
MANIFESTS = "manifests"
CHUNKS = "chunks"
BLOBS = "blobs"
BLOBS_MAX = 16 * 1024 * 1024
GONE = "gone"

NAME = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-[0-9a-f]{8}")
OBJECT = r"^chunks/[0-9a-f]{64}-[0-9a-f]{8}$"
BLOB_OBJECT = r"^blobs/[0-9a-f]{64}-[0-9a-f]{8}$"
BLOB_NAME = r"^[0-9a-f]{64}-[0-9]{1,18}-[0-9]{1,18}$"

Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
BlobName = Annotated[str, msgspec.Meta(pattern=BLOB_NAME)]


class Chunk(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    object: Annotated[str, msgspec.Meta(pattern=OBJECT)]
    stored_bytes: Amount  # compressed

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hash_of(self.object)


class Blob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A payload or result that is kept beside the file."""

    name: BlobName  # by which the jobs know it
    object: Annotated[str, msgspec.Meta(pattern=BLOB_OBJECT)]
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=BLOB_BYTES_MAX)]

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hash_of(self.object)


class Manifest(msgspec.Struct, frozen=True):
    name: Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
    at: Amount  # milliseconds since 1970; what was answered before is in the backup
    store: str  # the same for a store and for those restored from its backups
    format: Amount  # of the store's file
    epoch: Amount
    position: Amount  # of the last record of the journal
    page_bytes: Amount
    size_bytes: Amount
    chunk_bytes: Annotated[int, msgspec.Meta(ge=512, le=64 * 1024 * 1024)]
    chunks: Annotated[list[Chunk], msgspec.Meta(max_length=CHUNKS_MAX)]
    blobs: Annotated[list[Blob], msgspec.Meta(max_length=BLOBS_MAX)] = []
    lost: Annotated[list[BlobName], msgspec.Meta(max_length=BLOBS_MAX)] = []  # blobs that the store itself had not
    version: Amount = VERSION

    def length_of(self, at: int) -> int:
        """Of the content of a chunk: all have the same but for the last."""
        return min(self.chunk_bytes, self.size_bytes - at * self.chunk_bytes)

    @property
    def blob_bytes(self) -> int:
        return sum(blob.size_bytes for blob in self.blobs)

    def objects(self) -> Iterator[tuple[str, int]]:
        """All that it needs, with the size there."""
        yield from ((chunk.object, chunk.stored_bytes) for chunk in self.chunks)
        yield from ((blob.object, blob.size_bytes) for blob in self.blobs)


class _Envelope(msgspec.Struct):
    sha256: str
    manifest: msgspec.Raw


class _Version(msgspec.Struct):
    version: int


def write(manifest: Manifest) -> bytes:
    body = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Envelope(sha256(body).hexdigest(), msgspec.Raw(body)))


def read(title: str, data: bytes) -> Manifest:
    """Checked: its sum, its version, its fields, and that its chunks make up its size."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if sha256(envelope.manifest).hexdigest() != envelope.sha256:
            raise BackupDamaged(f"{title} is not as it was written; restore an older backup, and remove this one")
        version = msgspec.json.decode(envelope.manifest, type=_Version).version
        if version > VERSION:
            raise BackupDamaged(f"{title} has version {version}, this Tenure reads {VERSION}; use a newer Tenure")
        manifest = msgspec.json.decode(envelope.manifest, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupDamaged(f"{title} cannot be read: {error}; restore an older backup, and remove this one") from error
    if len(manifest.chunks) != -(-manifest.size_bytes // manifest.chunk_bytes):
        raise BackupDamaged(f"{title} does not name all its chunks; restore an older backup, and remove this one")
    if any(not blob.name.startswith(blob.sha256) for blob in manifest.blobs):
        raise BackupDamaged(f"{title} takes a blob for another; restore an older backup, and remove this one")
    return manifest


def hash_of(object: str) -> str:
    """In the name of a chunk or a blob."""
    return object.rpartition("/")[2].partition("-")[0]


def name_at(at_ms: int, run: str) -> str:
    return f"{show_time(at_ms).replace('-', '').replace(':', '')}-{run}"


def time_of(name: str) -> int | None:
    """When the backup of that name was made; None when it is no name of a backup."""
    found = NAME.fullmatch(name)
    if found is None:
        return None
    try:
        at = datetime.strptime(found[1], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(at.timestamp() * 1000)


def show_time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
