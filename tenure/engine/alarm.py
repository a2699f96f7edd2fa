"""Alarms: what is to happen at a time, and the wheel that finds what is due.

The wheel has one bucket per second. An alarm is appended to its bucket's open chunk; a chunk of 1,024 is sorted and
sealed. Only when a bucket comes due are its chunks merged, by a heap of their heads: a million alarms due in one
millisecond cost no pause, and cancelling one costs a flag. A bucket that is mostly cancelled is rebuilt, so cancelled
alarms far in the future do not pile up. One without a live alarm is idle. It stays for the next that come due in that
second, as those of short leases do one after the other; when most buckets are idle, the idle ones go.

`due_ms` never changes: whoever wants another time cancels and makes a new alarm. Alarms fire in the order (due, kind,
id).
"""

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64, mypyc_attr

# Kinds, in the order in which alarms of one instant fire.
RUN: Final = 0  # a scheduled or retrying job becomes ready
EXPIRE: Final = 1  # expires_at of a waiting job
LEASE: Final = 2  # a lease is over
TIMEOUT: Final = 3  # a running job took too long
HOLDOVER: Final = 4  # slots of a cancelled attempt are freed
LIMIT: Final = 5  # a key has a token again, its pause ends, or it is idle
QUEUE: Final = 6  # a queue has a token again
TENANT: Final = 7  # a tenant has a token again
ABANDON: Final = 8  # set-aside jobs nobody asked for
RETAIN: Final = 9  # the oldest of a line of ended jobs has its age
IDEMPOTENCY: Final = 10  # an idempotency key may go
DEBOUNCE: Final = 11  # a leading debounce window ends
OUTCOME: Final = 12  # outcomes of removed jobs may go
SESSION: Final = 13  # operation ids of a session may go
WAIT: Final = 14  # a waiting claim or watch gives up
WORKER: Final = 15  # a worker was silent for too long
LOAD: Final = 16  # a staged or published load may go
FORGET: Final = 17  # an empty queue may go
SWEEP: Final = 18  # a slowed sweep goes on

CHUNK: Final = 1024
BUCKET_MS: Final = 1000
IDLE_MIN: Final = 64  # so many idle buckets are no burden


@mypyc_attr(acyclic=True, allow_interpreted_subclasses=False)
class Alarm:
    def __init__(self, due_ms: i64, kind: i64, id: i64) -> None:
        self.due_ms: i64 = due_ms
        self.kind: i64 = kind
        self.id: i64 = id
        self.live: bool = True


def _order(alarm: Alarm) -> tuple[int, int, int]:
    # Descending, so that the first one due is at the end of a sealed chunk, where popping is cheap.
    return (-alarm.due_ms, -alarm.kind, -alarm.id)


def _is_ascending(alarms: list[Alarm]) -> bool:
    """As alarms of one kind that are set one after the other are; it takes a tenth of the time of sorting them."""
    before = alarms[0]
    for alarm in alarms:
        if alarm.due_ms < before.due_ms or alarm.kind != before.kind or alarm.id < before.id:
            return False
        before = alarm
    return True


class Bucket:
    def __init__(self) -> None:
        self.sealed: list[list[Alarm]] = []
        self.open: list[Alarm] = []
        self.size: i64 = 0  # entries, cancelled ones included
        self.dead: i64 = 0

    def add(self, alarm: Alarm) -> None:
        self.open.append(alarm)
        self.size += 1
        if len(self.open) >= CHUNK:
            self.seal()

    def is_idle(self) -> bool:
        return self.dead == self.size

    def seal(self) -> None:
        if self.open:
            if _is_ascending(self.open):
                self.open.reverse()
            else:
                self.open.sort(key=_order)
            self.sealed.append(self.open)
            self.open = []

    def rebuild(self) -> None:
        chunks = self.sealed
        chunks.append(self.open)
        self.sealed = []
        self.open = []
        self.size = 0
        self.dead = 0
        for chunk in chunks:
            for alarm in chunk:
                if alarm.live:
                    self.add(alarm)


class Wheel:
    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._seconds: list[int] = []  # heap of the keys of _buckets
        self._idle: i64 = 0  # buckets without a live alarm
        # The last bucket that was looked up.
        self._last: Bucket | None = None
        self._last_second: i64 = -1
        # The bucket being drained: its chunks' heads as a heap, and which second it is. Late arrivals join the heap.
        self._draining: i64 = -1
        self._heads: list[tuple[int, int, int, int]] = []
        self._chunks: list[list[Alarm]] = []
        self.live: i64 = 0
        self.next_ms: i64 = NEVER  # no alarm is due before this

    def add(self, alarm: Alarm) -> None:
        second: i64 = alarm.due_ms // BUCKET_MS
        self.live += 1
        if alarm.due_ms < self.next_ms:
            self.next_ms = alarm.due_ms
        if second <= self._draining:
            self._chunks.append([alarm])
            heappush(self._heads, (int(alarm.due_ms), int(alarm.kind), int(alarm.id), len(self._chunks) - 1))
            return
        bucket = self._bucket(second)
        if bucket is None:
            bucket = Bucket()
            self._buckets[second] = bucket
            heappush(self._seconds, second)
        elif bucket.is_idle():
            self._idle -= 1
        bucket.add(alarm)

    def _bucket(self, second: i64) -> Bucket | None:
        if second != self._last_second:
            self._last = self._buckets.get(second)
            self._last_second = second if self._last is not None else -1
        return self._last

    def cancel(self, alarm: Alarm) -> None:
        if not alarm.live:
            return
        alarm.live = False
        self.live -= 1
        second: i64 = alarm.due_ms // BUCKET_MS
        bucket = self._bucket(second)
        if bucket is None:
            return
        bucket.dead += 1
        if bucket.dead * 2 > bucket.size and bucket.size > 8:
            bucket.rebuild()
        if bucket.is_idle():
            self._idle += 1
            if self._idle * 2 > len(self._buckets) + IDLE_MIN:
                self._drop_idle()

    def _drop_idle(self) -> None:
        for second in [second for second, bucket in self._buckets.items() if bucket.is_idle()]:
            del self._buckets[second]
        self._seconds = sorted(self._buckets)
        self._idle = 0
        self._forget_last()

    def _forget_last(self) -> None:
        self._last = None
        self._last_second = -1

    def peek(self, now_ms: i64) -> None:
        """Make `next_ms` exact as far as `now_ms`: it is the time of the first live alarm, or after `now_ms`."""
        while self.next_ms <= now_ms:
            if not self._heads:
                if not self._seconds:
                    self.next_ms = NEVER
                    return
                second: i64 = self._seconds[0]
                if second * BUCKET_MS > now_ms:
                    self.next_ms = second * BUCKET_MS
                    return
                self._drain(second)
                continue
            due, _, _, at = self._heads[0]
            self.next_ms = due
            if self._chunks[at][-1].live:
                return
            self._drop_head(at)

    def head(self) -> tuple[int, int]:
        """Kind and id of the first alarm, when `peek` has found one due."""
        _, kind, id, _ = self._heads[0]
        return kind, id

    def pop(self, now_ms: i64) -> Alarm | None:
        """The next alarm due at or before `now_ms`, already off the wheel; None when there is none."""
        self.peek(now_ms)
        if self.next_ms > now_ms:
            return None
        at = self._heads[0][3]
        alarm = self._chunks[at][-1]
        self._drop_head(at)
        alarm.live = False
        self.live -= 1
        return alarm

    def _drop_head(self, at: int) -> None:
        heappop(self._heads)
        chunk = self._chunks[at]
        chunk.pop()
        if chunk:
            head = chunk[-1]
            heappush(self._heads, (int(head.due_ms), int(head.kind), int(head.id), at))
        elif not self._heads:
            self._chunks = []

    def _drain(self, second: i64) -> None:
        heappop(self._seconds)
        bucket = self._buckets.pop(second)
        self._forget_last()
        if bucket.is_idle():
            self._idle -= 1
        bucket.seal()
        self._draining = second
        self._chunks = bucket.sealed
        heads: list[tuple[int, int, int, int]] = []
        for at, chunk in enumerate(self._chunks):
            alarm = chunk[-1]
            heads.append((int(alarm.due_ms), int(alarm.kind), int(alarm.id), at))
        heapify(heads)
        self._heads = heads


NEVER: Final = 1 << 62
NO_WHEEL: Final = Wheel()
