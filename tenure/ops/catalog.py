"""The backups in a place: listing them, choosing one, reading their manifests."""

from collections.abc import Iterator
from dataclasses import dataclass

from tenure.ops.error import BackupDamaged, BackupNotFound
from tenure.ops.manifest import BLOBS, CHUNKS, MANIFESTS, Manifest, read, show_time, time_of
from tenure.ops.place import Place, Stored
from tenure.ops.transfer import in_order

SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    at_ms: int
    object: str


def list_backups(place: Place, folder: str = MANIFESTS) -> list[Entry]:
    """Oldest first. What is not named as a backup is not one."""
    found: list[Entry] = []
    for stored in place.list(folder):
        name = stored.name.removeprefix(f"{folder}/").removesuffix(SUFFIX)
        at_ms = time_of(name)
        if at_ms is not None:
            found.append(Entry(name, at_ms, stored.name))
    return sorted(found, key=lambda entry: (entry.at_ms, entry.name))


def object_of(name: str, folder: str = MANIFESTS) -> str:
    return f"{folder}/{name}{SUFFIX}"


def read_entry(place: Place, entry: Entry) -> Manifest:
    manifest = read(f"{place.title}: {entry.object}", place.get(entry.object))
    if manifest.name != entry.name:
        raise BackupDamaged(f"{place.title}: {entry.object} is the manifest of {manifest.name}; name it so again")
    return manifest


def read_or_explain(place: Place, entry: Entry) -> Manifest | BackupDamaged:
    try:
        return read_entry(place, entry)
    except BackupDamaged as error:
        return error


def read_all(place: Place, entries: list[Entry]) -> Iterator[Manifest | BackupDamaged]:
    """In the order of the entries, a few at a time: a manifest may be large."""
    return in_order(lambda entry: read_or_explain(place, entry), entries)


def choose(place: Place, at_ms: int | None) -> Entry:
    """The newest, or the newest that is not after that time."""
    entries = list_backups(place)
    if not entries:
        raise BackupNotFound(f"{place.title} holds no backup; make one with tenure backup, or name another place")
    before = [entry for entry in entries if at_ms is None or entry.at_ms <= at_ms]
    if not before:
        oldest = show_time(entries[0].at_ms)
        raise BackupNotFound(f"{place.title} holds no backup of that time or before; the oldest is of {oldest}")
    return before[-1]


def list_chunks(place: Place) -> dict[str, Stored]:
    return {stored.name: stored for stored in place.list(CHUNKS)}


def list_blobs(place: Place) -> dict[str, Stored]:
    return {stored.name: stored for stored in place.list(BLOBS)}


def is_whole(manifest: Manifest, objects: dict[str, Stored]) -> bool:
    """As far as a listing can tell."""
    return all(
        (stored := objects.get(name)) is not None and stored.size_bytes == size_bytes
        for name, size_bytes in manifest.objects()
    )
