"""A tenant as files, and back: nothing lost, nothing twice, nothing that was damaged."""

import json
import os
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tenure
from tenure.core.error import InvalidRequest
from tenure.lake.schema import JOBS, VERSION
from tenure.transfer import archive as files
from tenure.transfer.archive import Archive, Import, export
from tenure.transfer.difference import canonical
from tenure.transfer.table import batch_of, rows_of_batch
from tests.transfer.rig import furnish, rows_of, wall_ms


async def test_rows_are_the_same_through_arrow() -> None:
    async with tenure.connect("memory://") as client:
        await furnish(client)
        rows = list((await rows_of(client)).values())
    again = rows_of_batch(batch_of(rows))
    for ours, theirs in zip(rows, again, strict=True):
        for name, value in ours.items():
            assert canonical(name, value) == canonical(name, theirs[name]), name


async def test_tenant_is_exported_and_imported_with_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SEGMENT_ROWS", 5)
    monkeypatch.setattr(files, "READ_ROWS", 4)
    monkeypatch.setattr("tenure.transfer.read.PAGE_ROWS", 3)
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        await furnish(source)
        ids = await furnish(source.as_tenant("acme"))
        await source.configure("tenant", "acme", weight=7)
        manifest = await export(source, "acme", tmp_path / "out", wall_ms)
        assert (manifest.rows, manifest.schema_version, len(manifest.segments)) == (len(ids), VERSION, 3)
        assert sum(count for queue in manifest.queues for count in queue.states.values()) == len(ids)
        for name in ("acme", "renamed"):
            bring = Import(target, name, Archive(tmp_path / "out"), wall_ms)
            done = await bring.run()
            assert (done.report.new, done.report.refused, done.is_repeated) == (len(ids), 0, False)
            verified = await bring.verify()
            assert (verified.named, verified.settings, verified.is_same) == ([], [], True)
            assert (await target.configure("tenant", name))["weight"] == 7
        table = pq.read_table(tmp_path / "out" / "jobs-000000.parquet")
        assert table.schema.names == JOBS.names


async def test_import_that_is_repeated_adds_nothing(tmp_path: Path) -> None:
    async with tenure.connect("memory://") as client:
        await furnish(client)
        await export(client, "default", tmp_path / "out", wall_ms)
    async with tenure.connect("memory://") as client:
        first = await Import(client, "default", Archive(tmp_path / "out"), wall_ms).run()
        before = await rows_of(client)
        again = Import(client, "default", Archive(tmp_path / "out"), wall_ms)
        done = await again.run()
        assert (done.is_repeated, done.report) == (True, done.report)
        assert done.report.new == first.report.new
        assert await rows_of(client) == before
        assert (await again.verify()).is_same


async def test_blobs_are_in_the_files(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db?blobs={tmp_path}/blobs"
    large = bytes(range(256)) * 8_000
    async with tenure.connect(url) as client:
        await client.enqueue(large, codec="raw")
        await export(client, "default", tmp_path / "out", wall_ms)
    async with tenure.connect("memory://") as client:
        await client.configure("store", "", payload_bytes_max=10 * 1024 * 1024)
        await Import(client, "default", Archive(tmp_path / "out"), wall_ms).run()
        [job] = await client.claim("default")
        assert job.payload == large


async def test_tenant_without_jobs_has_its_settings(tmp_path: Path) -> None:
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        await source.configure("queue", "q", paused=True)
        assert (await export(source, "default", tmp_path / "out", wall_ms)).rows == 0
        bring = Import(target, "default", Archive(tmp_path / "out"), wall_ms)
        assert (await bring.run()).settings == 1
        assert (await bring.verify()).is_same
        assert await target.configure("queue", "q") == {"paused": True}


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with tenure.connect("memory://") as client:
        await furnish(client)
        await export(client, "default", tmp_path / "out", wall_ms)
        return tmp_path / "out"


async def test_newer_schema_is_refused_with_the_fix(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["schema_version"] = VERSION + 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidRequest, match="update it"):
        Archive(folder)


@pytest.mark.parametrize("name", ["jobs-000000.parquet", "settings.json"])
async def test_file_that_was_changed_or_is_missing_is_refused(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InvalidRequest, match="it is not what was exported"):
        Archive(folder)
    (folder / name).unlink()
    with pytest.raises(InvalidRequest, match="is not there"):
        Archive(folder)


async def test_folder_without_a_manifest_is_refused(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(InvalidRequest, match="not to the end"):
        Archive(folder)


async def test_nothing_is_exported_over_something(folder: Path) -> None:
    async with tenure.connect("memory://") as client:
        with pytest.raises(InvalidRequest, match="it is not empty"):
            await export(client, "default", folder, wall_ms)


async def test_nobody_else_may_read_what_was_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SEGMENT_ROWS", 5)
    before = os.umask(0)
    try:
        async with tenure.connect("memory://") as client:
            await furnish(client)
            await export(client, "default", tmp_path / "out", wall_ms)
    finally:
        os.umask(before)
    out = tmp_path / "out"
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o600}
