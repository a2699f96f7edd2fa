"""The event log: runs of events in a compact binary form, kept in chunks, read from any seq.

Events that come in a row and differ only in their job are one run: a header, then a few bytes per event. 10,000 jobs
enqueued by one request cost about five bytes each.

Format. Numbers and texts as in `engine.code`, unless said otherwise.

    run     bytes u32 · count u32 · layout u8 · type u8 · cause u8 · state+1 u8 · at i64 · first seq i64
            tenant · queue · task · worker, then the layout's header and rows; job ids are signed steps from the last
    ENQUEUED  header: priority signed, max_attempts, limit keys (count, texts)
              row: id, run_at - at signed, expires_at - at signed or 0, payload bytes,
                   flags (1 group, 2 unique hash, 4 depends_on), then those
    IMPORTED  as ENQUEUED; at the end of a row attempt, delivery, at - created_at, reason
    STARTED   row: id, job_seq, attempt, delivery, at - ready_at
    ENDED     header: reason, error type, message, fingerprint
              row: id, job_seq, attempt, delivery, at - created_at, at - ready_at, at - started_at, result bytes,
                   run_at - at signed
    PLAIN     header: reason, error type, message, fingerprint; row: id, job_seq, attempt, delivery, run_at - at signed
    NOTICE    row: id, job_seq, attempt, delivery, detail (JSON text)

To change it: add a layout, or a field at the end of a row under a new layout number, keep the reader of the old one,
and raise the format of the file. Numbers of layouts and types are never used again for something else.
"""

from hashlib import sha256
from typing import Final

import msgspec
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from tenure.core.bound import clip
from tenure.core.error import EventsLost
from tenure.core.event import EVENT_NAMES, MESSAGE_BYTES_MAX
from tenure.core.record import Event, Failed
from tenure.core.state import CAUSE_NAMES, ENQUEUE, READY, STATE_NAMES
from tenure.engine.code import Cursor, patch, put, put_signed, put_text
from tenure.engine.job import NO_SPEC, Job, Spec, payload_bytes
from tenure.engine.journal import Journal

CHUNK_BYTES: Final = 64 * 1024
HEAD_BYTES: Final = 28  # of a run, before its texts
CHUNKS_MIN: Final = 64  # retention drops whole chunks, so what is kept is at least in so many

L_ENQUEUED: Final = 1
L_STARTED: Final = 2
L_ENDED: Final = 3
L_PLAIN: Final = 4
L_NOTICE: Final = 5
L_IMPORTED: Final = 6

CHUNKS_MADE: Final = 256  # at once

NO_FAILURE: Final = Failed()


class Chunk:
    def __init__(self, first: i64, last: i64, data: bytes) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.data = data


class EventLog:
    def __init__(self, events_max: i64, journal: Journal) -> None:
        self.events_max: i64 = events_max
        self._journal = journal  # whatever has an event has changed
        self.seq: i64 = 0  # of the newest event
        self._chunks: list[Chunk] = []
        # Chunks to use next. They outlive the jobs beside which they are made, and each would keep the memory around it
        # from being returned; so they are made together.
        self._spare: list[Chunk] = []
        self._out = BytesWriter()
        self._out_first: i64 = 1  # seq of the first event in _out
        self._at: i64 = 0
        self.shift_ms: i64 = 0  # as the world's
        # What a journal has taken: up to this place of _out; chunks that were closed with something not taken yet.
        self._taken: i64 = 0
        self._untaken: list[bytes] = []
        # The open run.
        self._start: i64 = -1
        self._count: i64 = 0
        self._layout: i64 = 0
        self._type: i64 = 0
        self._cause: i64 = 0
        self._state: i32 = 0
        self._spec: Spec = NO_SPEC
        self._worker: str = ""
        self._reason: str = ""
        self._failed: Failed = NO_FAILURE
        self._last_id: i64 = 0
        # The last ones written, and their bytes: most runs are of the same worker, or end for the same reason.
        self._encoded_worker: str = ""
        self._worker_bytes: bytes = _text("")
        self._encoded_reason: str = ""
        self._reason_bytes: bytes = _text("")

    def resume(self, seq: i64, at: i64) -> None:
        """Go on after an event that an earlier log gave."""
        self.seq = seq
        self._out_first = seq + 1
        self._at = at

    def begin(self, at: i64) -> None:
        """A new step: its events have this time."""
        if at != self._at:
            self._close()
            self._at = at

    def _run_at(self, job: Job) -> i64:
        """As `clock.shown_run_at`."""
        return job.run_at + self.shift_ms if job.is_delayed else job.run_at

    # Writing, one method per layout.

    def enqueued(self, job: Job, type: i64, cause: i64) -> None:
        self._open(L_ENQUEUED, type, cause, job.state, job.spec, "", "", NO_FAILURE)
        self._put_asked(job)

    def imported(self, job: Job, type: i64, cause: i64, reason: str) -> None:
        """A job that came with a past. Its first event here says how far it had got."""
        self._open(L_IMPORTED, type, cause, job.state, job.spec, "", "", NO_FAILURE)
        self._put_asked(job)
        out = self._out
        put(out, i64(job.attempt))
        put(out, i64(job.delivery))
        put(out, self._at - job.created_at)
        put_text(out, reason)

    def enqueued_first(self, spec: Spec, type: i64, id: i64, at: i64, payload_bytes: i64) -> None:
        """As `enqueued`, of the first of several jobs that are ready and not made yet."""
        self._open(L_ENQUEUED, type, ENQUEUE, READY, spec, "", "", NO_FAILURE)
        self._put_plain(id, at, payload_bytes)

    def _put_plain(self, id: i64, run_at: i64, payload_bytes: i64) -> None:
        out = self._out
        self._step_to(id)
        put_signed(out, run_at - self._at)
        out.append(u8(0))
        put(out, payload_bytes)
        out.append(u8(0))

    def _put_asked(self, job: Job) -> None:
        side = job.side
        if side is None:
            self._put_plain(job.id, self._run_at(job), len(job.payload))
            return
        out = self._out
        self._step_to(job.id)
        put_signed(out, self._run_at(job) - self._at)
        put_signed(out, side.expires_at - self._at if side.expires_at else 0)
        put(out, payload_bytes(job))
        extras = side.extras
        if extras is None:
            out.append(u8(0))
            return
        flags = (1 if extras.group else 0) | (2 if extras.unique_key else 0) | (4 if extras.depends_on else 0)
        put(out, flags)
        if extras.group:
            put_text(out, extras.group)
        if extras.unique_key:
            out.write(sha256(extras.unique_key.encode("utf-8", "replace")).digest()[:8])
        if extras.depends_on:
            put(out, len(extras.depends_on))
            for id in extras.depends_on:
                put(out, id)

    def enqueued_next(self, payload_bytes: i64) -> None:
        """The next job of the run that `enqueued` has just opened or joined: the next id, nothing special about it."""
        self.seq += 1
        self._count += 1
        self._last_id += 1
        out = self._out
        out.append(u8(2))
        out.append(u8(0))
        out.append(u8(0))
        put(out, payload_bytes)
        out.append(u8(0))

    def started(self, job: Job, worker: str, cause: i64) -> None:
        self._journal.touch(job)
        self._open(L_STARTED, 2, cause, job.state, job.spec, worker, "", NO_FAILURE)
        out = self._out
        self._step_to(job.id)
        put(out, i64(job.seq))
        put(out, i64(job.attempt))
        put(out, i64(job.delivery))
        put(out, self._at - job.ready_at)

    def ended(
        self, job: Job, type: i64, cause: i64, worker: str, reason: str, failed: Failed, attempt: i64, result_bytes: i64
    ) -> None:
        """An attempt is over. `attempt` is the one that ended, also when it was given back."""
        self._journal.touch(job)
        self._open(L_ENDED, type, cause, job.state, job.spec, worker, reason, failed)
        out = self._out
        at: i64 = self._at
        self._step_to(job.id)
        put(out, i64(job.seq))
        put(out, attempt)
        put(out, i64(job.delivery))
        put(out, at - job.created_at)
        put(out, at - job.ready_at)
        put(out, at - job.started_at)
        put(out, result_bytes)
        put_signed(out, self._run_at(job) - at)

    def plain(self, job: Job, type: i64, cause: i64, state: i32, reason: str, failed: Failed) -> None:
        self._journal.touch(job)
        self._open(L_PLAIN, type, cause, state, job.spec, "", reason, failed)
        out = self._out
        self._step_to(job.id)
        put(out, i64(job.seq))
        put(out, i64(job.attempt))
        put(out, i64(job.delivery))
        put_signed(out, self._run_at(job) - self._at)

    def notice(
        self, job: Job | None, type: i64, cause: i64, spec: Spec, worker: str, detail: dict[str, object]
    ) -> None:
        state: i32 = -1
        if job is not None:
            state = job.state
            self._journal.touch(job)
        self._open(L_NOTICE, type, cause, state, spec, worker, "", NO_FAILURE)
        out = self._out
        if job is None:
            self._step_to(0)
            out.write(b"\0\0\0")
        else:
            self._step_to(job.id)
            put(out, i64(job.seq))
            put(out, i64(job.attempt))
            put(out, i64(job.delivery))
        text = msgspec.json.encode(detail)
        put(out, len(text))
        out.write(text)

    def _step_to(self, id: i64) -> None:
        put_signed(self._out, id - self._last_id)
        self._last_id = id

    def _open(
        self, layout: i64, type: i64, cause: i64, state: i32, spec: Spec, worker: str, reason: str, failed: Failed
    ) -> None:
        if (
            self._start >= 0
            and self._layout == layout
            and self._type == type
            and self._cause == cause
            and self._state == state
            and self._spec is spec
            and self._worker is worker
            and self._reason is reason
            and self._failed is failed
        ):
            self.seq += 1
            self._count += 1
            return
        self._close()
        self.seq += 1
        out = self._out
        self._start = len(out)
        self._count = 1
        self._layout = layout
        self._type = type
        self._cause = cause
        self._state = state
        self._spec = spec
        self._worker = worker
        self._reason = reason
        self._failed = failed
        self._last_id = 0
        write_i64_le(out, 0)
        out.append(u8(layout))
        out.append(u8(type))
        out.append(u8(cause))
        out.append(u8(state + 1))
        write_i64_le(out, self._at)
        write_i64_le(out, self.seq)
        out.write(spec_head(spec))
        if not worker:
            out.append(u8(0))
        else:
            if worker is not self._encoded_worker:
                self._encoded_worker = worker
                self._worker_bytes = _text(worker)
            out.write(self._worker_bytes)
        if layout == L_ENQUEUED or layout == L_IMPORTED:
            options = spec.options
            put_signed(out, options.priority)
            put(out, options.max_attempts)
            put(out, len(options.limit_keys))
            for key in options.limit_keys:
                put_text(out, key)
        elif layout == L_ENDED or layout == L_PLAIN:
            if not reason:
                out.append(u8(0))
            else:
                if reason is not self._encoded_reason:
                    self._encoded_reason = reason
                    self._reason_bytes = _text(reason)
                out.write(self._reason_bytes)
            if failed is NO_FAILURE:
                out.write(b"\0\0\0")
                return
            put_text(out, failed.type)
            put_text(out, clip("message", failed.message, MESSAGE_BYTES_MAX))
            put_text(out, failed.fingerprint)

    def _close(self) -> None:
        start: i64 = self._start
        if start < 0:
            return
        out = self._out
        size: i64 = len(out) - start
        patch(out, start, size)
        patch(out, start + 4, self._count)
        self._start = -1
        if len(out) >= CHUNK_BYTES or (self.seq - self._out_first + 1) * CHUNKS_MIN >= self.events_max:
            data = out.getvalue()
            self._keep(data)
            if self._journal.on and self._taken < len(data):
                self._untaken.append(data[self._taken :])
            self._taken = 0
            self._out = BytesWriter()
            self._out_first = self.seq + 1
            self._trim()

    def _keep(self, data: bytes) -> None:
        if not self._spare:
            self._spare = [Chunk(0, 0, b"") for _ in range(CHUNKS_MADE)]
        chunk = self._spare.pop()
        chunk.first = self._out_first
        chunk.last = self.seq
        chunk.data = data
        self._chunks.append(chunk)

    def _trim(self) -> None:
        drop: i64 = 0
        while drop < len(self._chunks) and self.seq - self._chunks[drop].last >= self.events_max:
            drop += 1
        if drop:
            del self._chunks[:drop]

    # Reading.

    def take(self) -> bytes:
        """The runs that were not taken before, for a journal."""
        self._close()
        parts = self._untaken
        if len(self._out) > self._taken:
            parts.append(self._out.getvalue()[self._taken :])
            self._taken = len(self._out)
        self._untaken = []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def is_taken(self) -> bool:
        return not self._untaken and len(self._out) == self._taken

    def oldest(self) -> i64:
        """The seq of the oldest event kept, or of the next one when there is none."""
        return self._chunks[0].first if self._chunks else self._out_first

    def read(self, after: i64, limit: i64, tenant: str, runs_max: i64) -> tuple[list[Event], int]:
        """Events with seq > after of one tenant ("" is all), and the seq up to which everything was looked at.

        `runs_max` bounds how much of other tenants' history is passed over in one call.
        """
        found: list[Event] = []
        upto: i64 = after
        for chunk in self.chunks_after(after):
            data = chunk.data
            at: i64 = 0
            while at < len(data):
                size = i64(read_i32_le(data, at))
                count = i64(read_i32_le(data, at + 4))
                first: i64 = read_i64_le(data, at + 20)
                if first + count > after + 1:
                    runs_max -= 1
                    reader = Reader(data, at)
                    if not tenant or reader.tenant == tenant:
                        upto = reader.read(after, limit, found)
                    else:
                        upto = first + count - 1
                    if len(found) >= limit or runs_max <= 0:
                        return found, int(upto)
                at += size
        return found, int(upto)

    def newest_kept(self) -> i64:
        """The seq of the newest event that is here; numbers after it were skipped."""
        if len(self._out):
            return self.seq
        return self._chunks[-1].last if self._chunks else self._out_first - 1

    def chunks_after(self, after: i64) -> list[Chunk]:
        """The next ones with events after that number, some of them at least."""
        if after + 1 < self.oldest():
            raise EventsLost(int(self.oldest()))
        low: i64 = 0
        high: i64 = len(self._chunks)
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle].last <= after:
                low = middle + 1
            else:
                high = middle
        # A page of events rarely spans more than a few chunks; the reader stops by itself.
        chunks = self._chunks[low : low + 256]
        if low + 256 >= len(self._chunks) and len(self._out):
            chunks.append(Chunk(self._out_first, self.seq, self._unclosed()))
        return chunks

    def _unclosed(self) -> bytes:
        """What is in no chunk yet. The open run stays open: here its header says what it has so far."""
        data = self._out.getvalue()
        start: i64 = self._start
        if start < 0:
            return data
        head = BytesWriter()
        write_i32_le(head, i32(len(data) - start))
        write_i32_le(head, i32(self._count))
        return data[:start] + head.getvalue() + data[start + 8 :]


def read_runs(data: bytes, after: i64, limit: i64, tenant: str, found: list[Event]) -> i64:
    """Append events of one tenant ("" is all) with seq > after; answers the last seq that was looked at."""
    upto: i64 = after
    at: i64 = 0
    while at < len(data) and len(found) < limit:
        count = i64(read_i32_le(data, at + 4))
        last: i64 = read_i64_le(data, at + 20) + count - 1
        if last > after:
            reader = Reader(data, at)
            upto = reader.read(after, limit, found) if not tenant or reader.tenant == tenant else last
        at += run_bytes(data, at)
    return upto


def run_bytes(data: bytes, at: i64) -> i64:
    """The size of the run that begins there."""
    size = i64(read_i32_le(data, at))
    if size < HEAD_BYTES:
        raise ValueError(f"a run of events has {int(size)} bytes; it was not closed when it was written")
    return size


class Reader(Cursor):
    """Reads one run."""

    def __init__(self, data: bytes, start: i64) -> None:
        super().__init__(data, start + HEAD_BYTES)
        self._count = i64(read_i32_le(data, start + 4))
        self._layout: i64 = data[start + 8]
        self._type = EVENT_NAMES[data[start + 9]]
        self._cause = CAUSE_NAMES[data[start + 10]]
        state = data[start + 11]
        self._state = STATE_NAMES[state - 1] if 0 < state <= len(STATE_NAMES) else ""
        self._time: i64 = read_i64_le(data, start + 12)
        self._seq: i64 = read_i64_le(data, start + 20)
        self.tenant = self.text()
        self._queue = self.text()
        self._task = self.text()
        self._worker = self.text()
        self._priority: i64 = 0
        self._max_attempts: i64 = 0
        self._limit_keys: tuple[str, ...] = ()
        self._reason = ""
        self._error_type = ""
        self._message = ""
        self._fingerprint = ""
        if self._layout == L_ENQUEUED or self._layout == L_IMPORTED:
            self._priority = self.signed()
            self._max_attempts = self.number()
            keys: list[str] = []
            left: i64 = self.number()
            while left > 0:
                keys.append(self.text())
                left -= 1
            self._limit_keys = tuple(keys)
        elif self._layout == L_ENDED or self._layout == L_PLAIN:
            self._reason = self.text()
            self._error_type = self.text()
            self._message = self.text()
            self._fingerprint = self.text()

    def read(self, after: i64, limit: i64, found: list[Event]) -> i64:
        """Append the run's events after seq `after` until `found` has `limit`; answers the last seq looked at."""
        id: i64 = 0
        seq: i64 = self._seq
        last: i64 = seq + self._count - 1
        while seq <= last:
            id += self.signed()
            event = self._row(seq, id)
            if seq > after:
                found.append(event)
                if len(found) >= limit:
                    return seq
            seq += 1
        return last

    def _row(self, seq: i64, id: i64) -> Event:
        at: i64 = self._time
        layout: i64 = self._layout
        if layout == L_ENQUEUED or layout == L_IMPORTED:
            return self._enqueued(seq, id)
        job_seq: i64 = self.number()
        attempt: i64 = self.number()
        delivery: i64 = self.number()
        enqueued_at: i64 = 0
        ready_at: i64 = 0
        started_at: i64 = 0
        run_at: i64 = 0
        run_ms: i64 = 0
        result_bytes: i64 = 0
        detail: dict[str, object] = {}
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
            detail = msgspec.json.decode(self.text(), type=dict[str, object])
        return Event(
            seq=int(seq),
            job_seq=int(job_seq),
            at=int(at),
            type=self._type,
            tenant=self.tenant,
            queue=self._queue,
            task=self._task,
            job=int(id),
            state=self._state,
            attempt=int(attempt),
            delivery=int(delivery),
            worker=self._worker,
            cause=self._cause,
            run_at=int(run_at),
            enqueued_at=int(enqueued_at),
            ready_at=int(ready_at),
            started_at=int(started_at),
            wait_ms=int(started_at - ready_at),
            run_ms=int(run_ms),
            result_bytes=int(result_bytes),
            reason=self._reason,
            error_type=self._error_type,
            message=self._message,
            fingerprint=self._fingerprint,
            detail=detail,
        )

    def _enqueued(self, seq: i64, id: i64) -> Event:
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
        return Event(
            seq=int(seq),
            job_seq=1,
            at=int(self._time),
            type=self._type,
            tenant=self.tenant,
            queue=self._queue,
            task=self._task,
            job=int(id),
            state=self._state,
            attempt=int(attempt),
            delivery=int(delivery),
            cause=self._cause,
            run_at=int(run_at),
            expires_at=int(self._time + expires) if expires else 0,
            priority=int(self._priority),
            max_attempts=int(self._max_attempts) if self._max_attempts else None,
            group=group,
            limit_keys=self._limit_keys,
            depends_on=tuple(depends_on),
            unique_hash=unique,
            payload_bytes=int(payload_bytes),
            enqueued_at=int(enqueued_at),
            reason=reason,
        )


def spec_head(spec: Spec) -> bytes:
    """Tenant, queue and task as they stand in every run's header; made once per spec."""
    if not spec.head:
        out = BytesWriter()
        put_text(out, spec.tenant_name)
        put_text(out, spec.options.queue)
        put_text(out, spec.options.task)
        spec.head = out.getvalue()
    return spec.head


def _text(text: str) -> bytes:
    out = BytesWriter()
    put_text(out, text)
    return out.getvalue()
