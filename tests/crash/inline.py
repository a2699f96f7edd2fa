"""The store on a simulated disk, with threads that go on when they are told to, so that a run repeats exactly.

The store, its file, its checkpoint and the writer's own code are the real ones. Only who calls the writer differs: not
a thread of its own, but whoever owns the `Host`, between two turns of the loop. What the loop gives to a thread
(`asyncio.to_thread`) is done by a real one, in steps between turns of the loop that a seed decides.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from tenure.core.clock import Now
from tenure.core.error import Unavailable
from tenure.engine.engine import Engine
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.embedded.writer import Job, Report, Writer
from tests.crash.disk import Disk, DiskFile, Platter, write_image

TURNS_MAX = 100_000
STEPS = (0, 1, 3, 20)  # that a thread makes between two turns of the loop
STEP_S = 30.0  # that one may take
TURN_S = 0.000_1


class Strand:
    """A call in a thread of its own. Either the thread runs or the loop, never both: at every read of the disk it
    stops until it is told to go on, so that a run repeats exactly."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._answer: Any = None
        self._error: BaseException | None = None
        self._is_done = False
        self.done: Future[Any] = Future()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._answer = self._call()
        except BaseException as error:
            self._error = error
        self._is_done = True
        self._stopped.release()

    def pause(self) -> None:
        """In the thread."""
        self._stopped.release()
        self._go.acquire()

    def go_on(self) -> bool:
        """To its next stop; False when it has ended there."""
        self._go.release()
        assert self._stopped.acquire(timeout=STEP_S), "a thread waits for something that the loop has"
        if not self._is_done:
            return True
        self.thread.join()
        if self._error is None:
            self.done.set_result(self._answer)
        else:
            self.done.set_exception(self._error)
        return False


class Strands(ThreadPoolExecutor):
    """What is given to a thread goes on by and by, between turns of the loop."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(1)
        self._chance = chance
        self._strands: dict[int, Strand] = {}
        self.turns = 0  # of the loop, in which a thread stood in the middle of its call

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        strand = Strand(partial(call, *args, **named))
        assert strand.thread.ident is not None
        self._strands[strand.thread.ident] = strand
        return strand.done

    def pause(self) -> None:
        """Called by whoever reads the disk."""
        strand = self._strands.get(threading.get_ident())
        if strand is not None:
            strand.pause()

    def go_on(self) -> None:
        for ident, strand in list(self._strands.items()):
            if not any(not strand.go_on() for _ in range(self._chance.choice(STEPS))):
                self.turns += 1
            else:
                del self._strands[ident]


class PausingDisk(Disk):
    """Whoever reads it in a strand may have to wait."""

    def __init__(self, strands: Strands) -> None:
        self.strands = strands
        super().__init__()

    def file(self, path: Path, name: str | apsw.URIFilename, flags: list[int]) -> DiskFile:
        return PausingFile(self, path.name, name, flags)


class PausingFile(DiskFile):
    def __init__(self, disk: PausingDisk, short: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__(disk, short, name, flags)
        self._strands = disk.strands

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._strands.pause()
        return super().xRead(amount, offset)


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


class TurnLoop(asyncio.SelectorEventLoop):
    """Its time is the number of its turns, so that timers ring in the same turn in every run."""

    turns = 0

    def time(self) -> float:
        return self.turns * TURN_S


class Host:
    """A machine with one disk and one store. It can be killed, lose its power, and start again."""

    def __init__(self, folder: Path, mode: str = "fsync", seed: int = 0) -> None:
        self._folder = folder
        self._mode = mode
        self._loop = TurnLoop()
        self.strands = Strands(random.Random(seed))
        self._loop.set_default_executor(self.strands)
        self._crashes = 0  # after each the files are in another folder: only what the disk kept
        self.disk: Disk = PausingDisk(self.strands)
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
        self.strands.go_on()
        self._loop.turns += 1
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
        self.disk = PausingDisk(self.strands)
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
