"""Where an app's connection lives: in the loop that opened it, or in a thread of its own.

`async with app` (and a worker) puts it into the running loop. Without that the first call starts a thread with a loop,
so that a script, a REPL and a web framework without lifespan work too, and calls from any loop or thread go to it. A
process that was forked makes its own.
"""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - its end is registered before ours
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar
from weakref import WeakSet

from tenure.client.client import Client
from tenure.client.loop import LoopThread
from tenure.core.error import Unavailable

T = TypeVar("T")


class Home:
    lets_workers_claim = True  # not in tests, which say themselves when a job runs

    def __init__(self, make_client: Callable[[], Client]) -> None:
        self._make_client = make_client
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._users = 0
        self._lock = threading.Lock()  # held for a look at what follows, never over a wait
        self._opening: Future[None] | None = None  # done when a loop or a thread has opened a connection, or could not
        self._forgotten: list[object] = []  # of a parent process: not to be closed here
        _homes.add(self)

    # In this loop.

    async def open(self) -> Client:
        """Put the connection into this loop. Opened twice, it is closed when the second is done with it."""
        while (other := self._begin()) is not None:
            await asyncio.shield(asyncio.wrap_future(other))
        try:
            return await self._open(asyncio.get_running_loop())
        finally:
            self._end()

    def _begin(self) -> "Future[None] | None":
        """Become the only one who opens; or who has to be waited for first, whether in a loop or in a thread."""
        with self._lock:
            if self._opening is None:
                self._opening = Future()
                return None
            return self._opening

    def _end(self) -> None:
        with self._lock:
            opening, self._opening = self._opening, None
        if opening is not None:
            opening.set_result(None)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Client:
        if self._thread is not None:
            await asyncio.to_thread(self._stop_thread)
        if self._client is not None and self._loop is not loop and self._loop is not None and self._loop.is_closed():
            self._drop()
        if self._client is None:
            client = self._make_client()
            await client.__aenter__()
            self._client = client
            self._loop = loop
        elif self._loop is not loop:
            raise Unavailable("this app is open in another loop; close it there, or make another App")
        self._users += 1
        return self._client

    async def close(self) -> None:
        self._users -= 1
        if self._users == 0 and self._client is not None:
            client, self._client, self._loop = self._client, None, None
            await client.close()

    @property
    def here(self) -> Client | None:
        """The client, if it lives in the running loop."""
        if self._client is not None and asyncio.get_running_loop() is self._loop:
            return self._client
        return None

    @property
    def tenant(self) -> str:
        """Of the open connection; empty when there is none."""
        client = self._client
        return "" if client is None else client.tenant

    @property
    def is_open(self) -> bool:
        return self._client is not None and self._loop is not None and not self._loop.is_closed()

    # From wherever.

    async def run(self, choose: Callable[[Client], Client], work: Callable[[Client], Awaitable[T]]) -> T:
        here = self.here
        if here is not None:
            return await work(choose(here))
        client, loop = await asyncio.to_thread(self._opened)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_done(work(choose(client))), loop))

    def run_sync(self, choose: Callable[[Client], Client], work: Callable[[Client], Awaitable[T]]) -> T:
        refuse_in_loop()
        client, loop = self._opened()
        future = asyncio.run_coroutine_threadsafe(_done(work(choose(client))), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: what was begun is given up there too
            raise

    def _opened(self) -> tuple[Client, asyncio.AbstractEventLoop]:
        """The connection, wherever it lives; opened in a thread of its own if nobody did so before."""
        while True:
            client, loop = self._client, self._loop
            if client is not None and loop is not None and not loop.is_closed():
                return client, loop
            if (other := self._begin()) is not None:
                other.result()
                continue
            try:
                self._open_in_thread()
            finally:
                self._end()

    def _open_in_thread(self) -> None:
        if self._loop is not None and self._loop.is_closed():
            self._drop()
        if self._client is not None and self._loop is not None:
            return
        thread = LoopThread("tenure-app")
        client = self._make_client()
        try:
            thread.run(client.__aenter__())
        except BaseException:
            thread.stop()
            raise
        self._client, self._loop, self._thread = client, thread.loop, thread

    def _stop_thread(self) -> None:
        thread, client = self._thread, self._client
        self._thread = self._client = self._loop = None
        if thread is not None and client is not None:
            try:
                thread.run(client.close())
            finally:
                thread.stop()

    def close_sync(self) -> None:
        """Closes the connection that the first call made, if any."""
        if self._thread is not None:
            self._stop_thread()

    def forget(self) -> None:
        """In a process that was forked: what the parent has is its own, and who opened there is not here."""
        self._drop()
        self._lock = threading.Lock()
        self._opening = None

    def _drop(self) -> None:
        self._forgotten += [self._client, self._loop, self._thread]
        self._client = self._loop = self._thread = None
        self._users = 0


async def _done(work: Awaitable[T]) -> T:
    return await work


def refuse_in_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Unavailable("a loop runs in this thread and would be blocked; await the call without _sync")


_homes: "WeakSet[Home]" = WeakSet()


def _forget_all() -> None:
    for home in list(_homes):
        home.forget()


def _close_all() -> None:
    for home in list(_homes):
        home.close_sync()


os.register_at_fork(after_in_child=_forget_all)
# A program that ends closes what its calls have opened. That takes threads, and `atexit` comes when there can be no new
# ones; what is registered here runs before, the last first, so also before the pool of threads is closed.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
