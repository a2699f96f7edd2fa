"""Idempotency keys: of a queue and task, held while their job lives, and for their time from when it was enqueued.

A job knows its key and until when it holds it (`Job.key`, `Job.key_until`), and its row says both: a job with a key
costs the journal no more than its row. Nothing happens when the time is over: an ended job's key is free from then on
because the clock says so, and whoever takes it makes the old holder let go. When the job goes before its key does, the
key is kept and written down by itself, with an alarm for its end.
"""

from librt.vecs import vec
from mypy_extensions import i64

from tenure.core.packed import Texts
from tenure.core.state import is_terminal
from tenure.engine.clock import on_elapsed, on_steady
from tenure.engine.holders import Holders
from tenure.engine.job import IdempotencyKey, Job
from tenure.engine.journal import IDEMPOTENCY
from tenure.engine.world import Queue, World


def holder_of(w: World, q: Queue, task: str, key: str) -> int:
    """The job that has the key, also when it is gone; 0 when the key is free."""
    left = _left_of(q, task)
    if left is not None:
        entry = left.get(key)
        if entry is not None:
            return int(entry.job)
    holders = holders_of(q, task)
    if holders is None:
        return 0
    id: i64 = holders.find(key)
    if id == 0:
        return 0
    job = w.index.get(id)
    assert job is not None
    return int(id) if is_held(w, job) else 0


def is_held(w: World, job: Job) -> bool:
    return job.key_until > 0 and (job.key_until > w.steady_ms or not is_terminal(int(job.state)))


def holders_of(q: Queue, task: str) -> Holders | None:
    return None if q.holders is None else q.holders.get(task)


def _left_of(q: Queue, task: str) -> dict[str, IdempotencyKey] | None:
    return None if q.left_keys is None else q.left_keys.get(task)


def open_holders(w: World, q: Queue, task: str) -> Holders:
    if q.holders is None:
        q.holders = {}
    holders = q.holders.get(task)
    if holders is None:
        holders = Holders(w.index)
        q.holders[task] = holders
    return holders


def hold(w: World, q: Queue, job: Job, key: str, until: i64) -> None:
    """The job has the key, which is free, from now on."""
    holders = open_holders(w, q, job.spec.options.task)
    before: i64 = holders.find(key)
    if before:
        last = w.index.get(before)
        assert last is not None
        holders.drop(key, before)
        last.key_until = 0
    job.key = key
    job.key_until = until
    holders.put(key, job.id)


class KeysOfRun:
    """The keys of jobs that come in a row, taken one by one as long as they are nobody's."""

    def __init__(self, w: World, q: Queue, task: str, keys: list[str] | Texts | None) -> None:
        self._w = w
        self._q = q
        self._task = task
        self._keys = keys
        self._left = _left_of(q, task)
        self._holders = holders_of(q, task)
        if self._holders is not None:
            self._holders.prepare()

    def take(self, at: i64, code: i64, id: i64) -> bool:
        """Whether the key in that place, of this code, was free for sure and is the job's now."""
        if self._left is not None and self._keys is not None and self._keys[at] in self._left:
            return False
        return self._opened().put_new(code, id)

    def take_all(self, codes: vec[i64], first: i64, end: i64, id: i64) -> i64:
        """As `take` from place to place, for jobs from the id on; answers the place at which it ended."""
        at: i64 = first
        while at < end and codes[at] == 0:
            id += 1
            at += 1
        if at < end and self._left is None:
            return self._opened().put_all_new(codes, at, end, id)
        while at < end and (codes[at] == 0 or self.take(at, codes[at], id)):
            id += 1
            at += 1
        return at

    def _opened(self) -> Holders:
        holders = self._holders
        if holders is None:
            holders = open_holders(self._w, self._q, self._task)
            self._holders = holders
        return holders


def hold_again(w: World, q: Queue, job: Job) -> None:
    """As its facts say. Of an ended job they may be older than the end of its time, which nobody wrote down."""
    if not is_held(w, job):
        job.key_until = 0
        return
    open_holders(w, q, job.spec.options.task).put(job.key, job.id)


def has_ended(w: World, job: Job) -> None:
    """The job has: its key is kept on until its time is over; if it is over already, the key is free."""
    if 0 < job.key_until <= w.steady_ms:
        _let_go(w.queues[job.spec.queue], job)


def _let_go(q: Queue, job: Job) -> None:
    holders = holders_of(q, job.spec.options.task)
    assert holders is not None and q.holders is not None
    holders.drop(job.key, job.id)
    job.key_until = 0
    if holders.size == 0:
        del q.holders[job.spec.options.task]
        if not q.holders:
            q.holders = None


def outlive(w: World, q: Queue, job: Job) -> None:
    """The job goes; a key that it holds stays for its time."""
    until: i64 = job.key_until
    if until == 0:
        return
    _let_go(q, job)
    if until > w.steady_ms:
        entry = leave(w, q, job.spec.options.task, job.key, job.id, until)
        _mark(w, q, entry)


def leave(w: World, q: Queue, task: str, key: str, job: i64, until: i64) -> IdempotencyKey:
    """The key of a job that is gone."""
    if q.left_keys is None:
        q.left_keys = {}
    keys = q.left_keys.get(task)
    if keys is None:
        keys = {}
        q.left_keys[task] = keys
    entry = IdempotencyKey(on_elapsed(w, until), w.next_alarm_id(), q.number, task, key, job)
    keys[key] = entry
    w.elapsed.add(entry)
    return entry


def has_rung(w: World, entry: IdempotencyKey) -> None:
    """Its time is over."""
    q = w.queues[entry.queue]
    assert q.left_keys is not None
    keys = q.left_keys[entry.task]
    del keys[entry.key]
    if not keys:
        del q.left_keys[entry.task]
        if not q.left_keys:
            q.left_keys = None
    _mark(w, q, entry)


def _mark(w: World, q: Queue, entry: IdempotencyKey) -> None:
    w.journal.mark((IDEMPOTENCY, q.tenant_name, q.name, entry.task, entry.key))


def fact_of(w: World, q: Queue, task: str, key: str) -> dict[str, object] | None:
    """What is written down of a key by itself: nothing while its job is there."""
    left = _left_of(q, task)
    entry = None if left is None else left.get(key)
    return None if entry is None else {"job": int(entry.job), "due": int(on_steady(w, entry.due_ms))}
