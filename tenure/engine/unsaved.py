"""What a checkpoint has to save, worked off in portions.

It is taken in the step in which a record was taken, and read in later ones: a page may then be newer than the record,
and what changed meanwhile is in later records and in the next checkpoint.
"""

import msgspec
from mypy_extensions import i64

from tenure.core.record import StreamItem
from tenure.core.request import LOG
from tenure.engine.entity import entity_fact
from tenure.engine.journal import Entity
from tenure.engine.page import OutcomeSheet, Sheet, outcome_sheet, sheet
from tenure.engine.redo import head
from tenure.engine.world import NO_QUEUE, World

_pack = msgspec.msgpack.Encoder().encode


def _kept(output: list[tuple[int, int, StreamItem]], trimmed: dict[int, int]) -> list[tuple[int, int, StreamItem]]:
    """Without the log lines that are dropped already."""
    if not trimmed:
        return output
    return [row for row in output if row[1] != LOG or row[2].offset >= trimmed.get(row[0], 0)]


class Unsaved:
    def __init__(self, w: World) -> None:
        journal = w.journal
        self._w = w
        self.head = head(w)
        self._pages = list(journal.unsaved_pages)
        self._outcomes = list(journal.unsaved_outcomes)
        self._entities: list[Entity] = list(journal.unsaved_entities)
        self._silenced: list[int] = journal.silenced
        self._trimmed: list[tuple[int, int]] = list(journal.trimmed.items())
        spoken = _spoken(journal.unsaved_output, journal.silenced)
        self._output: list[tuple[int, int, StreamItem]] = _kept(spoken, journal.trimmed)
        self._queues = list(journal.unsaved_queues)
        self._dropped_queues: list[tuple[str, str]] = journal.dropped_queues
        self.all_queues = journal.all_queues  # rows of no other queue may stay
        journal.all_queues = False
        journal.unsaved_pages = {}
        journal.last_page = -1
        journal.unsaved_outcomes = {}
        journal.unsaved_entities = {}
        journal.unsaved_output = []
        journal.silenced = []
        journal.trimmed = {}
        journal.unsaved_queues = {}
        journal.last_queue = -1
        journal.dropped_queues = []

    def is_empty(self) -> bool:
        return not (self._pages or self._outcomes or self._entities or self._output or self._silenced or self._trimmed)

    def silenced(self, count: int) -> list[int]:
        """The next removed jobs whose output has to go, at most so many."""
        found = self._silenced[-count:]
        del self._silenced[-count:]
        return found

    def trimmed(self, count: int) -> list[tuple[int, int]]:
        """The next jobs that have log lines too many, at most so many: the job, and the first line that is kept."""
        found = self._trimmed[-count:]
        del self._trimmed[-count:]
        return found

    def output(self, count: int, size: int) -> list[tuple[int, int, StreamItem]]:
        """The next items, at most so many and not many more bytes: job, kind, item."""
        found: list[tuple[int, int, StreamItem]] = []
        while self._output and len(found) < count and size > 0:
            row = self._output.pop()
            found.append(row)
            size -= len(row[2].data)
        return found

    def dropped_queues(self, count: int) -> list[tuple[str, str]]:
        """The next queues that were forgotten: tenant and name."""
        found = self._dropped_queues[-count:]
        del self._dropped_queues[-count:]
        return found

    def sheets(self, count: int) -> list[Sheet]:
        """The next pages, at most so many."""
        numbers = self._pages[-count:]
        del self._pages[-count:]
        return [sheet(self._w, i64(number)) for number in numbers]

    def outcomes(self, count: int) -> list[OutcomeSheet]:
        numbers = self._outcomes[-count:]
        del self._outcomes[-count:]
        return [outcome_sheet(self._w, i64(number)) for number in numbers]

    def entities(self, count: int, size: int) -> list[tuple[bytes, bytes]]:
        """Name and fact of each; an empty fact when it is gone. Not many more bytes: a chunk has megabytes."""
        found: list[tuple[bytes, bytes]] = []
        while self._entities and len(found) < count and size > 0:
            name = self._entities.pop()
            fact = entity_fact(self._w, name)
            packed = b"" if fact is None else _pack(fact)
            found.append((_pack(list(name)), packed))
            size -= len(packed)
        return found

    def queues(self, count: int) -> list[tuple[object, ...]]:
        """Tenant, name, and the counts by state, bytes and pause of the next queues with changes."""
        found: list[tuple[object, ...]] = []
        while self._queues and len(found) < count:
            q = self._w.queues[self._queues.pop()]
            if q is NO_QUEUE:
                continue
            found.append(
                (
                    q.tenant_name,
                    q.name,
                    int(q.scheduled),
                    int(q.blocked),
                    int(q.ready),
                    int(q.running),
                    int(q.retrying),
                    int(q.completed),
                    int(q.failed),
                    int(q.cancelled),
                    int(q.bytes),
                    q.paused,
                )
            )
        return found


def _spoken(output: list[tuple[int, int, StreamItem]], silenced: list[int]) -> list[tuple[int, int, StreamItem]]:
    """Without the output of jobs that were removed since."""
    if not output or not silenced:
        return output
    gone = set(silenced)
    return [row for row in output if row[0] not in gone]
