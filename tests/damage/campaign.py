"""Harm a file in many ways, one at a time, and open it: it reads as before, or it is Damaged and says so."""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tenure.store.embedded.content import Damaged
from tests.damage.harm import HARMS
from tests.damage.sample import Reading, make_closed, make_killed, read, same

LOG_HEAD = 32
FRAME_HEAD = 24
FRAME = FRAME_HEAD + 4096
HEAD_BYTES = 100


@dataclass
class Tally:
    cases: int = 0
    noticed: int = 0
    harmless: int = 0
    shorter: int = 0  # a log that ends earlier, at the end of a transaction
    findings: list[str] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{self.cases} cases, {self.noticed} noticed, {self.harmless} harmless, {self.shorter} with a shorter log,"
            f" {len(self.findings)} findings"
        )


class Patient:
    """Files as they should be, and what may be read of them. They stay the same files: harm is done in place."""

    def __init__(self, path: Path, files: dict[str, bytes]) -> None:
        self.path = path
        self.files = files
        whole = self.read(files)
        assert isinstance(whole, Reading), whole
        self.whole = whole
        self.prefixes: list[Reading] = []

    def read(self, files: dict[str, bytes]) -> Reading | Exception:
        for ending in ("", "-wal", "-shm", "-mark"):
            file = self.path.with_name(f"{self.path.name}{ending}")
            content = files.get(file.name)
            if content is not None:
                file.write_bytes(content)
            else:
                file.unlink(missing_ok=True)
        try:
            return read(self.path)
        except Exception as error:
            return error

    def read_prefixes(self) -> None:
        """What is read when the log ends after each of its transactions: a log may end early, harmed or not."""
        log = self.files["jobs.db-wal"]
        for end in ends_of_transactions(log):
            found = self.read({"jobs.db": self.files["jobs.db"], "jobs.db-wal": log[:end]})
            assert isinstance(found, Reading | Damaged), found
            if isinstance(found, Reading) and found not in self.prefixes:
                self.prefixes.append(found)

    def judge(self, tally: Tally, what: str, harmed: dict[str, bytes]) -> None:
        found = self.read(harmed)
        tally.cases += 1
        if isinstance(found, Damaged):
            if str(self.path) in str(found) and "; " in str(found):
                tally.noticed += 1
            else:
                tally.findings.append(f"{what}: {found} names no file, or no way out")
        elif isinstance(found, Exception):
            tally.findings.append(f"{what}: {type(found).__name__}: {found}")
        elif same(found, self.whole):
            tally.harmless += 1
        elif found in self.prefixes:
            tally.shorter += 1
        else:
            tally.findings.append(f"{what}: it is served, and is not what was written")


def ends_of_transactions(log: bytes) -> Iterator[int]:
    """Each place in a write-ahead log where it may end; a frame that commits says how many pages there are then."""
    salt = log[16:24]
    yield LOG_HEAD
    for at in range(LOG_HEAD, len(log) - FRAME + 1, FRAME):
        _, pages = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != salt:
            return
        if pages:
            yield at + FRAME


async def closed_patient(path: Path) -> Patient:
    await make_closed(path)
    mark = path.with_name(f"{path.name}-mark")
    return Patient(path, {file.name: file.read_bytes() for file in (path, mark)})


async def killed_patient(path: Path, backfilled: bool, marked: bool) -> Patient:
    """Unmarked, a log may end after each of its transactions; with the mark it must hold all that was on disk."""
    files = await make_killed(path, backfilled)
    if not marked:
        del files[f"{path.name}-mark"]
    patient = Patient(path, files)
    if not marked:
        patient.read_prefixes()
    return patient


def harm(patient: Patient, name: str, cases: int, seed: int) -> Tally:
    """So many cases of harm to one of the files."""
    tally = Tally()
    for case in range(cases):
        chance = random.Random(seed * 1_000_003 + case)
        content = bytearray(patient.files[name])
        done = chance.choice(HARMS)(content, chance)
        if content != patient.files[name]:
            patient.judge(tally, f"seed {seed}, case {case}: {done} of {name}", {**patient.files, name: bytes(content)})
    return tally


def harm_head(patient: Patient, bits: range) -> Tally:
    """Every byte of SQLite's head of the file, bit by bit."""
    tally = Tally()
    for at in range(HEAD_BYTES):
        for bit in bits:
            content = bytearray(patient.files["jobs.db"])
            content[at] ^= 1 << bit
            patient.judge(
                tally, f"flip bit {bit} of byte {at} of the head", {**patient.files, "jobs.db": bytes(content)}
            )
    return tally
