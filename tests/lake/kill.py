"""Lives of an exporter that end by SIGKILL, and the books after them. `python -m tests.lake.kill --kills 200`"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tenure.client.clock import read_clock
from tenure.lake.export import Exporter
from tenure.lake.lake import Lake
from tenure.lake.place import open_place
from tenure.lake.source import StoreSource
from tenure.store.embedded.sqlite import SqliteStore
from tests.lake.child import RULES
from tests.lake.rig import assert_holds, data_files, events_of

LINES_MOST = 60


@dataclass
class Books:
    kills: int = 0
    events: int = 0
    commits: int = 0
    orphans: int = 0  # files that a kill left behind


def live(folder: Path, url: str, seed: int) -> str:
    """Let an exporter work for some steps and kill it; what it said last."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.lake.child", str(folder / "jobs.db"), url, str(seed)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    left = Random(seed).randint(1, LINES_MOST)
    said = ""
    try:
        for line in child.stdout:
            said = line
            left -= 1
            if not left:
                break
    finally:
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        child.wait(30)
        child.stdout.close()
    assert not left, f"the child ended by itself after {said!r}: {rest}"
    return said


async def kill_often(folder: Path, url: str, kills: int, seed: int = 0) -> Books:
    """Raises AssertionError when an event is missing, doubled, or other than the store says."""
    books = Books()
    for number in range(kills):
        await asyncio.to_thread(live, folder, url, seed + number)
        books.kills += 1
        place = open_place(url, create=True)
        known = {segment.path for segment in Lake.open(url).segments()}
        books.orphans += len(set(data_files(place)) - known)
    store = SqliteStore(folder / "jobs.db")
    await store.open(read_clock())
    try:
        place = open_place(url, create=True)
        identity = await store.identity()
        last = Exporter(place, StoreSource(store, read_clock), identity, RULES, lambda: read_clock().wall_ms)
        await last.open()
        await last.cycle()
        await last.tidy(True)
        await last.cycle()  # tidying takes time, in which the store may have done something
        events = [event for event in await events_of(store, read_clock()) if event.seq <= last.state.upto]
        lake = await asyncio.to_thread(assert_holds, place, events)
        assert lake.gaps() == []
        assert events[0].seq == 1
        books.events = len(events)
        books.commits = lake.state.number
    finally:
        await store.close()
    return books


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-lake-") as folder:
        books = asyncio.run(kill_often(Path(folder), f"{folder}/lake", given.kills, given.seed))
    print(
        f"{books.kills} kills, {books.commits} commits, {books.events} events, each once; {books.orphans} orphans left"
    )


if __name__ == "__main__":
    main()
