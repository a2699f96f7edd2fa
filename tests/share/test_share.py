"""One file, several processes: whoever comes second joins, and goes on when the first ends or hangs."""

import asyncio
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from unittest import mock

import msgspec
import pytest

import tenure
from tenure.client.client import Client
from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.core.error import InvalidRequest, Unavailable
from tenure.core.job import Options
from tenure.core.request import Batch
from tenure.core.tenant import Context
from tenure.store.embedded.file import Owned, TakenOver
from tenure.store.embedded.link import Link, join
from tenure.store.embedded.shared import SharedStore
from tenure.store.embedded.sqlite import SqliteStore
from tenure.wire.frame import Frames, frame
from tenure.wire.limit import FRAME_BYTES_MAX
from tenure.wire.message import PROTOCOL, Call, Hello, Refusal, Welcome, encode, read_answer
from tenure.wire.value import pack_context
from tests.crash.disk import Disk
from tests.share.family import Family

PATIENCE_S = 30.0


def client_of(path: Path) -> tuple[Client, SharedStore]:
    store = SharedStore(path)
    return Client(Driver(store, read_clock), Context()), store


@contextlib.asynccontextmanager
async def two(path: Path) -> AsyncIterator[tuple[Client, SharedStore, Client, SharedStore]]:
    first, owner = client_of(path)
    second, joined = client_of(path)
    async with asyncio.timeout(PATIENCE_S), first, second:
        assert owner.is_owner()
        assert not joined.is_owner()
        yield first, owner, second, joined


async def test_the_second_to_open_a_file_joins_the_first(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db") as (first, _, second, _):
        sent = await second.enqueue(b"from the second")
        [job] = await first.claim()
        assert (job.id, job.payload) == (sent.id, b"from the second")
        waiting = asyncio.create_task(second.claim(wait="20s"))
        await first.complete(job, b"done")
        assert await second.wait(sent.id) == b"done"
        other = await first.enqueue(b"from the first")
        [job] = await waiting
        assert job.id == other.id
        await second.complete(job)


async def test_a_url_is_all_it_takes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with tenure.connect(url) as first, tenure.connect(url) as second:
        sent = await first.enqueue(b"x")
        [job] = await second.claim()
        assert job.id == sent.id


async def test_errors_of_the_owner_are_the_callers(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db") as (_, _, second, _):
        with pytest.raises(tenure.JobNotFound):
            await second.wait(404)
        with pytest.raises(InvalidRequest):
            await second.enqueue(b"x", queue="no such name!")


async def test_when_the_owner_closes_who_joined_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first, _ = client_of(path)
    second, joined = client_of(path)
    third, also = client_of(path)
    async with asyncio.timeout(PATIENCE_S):
        await first.__aenter__()
        async with second, third:
            sent = await first.enqueue(b"x")
            waiting = asyncio.create_task(third.claim("later", wait="20s"))
            await first.close()
            assert (await second.get(sent.id)).payload == b"x"
            assert (await third.get(sent.id)).payload == b"x"
            assert joined.is_owner() != also.is_owner()
            await second.enqueue(b"y", queue="later")
            [job] = await waiting
            assert job.payload == b"y"


async def test_a_call_that_was_cut_off_is_done_once(tmp_path: Path) -> None:
    """The connection ends when the owner has done it and the answer is on its way."""
    async with two(tmp_path / "jobs.db") as (first, owner, second, joined):
        link = joined._link
        assert link is not None
        answered = asyncio.Event()

        def lose(data: bytes) -> None:
            answered.set()
            link.close()

        link.data_received = lose  # type: ignore[method-assign]
        jobs = await second.enqueue_many([b"a", b"b"])
        assert answered.is_set()
        assert [job.payload for job in await first.claim(n=10)] == [b"a", b"b"]
        assert len(jobs) == 2
        assert owner.is_owner()
        assert joined._link is not link


async def test_what_a_caller_gave_up_waiting_for_is_free(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db") as (first, _, second, _):
        waiting = asyncio.create_task(second.claim(wait="20s"))
        await first.count()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await second.count()
        await first.enqueue(b"x")
        assert len(await first.claim()) == 1


async def test_a_connection_that_ends_gives_back_what_it_waits_for(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first, _ = client_of(path)
    second, joined = client_of(path)
    async with asyncio.timeout(PATIENCE_S), first:
        await second.__aenter__()
        waiting = asyncio.create_task(second.claim(wait="20s"))
        await first.count()
        assert joined._link is not None
        closing = asyncio.create_task(second.close())
        with contextlib.suppress(Unavailable):
            await waiting
        await closing
        await first.enqueue(b"x")
        assert len(await first.claim(wait="5s")) == 1


async def test_only_its_user_may_connect(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db"):
        for name in ("jobs.db-socket", "jobs.db-owner", "jobs.db"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert stat.S_ISSOCK((tmp_path / "jobs.db-socket").stat().st_mode)
    assert not (tmp_path / "jobs.db-socket").exists()


async def test_a_path_may_be_longer_than_the_name_of_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120) / ("e" * 60)
    folder.mkdir(parents=True)
    async with two(folder / "jobs.db") as (first, _, second, _):
        await second.enqueue(b"x")
        assert len(await first.claim()) == 1


async def test_a_socket_that_nobody_serves_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "jobs.db-socket"))
    async with two(tmp_path / "jobs.db") as (first, _, second, _):
        await second.enqueue(b"x")
        assert len(await first.claim()) == 1


async def test_another_protocol_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db"):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "jobs.db-socket"))
        writer.write(frame(encode(Hello(999))))
        [body] = Frames().feed(await reader.read())
        assert isinstance(read_answer(body), Welcome)
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        (FRAME_BYTES_MAX + 1).to_bytes(4),
        frame(b"\x00nonsense"),
        frame(b"{}"),
        frame(encode(["call", 1, "enqueue", [], b""])),
        frame(encode(["call", 1])),
    ],
)
async def test_nonsense_ends_its_connection_and_harms_no_other(tmp_path: Path, sent: bytes) -> None:
    async with two(tmp_path / "jobs.db") as (_, _, second, _):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "jobs.db-socket"))
        writer.write(sent)
        await reader.read()
        assert reader.at_eof()
        writer.close()
        assert (await second.enqueue(b"x")).id


async def test_an_unknown_verb_is_unsupported(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db"):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "jobs.db-socket"))
        call = Call(1, "teleport", pack_context(Context()), msgspec.Raw(encode(None)))
        writer.write(frame(encode(Hello(PROTOCOL))) + frame(encode(call)))
        frames = Frames()
        bodies: list[bytes] = []
        while len(bodies) < 2:
            bodies += frames.feed(await reader.read(65_536))
        refusal = read_answer(bodies[1])
        assert isinstance(refusal, Refusal)
        assert refusal.error.code == "Unsupported"
        writer.close()


# An owner that hangs, or was passed over.


async def test_an_owner_that_was_passed_over_commits_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    old, new = SqliteStore(path), SqliteStore(path)
    batch = Batch(Options(), [b"x"])
    await old.open(read_clock())
    kept = await old.enqueue(Context(), batch, read_clock())
    with pytest.raises(Owned):
        await SqliteStore(path).open(read_clock())
    await new.open(read_clock(), over=old.epoch)
    with pytest.raises(TakenOver):
        await old.enqueue(Context(), batch, read_clock())
    with pytest.raises(TakenOver):
        old.prove_ownership()
    await old.abandon()
    after = await new.enqueue(Context(), batch, read_clock())
    assert (await new.count(Context(), "", read_clock()))["default"]["ready"] == 2
    assert after.ids[0] > kept.ids[0]
    await new.close()


async def test_only_one_can_pass_an_owner_over(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    old, new = SqliteStore(path), SqliteStore(path)
    await old.open(read_clock())
    await new.open(read_clock(), over=old.epoch)
    with pytest.raises(Owned):
        await SqliteStore(path).open(read_clock(), over=old.epoch)
    await old.abandon()
    await new.close()


async def test_a_folder_that_cannot_be_read_is_no_proof_of_another_owner(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open(read_clock())
    (tmp_path / "jobs.db-owner").rename(tmp_path / "elsewhere")
    store.prove_ownership()
    await store.close()


async def test_closing_on_a_disk_that_fails_leaves_the_socket_and_says_nothing_of_it(tmp_path: Path) -> None:
    store = SharedStore(tmp_path / "jobs.db", "fsync")
    await store.open(read_clock())
    with mock.patch.object(os, "unlink", side_effect=OSError(30, "Read-only file system")):
        await store.close()
    again = SharedStore(tmp_path / "jobs.db", "fsync")
    await again.open(read_clock())
    assert again.is_owner()
    await again.close()


async def test_an_owner_proves_itself_without_opening_the_file(tmp_path: Path) -> None:
    """The loop asks each second: a disk that hangs must not keep it."""
    disk = Disk(keeps_log=False)
    store = SqliteStore(tmp_path / "jobs.db", "fsync", disk.name)
    await store.open(read_clock())
    with mock.patch.object(disk, "xOpen", side_effect=AssertionError("the file was opened")):
        for _ in range(3):
            store.prove_ownership()
    await store.close()
    disk.unregister()


HANG = """
import asyncio, sys
import tenure

async def main() -> None:
    async with tenure.connect(f"sqlite:///{sys.argv[1]}") as client:
        await client.enqueue(b"before")
        print("open", flush=True)
        for line in sys.stdin:  # the loop hangs here
            break
        job = await client.enqueue(b"after")
        print(job.id, flush=True)

asyncio.run(main())
"""


def start(program: str, path: Path) -> "subprocess.Popen[bytes]":
    """A process that has the file open."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"open\n"
    return child


@pytest.mark.slow
async def test_an_owner_that_hangs_is_passed_over_and_joins_when_it_wakes_up(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    child = start(HANG, path)
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        store = SharedStore(path, silence=1)
        client = Client(Driver(store, read_clock), Context())
        async with asyncio.timeout(PATIENCE_S), client:
            assert store.is_owner()
            [job] = await client.claim()
            assert job.payload == b"before"
            await client.complete(job)
            child.stdin.write(b"\n")
            child.stdin.flush()
            id = int(await asyncio.to_thread(child.stdout.readline))
            assert (await client.get(id)).payload == b"after"
            assert await asyncio.to_thread(child.wait, PATIENCE_S) == 0
    finally:
        child.kill()
        child.communicate()


STAY = """
import asyncio, sys
import tenure

async def main() -> None:
    async with tenure.connect(f"sqlite:///{sys.argv[1]}") as client:
        await client.enqueue(b"before")
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_who_joined_notices_that_the_owner_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    child = start(STAY, path)
    try:
        store = SharedStore(path, silence=1)
        client = Client(Driver(store, read_clock), Context())
        async with asyncio.timeout(PATIENCE_S), client:
            assert not store.is_owner()
            child.send_signal(signal.SIGSTOP)
            waiting = asyncio.create_task(client.claim("later", wait="25s"))
            assert [job.payload for job in await client.claim()] == [b"before"]
            assert store.is_owner()
            await client.enqueue(b"x", queue="later")
            assert [job.payload for job in await waiting] == [b"x"]
    finally:
        child.kill()
        child.communicate()


async def test_join_says_when_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await join(tmp_path / "none", 1)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        deaf.listen()
        link = Link(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await link.welcome()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fsync", "write"])
def test_nothing_is_lost_or_doubled_when_owners_are_killed_and_stopped(mode: str, tmp_path: Path) -> None:
    totals = Family(tmp_path, mode, 7).run(6)
    assert totals.findings == []
    assert totals.answered > 0
    assert totals.completed > 0
