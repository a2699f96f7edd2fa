"""Lines of jobs: sorted, in chunks, with cheap ends.

A line is a list of chunks of at most 2,048 jobs. Appending at the back and taking from the front touch one chunk; a job
that comes back to its old place, or leaves from the middle, is found by bisection. Nothing is marked and skipped later:
what is not in line is not there. A bundle of jobs that nobody has looked at is a chunk of its own with a stand-in; it
is opened when one of them is wanted.

`Line` is sorted by (rank, number). `Members`, the waiting jobs of a group, by when they joined. `Order` is what a claim
takes from: one line per rank, and a small heap of the ranks present.
"""

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64

from tenure.engine.bundle import Bundle, StandIn
from tenure.engine.index import Index
from tenure.engine.job import BUNDLED, NO_JOB, Job

CHUNK: Final = 1024
CHUNK_MAX: Final = 2048
KEPT_MAX: Final = 8  # an empty line holds on to a chunk that is no longer than that
NO_RANKS: Final[list[int]] = []  # of orders that have no table of lines; never pushed to


class Line:
    def __init__(self) -> None:
        self.chunks: list[list[Job]] = []
        self.head: i64 = 0  # chunks[0][:head] are NO_JOB; all of it when the line is empty
        self.size: i64 = 0
        self._index: Index | None = None  # where jobs of its bundles are

    def before(self, a: Job, b: Job) -> bool:
        return a.number < b.number if a.rank == b.rank else a.rank < b.rank

    def push(self, job: Job) -> None:
        if self.size == 0 or self.before(self.chunks[-1][-1], job):
            self.append(job)
            return
        self.size += 1
        self._insert(job)

    def append(self, job: Job) -> None:
        """Push a job that stands behind all others."""
        self.size += 1
        chunks = self.chunks
        if chunks:
            last = chunks[-1]
            if len(last) < CHUNK and last[-1].place != BUNDLED:
                last.append(job)
                return
        chunks.append([job])

    def append_bundle(self, bundle: Bundle, index: Index) -> None:
        """Jobs that stand behind all others."""
        if self.size == 0:
            self.chunks = []
            self.head = 0
        self._index = index
        self.size += bundle.count
        self.chunks.append([StandIn(bundle)])

    def _open(self, at: i64) -> list[Job]:
        """The chunk with its jobs."""
        chunk = self.chunks[at]
        stand_in = chunk[-1]
        if stand_in.place != BUNDLED:
            return chunk
        assert isinstance(stand_in, StandIn) and self._index is not None
        bundle = stand_in.bundle
        jobs: list[Job] = []
        id: i64 = bundle.first
        while id <= bundle.last():
            job = self._index.get(id)
            assert job is not None, "a job in line is gone"
            jobs.append(job)
            id += 1
        self.chunks[at] = jobs
        return jobs

    def first(self) -> Job:
        """The first job; the line must not be empty."""
        job = self.chunks[0][self.head]
        return self._open(0)[0] if job.place == BUNDLED else job

    def pop(self) -> Job:
        chunk = self.chunks[0]
        head: i64 = self.head
        job = chunk[head]
        if job.place == BUNDLED:
            chunk = self._open(0)
            job = chunk[0]
        self.size -= 1
        if head + 1 < len(chunk) or (self.size == 0 and head < KEPT_MAX):
            chunk[head] = NO_JOB
            self.head = head + 1
        else:
            del self.chunks[0]
            self.head = 0
        return job

    def remove(self, job: Job) -> None:
        """Take out a job that is in the line."""
        at = self._chunk_of(job)
        chunk = self._open(at)
        low: i64 = self.head if at == 0 else 0
        place = self._bisect(chunk, low, job)
        assert chunk[place] is job, "the line does not hold this job at its place"
        self.size -= 1
        if at == 0 and place == self.head:
            self.size += 1
            self.pop()
            return
        del chunk[place]
        if len(chunk) == 0:
            del self.chunks[at]

    def place(self, job: Job, limit: i64) -> i64:
        """How many stand before the job, or -1 when more than `limit`."""
        at = self._chunk_of(job)
        ahead: i64 = 0
        i: i64 = 0
        while i < at:
            ahead += len(self._open(i)) - (self.head if i == 0 else 0)
            if ahead > limit:
                return -1
            i += 1
        low: i64 = self.head if at == 0 else 0
        ahead += self._bisect(self._open(at), low, job) - low
        return ahead if ahead <= limit else -1

    def jobs(self) -> list[Job]:
        """All jobs in order; for reading and checking, not for the hot path. Nothing is opened: those that are not made
        yet are copies."""
        found: list[Job] = []
        for at, chunk in enumerate(self.chunks):
            stand_in = chunk[-1]
            if isinstance(stand_in, StandIn):
                assert self._index is not None
                found.extend(self._index.peek_all(stand_in.bundle.first, stand_in.bundle.last()))
            else:
                found.extend(chunk[self.head :] if at == 0 else chunk)
        return found

    def _insert(self, job: Job) -> None:
        at = self._chunk_of(job)
        chunk = self._open(at)
        if at == 0 and self.head > 0:
            if self.before(job, chunk[self.head]):
                self.head -= 1
                chunk[self.head] = job
                return
            del chunk[: self.head]
            self.head = 0
        elif at == 0 and self.before(job, chunk[0]):
            # In front of everything, as lifo does: a new first chunk, so that nothing is shifted.
            front = [NO_JOB] * CHUNK
            front[CHUNK - 1] = job
            self.chunks.insert(0, front)
            self.head = CHUNK - 1
            return
        chunk.insert(self._bisect(chunk, 0, job), job)
        if len(chunk) > CHUNK_MAX:
            self.chunks.insert(at + 1, chunk[CHUNK:])
            del chunk[CHUNK:]

    def _chunk_of(self, job: Job) -> i64:
        """The first chunk whose last job does not stand before this one; the last chunk if there is none."""
        low: i64 = 0
        high: i64 = len(self.chunks) - 1
        while low < high:
            middle = (low + high) // 2
            if self.before(self.chunks[middle][-1], job):
                low = middle + 1
            else:
                high = middle
        return low

    def _bisect(self, chunk: list[Job], low: i64, job: Job) -> i64:
        high: i64 = len(chunk)
        while low < high:
            middle = (low + high) // 2
            if self.before(chunk[middle], job):
                low = middle + 1
            else:
                high = middle
        return low


class Members(Line):
    def before(self, a: Job, b: Job) -> bool:
        assert a.side is not None and b.side is not None
        return a.side.joined < b.side.joined


class Order:
    """Ready jobs in the order of (rank, number). Ranks are -priority; a queue with ageing gives each job its own.

    Jobs with a rank of their own stand in one line (`aged`); those whose rank is a priority, in one line per rank. The
    two only meet while a queue's ageing is being switched; then those without ageing go first. Most queues only ever
    see one rank: they have one line and no table of lines.
    """

    def __init__(self) -> None:
        self.size: i64 = 0
        # The line with the smallest rank, when known; None: look it up.
        self._top: Line | None = None
        self._top_rank: i64 = 0
        self._lines: dict[int, Line] | None = None
        self._ranks: list[int] = NO_RANKS  # heap of the ranks that have a line, and of some that no longer do
        self._aged: Line | None = None

    def push(self, job: Job) -> None:
        self.size += 1
        if job.aged:
            if self._aged is None:
                self._aged = Line()
            self._aged.push(job)
            return
        top = self._top
        if top is not None and job.rank == self._top_rank:
            top.push(job)
            return
        self.line(job.rank).push(job)

    def line(self, rank: i64) -> Line:
        """The line of the rank, for pushing many; the caller counts them in `size`."""
        top = self._top
        if top is not None and rank == self._top_rank:
            return top
        lines = self._lines
        if lines is None:
            if top is None or top.size == 0:
                top = Line()
                self._top = top
                self._top_rank = rank
                return top
            lines = {int(self._top_rank): top}
            self._lines = lines
            self._ranks = [int(self._top_rank)]
        line = lines.get(rank)
        if line is None:
            line = Line()
            lines[rank] = line
            heappush(self._ranks, rank)
            if top is not None and rank < self._top_rank:
                if top.size == 0:
                    del lines[self._top_rank]
                    self._forget_ranks(lines)
                self._top = line
                self._top_rank = rank
        return line

    def _forget_ranks(self, lines: dict[int, Line]) -> None:
        if len(self._ranks) > 2 * len(lines) + 64:
            self._ranks = sorted(lines)

    def top(self) -> Line:
        """The line whose first job is the first of all; the order must not be empty."""
        top = self._top
        if top is not None and top.size > 0:
            return top
        lines = self._lines
        if lines is not None:
            while self._ranks:
                rank = self._ranks[0]
                line = lines.get(rank)
                if line is not None and line.size > 0:
                    self._top = line
                    self._top_rank = rank
                    return line
                heappop(self._ranks)
                lines.pop(rank, None)
            self._lines = None
            self._ranks = NO_RANKS
        self._top = None
        assert self._aged is not None, "the order is empty"
        return self._aged

    def first(self) -> Job:
        return self.top().first()

    def pop(self) -> Job:
        self.size -= 1
        return self.top().pop()

    def remove(self, job: Job) -> None:
        self.size -= 1
        if job.aged:
            assert self._aged is not None
            self._aged.remove(job)
            if self._aged.size == 0:
                self._aged = None
            return
        line = self._line_of(job)
        line.remove(job)
        lines = self._lines
        if line.size == 0 and lines is not None and line is not self._top:
            del lines[job.rank]
            self._forget_ranks(lines)

    def _line_of(self, job: Job) -> Line:
        if self._top is not None and job.rank == self._top_rank:
            return self._top
        assert self._lines is not None
        return self._lines[job.rank]

    def place(self, job: Job, limit: i64) -> i64:
        """How many stand before the job, or would if it stood here; -1 when more than `limit`."""
        ahead: i64 = 0
        own: Line | None = None
        if job.aged:
            own = self._aged
            ahead = self.size
            if own is not None:
                ahead -= own.size
        else:
            for rank, line in self._table().items():
                if rank < job.rank:
                    ahead += line.size
                elif rank == job.rank:
                    own = line
        if own is None or own.size == 0:
            return ahead if ahead <= limit else -1
        place = own.place(job, limit)
        return place + ahead if place >= 0 and place + ahead <= limit else -1

    def jobs(self) -> list[Job]:
        found: list[Job] = []
        lines = self._table()
        for rank in sorted(lines):
            found.extend(lines[rank].jobs())
        if self._aged is not None:
            found.extend(self._aged.jobs())
        return found

    def _table(self) -> dict[int, Line]:
        if self._lines is not None:
            return self._lines
        return {} if self._top is None else {int(self._top_rank): self._top}
