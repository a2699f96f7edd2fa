"""One recorded run, and what is left of it after many losses of power."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from tenure.core.error import Error
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import Audit, Balance
from tests.crash.disk import Disk, Platter, write_image
from tests.crash.history import leave_history, place_for
from tests.crash.workload import Workload, hurried
from tests.prompt import PromptStore

MODES = ("fsync", "fsync", "write", "relaxed")
KILLS = 0.15  # the share of images in which only the process is gone
TWICE = 0.1  # the share of images in which power is lost once more, during recovery or soon after


@dataclass
class Total:
    images: int = 0
    answered: int = 0  # jobs that had been answered, over all images
    lost: int = 0
    doubled: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, other: "Total") -> None:
        self.images += other.images
        self.answered += other.answered
        self.lost += other.lost
        self.doubled += other.doubled
        self.findings += other.findings

    def line(self) -> str:
        return f"{self.images} images, {self.answered} answered jobs, {self.lost} lost, {self.doubled} doubled"


async def campaign(seed: int, images: int, folder: Path) -> Total:
    """Run once, then look at so many images of it. Every other time that the modes are gone through, calls are made
    without coroutines where that is possible."""
    mode = MODES[seed % len(MODES)]
    total = Total()
    with hurried():
        kind = PromptStore if seed // len(MODES) % 2 else SqliteStore
        disk, workload = await record(kind, seed, mode, folder / "run")
        plain = Disk(keeps_log=False)
        try:
            chance = random.Random(seed)
            platter = Platter(disk)
            for moment in sorted(chance.randint(0, len(disk.log)) for _ in range(images)):
                platter.advance(moment)
                killed = chance.random() < KILLS
                image = platter.after_kill() if killed else platter.after_power_loss(chance)
                write_image(image, folder / "image")
                survives = mode == "fsync" or (mode == "write" and killed)
                where = f"seed {seed}, {mode}, moment {moment} of {len(disk.log)}"
                if chance.random() < TWICE:
                    await recover_without_power(folder / "image", workload, moment, chance)
                    where += ", and again while it recovered"
                left = place_for(f"power-{seed}-{total.images}")
                balance = await look(folder / "image", plain, workload, moment, survives, left)
                _count(total, balance, workload, moment, where)
        finally:
            plain.unregister()
    return total


async def record(kind: type[SqliteStore], seed: int, mode: str, folder: Path) -> tuple[Disk, Workload]:
    folder.mkdir()
    disk = Disk()
    try:
        store = kind(folder / "jobs.db", mode, disk.name)
        workload = Workload(store, disk, seed)
        await store.open(workload.now)
        await workload.run()
        await store.close()
    finally:
        disk.unregister()
    return disk, workload


async def recover_without_power(folder: Path, workload: Workload, moment: int, chance: random.Random) -> None:
    """Open the image, lose power meanwhile or a few calls later, and leave what remains in its place."""
    disk = Disk()
    await look(folder, disk, workload, moment, False)
    disk.unregister()
    platter = Platter(disk)
    platter.advance(chance.randint(0, len(disk.log)))
    write_image(platter.after_power_loss(chance), folder)


async def look(
    folder: Path, disk: Disk, workload: Workload, moment: int, survives: bool, left: Path | None = None
) -> Balance:
    """Open the image and audit it; its history is left in a folder if there is one for it."""
    audit = Audit(workload.ledger, moment, survives)
    store = SqliteStore(folder / "jobs.db", "fsync", disk.name)
    try:
        await store.open(workload.now)
        await audit.run(store, workload.now)
        if left is not None:
            answered = workload.ledger.ids_given(moment) if survives else ()
            await leave_history(store, workload.now, answered, left)
        await store.close()
    except Error as error:
        audit.balance.wrong.append(f"{type(error).__name__}: {error}")
        await store.close()
    return audit.balance


def _count(total: Total, balance: Balance, workload: Workload, moment: int, where: str) -> None:
    total.images += 1
    total.answered += workload.ledger.answered_jobs(moment)
    total.lost += len(balance.lost)
    total.doubled += len(balance.doubled)
    total.findings += [f"{where}: {finding}" for finding in balance.findings()]
