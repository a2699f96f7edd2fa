"""Making a store of a backup: beside its place first, checked through and through, then there in one step.

Its blobs go to a folder of their own in the place that is given (tenure/store/embedded/home.py), before that step.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from tenure.core.clock import Now
from tenure.core.error import Error, Unavailable
from tenure.ops.catalog import choose, read_entry
from tenure.ops.error import BackupDamaged, Refused
from tenure.ops.fetch import fetch, fetch_blob
from tenure.ops.home import BLOB_WORKERS, Home
from tenure.ops.manifest import Blob, Manifest
from tenure.ops.place import Place, sync_folder
from tenure.ops.progress import Progress, silent
from tenure.ops.transfer import in_order
from tenure.store.blob.place import Place as BlobPlace
from tenure.store.embedded.copy import become_a_store, find_damage, find_disorder, read_about, read_blobs
from tenure.store.embedded.file import lock_file, refuse_network

SIDE_FILES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest
    blobs_in: str  # where its blobs are; empty when it has none
    took_ms: int


def restore(
    place: Place,
    target: Path,
    clock: Callable[[], Now],
    at_ms: int | None = None,
    force: bool = False,
    progress: Progress = silent,
    blobs: BlobPlace | None = None,
) -> Restored:
    """Nothing is at `target` but what was there before, or all of the backup."""
    began = clock()
    manifest = read_entry(place, choose(place, at_ms))
    needs_blobs = bool(manifest.blobs or manifest.lost)
    if needs_blobs and blobs is None:
        raise Refused(
            f"the backup {manifest.name} has {len(manifest.blobs)} blobs; name a place for them in the URL, as in"
            f" sqlite:///{target}?blobs=./jobs.blobs"
        )
    target = target.absolute()
    refuse_network(target)
    owner = _own(target)
    partial = Path(f"{target}-restoring")
    ready = Path(f"{target}-restored")  # a store of its own already, in the wrong place
    home: Home | None = None
    leftovers = [partial, ready]
    try:
        if blobs is not None:
            _clear_leftovers(ready, blobs)
        if target.exists() and not force:
            raise Refused(f"{target} exists; choose another file, or replace it with --force")
        _write(place, manifest, partial, progress)
        become_a_store(partial, began.wall_ms - manifest.at)
        os.rename(partial, ready)
        sync_folder(target.parent)
        progress("checking", 0, manifest.size_bytes)
        if damage := find_damage(ready) or find_disorder(ready):
            raise BackupDamaged(f"the backup {manifest.name} is of a damaged store: {damage[0]}; restore an older one")
        _check_blobs(manifest, ready)
        progress("checking", manifest.size_bytes, manifest.size_bytes)
        if blobs is not None and needs_blobs:
            home = Home(blobs, read_about(ready))
            _bring_blobs(place, manifest, home, progress)
        _put_in_place(ready, target)
    except BaseException:
        if home is not None and ready.exists() and not _is_cleared(home):
            leftovers.remove(ready)  # the next run finds it, and clears
        raise
    finally:
        for path in leftovers:
            for suffix in ("", *SIDE_FILES):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        os.close(owner)
    return Restored(manifest, "" if home is None else str(home), clock().elapsed_ms - began.elapsed_ms)


def _own(target: Path) -> int:
    """As the process does that works with the file: nobody can open it meanwhile."""
    try:
        owner = os.open(f"{target}-owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{target} cannot be made: {error.strerror}; check its folder") from error
    if not lock_file(owner):
        os.close(owner)
        raise Refused(f"a process has {target} open; stop it first, or choose another file")
    return owner


def _write(place: Place, manifest: Manifest, partial: Path, progress: Progress) -> None:
    numbers = range(len(manifest.chunks))
    done_bytes = 0
    total_bytes = manifest.size_bytes + manifest.blob_bytes
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            for content in in_order(lambda n: fetch(place, manifest.chunks[n], manifest.length_of(n)), numbers):
                file.write(content)
                done_bytes += len(content)
                progress("fetching", done_bytes, total_bytes)
    except OSError as error:
        raise Unavailable(f"{partial} cannot be written: {error.strerror}; free some space, then try again") from error


def _clear_leftovers(ready: Path, blobs: BlobPlace) -> None:
    """An earlier run brought blobs for a store that it did not put in its place: they are nobody's."""
    if not ready.exists():
        return
    try:
        about = read_about(ready)
    except Error:
        return
    if about.blob_home:
        Home(blobs, about).clear()


def _is_cleared(home: Home) -> bool:
    try:
        home.clear()
    except Unavailable:
        return False
    return True


def _check_blobs(manifest: Manifest, ready: Path) -> None:
    """The backup has every blob that its jobs need, or says that the store had it not."""
    if not read_about(ready).has_blobs:
        return
    missing = read_blobs(ready).keys() - {blob.name for blob in manifest.blobs} - set(manifest.lost)
    if missing:
        raise BackupDamaged(
            f"the backup {manifest.name} lacks {len(missing)} blobs of its jobs, {min(missing)} for one;"
            " restore another one"
        )


def _bring_blobs(place: Place, manifest: Manifest, home: Home, progress: Progress) -> None:
    done_bytes = manifest.size_bytes
    total_bytes = manifest.size_bytes + manifest.blob_bytes

    def bring(blob: Blob) -> int:
        home.put(blob.name, fetch_blob(place, blob))
        return blob.size_bytes

    with closing(in_order(bring, manifest.blobs, BLOB_WORKERS)) as brought:
        for size_bytes in brought:
            done_bytes += size_bytes
            progress("fetching", done_bytes, total_bytes)
    home.own()


def _put_in_place(ready: Path, target: Path) -> None:
    """A log that the old file left must not be applied to the new one.

    It is moved into the old file first: if the power fails before the new one is there, the old one is whole.
    """
    descriptor = os.open(ready, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if target.exists():
        with suppress(apsw.Error):
            db = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                db.close()
    for suffix in SIDE_FILES:
        Path(f"{target}{suffix}").unlink(missing_ok=True)
    sync_folder(target.parent)
    os.rename(ready, target)
    sync_folder(target.parent)
