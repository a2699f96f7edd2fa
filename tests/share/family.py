"""Several processes on one file: the owner is killed, or stopped and woken up, many times; then the books are read.

What was answered must be there once, what was not at most once, and no job was completed twice.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import msgspec

from tenure.client.clock import read_clock
from tenure.core.record import JobRecord
from tenure.store.embedded.file import Owner
from tests.kill.account import CheckedStore, all_jobs
from tests.share.child import Line

ROOT = Path(__file__).parents[2]
SIZE = 3
PATIENCE_S = 60.0
STOPPED = 0.3  # of all cycles; in the others the owner is killed


NAMES = ("kills", "stops", "ended", "answered", "completed", "lost", "doubled")


class Totals(msgspec.Struct):
    kills: int = 0
    stops: int = 0
    ended: int = 0  # of those that were stopped
    answered: int = 0
    completed: int = 0
    lost: int = 0
    doubled: int = 0
    findings: list[str] = []

    def add(self, other: "Totals") -> None:
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.findings += other.findings

    def line(self) -> str:
        return " · ".join(f"{name} {getattr(self, name)}" for name in NAMES)


class Family:
    def __init__(self, folder: Path, mode: str, seed: int) -> None:
        self._folder = folder
        self._path = folder / "jobs.db"
        self._mode = mode
        self._random = Random(f"{mode} {seed}")
        self._born = 0
        self._members: list[subprocess.Popen[bytes]] = []
        self.totals = Totals()

    def run(self, cycles: int) -> Totals:
        try:
            for _ in range(SIZE):
                self._bear()
            self._await_beats(self._members[0], 5)
            for _ in range(cycles):
                self._cycle()
        finally:
            for member in list(self._members):
                self._bury(member)
        asyncio.run(self._read_books())
        return self.totals

    def _bear(self) -> None:
        self._born += 1
        name = f"child-{self._born:04d}"
        command = [
            *(sys.executable, "-m", "tests.share.child", str(self._path)),
            *(self._mode, name, str(self._folder / f"account-{name}")),
        ]
        errors = (self._folder / f"stderr-{name}").open("wb")
        with errors:
            self._members.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors))

    def _bury(self, member: "subprocess.Popen[bytes]") -> None:
        self._members.remove(member)
        member.kill()
        member.communicate()

    def _cycle(self) -> None:
        victim = self._owner()
        others = [member for member in self._members if member is not victim]
        for other in others:
            self._await_beats(other, self._random.randint(3, 40))
        if self._random.random() < STOPPED:
            self._stop(victim, others)
        else:
            self.totals.kills += 1
            self._bury(victim)
            self._bear()
        for other in others:
            self._drain(other)
            self._await_beats(other, 5)

    def _stop(self, victim: "subprocess.Popen[bytes]", others: "list[subprocess.Popen[bytes]]") -> None:
        """Until another is the owner; then it goes on, and works with the others."""
        self.totals.stops += 1
        victim.send_signal(signal.SIGSTOP)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while self._owner_pid() in (victim.pid, 0):
                self._await_beats_of_any(others, 0.1)
                if time.monotonic() > deadline:
                    raise RuntimeError(f"nobody took over from {victim.pid}, which hangs")
        finally:
            victim.send_signal(signal.SIGCONT)
        if victim.poll() is not None:  # it was stopped in a commit, and ended
            self.totals.ended += 1
            self._bury(victim)
            self._bear()
            return
        self._drain(victim)
        self._await_beats(victim, 5)

    def _owner_pid(self) -> int:
        try:
            owner = msgspec.json.decode((self._folder / "jobs.db-owner").read_bytes(), type=Owner)
        except (FileNotFoundError, msgspec.MsgspecError):
            return 0
        return owner.pid if owner.serving else 0

    def _owner(self) -> "subprocess.Popen[bytes]":
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            pid = self._owner_pid()
            for member in self._members:
                if member.pid == pid:
                    return member
            self._await_beats_of_any(self._members, 0.05)
        raise RuntimeError("nobody owns the file")

    def _await_beats(self, child: "subprocess.Popen[bytes]", beats: int) -> None:
        assert child.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while beats > 0:
            ready, _, _ = select.select([child.stdout], [], [], max(deadline - time.monotonic(), 0))
            more = os.read(child.stdout.fileno(), beats) if ready else b""
            if not more:
                raise RuntimeError(f"process {child.pid} does not go on: {self._errors()}")
            beats -= len(more)

    def _await_beats_of_any(self, children: "list[subprocess.Popen[bytes]]", seconds: float) -> None:
        streams = [child.stdout.fileno() for child in children if child.stdout is not None]
        for stream in select.select(streams, [], [], seconds)[0]:
            os.read(stream, 65_536)

    def _drain(self, child: "subprocess.Popen[bytes]") -> None:
        """What it said before does not count."""
        assert child.stdout is not None
        while select.select([child.stdout], [], [], 0)[0] and os.read(child.stdout.fileno(), 65_536):
            pass

    def _errors(self) -> str:
        return "\n".join(path.read_text()[-2_000:] for path in sorted(self._folder.glob("stderr-*")))

    # The books.

    async def _read_books(self) -> None:
        store = CheckedStore(self._path, self._mode)
        await store.open(read_clock())
        try:
            problems = store.problems()
            jobs = await all_jobs(store)
        finally:
            await store.close()
        self.totals.findings += problems
        self._compare(jobs)

    def _compare(self, jobs: list[JobRecord]) -> None:
        totals = self.totals
        by_payload = Counter(job.payload.decode() for job in jobs)
        by_id = {job.id: job for job in jobs}
        done: Counter[int] = Counter()
        for account in sorted(self._folder.glob("account-*")):
            sent: dict[int, list[str]] = {}
            for line in _lines(account):
                if line.kind == "sent":
                    sent[line.n] = line.payloads
                elif line.kind == "told":
                    for id, payload in zip(line.ids, sent[line.n], strict=False):
                        totals.answered += 1
                        job = by_id.get(id)
                        if job is None or job.payload.decode() != payload:
                            totals.lost += 1
                            totals.findings.append(f"{payload} was answered as {id}, which is not it")
                elif line.kind == "done":
                    done.update(line.ids)
        for payload, count in by_payload.items():
            if count > 1:
                totals.doubled += 1
                totals.findings.append(f"{payload} is there {count} times")
        for id, count in done.items():
            totals.completed += 1
            if count > 1:
                totals.doubled += 1
                totals.findings.append(f"job {id} was completed {count} times")
            if id not in by_id or by_id[id].state != "completed":
                totals.lost += 1
                totals.findings.append(f"job {id} was answered as completed and is not")


def _lines(account: Path) -> list[Line]:
    *whole, _torn = account.read_bytes().split(b"\n")
    return [msgspec.json.decode(line, type=Line) for line in whole]
