"""Who names which blob: payloads and results of jobs, staged loads, changes by filter that still run.

Counts are by name and follow from the facts, so `restore` works them out anew. A name whose last holder is gone is told
to the store, which deletes the blob once that is on disk.
"""

from collections.abc import Sequence

from tenure.core.blob import Blob
from tenure.core.packed import Packed
from tenure.engine.job import Job, Side
from tenure.engine.staged import Staged
from tenure.engine.world import Owed, World


def hold(w: World, blob: Blob | None) -> None:
    if blob is not None:
        w.blobs[blob.name] = w.blobs.get(blob.name, 0) + 1


def let_go(w: World, blob: Blob | None) -> None:
    if blob is None:
        return
    left = w.blobs[blob.name] - 1
    if left:
        w.blobs[blob.name] = left
    else:
        del w.blobs[blob.name]
        w.blobs_dropped.append(blob.name)


def put_payload(w: World, job: Job, content: bytes | Blob) -> None:
    """The new is held before the old is let go: they may be the same."""
    side = job.side
    before = None if side is None else side.payload_blob
    if isinstance(content, Blob):
        if side is None:
            side = Side(None)
            job.side = side
        hold(w, content)
        side.payload_blob = content
        job.payload = b""
    else:
        if side is not None:
            side.payload_blob = None
        job.payload = content
        w.journal.bytes += len(content)
    let_go(w, before)


def put_result(w: World, side: Side, content: bytes | Blob | None) -> None:
    before = side.result_blob
    if isinstance(content, Blob):
        hold(w, content)
        side.result_blob = content
        side.result = b""
    else:
        side.result_blob = None
        side.result = content
        if content is not None:
            w.journal.bytes += len(content)
    let_go(w, before)


def hold_of_job(w: World, job: Job) -> None:
    side = job.side
    if side is not None:
        hold(w, side.payload_blob)
        hold(w, side.result_blob)


def let_go_of_job(w: World, job: Job) -> None:
    """The job is removed."""
    side = job.side
    if side is not None:
        let_go(w, side.payload_blob)
        let_go(w, side.result_blob)


def hold_all(w: World, contents: Sequence[object] | Packed) -> None:
    if isinstance(contents, Packed):
        return  # bytes, all of them
    for content in contents:
        if isinstance(content, Blob):
            hold(w, content)


def let_go_all(w: World, contents: Sequence[object] | Packed) -> None:
    if isinstance(contents, Packed):
        return
    for content in contents:
        if isinstance(content, Blob):
            let_go(w, content)


def hold_of_load(w: World, staged: Staged) -> None:
    for batch in staged.chunks.values():
        hold_all(w, batch.payloads)


def let_go_of_load(w: World, staged: Staged) -> None:
    for batch in staged.chunks.values():
        let_go_all(w, batch.payloads)


def sweep_blob(owed: Owed) -> Blob | None:
    """What a change by filter will give to the jobs it meets."""
    change = owed.change
    payload: object = None if change is None else change.payload
    return payload if isinstance(payload, Blob) else None


def count_blobs(w: World, jobs: list[Job]) -> dict[str, int]:
    """Holders by name, from the jobs, loads and sweeps alone."""
    found: dict[str, int] = {}
    for blob in _held(w, jobs):
        if blob is not None:
            found[blob.name] = found.get(blob.name, 0) + 1
    return found


def size_blobs(w: World, jobs: list[Job]) -> dict[str, int]:
    """Sizes by name, of all that something holds."""
    found: dict[str, int] = {}
    for blob in _held(w, jobs):
        if blob is not None:
            found[blob.name] = blob.size
    return found


def _held(w: World, jobs: list[Job]) -> list[Blob | None]:
    held: list[Blob | None] = [sweep_blob(owed) for owed in w.owed]
    for job in jobs:
        if job.side is not None:
            held.append(job.side.payload_blob)
            held.append(job.side.result_blob)
    for staged in w.loads.values():
        for batch in staged.chunks.values():
            if isinstance(batch.payloads, Packed):
                continue
            contents: Sequence[object] = batch.payloads
            for content in contents:
                if isinstance(content, Blob):
                    held.append(content)
    return held
