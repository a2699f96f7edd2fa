"""Idempotency keys: of a queue and task, held while their job lives, and for their time from when it was enqueued.

While the job is there its own facts say until when it holds its key (`Side.idempotent_until`): a job with a key costs
the journal no more than its row. When the job goes before its key does, the key is written down by itself.
"""

from mypy_extensions import i64

from tenure.core.state import is_terminal
from tenure.engine.job import Job, Side
from tenure.engine.journal import IDEMPOTENCY
from tenure.engine.world import IdempotencyKey, Queue, World


def name_of(task: str, key: str) -> str:
    """What a key is called within its queue."""
    return f"{task}\n{key}"


def holder_of(q: Queue, name: str) -> int:
    """The job that has the key, also when it is gone; 0 when the key is free."""
    if q.idempotent is None:
        return 0
    entry = q.idempotent.get(name)
    return 0 if entry is None else int(entry.job)


def hold(w: World, q: Queue, job: Job, side: Side, name: str, until: i64) -> None:
    side.idempotent_until = until
    enter(w, q, name, job.id, until)


def enter(w: World, q: Queue, name: str, job: i64, until: i64) -> None:
    if q.idempotent is None:
        q.idempotent = {}
    entry = IdempotencyKey(until, w.next_alarm_id(), q.number, name, job)
    q.idempotent[name] = entry
    w.wall.add(entry)


def hold_again(w: World, q: Queue, job: Job, side: Side) -> None:
    """As its facts say. Of an ended job they may be older than the end of its time, which nobody wrote down."""
    if is_terminal(int(job.state)) and side.idempotent_until <= w.wall_ms:
        side.idempotent_until = 0
    if side.idempotent_until:
        assert side.extras is not None
        hold(w, q, job, side, name_of(job.spec.options.task, side.extras.idempotency_key), side.idempotent_until)


def has_rung(w: World, entry: IdempotencyKey) -> None:
    """Its time is over; while its job lives it holds on, and goes with the job's end."""
    q = w.queues[entry.queue]
    if q.idempotent is None or q.idempotent.get(entry.key) is not entry:
        return
    job = w.index.get(entry.job)
    if job is None or is_terminal(int(job.state)):
        _free(w, q, entry)


def has_ended(w: World, q: Queue, job: Job, key: str) -> None:
    """The job has: its key is kept on until its time is over; if it is over already, the key is free."""
    if q.idempotent is not None:
        entry = q.idempotent.get(name_of(job.spec.options.task, key))
        if entry is not None and entry.job == job.id and not entry.live:
            _free(w, q, entry)


def _free(w: World, q: Queue, entry: IdempotencyKey) -> None:
    assert q.idempotent is not None
    del q.idempotent[entry.key]
    if not q.idempotent:
        q.idempotent = None
    side = _side_that_says_so(w, entry)
    if side is not None:
        side.idempotent_until = 0
    else:
        w.journal.mark((IDEMPOTENCY, q.tenant_name, q.name, entry.key))


def _side_that_says_so(w: World, entry: IdempotencyKey) -> Side | None:
    job = w.index.get(entry.job)
    if job is None or job.side is None or job.side.idempotent_until == 0:
        return None
    return job.side


def outlive(w: World, q: Queue, job: Job, side: Side) -> None:
    """The job goes, its key stays."""
    if side.idempotent_until:
        assert side.extras is not None
        name = name_of(job.spec.options.task, side.extras.idempotency_key)
        w.journal.mark((IDEMPOTENCY, q.tenant_name, q.name, name))


def fact_of(w: World, q: Queue, name: str) -> dict[str, object] | None:
    """What is written down of the key by itself."""
    entry = None if q.idempotent is None else q.idempotent.get(name)
    if entry is None or _side_that_says_so(w, entry) is not None:
        return None
    return {"job": int(entry.job), "due": int(entry.due_ms)}
