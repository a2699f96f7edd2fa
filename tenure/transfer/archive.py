"""One tenant as files: its jobs as Parquet, its settings, and a manifest that says what there must be.

The manifest is written last, and every other file is named in it by size and hash. So a folder with a manifest is
whole, and its hash names what is in it: importing it twice adds nothing.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tenure.client.client import Client
from tenure.core.error import Conflict, InvalidRequest
from tenure.core.record import LoadReport
from tenure.lake.schema import JOBS, VERSION
from tenure.transfer.copy import Progress, payload_bytes_max, silent
from tenure.transfer.difference import Tally, View
from tenure.transfer.ids import Ids, Known
from tenure.transfer.read import read_jobs
from tenure.transfer.row import Row
from tenure.transfer.settings import Settings, compare_settings, put_settings, read_settings
from tenure.transfer.since import Since, changed_copies
from tenure.transfer.stage import WRITING, Stage, publish, read_outcomes, read_published
from tenure.transfer.table import batch_of, rows_of_batch
from tenure.transfer.verify import Told, Verified, Verifier

MANIFEST: Final = "manifest.json"
SETTINGS: Final = "settings.json"
SEGMENT_ROWS: Final = 100_000
READ_ROWS: Final = 5_000
FORMAT: Final = "tenure tenant"
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024


class Part(msgspec.Struct, frozen=True):
    """A file, and how it must be."""

    name: str
    size: int
    sha256: str
    rows: int = 0


class QueueCount(msgspec.Struct, frozen=True):
    queue: str
    rows: int
    hash: str
    states: dict[str, int]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: str = FORMAT
    schema_version: int = VERSION
    tenant: str
    exported_at: int
    last_id: int
    rows: int
    queues: list[QueueCount]
    settings: Part
    segments: list[Part]


class Imported(msgspec.Struct, frozen=True):
    load_id: str
    tenant: str
    report: LoadReport
    settings: int
    is_repeated: bool


class _Count:
    def __init__(self) -> None:
        self.tally = Tally()
        self.states: dict[str, int] = {}

    def add(self, row: Row) -> None:
        self.tally.add(row)
        self.states[row["state"]] = self.states.get(row["state"], 0) + 1


async def export(
    client: Client, tenant: str, folder: Path, now_ms: Callable[[], int], progress: Progress = silent
) -> Manifest:
    """The folder must be empty or not be there. Only this user may read what is written: payloads are in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidRequest("folder", str(folder), "it is not empty; name a new one")
    own = client.as_tenant(tenant)
    settings = _write(folder / SETTINGS, msgspec.json.encode(await read_settings(client, tenant)))
    bounds = await own.scan_bounds("jobs")
    counts: dict[str, _Count] = {}
    segments = _Segments(folder)
    try:
        async for upto, rows in read_jobs(own, bounds.first - 1, bounds.last):
            for row in rows:
                counts.setdefault(row["queue"], _Count()).add(row)
            segments.add(rows)
            progress("export", upto, bounds.last)
    finally:
        segments.close()
    manifest = Manifest(
        tenant=tenant,
        exported_at=now_ms(),
        last_id=bounds.last,
        rows=sum(part.rows for part in segments.parts),
        queues=[
            QueueCount(name, count.tally.rows, count.tally.hash, count.states) for name, count in sorted(counts.items())
        ],
        settings=settings,
        segments=segments.parts,
    )
    _write(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


class _Segments:
    """Parquet files of so many rows; each has its name only when it is whole and on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self.parts: list[Part] = []

    def add(self, rows: list[Row]) -> None:
        if not rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(_create(self._open_path()), JOBS, compression="zstd")
        self._writer.write_batch(batch_of(rows))
        self._rows += len(rows)
        if self._rows >= SEGMENT_ROWS:
            self.close()

    def _open_path(self) -> Path:
        return self._folder / f"jobs-{len(self.parts):06}.parquet.open"

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.close()
        path = self._open_path()
        self.parts.append(_settle(path, path.with_suffix(""), self._rows))
        self._rows = 0


def _write(path: Path, content: bytes) -> Part:
    aside = _create(path.with_name(path.name + ".open"))
    aside.write_bytes(content)
    return _settle(aside, path)


def _create(path: Path) -> Path:
    """An empty file that nobody else may read."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return path


def _settle(aside: Path, path: Path, rows: int = 0) -> Part:
    size, digest = _hash(aside)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return Part(path.name, size, digest, rows)


def _hash(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


class Archive:
    """A folder that was exported, checked: everything that its manifest names is there and is what it was."""

    def __init__(self, folder: Path) -> None:
        path = folder / MANIFEST
        if not path.is_file():
            raise InvalidRequest(
                "folder", str(folder), f"it has no {MANIFEST}: nothing was exported to it, or not to the end"
            )
        if path.stat().st_size > MANIFEST_BYTES_MAX:
            raise InvalidRequest("folder", str(folder), f"{MANIFEST} is larger than any that was written")
        content = path.read_bytes()
        self.folder = folder
        self.manifest = _read_manifest(content)
        self.load_id = f"import-{hashlib.sha256(content).hexdigest()[:24]}"
        for part in (self.manifest.settings, *self.manifest.segments):
            self._check(part)
        self.settings: Settings = msgspec.json.decode((folder / SETTINGS).read_bytes(), type=Settings)

    def _check(self, part: Part) -> None:
        path = self.folder / part.name
        if path.parent != self.folder or not path.is_file():
            raise InvalidRequest("folder", part.name, f"it is named in {MANIFEST} and is not there; copy it there")
        if _hash(path) != (part.size, part.sha256):
            raise InvalidRequest("folder", part.name, "it is not what was exported; copy the folder again")

    async def pages(self) -> AsyncIterator[tuple[int, list[Row]]]:
        for rows in self._batches():
            yield rows[-1]["id"], rows

    def _batches(self) -> Iterator[list[Row]]:
        for part in self.manifest.segments:
            with pq.ParquetFile(self.folder / part.name) as file:
                for batch in file.iter_batches(READ_ROWS):
                    yield rows_of_batch(_in_schema(batch))


def _read_manifest(content: bytes) -> Manifest:
    try:
        known: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise InvalidRequest("folder", MANIFEST, f"it cannot be read: {error}") from None
    if known.get("format") != FORMAT:
        raise InvalidRequest("folder", known.get("format"), "its manifest is of something else than a tenant")
    version = known.get("schema_version")
    if not isinstance(version, int) or version > VERSION:
        rule = f"this Tenure reads up to {VERSION}: update it, or export again with one that is as old"
        raise InvalidRequest("schema_version", version, rule)
    try:
        return msgspec.convert(known, Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidRequest("folder", MANIFEST, f"it cannot be read: {error}") from None


def _in_schema(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A column that came to the table after the export is empty."""
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in JOBS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in JOBS]))


class Import:
    """Brings an archive into a store, on behalf of a tenant of any name."""

    def __init__(
        self, client: Client, tenant: str, archive: Archive, now_ms: Callable[[], int], progress: Progress = silent
    ) -> None:
        self._client = client
        self._tenant = tenant
        self._archive = archive
        self._now_ms = now_ms
        self._progress = progress
        self._ids = Ids()
        self._began_ms = 0
        self._before = 0  # the newest event before the jobs came in, if this run brought them in

    async def run(self) -> Imported:
        self._began_ms = self._now_ms()
        load_id = self._archive.load_id
        stage = Stage(self._client, self._tenant, load_id)
        await stage.begin()
        if stage.is_published:
            published = await read_published(stage.client, load_id, iter([(0, WRITING)]), self._ids)
            return Imported(load_id, self._tenant, published.report, 0, True)
        try:
            await self._stage(stage)
        except BaseException:
            await stage.drop()
            raise
        self._before = (await stage.client.scan_bounds("events")).last
        settings = await put_settings(self._client, self._tenant, self._archive.settings)
        report = LoadReport(0, published=True, done=True)
        if stage.rows:
            report = await publish(stage.client, load_id, {0: WRITING})
            await read_outcomes(stage.client, load_id, 0, WRITING, stage.chunks, self._ids)
        return Imported(load_id, self._tenant, report, settings, False)

    async def _stage(self, stage: Stage) -> None:
        known = Known()
        largest = await payload_bytes_max(self._client)
        async for _, rows in self._archive.pages():
            for row in rows:
                known.add(row["id"])
                if row["result"] is not None and len(row["result"]) > largest:
                    raise InvalidRequest(
                        f"result of job {row['id']}", len(row["result"]), f"raise payload_bytes_max from {largest}"
                    )
            await stage.add(rows, known.__contains__)
            self._progress("import", stage.rows, self._archive.manifest.rows)
        await stage.flush()
        if stage.rows != self._archive.manifest.rows:
            raise Conflict(f"the files have {stage.rows} jobs, their manifest {self._archive.manifest.rows}", 0)

    async def verify(self, tell: Told | None = None) -> Verified:
        manifest = self._archive.manifest
        renamed = self._tenant if self._tenant != manifest.tenant else ""
        view = View(self._ids.get, self._began_ms, renamed)
        target = self._client.as_tenant(self._tenant)
        since = Since(new=await changed_copies(target, self._before, *self._ids.targets))
        verifier = Verifier(target, self._ids, view, manifest.last_id, since, tell)
        await verifier.run(self._archive.pages())
        found = await read_settings(self._client, self._tenant)
        return verifier.verified(list(compare_settings(self._tenant, self._archive.settings, found)))
