"""An engine from what was written down: pages of the checkpoint, then records of the journal, then everything that
follows from the facts is put in its place.

What follows from facts is never written: lines, rings, groups' members, parked jobs, counts, timers, pins and
dependents. A job that a limit held back stands in line again and is held back when a claim meets it.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import cast

import msgspec
from mypy_extensions import i64

from tenure.core import bound, dependency
from tenure.core.clock import Now
from tenure.core.packed import Packed
from tenure.core.record import StreamItem
from tenure.core.request import KEY, LOG, QUEUE, STORE, TENANT, Batch, Configure
from tenure.core.state import BLOCKED, COMPLETED, FAILED, READY, RETRYING, RUNNING, SCHEDULED, is_terminal
from tenure.core.tenant import DEFAULT_TENANT, Context
from tenure.core.token import epoch_of
from tenure.engine import alarm as kinds
from tenure.engine import entity, idempotency, journal
from tenure.engine.alarm import Alarm
from tenure.engine.blob import hold, hold_of_job, hold_of_load, sweep_blob
from tenure.engine.bundle import Bundle
from tenure.engine.clock import move_clock, note_gap, on_elapsed, restore_clock
from tenure.engine.code import Cursor
from tenure.engine.configure import configure
from tenure.engine.dependent import judge
from tenure.engine.duty import release_blocked
from tenure.engine.ending import count_live
from tenure.engine.engine import Engine
from tenure.engine.entity import Fact
from tenure.engine.eventlog import EventLog
from tenure.engine.facts import RowReader
from tenure.engine.job import ASIDE, LINE, MEMBER, NOWHERE, Job, Side
from tenure.engine.keys import Keys
from tenure.engine.load import go_on_publishing, restore_load
from tenure.engine.parking import limit_for
from tenure.engine.place import ABANDON_MS, group_of, let_out, side_of, wait_for_run, watch_aside
from tenure.engine.redo import Sections
from tenure.engine.removal import end_order, is_empty, keep_again, plan_forgetting, remove
from tenure.engine.ring import activate
from tenure.engine.session import add_session, find_session, tenant_of
from tenure.engine.staged import Key
from tenure.engine.world import (
    OWED_CAP,
    SESSION_KEPT_MS,
    Aside,
    Group,
    Holdover,
    Owed,
    Queue,
    Remembered,
    Session,
    Window,
    World,
)

PORTION = 5_000  # jobs that are put in their place at once

_unpack = msgspec.msgpack.Decoder().decode


class Restore:
    """Told everything that was written down, in order, it makes the engine that wrote it."""

    def __init__(self, secret: bytes, epoch: int, fenced_epoch: int = 0) -> None:
        """Leases of epochs up to `fenced_epoch` are over: their holders were told by another store than this one."""
        self._w = World(secret, epoch, 0, 0)
        self._fenced_epoch = fenced_epoch
        self._rows = RowReader(self._w)
        self._entities: dict[journal.Entity, Fact] = {}
        self._quoted_fact: Fact | None = None  # the chunk that was read last
        self._quoted: Batch | None = None
        self._unheard: dict[int, int] = {}  # jobs that have output and were nowhere when it was read
        self._sweeping: dict[int, tuple[Remembered, journal.Entity]] = {}  # remembered operations that go on
        # Of the last record.
        self.wall_ms: i64 = 0
        self.at_ms: i64 = 0
        self.elapsed_ms: i64 = 0
        self.left_out_ms: i64 = 0
        self.seq: i64 = 0

    # What was written down.

    def page(self, facts: bytes) -> None:
        self._rows.read(facts)

    def outcomes(self, first: int, tenants: list[str], codes: bytes, owners: bytes, at_ms: int) -> None:
        """See `engine.page.OutcomeSheet`; `first` is the id that the codes begin with."""
        numbers = [int(self._w.tenant(name).number) if name else -1 for name in tenants]
        for slot in range(len(codes)):
            if codes[slot]:
                owner = numbers[int.from_bytes(owners[2 * slot : 2 * slot + 2], "little") if owners else 0]
                self._w.outcomes.add(first + slot, codes[slot] - 1, owner, at_ms)

    def output(self, id: int, kind: int, item: StreamItem) -> None:
        job = self._w.index.get(id)
        if job is None:
            self._unheard[id] = 1
            return
        side = side_of(job)
        if kind == LOG:
            if _append_log(side, item):
                self._w.journal.trimmed[id] = int(side.log_first)
        else:
            if side.stream is None:
                side.stream = []
            if item.offset == len(side.stream):
                side.stream.append(item)
                side.stream_bytes += len(item.data)

    def entity(self, name: journal.Entity, fact: object) -> None:
        if fact is None:
            self._entities.pop(name, None)
        else:
            self._entities.pop(name, None)  # the newest stands last: orders follow from it
            self._entities[name] = cast("Fact", fact)

    def record(self, data: bytes) -> None:
        """What a record says is not in the checkpoint yet: the next one has to save it before the record goes."""
        unsaved = self._w.journal
        sections = Sections(data)
        self.head(sections)
        if sections.entities:
            for said in cast("list[list[object]]", _unpack(sections.entities)):
                name = tuple(cast("list[object]", said[0]))
                self.entity(name, said[1])
                unsaved.unsaved_entities[name] = 1
        if sections.bundles:
            for said in cast("list[list[object]]", _unpack(sections.bundles)):
                self._read_bundle(tuple(cast("list[object]", said[0])), cast("list[int]", said[1:]))
        if sections.batches:
            self._read_batches(sections.batches)
        if sections.rows:
            self._rows.read(sections.rows, True)
        if sections.output:
            for row in cast("list[list[object]]", _unpack(sections.output)):
                item = StreamItem(cast("int", row[2]), cast("int", row[3]), cast("bytes", row[4]))
                self.output(cast("int", row[0]), cast("int", row[1]), item)
                unsaved.unsaved_output.append((cast("int", row[0]), cast("int", row[1]), item))
        if sections.gone:
            self._read_gone(sections.gone, self._steady_ms())

    def _steady_ms(self) -> i64:
        """Of the last record, see `engine.clock`."""
        clock = self._entities.get((journal.CLOCK,))
        return self.wall_ms if clock is None else self.elapsed_ms + cast("int", clock["steady_from"])

    def _read_bundle(self, chunk: journal.Entity, numbers: list[int]) -> None:
        """Rows of a chunk as jobs."""
        w = self._w
        row, count, first, number, at_ms, keys_until = numbers
        fact = self._entities.get(chunk)
        if fact is None:
            self._note_unsaved(first, count)
            return
        if self._quoted_fact is not fact:
            self._quoted_fact = fact
            self._quoted = entity.read_batch(fact)
        batch = self._quoted
        assert batch is not None
        w.tenant(str(chunk[1])).queues_max = 1 << 60  # what was accepted is taken back, whatever the bound is now
        spec = w.spec(str(chunk[1]), batch.options)
        self._let_in(Bundle(spec, batch, row, first, count, number, at_ms, keys_until, True))

    def _read_batches(self, data: bytes) -> None:
        cursor = Cursor(data, 0)
        left: i64 = cursor.number()
        while left > 0:
            spec = self._rows.spec(cursor.blob())
            first: i64 = cursor.number()
            count: i64 = cursor.number()
            number: i64 = cursor.signed()
            at_ms: i64 = self.wall_ms + cursor.signed()
            gap: i64 = cursor.number()
            is_compressed = cursor.number() == 1
            content = cursor.blob()
            packed = Packed(content, cursor.blob(), is_compressed, gap)
            self._let_in(Bundle(spec, Batch(spec.options, packed), 0, first, count, number, at_ms, 0, True))
            left -= 1

    def _let_in(self, bundle: Bundle) -> None:
        """Its rows as jobs, unless a page said more of them."""
        index = self._w.index
        self._note_unsaved(bundle.first, bundle.count)
        id: i64 = bundle.first
        while id <= bundle.last():
            if index.get(id) is None:
                job = bundle.job(id)
                job.place = NOWHERE
                index.add(job)
                bundle.spec.jobs += 1
            id += 1

    def _note_unsaved(self, first: i64, count: i64) -> None:
        pages = self._w.journal.unsaved_pages
        page: i64 = first >> journal.PAGE_BITS
        while page <= (first + count - 1) >> journal.PAGE_BITS:
            pages[int(page)] = 1
            page += 1

    def head(self, sections: Sections) -> None:
        w = self._w
        self.wall_ms = sections.wall_ms
        self.at_ms = sections.at_ms
        self.left_out_ms = sections.left_out_ms
        self.elapsed_ms = sections.elapsed_ms
        numbers = sections.numbers
        w.last_id = max(w.last_id, numbers[0])
        w.number_high = numbers[1]
        w.number_low = numbers[2]
        w.last_ended = numbers[3]
        w.last_claim = numbers[4]
        w.last_alarm = numbers[5]
        w.last_ticket = numbers[6]
        self.seq = numbers[7]

    def _read_gone(self, data: bytes, at_ms: i64) -> None:
        w = self._w
        cursor = Cursor(data, 0)
        tenants: list[int] = []
        left: i64 = cursor.number()
        while left > 0:
            tenants.append(int(w.tenant(cursor.text()).number))
            left -= 1
        left = cursor.number()
        id: i64 = 0
        while left > 0:
            id += cursor.signed()
            count: i64 = cursor.number()
            state: i64 = cursor.number()
            tenant: i64 = tenants[cursor.number()]
            while count > 0:
                job = w.index.get(id)
                if job is not None:
                    side = job.side
                    if side is not None and (side.log is not None or side.stream is not None):
                        w.journal.silenced.append(int(id))
                    job.spec.jobs -= 1
                    w.index.remove(id)
                w.journal.unsaved_pages[int(id >> journal.PAGE_BITS)] = 1
                w.journal.unsaved_outcomes[int(id >> journal.PAGE_BITS >> 4)] = 1
                if self._rows.orphans:
                    self._rows.orphans.pop(int(id), None)
                w.outcomes.add(id, state, tenant, at_ms)
                id += 1
                count -= 1
            left -= 1

    # Everything in its place.

    def finish(self, now: Now, seq: int, last_id: int = 0) -> Engine:
        """`seq` and `last_id` are the last numbers of events and jobs that may have been given."""
        for _ in self.finishing(now, seq, last_id):
            pass
        return self.engine()

    def engine(self) -> Engine:
        """When all is in its place."""
        w = self._w
        return Engine(w.mint.secret, w.mint.epoch, Now(w.wall_ms, w.elapsed_ms, w.left_out_ms), w)

    def finishing(self, now: Now, seq: int, last_id: int = 0) -> Iterator[None]:
        """As `finish`, and comes back to its caller after every few thousand jobs: one call of compiled code keeps all
        other threads waiting."""
        w = self._w
        w.last_id = max(w.last_id, last_id)
        if self._rows.orphans:
            raise ValueError(f"the journal changes jobs that are nowhere: {sorted(self._rows.orphans)[:10]}")
        self._restore_clock(now)
        self._restore_settings()
        jobs = w.index.scan(0, 1 << 60, w.last_id)
        ready: list[Job] = []
        ended: list[Job] = []
        yield
        for at in range(0, len(jobs), PORTION):
            for job in jobs[at : at + PORTION]:
                self._place(job, ready, ended)
                hold_of_job(w, job)
            yield
        self._place_leases()
        ready.sort(key=_number_of)
        for at in range(0, len(ready), PORTION):
            for job in ready[at : at + PORTION]:
                _stand(w.queue_of(job), job)
            yield
        ended.sort(key=end_order)
        for at in range(0, len(ended), PORTION):
            for job in ended[at : at + PORTION]:
                keep_again(w, w.queue_of(job), job)
            yield
        self._restore_entities()
        yield
        decided: list[Job] = []
        for at in range(0, len(jobs), PORTION):
            decided.extend(_depend(w, jobs[at : at + PORTION]))
            yield
        _open_queues(w)
        yield
        w.journal.all_queues = self.wall_ms > 0
        for number in range(len(w.queues)):
            w.journal.unsaved_queues[number] = 1
        w.log = EventLog(w.log.events_max, w.journal)
        w.log.resume(seq, w.at_ms)
        w.log.shift_ms = w.shift_ms
        w.owed.clear()
        self._restore_owed()
        w.journal.silenced += [id for id in self._unheard if w.index.get(id) is None]
        w.journal.on = True
        for job in decided:
            release_blocked(w, job)
        for job in ended:
            if job.side is not None and job.side.doomed and job.side.pins == 0:
                remove(w, w.queue_of(job), job, job.side.doomed)
        if w.terminal_jobs > w.terminal_jobs_max or w.terminal_bytes > w.terminal_bytes_max:
            w.owed.append(Owed(OWED_CAP, 0))

    def _restore_clock(self, now: Now) -> None:
        """While the store was down all durations went on but those of leases and timeouts."""
        w = self._w
        if self.elapsed_ms == 0 and self.wall_ms == 0:
            restore_clock(w, None, now.wall_ms, now.wall_ms, now.elapsed_ms)
            return
        w.left_out_ms = self.left_out_ms
        restore_clock(w, self._entities.get((journal.CLOCK,)), self.wall_ms, self.at_ms, self.elapsed_ms)
        note_gap(w, w.served_ms, w.served_ms)
        left_out_ms: i64 = w.left_out_ms + max(now.elapsed_ms - self.elapsed_ms, 0)
        w.left_out_ms = left_out_ms
        move_clock(w, Now(now.wall_ms, max(now.elapsed_ms, self.elapsed_ms), left_out_ms))

    def _restore_settings(self) -> None:
        """By the code that took them; what it tells the log and owes is dropped."""
        w = self._w
        for t in w.tenants:
            t.queues_max = bound.QUEUES_PER_TENANT_MAX
        for name, fact in self._entities.items():
            kind = name[0]
            if kind == journal.STORE:
                _configure(w, "", STORE, "", fact)
            elif kind == journal.TENANT:
                _configure(w, "", TENANT, str(name[1]), fact)
                t = w.tenant(str(name[1]))
                entity.fill_bucket(t.bucket, fact.get("bucket"))
                entity.fill_bucket(t.enqueue_bucket, fact.get("enqueue_bucket"))
            elif kind == journal.QUEUE:
                _configure(w, str(name[1]), QUEUE, str(name[2]), fact)
                q = w.find_queue(str(name[1]), str(name[2]))
                assert q is not None
                entity.fill_bucket(q.bucket, fact.get("bucket"))
                entity.fill_bucket(q.enqueue_bucket, fact.get("enqueue_bucket"))
            elif kind == journal.KEY:
                self._restore_key(str(name[1]), str(name[2]), fact)

    def _restore_key(self, tenant: str, prefix: str, fact: Fact) -> None:
        w = self._w
        settings = entity.read_settings(fact["settings"])
        w.tenant(tenant or DEFAULT_TENANT)
        configure(w, Context(tenant or DEFAULT_TENANT), Configure(KEY, prefix, settings))
        table = w.limit_settings_shared if not tenant else w.tenant(tenant).limit_settings
        if table is not None and prefix in table:
            table[prefix].paused_until = cast("int", fact["paused_until"])

    def _place(self, job: Job, ready: list[Job], ended: list[Job]) -> None:
        """Counts, keys, timers, slots; the lines come after."""
        w = self._w
        q = w.queue_of(job)
        state = int(job.state)
        q.count(i64(state), 1)
        side = job.side
        if side is not None:
            _hold(w, q, job, side)
        if job.key:
            idempotency.hold_again(w, q, job)
        if is_terminal(state):
            ended.append(job)
            return
        count_live(w, q, job, 1)
        if state == READY:
            ready.append(job)
        elif state == SCHEDULED or state == RETRYING:
            wait_for_run(w, job)
        elif state == RUNNING:
            self._run(q, job)
        if side is not None and side.expires_at and state != RUNNING:
            side.expiry = Alarm(side.expires_at, kinds.EXPIRE, job.id)
            w.wall.add(side.expiry)

    def _run(self, q: Queue, job: Job) -> None:
        w = self._w
        w.tenants[q.tenant].running += 1
        lease = job.lease
        assert lease is not None, f"job {int(job.id)} runs without a lease"
        lease.add(int(job.id))
        timeout = self._rows.timeouts.get(int(job.id))
        if timeout is not None:
            job.alarm = Alarm(timeout, kinds.TIMEOUT, job.id)
            w.served.add(job.alarm)
        side = job.side
        if side is not None and side.holds is not None:
            side.holds = _take_limits(w, q, list(job.spec.options.limit_keys))

    def _place_leases(self) -> None:
        w = self._w
        for lease in self._rows.leases():
            if lease.count == 0:
                lease.live = False
                continue
            if epoch_of(lease.token) <= self._fenced_epoch:
                lease.due_ms = min(lease.due_ms, w.gaps[0][0] if w.gaps else w.served_ms)
            w.served.add(lease)

    def _restore_entities(self) -> None:
        w = self._w
        for name, fact in self._entities.items():
            kind = name[0]
            if kind == journal.LIMIT:
                owner = str(name[1]) or DEFAULT_TENANT
                limit = limit_for(w, w.tenant(owner), str(name[2]))
                entity.fill_bucket(limit.bucket, fact.get("bucket"))
                limit.paused_until = max(limit.paused_until, cast("int", fact["paused_until"]))
                entity.fill_pauses(w, limit, fact.get("pauses"))
                w.changed_limits.append(int(limit.number))
            elif kind == journal.HOLDOVER:
                _restore_holdover(w, name, fact)
            elif kind == journal.IDEMPOTENCY or kind == journal.WINDOW:
                _restore_key_of_queue(w, name, fact)
            elif kind == journal.CUSTOM:
                t = w.tenant(str(name[1]))
                if t.custom_outcomes is None:
                    t.custom_outcomes = OrderedDict()
                t.custom_outcomes[str(name[2])] = (
                    cast("int", fact["job"]),
                    cast("int", fact["state"]),
                    cast("int", fact["until"]),
                    str(fact["queue"]),
                )
            elif kind == journal.SESSION:
                self._restore_session(str(name[1]), fact)
        for name, fact in self._entities.items():
            if name[0] == journal.OPERATION:
                self._restore_operation(name, fact)
        if len(w.outcomes) or any(t.custom_outcomes for t in w.tenants):
            w.outcomes_alarm = Alarm(w.elapsed_ms, kinds.OUTCOME, 0)
            w.elapsed.add(w.outcomes_alarm)

    def _restore_session(self, name: str, fact: Fact) -> None:
        w = self._w
        session = Session(w.next_alarm_id())
        session.newest = cast("int", fact["newest"])
        session.forgotten = cast("int", fact["forgotten"])
        session.last_at = cast("int", fact["last_at"])
        add_session(w, name, session)
        w.elapsed.add(Alarm(session.last_at + SESSION_KEPT_MS, kinds.SESSION, session.number))

    def _restore_operation(self, name: journal.Entity, fact: Fact) -> None:
        session = find_session(self._w, tenant_of(str(name[1])), str(name[1]))
        if session is None:
            return
        remembered = entity.read_remembered(fact)
        if remembered.ticket:
            self._sweeping[int(remembered.ticket)] = (remembered, name)
        session.answers[cast("int", name[2])] = remembered

    def _restore_owed(self) -> None:
        w = self._w
        for name, fact in self._entities.items():
            if name[0] == journal.LOAD:
                restore_load(w, str(name[1]), str(name[2]), fact)
        for name, fact in self._entities.items():
            staged = w.loads.get((str(name[1]), str(name[2]))) if name[0] in (journal.CHUNK, journal.GIVEN) else None
            if staged is not None:
                key = cast("Key", (name[3], name[4], name[5]))
                if name[0] == journal.CHUNK:
                    staged.chunks[key] = entity.read_batch(fact)
                else:
                    staged.given[key] = entity.read_given(fact)
        for staged in w.loads.values():
            staged.chunks = {key: staged.chunks[key] for key in sorted(staged.chunks)}
            hold_of_load(w, staged)
        for name, fact in self._entities.items():
            if name[0] == journal.SWEEP:
                sweep = entity.read_sweep(fact, cast("int", name[1]))
                hold(w, sweep_blob(sweep))
                sweep.noted = self._sweeping.get(int(sweep.id))
                w.owed.append(sweep)
            elif name[0] == journal.LOAD:
                go_on_publishing(w, w.loads[str(name[1]), str(name[2])], fact)


def _number_of(job: Job) -> int:
    return int(job.number)


def _append_log(side: Side, item: StreamItem) -> bool:
    """Whether that dropped the oldest line."""
    if side.log is None:
        side.log = []
        side.log_first = item.offset
    if item.offset == side.log_first + len(side.log):
        side.log.append(item)
        if len(side.log) > bound.LOG_LINES_MAX:
            del side.log[0]
            side.log_first += 1
            return True
    return False


def _configure(w: World, tenant: str, subject: int, name: str, fact: Fact) -> None:
    settings = entity.read_settings(fact["settings"])
    if settings:
        configure(w, Context(tenant or DEFAULT_TENANT), Configure(subject, name, settings))


def _hold(w: World, q: Queue, job: Job, side: Side) -> None:
    """The keys and the place in a group that the job has."""
    extras = side.extras
    if extras is None:
        return
    if side.holds_unique:
        if q.unique is None:
            q.unique = Keys()
        q.unique.set(extras.unique_key, int(job.id))
    if side.holds_custom:
        t = w.tenants[q.tenant]
        if t.custom_ids is None:
            t.custom_ids = Keys()
        t.custom_ids.set(extras.custom_id, int(job.id))
    if side.joined > 0:
        group = group_of(q, job)
        assert group is not None
        group.jobs += 1
        group.next_joined = max(group.next_joined, side.joined + 1)
        if side.holds_group:
            group.busy += 1
            if job.state != RUNNING:
                group.kept.append(int(job.id))


def _take_limits(w: World, q: Queue, keys: list[str]) -> list[int]:
    held: list[int] = []
    for key in keys:
        limit = limit_for(w, w.tenants[q.tenant], key)
        limit.running += 1
        held.append(int(limit.number))
    return held


def _stand(q: Queue, job: Job) -> None:
    """A ready job: in its group, aside, or in line."""
    side = job.side
    group = None if side is None or side.joined == 0 else group_of(q, job)
    if side is not None and side.aside_at > 0:
        _stand_aside(q, job, side)
        if group is not None:
            group.standing.append(int(job.id))
    elif group is not None:
        job.place = MEMBER
        group.members.push(job)
    else:
        job.place = LINE
        q.order.push(job)


def _stand_aside(q: Queue, job: Job, side: Side) -> None:
    task = job.spec.options.task
    if q.asides is None:
        q.asides = {}
    aside = q.asides.get(task)
    if aside is None:
        aside = Aside(task)
        q.asides[task] = aside
    job.place = ASIDE
    aside.push(job, side.aside_at)


def _open_queues(w: World) -> None:
    """Groups let out their first members, queues join their rings."""
    for q in list(w.queues):
        if q.number < 0:
            continue
        if q.groups is not None:
            for group in q.groups.values():
                let_out(w, q, group)
        if q.asides is not None:
            for aside in q.asides.values():
                aside.since.sort(key=_since)
                watch_aside(w, q, aside, max(aside.since[0][0] + ABANDON_MS, w.elapsed_ms))
        activate(w, q)
        if is_empty(q) and q.settings is None:
            plan_forgetting(w, q)


def _since(entry: tuple[int, Job]) -> int:
    return entry[0]


def _depend(w: World, jobs: list[Job]) -> list[Job]:
    """How dependencies stand, and who waits for whom; answers blocked jobs that need not wait any more.

    A dependency that was replayed counts as it ended the first time for those who had heard of it. One without record
    or outcome was removed while it was alive: nothing else goes while it is needed.
    """
    decided: list[Job] = []
    for job in jobs:
        side = job.side
        if side is None or side.extras is None or not side.extras.depends_on or is_terminal(int(job.state)):
            continue
        since: i64 = max(job.id, side.rejoined)
        for id in side.extras.depends_on:
            found = w.index.get(id)
            if found is None:
                state: i64 = w.outcomes.get(id, job.spec.tenant)
                side.succeeded += 1 if state == COMPLETED else 0
                side.failed += 0 if state == COMPLETED else 1
                continue
            other = side_of(found)
            other.pins += 1
            state = i64(FAILED) if since <= other.told_upto else i64(found.state)
            if state == COMPLETED:
                side.succeeded += 1
            elif is_terminal(int(state)):
                side.failed += 1
            else:
                side.pending += 1
                if other.dependents is None:
                    other.dependents = []
                other.dependents.append(int(job.id))
        if job.state == BLOCKED and judge(job) != dependency.WAIT:
            decided.append(job)
    return decided


def _restore_holdover(w: World, name: journal.Entity, fact: Fact) -> None:
    claim = cast("int", name[1])
    id = cast("int", name[2])
    tenant = w.tenant(str(fact["tenant"]))
    q = w.queue(tenant, str(fact["queue"]))
    holdover = Holdover(cast("int", fact["due"]), w.next_alarm_id(), claim, id, q.number)
    limits = cast("list[str]", fact["limits"])
    if limits:
        holdover.limits = _take_limits(w, q, limits)
    holdover.group = str(fact["group"])
    holdover.joined = cast("int", fact["joined"])
    if holdover.group:
        if q.groups is None:
            q.groups = {}
        group = q.groups.get(holdover.group)
        if group is None:
            group = Group(holdover.group)
            q.groups[holdover.group] = group
        group.busy += 1
    q.held_over += 1
    tenant.held_over += 1
    w.holdovers[(claim, id)] = holdover
    w.served.add(holdover)


def _restore_key_of_queue(w: World, name: journal.Entity, fact: Fact) -> None:
    q = w.queue(w.tenant(str(name[1])), str(name[2]))
    key = str(name[3])
    job = cast("int", fact["job"])
    due = cast("int", fact["due"])
    if name[0] == journal.IDEMPOTENCY:
        idempotency.leave(w, q, key, str(name[4]), job, due)  # the task, and then the key
        return
    window = Window(
        on_elapsed(w, due), w.next_alarm_id(), q.number, key, job, cast("int", fact["first_at"]), bool(fact["trailing"])
    )
    if q.windows is None:
        q.windows = {}
    q.windows[key] = window
    if not window.trailing:
        w.elapsed.add(window)
