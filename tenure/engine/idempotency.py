"""Idempotency keys: of a queue and task, held while their job lives, and for their time from when it was enqueued.

A job knows its key (`Job.key`), and its row says until when it holds it: a job with a key costs the journal no more
than its row. When the job goes before its key does, the key is written down by itself.
"""

from mypy_extensions import i64

from tenure.core.state import is_terminal
from tenure.engine.job import IdempotencyKey, Job
from tenure.engine.journal import IDEMPOTENCY
from tenure.engine.world import Queue, World


def holder_of(q: Queue, task: str, key: str) -> int:
    """The job that has the key, also when it is gone; 0 when the key is free."""
    if q.idempotent is None:
        return 0
    keys = q.idempotent.get(task)
    if keys is None:
        return 0
    entry = keys.get(key)
    return 0 if entry is None else int(entry.job)


def hold(w: World, q: Queue, job: Job, key: str, until: i64) -> None:
    """The job has the key, which is free, from now on."""
    job.key = enter(w, q, job.spec.options.task, key, job.id, until)


def enter(w: World, q: Queue, task: str, key: str, job: i64, until: i64) -> IdempotencyKey:
    if q.idempotent is None:
        q.idempotent = {}
    keys = q.idempotent.get(task)
    if keys is None:
        keys = {}
        q.idempotent[task] = keys
    entry = IdempotencyKey(until, w.next_alarm_id(), q.number, task, key, job)
    keys[key] = entry
    w.wall.add(entry)
    return entry


def remember(q: Queue, job: Job, key: str) -> None:
    """The job had the key, which is another's by now or nobody's."""
    job.key = IdempotencyKey(0, 0, q.number, job.spec.options.task, key, job.id)
    job.key.held = False


def hold_again(w: World, q: Queue, job: Job) -> None:
    """As its facts say. Of an ended job they may be older than the end of its time, which nobody wrote down."""
    entry = job.key
    assert entry is not None
    if is_terminal(int(job.state)) and entry.due_ms <= w.wall_ms:
        entry.held = False
    if entry.held:
        hold(w, q, job, entry.key, entry.due_ms)


def has_rung(w: World, entry: IdempotencyKey) -> None:
    """Its time is over; while its job lives it holds on, and goes with the job's end."""
    job = w.index.get(entry.job)
    if entry.held and (job is None or is_terminal(int(job.state))):
        _free(w, entry, job)


def has_ended(w: World, job: Job) -> None:
    """The job has: its key is kept on until its time is over; if it is over already, the key is free."""
    entry = job.key
    if entry is not None and entry.held and not entry.live:
        _free(w, entry, job)


def _free(w: World, entry: IdempotencyKey, job: Job | None) -> None:
    entry.held = False
    q = w.queues[entry.queue]
    assert q.idempotent is not None
    keys = q.idempotent[entry.task]
    del keys[entry.key]
    if not keys:
        del q.idempotent[entry.task]
        if not q.idempotent:
            q.idempotent = None
    if job is None:
        _mark(w, q, entry)


def outlive(w: World, q: Queue, job: Job) -> None:
    """The job goes; a key that it holds stays."""
    entry = job.key
    if entry is not None and entry.held:
        _mark(w, q, entry)


def _mark(w: World, q: Queue, entry: IdempotencyKey) -> None:
    w.journal.mark((IDEMPOTENCY, q.tenant_name, q.name, entry.task, entry.key))


def fact_of(w: World, q: Queue, task: str, key: str) -> dict[str, object] | None:
    """What is written down of the key by itself: nothing while its job is there."""
    keys = None if q.idempotent is None else q.idempotent.get(task)
    entry = None if keys is None else keys.get(key)
    if entry is None or w.index.get(entry.job) is not None:
        return None
    return {"job": int(entry.job), "due": int(entry.due_ms)}
