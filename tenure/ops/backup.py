"""Making a backup: a copy of the file at one moment, cut into chunks, of which only new ones are sent.

Chunks are named by their content, so what has not changed since an earlier backup is there already. The manifest goes
last: until it is there, there is no backup, and what was sent is found again by the next run.

A chunk is not sent when the newest backup names it, or when it arrived less than half the grace time ago. Pruning
removes neither within the grace time, and this run ends within half of it, or fails. So no two processes that back up
or prune one place have to know of each other.

Blobs that jobs in the copy name are sent the same way, each as one object; one is not sent when any backup names it.
The store deletes none of them meanwhile (tenure/store/embedded/hold.py).
"""

import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tenure.core.clock import Now
from tenure.ops.catalog import list_backups, list_blobs, list_chunks, object_of, read_or_explain
from tenure.ops.error import Refused, Stopped
from tenure.ops.home import BLOB_WORKERS, Home
from tenure.ops.manifest import BLOBS, CHUNK_BYTES, CHUNKS, Blob, Chunk, Manifest, hash_of, name_at, show_time, write
from tenure.ops.place import Place, Stored
from tenure.ops.progress import Progress, silent
from tenure.ops.retention import GRACE_MS
from tenure.ops.transfer import in_order
from tenure.ops.working import working_copy
from tenure.store.blob.place import Place as BlobPlace
from tenure.store.embedded.content import Unreadable
from tenure.store.embedded.copy import About, find_damage, read_about, read_blobs
from tenure.store.embedded.hold import holding

COMPRESSION = 3
CLOCK_MS = 3_600_000  # how far the clocks of two machines may be apart


@dataclass(frozen=True, slots=True)
class Made:
    """What a run has made."""

    manifest: Manifest
    new_chunks: int
    new_blobs: int
    sent_bytes: int
    took_ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """How a backup is made; the same for every run of a schedule."""

    source: Path
    place: Place
    clock: Callable[[], Now]
    scratch: Path | None = None
    grace_ms: int = GRACE_MS
    progress: Progress = silent
    is_stopped: Callable[[], bool] = lambda: False
    blobs: BlobPlace | None = None  # where the store has its blobs

    def go_on(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """Show how far it has come, unless it is to stop."""
        if self.is_stopped():
            raise Stopped("the backup was stopped; what was sent is used by the next one")
        self.progress(what, done_bytes, total_bytes)


def back_up(run: Run) -> Made:
    began = run.clock()
    place = run.place
    newest = _newest(place)
    young_from_ms = began.wall_ms - run.grace_ms // 2
    known = _known_chunks(newest, list_chunks(place), young_from_ms)
    at_ms = _time_after(place, newest, began.wall_ms)
    with _holding(run), working_copy(run.source, "backup", run.scratch, run.go_on) as copy:
        if damage := find_damage(copy, thorough=False):
            raise Unreadable(run.source, f"no backup was made of it, because SQLite found {damage[0]!r}")
        about = read_about(copy)
        if newest is not None and newest.store != about.store:
            raise Refused(f"{place.title} holds backups of another store; give each store a place of its own")
        tail = secrets.token_hex(4)
        sizes = _sizes_of_blobs(run, copy, about)
        sent = _Sender(run, copy, tail, known, sum(sizes.values()))
        if run.blobs is not None and sizes:
            sent.send_blobs(Home(run.blobs, about), sizes, _known_blobs(place, sizes, young_from_ms))
        chunks = sent.send_chunks()
        manifest = Manifest(
            name=name_at(at_ms, tail),
            at=at_ms,
            store=about.store,
            format=about.format,
            epoch=about.epoch,
            position=about.position,
            page_bytes=about.page_bytes,
            size_bytes=sent.size_bytes,
            chunk_bytes=CHUNK_BYTES,
            chunks=chunks,
            blobs=sent.blobs,
            lost=sent.lost,
        )
    took_ms = run.clock().elapsed_ms - began.elapsed_ms
    if took_ms > run.grace_ms // 2:
        raise Refused(f"the backup took {took_ms} ms, half of the grace time is less; raise --grace")
    place.put(object_of(manifest.name), write(manifest))
    return Made(manifest, sent.new_chunks, sent.new_blobs, sent.new_bytes, took_ms)


def _newest(place: Place) -> Manifest | None:
    return next(_newest_first(place), None)


def _newest_first(place: Place) -> Iterator[Manifest]:
    """Those that can be read."""
    for entry in reversed(list_backups(place)):
        found = read_or_explain(place, entry)
        if isinstance(found, Manifest):
            yield found


def _holding(run: Run) -> AbstractContextManager[None]:
    return nullcontext() if run.blobs is None or not run.source.exists() else holding(run.source)


def _sizes_of_blobs(run: Run, copy: Path, about: About) -> dict[str, int]:
    """Of those that the copy needs, by name."""
    if run.blobs is None and not about.has_blobs:
        return {}
    sizes = read_blobs(copy)
    if sizes and run.blobs is None:
        raise Refused(
            f"{run.source} has {len(sizes)} payloads or results in a blob store; name it in the URL, as in"
            f" sqlite:///{run.source}?blobs=./jobs.blobs"
        )
    return sizes


def _time_after(place: Place, newest: Manifest | None, now_ms: int) -> int:
    """Backups are in the order in which they were made, though clocks differ a little."""
    if newest is None or newest.at < now_ms:
        return now_ms
    if newest.at - now_ms > CLOCK_MS:
        raise Refused(
            f"the newest backup in {place.title} is of {show_time(newest.at)}, which is ahead of the clock here;"
            " set the clock, or remove that backup"
        )
    return newest.at + 1


def _known_chunks(newest: Manifest | None, listed: dict[str, Stored], young_from_ms: int) -> dict[str, Chunk]:
    """By the hash of their content: those that need not be sent."""
    known = {
        hash_of(stored.name): Chunk(stored.name, stored.size_bytes)
        for stored in listed.values()
        if stored.at_ms > young_from_ms
    }
    for chunk in [] if newest is None else newest.chunks:
        stored = listed.get(chunk.object)
        if stored is not None and stored.size_bytes == chunk.stored_bytes:
            known[chunk.sha256] = chunk
    return known


def _known_blobs(place: Place, sizes: dict[str, int], young_from_ms: int) -> dict[str, str]:
    """By the hash of their content: objects that need not be sent. Older backups are read only if they can help."""
    size_of = {name[:64]: size_bytes for name, size_bytes in sizes.items()}
    there = {name: at for name, at in list_blobs(place).items() if at.size_bytes == size_of.get(hash_of(name))}
    known = {hash_of(name): name for name, stored in there.items() if stored.at_ms > young_from_ms}
    sought = {hash_of(name) for name in there} - known.keys()
    manifests = _newest_first(place)
    while sought and (manifest := next(manifests, None)) is not None:
        for blob in manifest.blobs:
            if blob.sha256 in sought and blob.object in there:
                known[blob.sha256] = blob.object
                sought.remove(blob.sha256)
    return known


class _Sender:
    def __init__(self, run: Run, copy: Path, tail: str, known: dict[str, Chunk], blob_bytes: int) -> None:
        self._run = run
        self._copy = copy
        self._tail = tail
        self._known = known
        self._descriptor = -1
        self.size_bytes = copy.stat().st_size
        self._total_bytes = self.size_bytes + blob_bytes
        self._done_bytes = 0
        self.blobs: list[Blob] = []
        self.lost: list[str] = []
        self.new_chunks = 0
        self.new_blobs = 0
        self.new_bytes = 0

    def _go_on(self, done_bytes: int) -> None:
        self._done_bytes += done_bytes
        self._run.go_on("sending", self._done_bytes, self._total_bytes)

    def send_blobs(self, home: Home, sizes: dict[str, int], known: dict[str, str]) -> None:
        home.prove()

        def send(item: tuple[str, int]) -> tuple[str, int, Blob | None]:
            name, size_bytes = item
            object = known.get(name[:64])
            return name, size_bytes, Blob(name, object, size_bytes) if object else self._send_blob(home, *item)

        with closing(in_order(send, sizes.items(), BLOB_WORKERS)) as sent:
            for name, size_bytes, blob in sent:
                if blob is None:
                    self.lost.append(name)
                else:
                    self.blobs.append(blob)
                    if name[:64] not in known:
                        self.new_blobs += 1
                        self.new_bytes += size_bytes
                self._go_on(size_bytes)

    def _send_blob(self, home: Home, name: str, size_bytes: int) -> Blob | None:
        content = home.read(name, size_bytes)
        if content is None:
            return None
        blob = Blob(name, f"{BLOBS}/{name[:64]}-{self._tail}", size_bytes)
        self._run.place.put(blob.object, content)
        return blob

    def send_chunks(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        self._descriptor = os.open(self._copy, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with closing(in_order(self._send, range(0, self.size_bytes, CHUNK_BYTES))) as sent:
                for chunk, is_new in sent:
                    chunks.append(chunk)
                    if is_new:
                        self.new_chunks += 1
                        self.new_bytes += chunk.stored_bytes
                    self._go_on(min(CHUNK_BYTES, self.size_bytes - (len(chunks) - 1) * CHUNK_BYTES))
        finally:
            os.close(self._descriptor)
        return chunks

    def _send(self, at: int) -> tuple[Chunk, bool]:
        content = os.pread(self._descriptor, CHUNK_BYTES, at)
        digest = sha256(content).hexdigest()
        known = self._known.get(digest)
        if known is not None:
            return known, False
        packed = zlib.compress(content, COMPRESSION)
        chunk = Chunk(f"{CHUNKS}/{digest}-{self._tail}", len(packed))
        self._run.place.put(chunk.object, packed)
        return chunk, True
