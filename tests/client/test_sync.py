"""The client without `await`: every verb of the async one, on a store and on a server."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tenure
from tenure.client.client import Client
from tenure.client.loop import LoopThread
from tenure.client.sync import SyncClient
from tenure.core.error import JobFailed, JobNotFound, Unavailable
from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore


@contextmanager
def served(path: Path) -> Iterator[str]:
    """A server in a thread of its own."""
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        server = Server(Settings(tcp=False, http=False, grpc=False, unix=str(path)), MemoryStore())
        await server.start()
        ready.set()
        await asyncio.to_thread(done.wait)
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield f"tenure+unix://{path}"
    finally:
        done.set()
        thread.join()


@pytest.fixture(params=["memory", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
        return
    with served(tmp_path / "socket") as found:
        yield found


def test_a_job_is_done_without_a_loop(url: str) -> None:
    with tenure.connect_sync(url) as client:
        first = client.enqueue(b"1", queue="mail")
        assert [one.state for one in client.enqueue_many([b"2", b"3"], queue="mail")] == ["ready", "ready"]
        [job] = client.claim("mail", wait=5)
        assert (job.id, job.payload) == (first.id, b"1")
        client.progress(job, 50)
        client.log(job, "half way")
        client.emit(job, b"item")
        assert client.complete(job, b"done").state == "completed"
        assert client.wait(job.id) == b"done"
        assert [item.data for item in client.logs(job.id)] == [b"half way"]
        assert [item.data for item in client.stream(job.id)] == [b"item"]
        [job] = client.claim("mail")
        client.fail(job, "ValueError", "no", retryable=False)
        with pytest.raises(JobFailed):
            client.wait(job.id)
        assert client.count("mail")["mail"]["failed"] == 1
        assert len(client.dead_letter_groups()) == 1
        assert client.cancel(first.id + 2) == "cancelled"
        assert client.as_tenant("other").count() == {}
        types = [event.type for event in client.events()]
        assert types.count("enqueued") == 3


def test_events_that_are_followed_come_when_they_happen(url: str) -> None:
    with tenure.connect_sync(url) as client:
        events = client.events(follow="10m")
        for _ in range(2):
            id = client.enqueue(b"", queue="mail").id
            assert next(events).job == id


def test_errors_are_those_of_the_contract(url: str) -> None:
    with tenure.connect_sync(url) as client, pytest.raises(JobNotFound):
        client.get(99)


async def test_a_running_loop_is_not_blocked() -> None:
    client = tenure.connect_sync("memory://")
    with pytest.raises(Unavailable, match="would be blocked"):
        client.__enter__()


def test_a_client_that_is_not_open_says_so() -> None:
    client = tenure.connect_sync("memory://")
    with pytest.raises(Unavailable, match="with statement"):
        client.count()
    with client:
        pass
    with pytest.raises(Unavailable):
        client.count()


def test_it_has_every_method_of_the_async_one() -> None:
    public = {name for name, _ in inspect.getmembers(Client, callable) if not name.startswith("_")}
    assert public <= {name for name, _ in inspect.getmembers(SyncClient, callable)}
    for name in public - {"close", "as_tenant", "events"}:
        ours, theirs = inspect.signature(getattr(SyncClient, name)), inspect.signature(getattr(Client, name))
        assert list(ours.parameters) == list(theirs.parameters), name


def test_loop_in_a_thread_starts_no_others_later() -> None:
    """From Python 3.12 on none can be started while a program ends, which is when an app closes its store."""
    thread = LoopThread("test")
    before = set(threading.enumerate())

    async def work() -> None:
        await asyncio.gather(*(asyncio.to_thread(sum, [n]) for n in range(50)))

    thread.run(work())
    assert set(threading.enumerate()) == before
    thread.stop()
