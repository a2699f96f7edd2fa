"""Which backups go. Pure: from what there is, the rules and the time to what is removed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenure.core.error import InvalidRequest
from tenure.ops.place import Stored

GRACE_MS = 86_400_000
GRACE_MS_MIN = 600_000
KEEP_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Rules:
    """A backup stays while any rule keeps it. With none, all stay."""

    keep: int | None = None  # so many of the newest
    keep_for_ms: int | None = None  # those that are not older
    grace_ms: int = GRACE_MS  # what is not needed any more stays so long; a backup has half of it to finish

    def __post_init__(self) -> None:
        if self.keep is not None and not 1 <= self.keep <= KEEP_MAX:
            raise InvalidRequest("keep", self.keep, f"it must be from 1 to {KEEP_MAX}")
        if self.keep_for_ms is not None and self.keep_for_ms < 1:
            raise InvalidRequest("keep_for", self.keep_for_ms, "it must be longer than 0")
        if self.grace_ms < GRACE_MS_MIN:
            raise InvalidRequest("grace", self.grace_ms, "it must be 10m or longer")


@dataclass(frozen=True, slots=True)
class Held:
    """A backup: its name, when it was made, and whether all its objects are there."""

    name: str
    at_ms: int
    is_whole: bool


def backups_to_remove(held: Iterable[Held], rules: Rules, now_ms: int) -> list[str]:
    """Oldest first. The newest stays, and so does the newest whole one."""
    if rules.keep is None and rules.keep_for_ms is None:
        return []
    newest_first = sorted(held, key=lambda backup: (backup.at_ms, backup.name), reverse=True)
    whole = next((backup.name for backup in newest_first if backup.is_whole), None)
    removed: list[str] = []
    for place, backup in enumerate(newest_first):
        by_count = rules.keep is not None and place < rules.keep
        by_age = rules.keep_for_ms is not None and now_ms - backup.at_ms <= rules.keep_for_ms
        if not (by_count or by_age or place == 0 or backup.name == whole):
            removed.append(backup.name)
    return removed[::-1]


def objects_to_remove(
    stored: Iterable[Stored], needed: Mapping[str, object], leftovers: Iterable[Stored], grace_ms: int, now_ms: int
) -> list[str]:
    """Chunks and blobs that no backup needs, and other leftovers, both past the grace time."""
    return [
        *(each.name for each in stored if each.name not in needed and now_ms - each.at_ms > grace_ms),
        *(left.name for left in leftovers if now_ms - left.at_ms > grace_ms),
    ]
