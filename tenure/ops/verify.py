"""Looking for damage: in a store's file, also while its owner writes to it, and in the backups of a place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tenure.ops.catalog import list_backups, read_all
from tenure.ops.error import BackupDamaged
from tenure.ops.fetch import fetch, fetch_blob
from tenure.ops.home import BLOB_WORKERS
from tenure.ops.manifest import Blob, Chunk, Manifest
from tenure.ops.place import Place
from tenure.ops.progress import Progress, silent
from tenure.ops.transfer import in_order
from tenure.ops.working import working_copy
from tenure.store.embedded.copy import find_cut, find_damage, find_disorder, find_undecodable, read_mark

FINDINGS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at, and what is wrong with it."""

    backups: int
    chunks: int
    blobs: int
    size_bytes: int
    findings: list[str]
    is_damaged: bool = False  # what was written is not there any more: a backup is needed


def verify_file(source: Path, scratch: Path | None = None, progress: Progress = silent) -> Checked:
    noted = read_mark(source)
    with working_copy(source, "verify", scratch, progress) as copy:
        size_bytes = copy.stat().st_size
        progress("checking", 0, size_bytes)
        damage = find_damage(copy) or find_cut(source, noted, copy)
        found = damage or [*find_disorder(copy), *find_undecodable(copy)]
        progress("checking", size_bytes, size_bytes)
    return Checked(0, 0, 0, size_bytes, [f"{source}: {finding}" for finding in found], bool(damage))


def verify_place(place: Place, progress: Progress = silent) -> Checked:
    """Every manifest, and the content of every chunk and blob that one of them names, each read once."""
    entries = list_backups(place)
    findings: list[str] = [] if entries else [f"{place.title} holds no backup; make one with tenure backup"]
    lengths: dict[Chunk, int] = {}
    blobs: dict[str, Blob] = {}
    for found in read_all(place, entries):
        if isinstance(found, Manifest):
            for at, chunk in enumerate(found.chunks):
                lengths[chunk] = found.length_of(at)
            blobs.update((blob.object, blob) for blob in found.blobs)
        else:
            findings.append(str(found))
    total_bytes = sum(chunk.stored_bytes for chunk in lengths) + sum(blob.size_bytes for blob in blobs.values())
    done_bytes = 0
    for size_bytes, damage in _check(place, lengths, blobs):
        done_bytes += size_bytes
        progress("checking", done_bytes, total_bytes)
        if damage and len(findings) < FINDINGS_MAX:
            findings.append(damage)
    return Checked(len(entries), len(lengths), len(blobs), total_bytes, findings)


def _check(place: Place, lengths: dict[Chunk, int], blobs: dict[str, Blob]) -> Iterator[tuple[int, str]]:
    """The size of each object, and what is wrong with it."""

    def check_chunk(item: tuple[Chunk, int]) -> tuple[int, str]:
        return item[0].stored_bytes, _damage(lambda: fetch(place, *item))

    def check_blob(blob: Blob) -> tuple[int, str]:
        return blob.size_bytes, _damage(lambda: fetch_blob(place, blob))

    yield from in_order(check_chunk, lengths.items())
    yield from in_order(check_blob, blobs.values(), BLOB_WORKERS)


def _damage(get: Callable[[], bytes]) -> str:
    try:
        get()
    except BackupDamaged as error:
        return str(error)
    return ""
