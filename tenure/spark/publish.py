"""How tables become files: written aside by Spark, then each hour's file is renamed over the one it replaces.

The folder has one writer at a time, held by a lock. What a killed writer left aside is swept away by the next one.
The folder must be the same for the driver and all executors.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tenure.core.error import InvalidRequest
from tenure.lake.gold import VERSION

STAGING: Final = "_staging"
CHECKPOINT: Final = "_checkpoint"
ABOUT: Final = "_about.json"
PROGRESS: Final = "_progress.json"
LOCK: Final = "_lock"
PART: Final = "_part"  # the number of the hour, or the day as text: in the names of the folders only

Staged = Mapping[str, Path]


class About(msgspec.Struct, frozen=True):
    """What a gold folder says of itself."""

    version: int
    lake: str


class Progress(msgspec.Struct, frozen=True):
    """Gold has been made of all events of the lake up to this `seq`."""

    upto: int = 0


@contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """Alone until the end; a place to write aside that is empty, and goes afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        staging = folder / STAGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        yield staging
        shutil.rmtree(staging, ignore_errors=True)


def check_about(folder: Path, lake: str) -> None:
    """Gold is made from one lake, by a version that this one understands."""
    path = folder / ABOUT
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, msgspec.json.encode(About(VERSION, lake)))
        return
    about = msgspec.json.decode(path.read_bytes(), type=About)
    if about.version != VERSION:
        rule = f"it has version {about.version} of the tables, this Tenure writes {VERSION}; take another folder"
        raise InvalidRequest("gold", str(folder), rule)
    if about.lake != lake:
        rule = f"it was made from the lake {about.lake}; take another folder for {lake}"
        raise InvalidRequest("gold", str(folder), rule)


def read_progress(folder: Path) -> int:
    path = folder / PROGRESS
    return msgspec.json.decode(path.read_bytes(), type=Progress).upto if path.exists() else 0


def write_progress(folder: Path, upto: int) -> None:
    if upto != read_progress(folder):
        _write(folder / PROGRESS, msgspec.json.encode(Progress(upto)))


def stage(table: DataFrame, part: str, order: Sequence[str], target: Path) -> Staged:
    """Writes a table aside, one file for each part (an expression: the hour or the day), sorted."""
    rows = table.withColumn(PART, sf.expr(part).cast("string")).repartition(PART).sortWithinPartitions(PART, *order)
    rows.write.partitionBy(PART).parquet(str(target))
    found: dict[str, Path] = {}
    for folder in target.glob(f"{PART}=*"):
        [file] = folder.glob("*.parquet")
        found[folder.name.removeprefix(f"{PART}=")] = file
    return found


def place(staged: Path | None, target: Path) -> None:
    """The staged file takes the place of the old one; without one, the old one goes."""
    if staged is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(staged, "rb") as file:
        os.fsync(file.fileno())
    os.replace(staged, target)
    _sync(target.parent)


def _write(path: Path, data: bytes) -> None:
    aside = path.with_name(f".{path.name}")
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
