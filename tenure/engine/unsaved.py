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
        self.output: list[tuple[int, int, StreamItem]] = _kept(journal.unsaved_output, journal.trimmed)
        self.silenced: list[int] = journal.silenced
        self.trimmed: dict[int, int] = journal.trimmed  # the first log line that is kept of a job
        self._queues = list(journal.unsaved_queues)
        self.dropped_queues: list[tuple[str, str]] = journal.dropped_queues
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
        return not (self._pages or self._outcomes or self._entities or self.output or self.silenced or self.trimmed)

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

    def queues(self) -> list[tuple[object, ...]]:
        """Tenant, name, and the counts by state, bytes and pause of every queue with changes."""
        found: list[tuple[object, ...]] = []
        for number in self._queues:
            q = self._w.queues[number]
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
