"""Jobs that come in a row: of one tenant, with the same options, different only in payload and idempotency key.

`admit_run` stores as many as need no closer look, whatever they came in (`engine.rows`). It is the hot path: from
`BUNDLE_MIN` jobs on none is made before somebody asks for it (`engine.bundle`).
"""

from typing import Final

from mypy_extensions import i32, i64

from tenure.core.request import Batch
from tenure.engine.bundle import Bundle
from tenure.engine.idempotency import KeysOfRun
from tenure.engine.job import LINE, Job, Spec
from tenure.engine.journal import Entity
from tenure.engine.ring import activate
from tenure.engine.rows import Rows
from tenure.engine.transition import arrive_run
from tenure.engine.world import Queue, World

BUNDLE_MIN: Final = 16  # jobs; fewer stand in line by themselves
BUNDLE_MAX: Final = 1_024  # jobs of a batch: the first claim of one makes them all


def spec_of_run(w: World, tenant: str, batch: Batch) -> Spec | None:
    """For `admit_run`; None when the jobs are not all alike, or have more than a payload and a key."""
    options = batch.options
    if batch.extras is not None or batch.each is not None or batch.pasts is not None:
        return None
    if options.delay_ms or options.ttl_ms or options.debounce_ms or options.limit_keys:
        return None
    spec = w.spec(tenant, options)
    return spec if w.queues[spec.queue].age_ms == 0 else None


def admit_run(w: World, spec: Spec, rows: Rows, first: i64, end: i64, chunk: Entity | None = None) -> i64:
    """Store rows from `first` on, up to one that needs a closer look: its key is taken, or its payload is too large or
    not here. There is room for all of them. Returns how many; their ids come in a row, up to `w.last_id`.

    `chunk` names the staged chunk that they are rows of: records of the journal quote it instead of the rows.
    """
    q = w.queues[spec.queue]
    end = rows.fitting(first, end, w.payload_bytes_max)
    keys = rows.batch.keys
    keys_until: i64 = 0
    if keys is not None:
        keys_until = w.steady_ms + spec.options.idempotency_ttl_ms
        taken = KeysOfRun(w, q, spec.options.task, keys)
        end = taken.take_all(rows.codes(), first, end, w.last_id + 1)
    count: i64 = end - first
    if count <= 0:
        return 0
    size = arrive_run(w, q, spec, rows, first, end)
    if spec.options.lifo or (chunk is None and (keys is not None or count < BUNDLE_MIN)):
        _make(w, q, spec, rows, first, end, keys_until, size)
    elif chunk is not None:
        bundle = Bundle(
            spec, rows.batch, first, w.last_id + 1, count, w.number_high + 1, w.at_ms, keys_until, w.journal.on
        )
        w.journal.bundled(chunk, bundle)
        _line_up(w, q, bundle)
    else:
        _bundle(w, q, spec, rows, first, end, size)
    _count_in(w, q, spec, count, size)
    return count


def _make(w: World, q: Queue, spec: Spec, rows: Rows, first: i64, end: i64, keys_until: i64, size: i64) -> None:
    """A job for each row, in line by itself."""
    keys = rows.batch.keys
    now: i64 = w.at_ms
    priority = i32(spec.options.priority)
    rank: i64 = spec.rank
    lifo = spec.options.lifo
    index = w.index
    line = q.order.line(rank)
    id: i64 = w.last_id
    number: i64 = w.number_low if lifo else w.number_high
    at: i64 = first
    while at < end:
        id += 1
        payload = rows.payload(at)
        assert isinstance(payload, bytes)
        job = Job(id, spec, payload, now, priority, rank)
        job.ready_at = now
        number = number - 1 if lifo else number + 1
        job.number = number
        job.place = LINE
        if keys is not None and keys[at]:
            job.key = keys[at]
            job.key_until = keys_until
        index.add(job)
        if lifo:
            line.push(job)
        else:
            line.append(job)
        at += 1
    w.last_id = id
    if lifo:
        w.number_low = number
    else:
        w.number_high = number
    w.journal.born_in_a_row(id - (end - first) + 1, id)
    w.journal.bytes += size


def _bundle(w: World, q: Queue, spec: Spec, rows: Rows, first: i64, end: i64, size: i64) -> None:
    """In bundles of which each is a chunk of the line and has its own payloads."""
    at: i64 = first
    while at < end:
        few: i64 = min(end - at, BUNDLE_MAX)
        bundle = Bundle(spec, rows.part(at, few), 0, w.last_id + 1, few, w.number_high + 1, w.at_ms, 0, w.journal.on)
        w.journal.batched(bundle, size if at == first else 0)
        _line_up(w, q, bundle)
        at += few
    rows.rest()


def _line_up(w: World, q: Queue, bundle: Bundle) -> None:
    w.last_id += bundle.count
    w.number_high += bundle.count
    w.index.add_bundle(bundle)
    line = q.order.line(bundle.spec.rank)
    if bundle.count >= BUNDLE_MIN:
        line.append_bundle(bundle, w.index)
        return
    id: i64 = bundle.first  # a chunk of a line for a few jobs would cost too much
    while id <= bundle.last():
        job = w.index.get(id)
        assert job is not None
        line.append(job)
        id += 1


def _count_in(w: World, q: Queue, spec: Spec, count: i64, size: i64) -> None:
    """Jobs that are in line and in the index."""
    q.order.size += count
    spec.jobs += count
    t = w.tenants[spec.tenant]
    t.jobs += count
    w.jobs += count
    q.bytes += size
    t.bytes += size
    w.bytes += size
    if not q.in_ring:
        activate(w, q)
