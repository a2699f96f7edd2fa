"""Looking for damage: in a store's file, also while its owner writes to it, and in the backups of a place."""

from dataclasses import dataclass
from pathlib import Path

from tenure.ops.catalog import list_backups, read_all
from tenure.ops.error import BackupDamaged
from tenure.ops.fetch import fetch
from tenure.ops.manifest import Chunk, Manifest
from tenure.ops.place import Place
from tenure.ops.progress import Progress, silent
from tenure.ops.transfer import in_order
from tenure.ops.working import working_copy
from tenure.store.embedded.copy import find_damage

FINDINGS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at, and what is wrong with it."""

    backups: int
    chunks: int
    size_bytes: int
    findings: list[str]


def verify_file(source: Path, scratch: Path | None = None, progress: Progress = silent) -> Checked:
    with working_copy(source, "verify", scratch, progress) as copy:
        size_bytes = copy.stat().st_size
        progress("checking", 0, size_bytes)
        findings = [f"{source}: {damage}" for damage in find_damage(copy)]
        progress("checking", size_bytes, size_bytes)
    return Checked(0, 0, size_bytes, findings)


def verify_place(place: Place, progress: Progress = silent) -> Checked:
    """Every manifest, and the content of every chunk that one of them names, each read once."""
    entries = list_backups(place)
    findings: list[str] = [] if entries else [f"{place.title} holds no backup; make one with tenure backup"]
    lengths: dict[Chunk, int] = {}
    for found in read_all(place, entries):
        if isinstance(found, Manifest):
            for at, chunk in enumerate(found.chunks):
                lengths[chunk] = found.length_of(at)
        else:
            findings.append(str(found))
    total_bytes = sum(chunk.stored_bytes for chunk in lengths)
    done_bytes = 0
    for chunk, damage in in_order(lambda item: (item[0], _damage(place, *item)), lengths.items()):
        done_bytes += chunk.stored_bytes
        progress("checking", done_bytes, total_bytes)
        if damage and len(findings) < FINDINGS_MAX:
            findings.append(damage)
    return Checked(len(entries), len(lengths), total_bytes, findings)


def _damage(place: Place, chunk: Chunk, length: int) -> str:
    try:
        fetch(place, chunk, length)
    except BackupDamaged as error:
        return str(error)
    return ""
