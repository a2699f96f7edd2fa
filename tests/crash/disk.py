"""A disk that remembers what was synced, loses power when asked, and fails on demand.

`Disk` is a VFS of SQLite over the usual one. What is written through it is in real files, so that it reads as usual,
and in a log: every write, truncation, sync and deletion in the order they happened. A `Platter` reads the log up to any
moment and says what a machine could find that lost its power then: everything that was synced, and of the rest any
part, in any order, single writes torn between sectors. A file exists for sure once it was synced, and is gone for sure
once its folder was.
"""

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw
from typing_extensions import Buffer

SECTOR: Final = 512

WRITE: Final = "write"
TRUNCATE: Final = "truncate"
SYNC: Final = "sync"
LOST: Final = "lost sync"  # it failed, and what it was to save may never get to the disk
DELETE: Final = "delete"

# Faults: what the disk answers instead of doing it.
FULL: Final = "full"
BROKEN: Final = "broken"
TORN: Final = "torn"  # half of the write is done before it fails
UNSYNCED: Final = "unsynced"  # the next sync fails, and its data is lost though it can be read
FAULTS: Final = (FULL, BROKEN, TORN, UNSYNCED)
READ_ONLY: Final = "read-only"  # as after a remount


@dataclass(frozen=True)
class Op:
    kind: str
    name: str
    at: int = 0  # where a write begins, or the size that a truncation leaves
    data: bytes = b""
    folder: bool = False  # a sync of the folder too: what was deleted in it is gone


class Disk(apsw.VFS):
    """Registered under a name of its own until `unregister`."""

    _made = 0

    def __init__(self, keeps_log: bool = True) -> None:
        Disk._made += 1
        self.name = f"disk{Disk._made}"
        self.log: list[Op] = []
        self.found: dict[str, bytes] = {}  # files that were there when they were first opened
        self.writes = 0  # and truncations and syncs, which is what a fault's index counts
        self.refused = 0
        self.ready = threading.Event()  # syncs wait for it
        self.ready.set()
        self.writable = threading.Event()  # and writes for this one
        self.writable.set()
        self.waiting = threading.Event()  # something does
        self.failures: dict[str, int] = {}  # of syncs, by file
        self._keeps_log = keeps_log
        self._new: set[str] = set()  # logs and journals whose first sync syncs the folder, as SQLite on Unix does
        self._fault = ""
        self._fault_at = 0
        self._lasting = False
        self._lock = threading.Lock()
        super().__init__(self.name, "")

    # Faults.

    def fail(self, fault: str, at: int = 0, lasting: bool = False) -> None:
        """From the write, truncation or sync with that index on: once, or until `heal`."""
        with self._lock:
            self._fault, self._fault_at, self._lasting = fault, at, lasting

    def heal(self) -> None:
        with self._lock:
            self._fault = ""

    def _meet(self, kind: str) -> str:
        """The fault that this operation meets, if any."""
        at = self.writes
        self.writes += 1
        fault = self._fault
        if not fault or at < self._fault_at or (fault == UNSYNCED and kind != SYNC):
            return ""
        if not self._lasting:
            self._fault = ""
        self.refused += 1
        return fault

    # What files do.

    def write(self, name: str, data: bytes, at: int, do: Callable[[bytes, int], None]) -> None:
        self._wait_for(self.writable)
        with self._lock:
            fault = self._meet(WRITE)
            if fault == TORN:
                data = data[: len(data) // 2]
            if not fault or fault == TORN:
                do(data, at)
                self._note(Op(WRITE, name, at, data))
        if fault:
            raise error_of(fault, apsw.SQLITE_IOERR_WRITE)

    def truncate(self, name: str, size: int, do: Callable[[int], None]) -> None:
        with self._lock:
            fault = self._meet(TRUNCATE)
            if not fault:
                do(size)
                self._note(Op(TRUNCATE, name, size))
        if fault:
            raise error_of(fault, apsw.SQLITE_IOERR_TRUNCATE)

    def sync(self, name: str, file: "DiskFile") -> None:
        """A failure is told once to everybody who has the file open, as Linux does."""
        self._wait_for(self.ready)
        with self._lock:
            fault = self._meet(SYNC)
            if fault:
                self.failures[name] = self.failures.get(name, 0) + 1
            elif file.told < self.failures.get(name, 0):
                fault = UNSYNCED
            file.told = self.failures.get(name, 0)
            self._note(Op(LOST if fault else SYNC, name, folder=name in self._new and not fault))
            if not fault:
                self._new.discard(name)
        if fault:
            raise error_of(fault, apsw.SQLITE_IOERR_FSYNC)

    def _wait_for(self, event: threading.Event) -> None:
        if not event.is_set():
            self.waiting.set()
            event.wait()

    def _note(self, op: Op) -> None:
        if self._keeps_log:
            self.log.append(op)

    # What SQLite calls.

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:
            return apsw.VFSFile("", name, flags)
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        is_known = path.name in self.found or any(op.name == path.name for op in self.log)
        if self._keeps_log and path.exists() and not is_known:
            self.found[path.name] = path.read_bytes()
        if not path.exists() and path.name.endswith(("-wal", "-journal")):
            self._new.add(path.name)
        return self.file(path, name, flags)

    def file(self, path: Path, name: str | apsw.URIFilename, flags: list[int]) -> "DiskFile":
        return DiskFile(self, path.name, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        with self._lock:
            super().xDelete(filename, syncdir)
            self._note(Op(DELETE, Path(filename).name))
            if syncdir:
                self._note(Op(SYNC, Path(filename).name, folder=True))


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, short: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = short
        self.told = disk.failures.get(short, 0)  # how many of its failed syncs it knows of

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802
        self._disk.write(self._name, bytes(data), offset, super().xWrite)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.truncate(self._name, newsize, super().xTruncate)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.sync(self._name, self)


def error_of(fault: str, code: int) -> apsw.Error:
    if fault == FULL:
        return apsw.FullError("database or disk is full")
    if fault == READ_ONLY:
        return apsw.ReadOnlyError("attempt to write a readonly database")
    error: apsw.Error = apsw.IOError("disk I/O error")
    vars(error)["extendedresult"] = code  # what SQLite is told
    return error


@dataclass
class _File:
    """What is on disk for sure (None: no such file), what was done since, and what the machine sees while it runs."""

    durable: bytearray | None = None
    since: list[Op] = field(default_factory=list)
    seen: bytearray | None = None


class Platter:
    """What the disk holds at a moment of the log; moments are visited in order."""

    def __init__(self, disk: Disk) -> None:
        self._log = disk.log
        self._at = 0
        self._files = {name: _File(bytearray(data), [], bytearray(data)) for name, data in disk.found.items()}

    def advance(self, to: int) -> None:
        for op in self._log[self._at : to]:
            self._do(self._files.setdefault(op.name, _File()), op)
            if op.folder:
                self._sync_folder()
        self._at = to

    def _sync_folder(self) -> None:
        for file in self._files.values():
            deletions = [at for at, op in enumerate(file.since) if op.kind == DELETE]
            if deletions:
                file.durable = None
                file.since = file.since[deletions[-1] + 1 :]

    def _do(self, file: _File, op: Op) -> None:
        if op.kind == SYNC:
            for one in file.since:
                file.durable = applied(file.durable, one)
            file.since = []
        elif op.kind == LOST:
            # What a failed sync was to save is dropped: reads still see it, no later sync writes it.
            file.since = []
        else:
            file.since.append(op)
            file.seen = applied(file.seen, op)

    def after_kill(self) -> dict[str, bytes]:
        """The process was killed, the machine goes on: nothing is lost."""
        return {name: bytes(file.seen) for name, file in self._files.items() if file.seen is not None}

    def synced(self) -> dict[str, bytes]:
        """Nothing but what was synced."""
        return {name: bytes(file.durable) for name, file in self._files.items() if file.durable is not None}

    def after_power_loss(self, chance: random.Random) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name, file in self._files.items():
            content = _survived(file, chance)
            if content is not None:
                found[name] = bytes(content)
        return found


def applied(content: bytearray | None, op: Op) -> bytearray | None:
    if op.kind == DELETE:
        return None
    if content is None:
        content = bytearray()
    if op.kind == TRUNCATE:
        del content[op.at :]
        content.extend(bytes(op.at - len(content)))
        return content
    if len(content) < op.at:
        content.extend(bytes(op.at - len(content)))
    content[op.at : op.at + len(op.data)] = op.data
    return content


def _survived(file: _File, chance: random.Random) -> bytearray | None:
    content = None if file.durable is None else bytearray(file.durable)
    ops = file.since
    deletions = [at for at, op in enumerate(ops) if op.kind == DELETE]
    if deletions:
        if chance.random() < 0.5:
            ops = ops[: deletions[0]]
        else:
            content, ops = None, ops[deletions[-1] + 1 :]
    for op in _chosen(ops, chance):
        content = applied(content, op)
    return content


def _chosen(ops: list[Op], chance: random.Random) -> list[Op]:
    """Which of the writes got to the disk, in which order, and how whole."""
    way = chance.randrange(6)
    if way == 0:
        return []
    if way == 1:
        return list(ops)
    if way == 2:
        kept = ops[: chance.randint(0, len(ops))]
        return [*kept[:-1], *(part for op in kept[-1:] for part in torn(op, chance))]
    share = chance.random()
    kept = [op for op in ops if chance.random() < share]
    if way >= 4:
        kept = [part for op in kept for part in (torn(op, chance) if chance.random() < 0.3 else [op])]
    if way == 5:
        chance.shuffle(kept)
    return kept


def torn(op: Op, chance: random.Random) -> list[Op]:
    """The write as its sectors, without some of them."""
    if op.kind != WRITE:
        return [op]
    edges = [op.at, *range(op.at - op.at % SECTOR + SECTOR, op.at + len(op.data), SECTOR), op.at + len(op.data)]
    parts = [
        Op(WRITE, op.name, begin, op.data[begin - op.at : end - op.at]) for begin, end in itertools.pairwise(edges)
    ]
    if chance.random() < 0.5:
        return parts[: chance.randint(0, len(parts))]
    return [part for part in parts if chance.random() < 0.5]


def write_image(image: dict[str, bytes], folder: Path) -> None:
    """The files as they would be found; the shared memory beside the log does not survive."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name not in image:
            old.unlink()
    for name, data in image.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(data)
