"""Bulk reads in the columns of `core.table`: events straight from their runs, jobs by their ids. No record is made for
an event.
"""

from typing import Final

import msgspec
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from tenure.core import retry
from tenure.core.dependency import POLICY_NAMES
from tenure.core.event import EVENT_NAMES
from tenure.core.job import CONFLICT_NAMES, Options
from tenure.core.record import Scanned
from tenure.core.request import Filter, Scan
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.eventlog import L_ENDED, L_ENQUEUED, L_IMPORTED, L_PLAIN, L_STARTED, Reader, run_bytes
from tenure.engine.job import Job, payload_bytes
from tenure.engine.query import matches, record
from tenure.engine.world import World

BYTES_MAX: Final = 8 * 1024 * 1024  # of a page, though always the first row
EVENT_BYTES: Final = 200  # of an event without what few of them have
RUNS_LOOKED_AT: Final = 20_000  # for one page
JOBS_LOOKED_AT: Final = 20_000  # for one page


class Texts:
    """A column of texts."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.codes = BytesWriter()
        self._numbers: dict[str, int] = {}

    def code(self, text: str) -> i32:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.values)
            self.values.append(text)
        return i32(number)

    def column(self) -> list[object]:
        return [self.values, self.codes.getvalue()]


class EventColumns:
    """The columns of one page, for the events that somebody may see and asked for."""

    def __init__(self, tenant: str, queue: str, types: i64, limit: i64) -> None:
        """An empty tenant or queue is all of them; `types` is a set of bits, 0 is every type."""
        self.tenant = tenant
        self.queue = queue
        self.types: i64 = types
        self.limit: i64 = limit
        self.rows: i64 = 0
        self.bytes: i64 = 0
        self.seq = BytesWriter()
        self.job_seq = BytesWriter()
        self.at = BytesWriter()
        self.job = BytesWriter()
        self.attempt = BytesWriter()
        self.delivery = BytesWriter()
        self.run_at = BytesWriter()
        self.expires_at = BytesWriter()
        self.priority = BytesWriter()
        self.max_attempts = BytesWriter()
        self.payload_bytes = BytesWriter()
        self.enqueued_at = BytesWriter()
        self.ready_at = BytesWriter()
        self.started_at = BytesWriter()
        self.run_ms = BytesWriter()
        self.result_bytes = BytesWriter()
        self.type = Texts()
        self.tenants = Texts()
        self.queues = Texts()
        self.task = Texts()
        self.state = Texts()
        self.worker = Texts()
        self.cause = Texts()
        self.reason = Texts()
        self.error_type = Texts()
        self.message = Texts()
        self.fingerprint = Texts()
        self.group = Texts()
        self.unique_hash = Texts()
        self.limit_keys: dict[int, list[str]] = {}
        self.depends_on: dict[int, list[int]] = {}
        self.detail: dict[int, str] = {}

    def is_full(self) -> bool:
        return self.rows >= self.limit or self.bytes >= BYTES_MAX

    def read(self, data: bytes, after: i64, upto: i64, runs_max: i64) -> tuple[i64, i64]:
        """Take in the events of some runs with after < seq <= upto; answers the last seq that was looked at, and how
        many of the runs that it may look at are left."""
        seen: i64 = after
        at: i64 = 0
        while at < len(data) and runs_max > 0 and not self.is_full():
            count = i64(read_i32_le(data, at + 4))
            first: i64 = read_i64_le(data, at + 20)
            if first > upto:
                return upto, runs_max
            if first + count > after + 1:
                runs_max -= 1
                if self.types and not self._wants(data[at + 9]):
                    seen = min(first + count - 1, upto)
                else:
                    seen = ColumnReader(data, at).read_into(self, after, upto)
            at += run_bytes(data, at)
        return seen, runs_max

    def _wants(self, type: i64) -> bool:
        return (self.types >> type) & 1 == 1

    def columns(self) -> dict[str, object]:
        return {
            "seq": self.seq.getvalue(),
            "job_seq": self.job_seq.getvalue(),
            "at": self.at.getvalue(),
            "type": self.type.column(),
            "tenant": self.tenants.column(),
            "queue": self.queues.column(),
            "task": self.task.column(),
            "job": self.job.getvalue(),
            "state": self.state.column(),
            "attempt": self.attempt.getvalue(),
            "delivery": self.delivery.getvalue(),
            "worker": self.worker.column(),
            "cause": self.cause.column(),
            "run_at": self.run_at.getvalue(),
            "expires_at": self.expires_at.getvalue(),
            "priority": self.priority.getvalue(),
            "max_attempts": self.max_attempts.getvalue(),
            "group": self.group.column(),
            "limit_keys": self.limit_keys,
            "depends_on": self.depends_on,
            "unique_hash": self.unique_hash.column(),
            "payload_bytes": self.payload_bytes.getvalue(),
            "enqueued_at": self.enqueued_at.getvalue(),
            "ready_at": self.ready_at.getvalue(),
            "started_at": self.started_at.getvalue(),
            "run_ms": self.run_ms.getvalue(),
            "result_bytes": self.result_bytes.getvalue(),
            "reason": self.reason.column(),
            "error_type": self.error_type.column(),
            "message": self.message.column(),
            "fingerprint": self.fingerprint.column(),
            "detail": self.detail,
        }


class ColumnReader(Reader):
    """Reads one run into columns."""

    def read_into(self, out: EventColumns, after: i64, upto: i64) -> i64:
        first: i64 = self._seq
        last: i64 = first + self._count - 1
        if out.tenant and self.tenant != out.tenant:
            return min(last, upto)
        if out.queue and self._queue != out.queue:
            return min(last, upto)
        # What is the same for the whole run is looked up once.
        type = out.type.code(self._type)
        tenant = out.tenants.code(self.tenant)
        queue = out.queues.code(self._queue)
        task = out.task.code(self._task)
        state = out.state.code(self._state)
        worker = out.worker.code(self._worker)
        cause = out.cause.code(self._cause)
        error_type = out.error_type.code(self._error_type)
        message = out.message.code(self._message)
        fingerprint = out.fingerprint.code(self._fingerprint)
        id: i64 = 0
        seq: i64 = first
        while seq <= last:
            if seq > upto:
                return upto
            if out.is_full():
                return seq - 1
            id += self.signed()
            if not self._row_into(out, seq > after):
                seq += 1
                continue
            write_i64_le(out.seq, seq)
            write_i64_le(out.at, self._time)
            write_i64_le(out.job, id)
            write_i32_le(out.type.codes, type)
            write_i32_le(out.tenants.codes, tenant)
            write_i32_le(out.queues.codes, queue)
            write_i32_le(out.task.codes, task)
            write_i32_le(out.state.codes, state)
            write_i32_le(out.worker.codes, worker)
            write_i32_le(out.cause.codes, cause)
            write_i32_le(out.error_type.codes, error_type)
            write_i32_le(out.message.codes, message)
            write_i32_le(out.fingerprint.codes, fingerprint)
            out.rows += 1
            out.bytes += EVENT_BYTES
            seq += 1
        return last

    def _row_into(self, out: EventColumns, is_wanted: bool) -> bool:
        """What one row has of its own; answers whether it was taken."""
        layout: i64 = self._layout
        if layout == L_ENQUEUED or layout == L_IMPORTED:
            return self._enqueued_into(out, is_wanted)
        at: i64 = self._time
        job_seq: i64 = self.number()
        attempt: i64 = self.number()
        delivery: i64 = self.number()
        enqueued_at: i64 = 0
        ready_at: i64 = 0
        started_at: i64 = 0
        run_at: i64 = 0
        run_ms: i64 = 0
        result_bytes: i64 = 0
        if layout == L_STARTED:
            ready_at = at - self.number()
            started_at = at
        elif layout == L_ENDED:
            enqueued_at = at - self.number()
            ready_at = at - self.number()
            run_ms = self.number()
            started_at = at - run_ms
            result_bytes = self.number()
            run_at = at + self.signed()
        elif layout == L_PLAIN:
            run_at = at + self.signed()
        else:
            detail = self.text()
            if is_wanted and detail != "{}":
                out.detail[int(out.rows)] = detail
                out.bytes += len(detail)
        if not is_wanted:
            return False
        write_i64_le(out.job_seq, job_seq)
        write_i64_le(out.attempt, attempt)
        write_i64_le(out.delivery, delivery)
        write_i64_le(out.run_at, run_at)
        write_i64_le(out.expires_at, 0)
        write_i64_le(out.priority, 0)
        write_i64_le(out.max_attempts, 0)
        write_i64_le(out.payload_bytes, 0)
        write_i64_le(out.enqueued_at, enqueued_at)
        write_i64_le(out.ready_at, ready_at)
        write_i64_le(out.started_at, started_at)
        write_i64_le(out.run_ms, run_ms)
        write_i64_le(out.result_bytes, result_bytes)
        write_i32_le(out.reason.codes, out.reason.code(self._reason))
        write_i32_le(out.group.codes, out.group.code(""))
        write_i32_le(out.unique_hash.codes, out.unique_hash.code(""))
        return True

    def _enqueued_into(self, out: EventColumns, is_wanted: bool) -> bool:
        run_at: i64 = self._time + self.signed()
        expires: i64 = self.signed()
        payload_bytes: i64 = self.number()
        flags: i64 = self.number()
        group = self.text() if flags & 1 else ""
        unique = ""
        if flags & 2:
            unique = self.data[self.pos : self.pos + 8].hex()
            self.pos += 8
        depends_on: list[int] = []
        if flags & 4:
            left: i64 = self.number()
            while left > 0:
                depends_on.append(self.number())
                left -= 1
        attempt: i64 = 0
        delivery: i64 = 0
        enqueued_at: i64 = 0
        reason = ""
        if self._layout == L_IMPORTED:
            attempt = self.number()
            delivery = self.number()
            enqueued_at = self._time - self.number()
            reason = self.text()
        if not is_wanted:
            return False
        write_i64_le(out.job_seq, 1)
        write_i64_le(out.attempt, attempt)
        write_i64_le(out.delivery, delivery)
        write_i64_le(out.run_at, run_at)
        write_i64_le(out.expires_at, self._time + expires if expires else 0)
        write_i64_le(out.priority, self._priority)
        write_i64_le(out.max_attempts, self._max_attempts)
        write_i64_le(out.payload_bytes, payload_bytes)
        write_i64_le(out.enqueued_at, enqueued_at)
        write_i64_le(out.ready_at, 0)
        write_i64_le(out.started_at, 0)
        write_i64_le(out.run_ms, 0)
        write_i64_le(out.result_bytes, 0)
        write_i32_le(out.reason.codes, out.reason.code(reason))
        write_i32_le(out.group.codes, out.group.code(group))
        write_i32_le(out.unique_hash.codes, out.unique_hash.code(unique))
        if self._limit_keys:
            out.limit_keys[int(out.rows)] = list(self._limit_keys)
            out.bytes += 64
        if depends_on:
            out.depends_on[int(out.rows)] = depends_on
            out.bytes += 9 * len(depends_on)
        return True


def scan(w: World, context: Context, asked: Scan) -> Scanned:
    """A page of a table, or its bounds only when no rows are asked for."""
    if asked.table == "events":
        first: i64 = w.log.oldest()
        if not asked.limit:
            return Scanned(int(first), int(w.log.seq))
        out = event_columns(context, asked)
        # What does not exist yet is not looked at: it may come.
        seen = _scan_events(w, asked.after, min(asked.upto, int(w.log.seq)), out)
        return Scanned(int(first), int(w.log.seq), int(seen), int(out.rows), chosen(out.columns(), asked.columns))
    jobs = w.index.scan(0, 1, w.last_id)
    lowest = int(jobs[0].id) if jobs else int(w.last_id) + 1
    if not asked.limit:
        return Scanned(lowest, int(w.last_id))
    return _scan_jobs(w, context, asked, lowest)


def _scan_events(w: World, after: i64, upto: i64, out: EventColumns) -> i64:
    seen: i64 = after
    runs: i64 = RUNS_LOOKED_AT
    for chunk in w.log.chunks_after(after):
        if chunk.first > upto:
            return max(upto, after)
        seen, runs = out.read(chunk.data, seen, upto, runs)
        if out.is_full() or runs <= 0:
            return seen
        seen = min(chunk.last, upto)
    # Numbers that were skipped when the store was opened are looked at, too: nothing will come there.
    return upto if seen >= w.log.newest_kept() and upto > seen else seen


def event_columns(context: Context, asked: Scan) -> EventColumns:
    tenant = "" if ANY_TENANT in context.tenants else context.tenant
    types: i64 = 0
    for name in asked.types:
        types += _bit(EVENT_NAMES.index(name))
    return EventColumns(tenant, asked.queue, types, asked.limit)


def _bit(number: i64) -> i64:
    bit: i64 = 1
    while number > 0:
        bit *= 2
        number -= 1
    return bit


def chosen(columns: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    return columns if not names else {name: columns[name] for name in names}


def _scan_jobs(w: World, context: Context, asked: Scan, lowest: int) -> Scanned:
    tenant = ANY_TENANT if ANY_TENANT in context.tenants else context.tenant
    filter = Filter(queue=asked.queue, states=asked.states)
    upto: i64 = min(asked.upto, int(w.last_id))
    after: i64 = asked.after
    looked: i64 = 0
    size: i64 = 0
    found: list[Job] = []
    while looked < JOBS_LOOKED_AT:
        jobs = w.index.scan(after, 1000, upto)
        if not jobs:
            after = max(after, upto)
            break
        for job in jobs:
            after = job.id
            looked += 1
            if matches(job, filter, tenant):
                found.append(job)
                size += _size(job)
                if len(found) >= asked.limit or size >= BYTES_MAX:
                    looked = JOBS_LOOKED_AT
                    break
    columns = chosen(_job_columns(w, found), asked.columns) if found else {}
    return Scanned(lowest, int(w.last_id), int(after), len(found), columns)


def _size(job: Job) -> i64:
    side = job.side
    result: i64 = 0 if side is None or side.result is None else len(side.result)
    return 500 + payload_bytes(job) + result


def _job_columns(w: World, jobs: list[Job]) -> dict[str, object]:
    rows = [record(w, job) for job in jobs]
    columns: dict[str, object] = {}
    if not rows:
        return columns
    names = rows[0].__struct_fields__
    for name in names:
        columns[name] = [getattr(row, name) for row in rows]
    for name in ("progress", "error", "history", "payload_blob", "result_blob"):
        columns[name] = [_plain(getattr(row, name)) for row in rows]
    options = [job.spec.options for job in jobs]
    for name in SHARED:
        columns[name] = [getattr(each, name) for each in options]
    columns["backoff"] = [_backoff(each) for each in options]
    columns["on_conflict"] = [CONFLICT_NAMES[each.on_conflict] for each in options]
    columns["dependency_policy"] = [POLICY_NAMES[each.dependency_policy] for each in options]
    for name in OWN:
        columns[name] = [_own(job, name) for job in jobs]
    return columns


SHARED: Final = (
    "timeout_ms",
    "lease_ms",
    "idempotency_ttl_ms",
    "lifo",
    "limit_keys",
    "keep_completed_ms",
    "keep_completed_count",
    "keep_failed_ms",
    "keep_failed_count",
)
OWN: Final = ("unique_key", "idempotency_key")


def _plain(value: object) -> object:
    return None if value is None else msgspec.to_builtins(value)


def _own(job: Job, name: str) -> str:
    if name == "idempotency_key":
        return job.key
    extras = None if job.side is None else job.side.extras
    return "" if extras is None else str(getattr(extras, name))


def _backoff(options: Options) -> dict[str, object]:
    backoff = options.backoff
    return {
        "kind": retry.KIND_NAMES[backoff.kind],
        "base": backoff.base_ms,
        "factor": backoff.factor,
        "cap": backoff.cap_ms,
        "delays": list(backoff.delays_ms),
    }
