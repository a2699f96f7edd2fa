"""One database through many lives: start a child, kill it at some moment, look at what it left, start the next.

What is looked at is a copy, so that the next life begins with the file as the kill left it.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import msgspec

from tenure.client.clock import read_clock
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.history import leave_history, place_for
from tests.kill.account import Finding, check, read_account

ROOT = Path(__file__).parents[2]
MODES = ("fsync", "write", "relaxed")
OPENED = 2  # beats: one before the store is opened, one when it is
ANSWERS_MAX = 300
LATE_S = 0.005
EARLY = 0.1  # of all lives are killed while they open the store
OPENING_S = 0.05


class Totals(msgspec.Struct):
    cycles: int = 0
    lives: int = 0  # that came as far as an open store
    answered: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    findings: list[str] = []

    def add(self, other: "Totals") -> None:
        for name in ("cycles", "lives", "answered", "lost", "doubled", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.findings += other.findings

    def note(self, where: str, findings: list[Finding]) -> None:
        self.lost += sum(finding.kind == "lost" for finding in findings)
        self.doubled += sum(finding.kind == "doubled" for finding in findings)
        self.wrong += sum(finding.kind == "wrong" for finding in findings)
        self.findings += [f"{where}: {finding.kind}: {finding.text}" for finding in findings]

    def line(self) -> str:
        names = ("cycles", "lives", "answered", "lost", "doubled", "wrong")
        return " · ".join(f"{name} {getattr(self, name)}" for name in names)


def run_database(folder: Path, mode: str, seed: int, cycles: int) -> Totals:
    """Ends at the first life with findings: what follows from a damage tells nothing new."""
    random = Random(f"{mode} {seed}")
    totals = Totals()
    for life in range(1, cycles + 1):
        totals.cycles += 1
        totals.lives += run_life(folder, mode, seed * 1_000 + life, life, random)
        totals.note(f"{mode} seed {seed} life {life}", look_at_a_copy(folder))
        if totals.findings:
            break
    account = read_account(folder)
    totals.answered = account.answered_jobs()
    if not totals.findings:
        totals.note(f"{mode} seed {seed} at the end", asyncio.run(check(folder / "jobs.db", account)))
    if (left := place_for(f"kill-{mode}-{seed}")) is not None:
        asyncio.run(leave(folder, left))
    return totals


async def leave(folder: Path, to: Path) -> None:
    """The history of the store that came through all of it."""
    store = SqliteStore(folder / "jobs.db", "write")
    now = read_clock()
    await store.open(now)
    try:
        await leave_history(store, now, read_account(folder).covered_jobs(), to)
    finally:
        await store.close()


def run_life(folder: Path, mode: str, seed: int, life: int, random: Random) -> bool:
    """Whether the store was open when the kill came."""
    account = folder / f"account-{life:04d}"
    command = [sys.executable, "-m", "tests.kill.child", str(folder / "jobs.db"), mode, str(seed), str(account)]
    if random.random() < EARLY:
        beats, late_s = 1, random.random() * OPENING_S
    else:
        beats, late_s = OPENED + int(random.random() ** 2 * ANSWERS_MAX), random.random() * LATE_S
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors) as child,
    ):
        try:
            came = await_beats(child, beats)
            time.sleep(late_s)
        finally:
            child.kill()
    if child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the child ended by itself: {(folder / 'stderr').read_text()}")
    return came >= OPENED


def await_beats(child: "subprocess.Popen[bytes]", beats: int) -> int:
    assert child.stdout is not None
    came = 0
    while came < beats:
        more = os.read(child.stdout.fileno(), beats - came)
        if not more:
            child.wait()
            break
        came += len(more)
    return came


def look_at_a_copy(folder: Path) -> list[Finding]:
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for path in folder.glob("jobs.db*"):
        if not path.name.endswith(("-shm", "-owner", "-socket")):
            shutil.copyfile(path, copy / path.name)
    return asyncio.run(check(copy / "jobs.db", read_account(folder)))
