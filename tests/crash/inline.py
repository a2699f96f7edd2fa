"""The store on a simulated disk without a thread: the writer works when it is told to, so that a run repeats exactly.

The store, its file, its checkpoint and the writer's own code are the real ones. Only who calls the writer differs: not
a thread of its own, but whoever owns the `Host`, between two turns of the loop.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from tenure.core.clock import Now
from tenure.core.error import Unavailable
from tenure.engine.engine import Engine
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.embedded.writer import Job, Report, Writer
from tests.crash.disk import Disk, Platter, write_image

TURNS_MAX = 100_000


class AtOnce(ThreadPoolExecutor):
    """What a thread would do is done before `submit` returns."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*args, **named))
        except BaseException as error:
            done.set_exception(error)
        return done


class InlineWriter(Writer):
    def __init__(self, file: StoreFile, report: Report) -> None:
        super().__init__(file, report)
        self._closing.set()  # it does not wait between two tries; `work` tries again
        self.todo: deque[Job] = deque()

    def start(self) -> None:
        pass

    def put(self, job: Job) -> None:
        self.todo.append(job)

    def stop(self) -> None:
        while self.todo and self.work():
            pass

    def join(self, timeout_s: float) -> bool:
        self.drop()
        return True

    def work(self) -> bool:
        """One job, once; False when there is none or the disk did not take it."""
        if self.todo and self._write(self.todo[0]):
            self.todo.popleft()
            return True
        return False

    def drop(self) -> None:
        """The process is gone."""
        if self._db is not None:
            with suppress(apsw.Error):
                self._db.close()
            self._db = None


class InlineStore(SqliteStore):
    """Keeps what it hands out, for those who ask the engine themselves."""

    def __init__(self, path: Path, durability: str, vfs: str) -> None:
        super().__init__(path, durability, vfs)
        self.inline = InlineWriter(self._file, self._report)
        self._writer = self.inline
        self.left: list[tuple[int, object]] = []  # by steps, handed out or not
        self.sent: list[tuple[int, object]] = []  # handed out

    def _deliver(self, now: Now) -> None:
        self.left += self._engine._w.outbox
        super()._deliver(now)

    def _refuse_waits(self) -> None:
        """Nobody waits at the store."""

    def _hand_out(self, outbox: list[tuple[int, object]]) -> None:
        self.sent += outbox

    @property
    def engine(self) -> Engine:
        return self._engine


class Host:
    """A machine with one disk and one store. It can be killed, lose its power, and start again."""

    def __init__(self, folder: Path, mode: str = "fsync") -> None:
        self._folder = folder
        self._mode = mode
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(AtOnce())
        self._crashes = 0  # after each the files are in another folder: only what the disk kept
        self.disk = Disk()
        self.store = self._new_store()

    def _new_store(self) -> InlineStore:
        folder = self._folder / str(self._crashes)
        folder.mkdir(exist_ok=True)
        return InlineStore(folder / "jobs.db", self._mode, self.disk.name)

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Until it is answered; the disk works whenever nothing else is to be done."""
        task = self._loop.create_task(call)
        for _ in range(TURNS_MAX):
            self.turn()
            if task.done():
                return task.result()
            self.store.inline.work()
        raise AssertionError("a call is not answered")

    def turn(self) -> None:
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def call(self, function: Callable[..., object], *args: object) -> None:
        """In the loop, as everything that the store does is."""
        self._loop.call_soon(function, *args)
        self.turn()

    def start(self, now: Now) -> None:
        self.run(self.store.open(now))
        self.settle()

    def settle(self) -> None:
        """Until the writer has nothing more to do, or the disk refuses."""
        while True:
            self.turn()
            self.turn()
            if not self.store.inline.work():
                self.turn()
                return

    def commit(self, now: Now) -> bool:
        """Put on disk what the engine did, and no more than the writer must do for it; False when the disk refuses."""
        store = self.store
        store._now = now
        store._write_down()
        self.turn()
        while store._synced < store._taken and store.inline.work():
            self.turn()
        self.turn()
        return store._synced >= store._taken

    def begin_checkpoint(self, now: Now, jobs: int | None) -> None:
        """Write it, or only so much of it as the writer does in so many jobs."""
        self._loop.call_soon(self.store._write_down)
        self._loop.call_soon(self.store._begin_checkpoint, now)
        self.turn()
        if jobs is None:
            self.settle()
        self.progress(jobs or 0)

    def progress(self, jobs: int) -> None:
        """What goes on in the background gets on by so many jobs of the writer."""
        for _ in range(jobs):
            self.turn()
            self.turn()
            self.store.inline.work()

    def stop_cleanly(self) -> None:
        try:
            self.run(self.store.close())
        except Unavailable:
            pass
        self.store = self._new_store()

    def crash(self, chance: random.Random, power: bool, since: int | None = None) -> None:
        """The process is gone, and with the power what was not synced, wholly or in part: now, or at a moment since."""
        platter = Platter(self.disk)
        platter.advance(len(self.disk.log) if since is None else chance.randint(since, len(self.disk.log)))
        image = platter.after_power_loss(chance) if power else platter.after_kill()
        self._end_process()
        self.disk.unregister()
        self.disk = Disk()
        self._crashes += 1
        write_image(image, self._folder / str(self._crashes))
        self.store = self._new_store()

    def _end_process(self) -> None:
        self.store._cancel_timers()
        checkpoint = self.store._checkpoint
        if checkpoint is not None and checkpoint._task is not None:
            checkpoint._task.cancel()
        self.turn()
        while checkpoint is not None and not checkpoint.is_done():
            self.turn()
        self.disk.heal()
        self.store.inline.drop()
        self.store._file.release()

    def end(self) -> None:
        self._end_process()
        self.disk.unregister()
        self._loop.close()
