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
        self._opening = threading.Lock()
        self._gate: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._forgotten: list[object] = []  # of a parent process: not to be closed here
        _homes.add(self)

    # In this loop.

    async def open(self) -> Client:
        """Put the connection into this loop. Opened twice, it is closed when the second is done with it."""
        async with self._one_at_a_time():
            return await self._open(asyncio.get_running_loop())

    def _one_at_a_time(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._gate is None or self._gate[0] is not loop:
            self._gate = (loop, asyncio.Lock())
        return self._gate[1]

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Client:
        if self._thread is not None:
            await asyncio.to_thread(self._stop_thread)
        if self._client is not None and self._loop is not loop and self._loop is not None and self._loop.is_closed():
            self.forget()
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
        with self._opening:
            if self._loop is not None and self._loop.is_closed():
                self.forget()
            if self._client is None or self._loop is None:
                thread = LoopThread("tenure-app")
                client = self._make_client()
                try:
                    thread.run(client.__aenter__())
                except BaseException:
                    thread.stop()
                    raise
                self._client, self._loop, self._thread = client, thread.loop, thread
            return self._client, self._loop

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
        self._forgotten += [self._client, self._loop, self._thread]
        self._client = self._loop = self._thread = None
        self._users = 0
        self._opening = threading.Lock()  # another thread of the parent may have held it


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
