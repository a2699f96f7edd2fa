"""Jobs as bytes: rows that say how a job is, in records of the journal and in pages of the checkpoint.

A run of rows is whole by itself: the options and leases its jobs share stand behind the rows, each once. Format,
version 1; numbers and texts as in `engine.code`. Times are 0 for none, else one more than the zigzag of their distance
from the base.

    rows    base i64 · bytes of the rows u32 · count u32 · rows
            specs (count; each its size and msgpack)
            leases (count; each id, token, worker, length, due, principal)
    row     step from the last id, signed · flags · [spec · created_at]  NEW
            state u8 · settled u8 · seq · attempt · delivery · [priority, signed]  PRIORITY
            [rank - base, signed]  AGED
            run_at · ready_at · started_at · ended_at · step from the last number, signed
            [lease + 1]  LEASE · [timeout, elapsed]  TIMEOUT · [payload]  NEW or PAYLOAD · [side, msgpack]  SIDE
            [idempotency key · until, as a time, 0 when it is not held any more]  KEYED
            [end on the steady clock - ended_at, signed]  ENDED
            with DELAYED, `run_at` is a time of the steady clock (engine.clock)

A row without NEW changes a job that is known from an earlier record or from a page; all it says is absolute, so a row
may be read twice. To change the format: raise the version of records (`engine.redo`) and the format of the file, keep
the reader of the old one, never use a flag again for something else. A side is named fields (`core.fact`): those may be
added without a new version.
"""

from typing import Final

import msgspec
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i64_le
from mypy_extensions import i32, i64, u8

from tenure.core.blob import Blob
from tenure.core.fact import SideFact
from tenure.core.job import Extras
from tenure.core.state import RUNNING
from tenure.engine.code import Cursor, hold, patch, put, put_bytes, put_signed, put_text
from tenure.engine.job import ASIDE, NO_SPEC, Job, Lease, Side, Spec
from tenure.engine.journal import PAGE_BITS
from tenure.engine.specs import read_spec, spec_fact
from tenure.engine.world import World

NEW: Final = 1
PAYLOAD: Final = 2
PRIORITY: Final = 4
LEASE: Final = 8
TIMEOUT: Final = 16
SIDE: Final = 32
AGED: Final = 64
KEYED: Final = 128
DELAYED: Final = 256
ENDED: Final = 512

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(SideFact).decode


class Rows:
    """Writes the rows of one run; `finish` ends it."""

    def __init__(self, out: BytesWriter, base: i64) -> None:
        self.base: i64 = base
        self.count: i64 = 0
        self._out = out
        write_i64_le(out, base)
        self._sizes: i64 = hold(out)
        hold(out)
        self._start: i64 = len(out)
        self._specs = BytesWriter()
        self._spec_numbers: dict[Spec, int] = {}
        self._leases = BytesWriter()
        self._lease_numbers: dict[int, int] = {}
        self._last_spec = NO_SPEC
        self._last_spec_number: i64 = 0
        self._last_lease: i64 = -1
        self._last_lease_number: i64 = 0
        self._last_id: i64 = 0
        self._last_number: i64 = 0

    def add(self, job: Job, whole: bool) -> None:
        """How the job is now; `whole` with all that never changes, else that only when it was not said before."""
        out = self._out
        self.count += 1
        put_signed(out, job.id - self._last_id)
        self._last_id = job.id
        side = job.side
        lease = job.lease
        flags: i64 = 0
        if whole or not job.stored:
            flags = NEW
        elif job.rewritten:
            flags = PAYLOAD
        if i64(job.priority) != job.spec.options.priority:
            flags = flags | PRIORITY
        if lease is not None:
            flags = flags | LEASE
            if job.state == RUNNING and job.alarm is not None:
                flags = flags | TIMEOUT
        if side is not None:
            flags = flags | SIDE
        if job.key:
            flags = flags | KEYED
        if job.aged:
            flags = flags | AGED
        if job.is_delayed:
            flags = flags | DELAYED
        if job.ended_at and job.rank != job.ended_at:
            flags = flags | ENDED
        put(out, flags)
        if flags & NEW:
            if job.spec is not self._last_spec:
                self._find_spec(job.spec)
            put(out, self._last_spec_number)
            self._time(job.created_at)
        out.append(u8(job.state))
        out.append(u8(job.settled))
        put(out, i64(job.seq))
        put(out, i64(job.attempt))
        put(out, i64(job.delivery))
        if flags & PRIORITY:
            put_signed(out, i64(job.priority))
        if flags & AGED:
            put_signed(out, job.rank - self.base)
        self._time(job.run_at)
        self._time(job.ready_at)
        self._time(job.started_at)
        self._time(job.ended_at)
        put_signed(out, job.number - self._last_number)
        self._last_number = job.number
        if lease is not None:
            if lease.id != self._last_lease:
                self._find_lease(lease)
            put(out, self._last_lease_number)
            if flags & TIMEOUT:
                assert job.alarm is not None
                put(out, job.alarm.due_ms)
        if flags & (NEW | PAYLOAD):
            put_bytes(out, job.payload)
        if side is not None:
            put_bytes(out, _pack(side_fact(job, side)))
        if job.key:
            put_text(out, job.key)
            self._time(job.key_until)
        if flags & ENDED:
            put_signed(out, job.rank - job.ended_at)

    def finish(self) -> None:
        out = self._out
        patch(out, self._sizes, len(out) - self._start)
        patch(out, self._sizes + 4, self.count)
        put(out, len(self._spec_numbers))
        out.write(self._specs.getvalue())
        put(out, len(self._lease_numbers))
        out.write(self._leases.getvalue())

    def _time(self, at: i64) -> None:
        if at == 0:
            self._out.append(u8(0))
            return
        step: i64 = at - self.base
        put(self._out, step * 2 + 1 if step >= 0 else -step * 2)

    def _find_spec(self, spec: Spec) -> None:
        number = self._spec_numbers.get(spec, -1)
        if number < 0:
            number = len(self._spec_numbers)
            self._spec_numbers[spec] = number
            put_bytes(self._specs, spec_fact(spec))
        self._last_spec = spec
        self._last_spec_number = number

    def _find_lease(self, lease: Lease) -> None:
        id = int(lease.id)
        number = self._lease_numbers.get(id, -1)
        if number < 0:
            number = len(self._lease_numbers)
            self._lease_numbers[id] = number
            out = self._leases
            put(out, lease.id)
            put_bytes(out, lease.token)
            put_text(out, lease.worker)
            put(out, lease.length_ms)
            put(out, lease.due_ms)
            put_text(out, lease.principal)
        self._last_lease = lease.id
        self._last_lease_number = number


def side_fact(job: Job, side: Side) -> SideFact:
    fact = SideFact(
        tags=side.tags,
        metadata=side.metadata,
        expires_at=int(side.expires_at),
        error=side.error,
        reason=side.reason,
        history=side.history,
        result=side.result,
        snoozes=int(side.snoozes),
        replays=int(side.replays),
        answer_run_at=int(side.answer_run_at),
        answer_state=int(side.answer_state),
        settled_token=side.settled_token,
        settled_verb=int(side.settled_verb),
        lease_lost=side.lease_lost,
        progress=side.progress,
        told_upto=int(side.told_upto),
        rejoined=int(side.rejoined),
        doomed=side.doomed,
        joined=int(side.joined),
        holds_group=side.holds_group,
        holds_limits=side.holds is not None,
        holds_unique=side.holds_unique,
        holds_custom=side.holds_custom,
        debounced=side.debounced,
        aside_at=int(side.aside_at) if job.place == ASIDE else 0,
        flow=int(side.flow),
        parent=int(side.parent),
        worker=side.worker,
    )
    if side.payload_blob is not None:
        fact.payload_blob = side.payload_blob.name
        fact.payload_blob_bytes = side.payload_blob.size
    if side.result_blob is not None:
        fact.result_blob = side.result_blob.name
        fact.result_blob_bytes = side.result_blob.size
    extras = side.extras
    if extras is not None:
        fact.has_extras = True
        fact.custom_id = extras.custom_id
        fact.unique_key = extras.unique_key
        fact.debounce_key = extras.debounce_key
        fact.depends_on = extras.depends_on
        fact.group = extras.group
        fact.asked_run_at = extras.run_at
        fact.asked_expires_at = extras.expires_at
        fact.trace = extras.trace
    return fact


def read_side(fact: SideFact) -> Side:
    extras: Extras | None = None
    if fact.has_extras:
        extras = Extras(
            fact.custom_id,
            fact.unique_key,
            "",  # the idempotency key is the job's
            fact.debounce_key,
            fact.depends_on,
            fact.group,
            fact.asked_run_at,
            fact.asked_expires_at,
            fact.tags,
            fact.metadata,
            fact.trace,
        )
    side = Side(extras)
    side.tags = fact.tags
    side.metadata = fact.metadata
    side.expires_at = fact.expires_at
    side.error = fact.error
    side.reason = fact.reason
    side.history = fact.history
    side.result = fact.result
    if fact.payload_blob:
        side.payload_blob = Blob(fact.payload_blob, fact.payload_blob_bytes)
    if fact.result_blob:
        side.result_blob = Blob(fact.result_blob, fact.result_blob_bytes)
    side.snoozes = fact.snoozes
    side.replays = fact.replays
    side.answer_run_at = fact.answer_run_at
    side.answer_state = fact.answer_state
    side.settled_token = fact.settled_token
    side.settled_verb = fact.settled_verb
    side.lease_lost = fact.lease_lost
    side.progress = fact.progress
    side.told_upto = fact.told_upto
    side.rejoined = fact.rejoined
    side.doomed = fact.doomed
    side.joined = fact.joined
    side.holds_group = fact.holds_group
    side.holds = [] if fact.holds_limits else None
    side.holds_unique = fact.holds_unique
    side.holds_custom = fact.holds_custom
    side.debounced = fact.debounced
    side.aside_at = fact.aside_at
    side.flow = fact.flow
    side.parent = fact.parent
    side.worker = fact.worker
    return side


class RowReader:
    """Reads runs of rows into a world's index. Jobs are made or changed there; nothing else is."""

    def __init__(self, w: World) -> None:
        self._w = w
        self._specs: dict[bytes, Spec] = {}
        self._leases: dict[int, Lease] = {}
        self.timeouts: dict[int, int] = {}  # job -> elapsed
        self.orphans: dict[int, int] = {}  # changes of jobs that were not there; they must be gone in the end

    def read(self, data: bytes, unsaved: bool = False) -> None:
        """With `unsaved` the rows are of a record: their pages are still to be saved."""
        pages = self._w.journal.unsaved_pages
        base: i64 = read_i64_le(data, 0)
        cursor = Cursor(data, 16 + i64(read_i32_le(data, 8)))
        specs: list[Spec] = []
        left: i64 = cursor.number()
        while left > 0:
            specs.append(self.spec(cursor.blob()))
            left -= 1
        leases: list[Lease] = []
        left = cursor.number()
        while left > 0:
            leases.append(self._lease(cursor))
            left -= 1
        left = i64(read_i32_le(data, 12))
        cursor.pos = 16
        id: i64 = 0
        number: i64 = 0
        while left > 0:
            id += cursor.signed()
            number = self._row(cursor, base, id, number, specs, leases)
            if unsaved:
                pages[int(id >> PAGE_BITS)] = 1
            left -= 1

    def _row(self, cursor: Cursor, base: i64, id: i64, last_number: i64, specs: list[Spec], leases: list[Lease]) -> i64:
        index = self._w.index
        flags: i64 = cursor.number()
        job = index.get(id)
        if flags & NEW:
            spec = specs[cursor.number()]
            created_at: i64 = _time(cursor, base)
            if job is None:
                job = Job(id, spec, b"", created_at, i32(spec.options.priority), spec.rank)
                job.stored = True
                job.dirty = False
                index.add(job)
                spec.jobs += 1
        elif job is None:
            self.orphans[int(id)] = 1
            job = Job(id, NO_SPEC, b"", base, 0, 0)
        job.state = i32(cursor.number())
        job.settled = i32(cursor.number())
        job.seq = i32(cursor.number())
        job.attempt = i32(cursor.number())
        job.delivery = i32(cursor.number())
        job.priority = i32(cursor.signed()) if flags & PRIORITY else i32(job.spec.options.priority)
        job.aged = flags & AGED > 0
        job.rank = base + cursor.signed() if job.aged else -i64(job.priority)
        job.is_delayed = flags & DELAYED > 0
        job.run_at = _time(cursor, base)
        job.ready_at = _time(cursor, base)
        job.started_at = _time(cursor, base)
        job.ended_at = _time(cursor, base)
        job.number = last_number + cursor.signed()
        job.lease = None
        if flags & LEASE:
            job.lease = leases[cursor.number()]
            if flags & TIMEOUT:
                self.timeouts[int(id)] = int(cursor.number())
            elif self.timeouts:
                self.timeouts.pop(int(id), None)
        if flags & (NEW | PAYLOAD):
            job.payload = cursor.blob()
        if flags & SIDE:
            side = read_side(_unpack(cursor.blob()))
            before = job.side
            if before is not None:
                side.log = before.log
                side.log_first = before.log_first
                side.stream = before.stream
                side.stream_bytes = before.stream_bytes
            job.side = side
        if flags & KEYED:
            job.key = cursor.text()
            job.key_until = _time(cursor, base)
        if job.ended_at:
            job.rank = job.ended_at + (cursor.signed() if flags & ENDED else 0)
        return job.number

    def spec(self, fact: bytes) -> Spec:
        spec = self._specs.get(fact)
        if spec is None:
            spec = read_spec(self._w, fact)
            self._specs[fact] = spec
        return spec

    def _lease(self, cursor: Cursor) -> Lease:
        id = int(cursor.number())
        token = cursor.blob()
        worker = cursor.text()
        length: i64 = cursor.number()
        due: i64 = cursor.number()
        principal = cursor.text()
        lease = self._leases.get(id)
        if lease is None:
            lease = Lease(due, id, token, worker, length, 0, principal)
            self._leases[id] = lease
        elif lease.due_ms < due:  # it was given more time when the store was opened
            lease.due_ms = due
        return lease

    def leases(self) -> list[Lease]:
        return list(self._leases.values())


def _time(cursor: Cursor, base: i64) -> i64:
    code: i64 = cursor.number()
    if code == 0:
        return 0
    return base + code // 2 if code % 2 else base - code // 2
