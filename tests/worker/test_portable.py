"""Where a system lacks what Linux has (macOS does), another way is taken. Shown by taking it away."""

import asyncio
import fcntl
import os
import socket
from pathlib import Path

import pytest

import tenure
from tenure.store.embedded import log, unix
from tenure.worker.table import Table
from tenure.worker.worker import cores

app = tenure.App("memory://")


@app.task(run="process", max_attempts=1)
def stay() -> str:
    return "stayed"


@app.task(run="process", max_attempts=1)
def die() -> str:
    os._exit(3)


def test_cores_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()


def test_leases_are_kept_in_a_file_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    table = Table.make(4)
    try:
        table.take(1, 7, 30_000, 1, 0.5, b"token")
        other = Table(os.dup(table.descriptor), 4, 0)
        assert other.lost(1) == 0
        other.close()
    finally:
        table.close()


@pytest.mark.parametrize("has_full_sync", [True, False])
def test_data_is_synced(has_full_sync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fdatasync")
    asked: list[object] = []
    if has_full_sync:
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", lambda handle, command: asked.append(command))
    else:
        monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
        monkeypatch.setattr(os, "fsync", lambda handle: asked.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        log.sync_data(file.fileno())
    assert asked == [51 if has_full_sync else "fsync"]


def test_socket_with_a_long_name_is_reached_by_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix, "DESCRIPTORS", "/nowhere")
    path = tmp_path / ("long" * 25) / "socket"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        with unix.reachable(str(path)) as name:
            listener.bind(name)
        listener.listen()
        assert path.exists()
        with unix.reachable(str(path)) as name, socket.socket(socket.AF_UNIX) as client:
            client.connect(name)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
async def test_end_of_a_process_is_seen_by_a_thread(dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    async with asyncio.timeout(60), app, app.worker():
        job = await (die if dies else stay).enqueue()
        if dies:
            with pytest.raises(tenure.JobFailed, match="ProcessDied"):
                await job.result(timeout=50)
        else:
            assert await job.result(timeout=50) == "stayed"
