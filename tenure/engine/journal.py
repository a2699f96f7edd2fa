"""What changed and has not been written down yet.

An owned store keeps its jobs in memory and a journal on disk. The journal holds effects: for every job that a step
touched, how it is afterwards, so that a newer engine reads an older history the same. This class is told who was
touched; `engine.facts` writes records of it.

A job is born dirty. In a store that keeps no journal it stays dirty, so touching it costs one test and nothing grows.

Besides jobs there are entities: settings, buckets, holdovers, keys that outlive their job, remembered operations,
loads, sweeps. They are named by a tuple that begins with a kind; what they are is looked up when a record is written.
"""

from typing import Final

from mypy_extensions import i64

from tenure.core.record import StreamItem
from tenure.engine.bundle import Bundle
from tenure.engine.job import Job

# Kinds of entities. Numbers are never used again for something else.
STORE: Final = 0  # ()
TENANT: Final = 1  # (tenant)
QUEUE: Final = 2  # (tenant, queue)
KEY: Final = 3  # (tenant or "" when shared, prefix): settings of limit keys
LIMIT: Final = 4  # (tenant or "", key): its bucket and pause
HOLDOVER: Final = 5  # (claim, job)
SESSION: Final = 6  # (name)
OPERATION: Final = 7  # (session's name, counter)
IDEMPOTENCY: Final = 8  # (tenant, queue, task, key)
WINDOW: Final = 9  # (tenant, queue, key)
CUSTOM: Final = 10  # (tenant, custom id): how a removed job ended
LOAD: Final = 11  # (tenant, load id)
CHUNK: Final = 12  # (tenant, load id, part, writing, chunk)
SWEEP: Final = 13  # (ticket)
GIVEN: Final = 14  # (tenant, load id, part, writing, chunk): what became of its rows
CLOCK: Final = 15  # (): how the clocks stand to each other

Entity = tuple[object, ...]

# A page of the checkpoint: jobs whose ids share these high bits. Outcomes of removed jobs are in pages of 1,024.
PAGE_BITS: Final = 6

EVENT_BYTES: Final = 8  # about what the event of a job in a bundle has


class Journal:
    def __init__(self) -> None:
        self.on: bool = False
        self.has_clock: bool = False  # a record says how the clocks stand, since the store was opened
        self.touched: list[Job] = []
        self.ranges: list[int] = []  # first and last id of jobs that came in a row
        self.bundles: list[tuple[Entity, Bundle]] = []  # jobs that came as rows of a chunk
        self.batches: list[Bundle] = []  # jobs that came as rows of a batch
        self.in_rows: i64 = 0  # how many came in a row or a bundle
        self.bytes: i64 = 0  # of content that the next record has
        self.gone: list[int] = []  # first id, count, tenant, state
        self.output: list[tuple[int, int, StreamItem]] = []  # job, kind, item
        self.entities: dict[Entity, int] = {}
        # In records, not yet in a checkpoint.
        self.unsaved_pages: dict[int, int] = {}
        self.last_page: i64 = -1  # the last one noted there
        self.unsaved_outcomes: dict[int, int] = {}
        self.unsaved_entities: dict[Entity, int] = {}
        self.unsaved_output: list[tuple[int, int, StreamItem]] = []
        self.unsaved_queues: dict[int, int] = {}
        self.last_queue: i64 = -1
        self.all_queues: bool = False  # after a restart: which queues had been dropped is not written down
        self.dropped_queues: list[tuple[str, str]] = []
        self.silenced: list[int] = []  # removed jobs that had output
        self.trimmed: dict[int, int] = {}  # jobs whose oldest log lines are dropped, and the first line that is kept

    def is_empty(self) -> bool:
        return not (
            self.touched or self.ranges or self.bundles or self.batches or self.gone or self.output or self.entities
        )

    def size(self) -> int:
        return len(self.touched) + len(self.entities) + int(self.in_rows)

    def born(self, job: Job) -> None:
        if self.on:
            self.touched.append(job)

    def born_in_a_row(self, first: i64, last: i64) -> None:
        if self.on:
            self.ranges.append(int(first))
            self.ranges.append(int(last))
            self.in_rows += last - first + 1

    def batched(self, bundle: Bundle, size: i64) -> None:
        """All jobs of a batch; `size` is what their payloads have."""
        if self.on:
            self.batches.append(bundle)
            self.in_rows += bundle.count
            self.bytes += size + bundle.count * EVENT_BYTES

    def bundled(self, chunk: Entity, bundle: Bundle) -> None:
        if self.on:
            self.bundles.append((chunk, bundle))
            self.in_rows += bundle.count
            self.bytes += bundle.count * EVENT_BYTES

    def touch(self, job: Job) -> None:
        if not job.dirty:
            job.dirty = True
            self.touched.append(job)

    def forget(self, job: Job, state: i64) -> None:
        """The job is removed; `state` is how others will see that it ended."""
        if not self.on:
            return
        job.dirty = True
        job.gone = True
        self.unsaved_queues[int(job.spec.queue)] = 1
        side = job.side
        if side is not None and (side.log is not None or side.stream is not None):
            self.silenced.append(int(job.id))
        gone = self.gone
        if gone and gone[-4] + gone[-3] == job.id and gone[-2] == job.spec.tenant and gone[-1] == state:
            gone[-3] += 1
            return
        gone.append(int(job.id))
        gone.append(1)
        gone.append(int(job.spec.tenant))
        gone.append(int(state))

    def append(self, job: Job, kind: i64, item: StreamItem) -> None:
        if self.on:
            self.output.append((int(job.id), int(kind), item))
            self.bytes += len(item.data)

    def trim(self, job: Job, first: i64) -> None:
        """Its log lines before that one are not kept any more."""
        if self.on:
            self.trimmed[int(job.id)] = int(first)

    def mark(self, entity: Entity) -> None:
        if self.on:
            self.entities[entity] = 1
