"""Removing backups that no rule keeps, and then what only they needed.

In two steps, so that a backup that is being made meanwhile, by whatever process, finds the objects it counts on: a
pruned manifest is moved to `gone/`, and only when it has been there for the grace time, its chunks and blobs may go.
While a manifest cannot be read nobody knows what it needs: then no object goes, and the report says so.
"""

from dataclasses import dataclass

from tenure.ops.catalog import Entry, is_whole, list_backups, list_blobs, list_chunks, object_of, read_all
from tenure.ops.manifest import GONE, Manifest
from tenure.ops.place import PARTIAL, Place
from tenure.ops.retention import Held, Rules, backups_to_remove, objects_to_remove


@dataclass(frozen=True, slots=True)
class Pruned:
    backups: list[str]
    objects: int
    unreadable: list[str]  # why no object was removed


def prune(place: Place, rules: Rules, now_ms: int) -> Pruned:
    stored = list_chunks(place) | list_blobs(place)
    entries = list_backups(place)
    held: list[Held] = []
    unreadable: list[str] = []
    for entry, found in zip(entries, read_all(place, entries), strict=True):
        if isinstance(found, Manifest):
            held.append(Held(entry.name, entry.at_ms, is_whole(found, stored)))
        else:
            unreadable.append(str(found))
    removed = backups_to_remove(held, rules, now_ms)
    for name in removed:
        _put_aside(place, name)
    old_gone = {gone.name for gone in place.list(GONE) if now_ms - gone.at_ms > rules.grace_ms}
    needed, more = _needed(place, [entry for entry in _all(place) if entry.object not in old_gone])
    unreadable += [text for text in more if text not in unreadable]
    if unreadable:
        return Pruned(removed, 0, unreadable)
    objects = objects_to_remove(stored.values(), needed, place.list(PARTIAL), rules.grace_ms, now_ms)
    place.delete(objects)
    place.delete(sorted(old_gone))
    return Pruned(removed, len(objects), [])


def _put_aside(place: Place, name: str) -> None:
    place.put(object_of(name, GONE), place.get(object_of(name)))
    place.delete([object_of(name)])


def _all(place: Place) -> list[Entry]:
    return [*list_backups(place), *list_backups(place, GONE)]


def _needed(place: Place, entries: list[Entry]) -> tuple[dict[str, None], list[str]]:
    needed: dict[str, None] = {}
    unreadable: list[str] = []
    for found in read_all(place, entries):
        if isinstance(found, Manifest):
            needed.update((name, None) for name, _ in found.objects())
        else:
            unreadable.append(str(found))
    return needed, unreadable
