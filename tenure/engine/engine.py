"""The engine: the owned stores' state machine. `verb(context, request, now) -> answer`, and events in its log.

It is deterministic and single-threaded: no clock, no randomness, no IO. Every verb is one step: first what is due is
done, then the request, then what the step owes, then waiting claims are served; the second and last are within the
bound of 1,000 jobs besides those the request names. Waiting verbs answer a ticket, and the answer follows in the
outbox.
"""

from mypy_extensions import i64

from tenure.core import bound
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.blob import Blob
from tenure.core.clock import Now
from tenure.core.error import InvalidRequest, JobNotFound
from tenure.core.record import (
    DeadLetterGroup,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
)
from tenure.core.request import (
    EMIT,
    LOG,
    STORE,
    Append,
    Batch,
    Change,
    Claim,
    Configure,
    Extend,
    Filter,
    Load,
    Scan,
    Settle,
)
from tenure.core.state import RUNNING, SETTLE_RELEASE, is_terminal
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine import query
from tenure.engine.alarm import NEVER, WAIT, Alarm
from tenure.engine.blob import size_blobs
from tenure.engine.change import change
from tenure.engine.claim import claim_now, forget_waiter, wait
from tenure.engine.clock import move_clock, step_text
from tenure.engine.configure import configure
from tenure.engine.duty import BUDGET, finish_step, forget_watch, ring_alarms
from tenure.engine.enqueue import enqueue
from tenure.engine.job import Job
from tenure.engine.load import drop_chunks, load
from tenure.engine.place import side_of
from tenure.engine.redo import take
from tenure.engine.scan import scan
from tenure.engine.session import (
    CHANGE,
    CLAIM,
    ENQUEUE,
    SETTLE,
    SWEEP,
    look_up,
    look_up_each,
    note,
    note_claim,
    note_sweep,
    still_leased,
)
from tenure.engine.settle import append, extend, settle
from tenure.engine.unsaved import Unsaved
from tenure.engine.verify import verify
from tenure.engine.worker import see_worker
from tenure.engine.world import Watch, World

EVENTS_PAGE_MAX = 10_000
EVENT_SEQ_MAX = 2**62  # so that the next one is a number too
EVENT_RUNS_PER_READ = 10_000


class Engine:
    def __init__(self, secret: bytes, epoch: int, now: Now, world: World | None = None) -> None:
        """A new engine, or, with the world that `engine.restore` made, one that goes on."""
        if not 16 <= len(secret) <= 64:
            raise InvalidRequest("secret", len(secret), "it must have 16 to 64 bytes")
        self._w = World(secret, epoch, now.wall_ms, now.elapsed_ms) if world is None else world
        self._w.log.begin(self._w.at_ms)

    # The journal.

    def keep_journal(self) -> None:
        """From now on what changes is noted for `take`; before the first step."""
        self._w.journal.on = True

    def take(self) -> bytes:
        """A record of what changed since the last one, see `engine.redo`; empty when nothing did."""
        return take(self._w)

    def take_events(self) -> bytes:
        """The events since the last call, as runs of `engine.eventlog`."""
        return self._w.log.take()

    def is_taken(self) -> bool:
        """Whether nothing has changed since `take`."""
        return self._w.journal.is_empty() and self._w.log.is_taken()

    def take_unsaved(self) -> Unsaved:
        """What is in records and not in a checkpoint yet; from now on it counts as saved."""
        return Unsaved(self._w)

    def has_spent_loads(self) -> bool:
        """Whether there are chunks of which all jobs were let in."""
        return bool(self._w.spent_loads)

    def drop_spent_loads(self) -> None:
        """Drop those chunks: after the record that quotes the last of them, before the checkpoint that saves their
        jobs."""
        w = self._w
        assert not w.journal.bundles, "a record that quotes a chunk has to say so before the chunk goes"
        spent = w.spent_loads
        w.spent_loads = []
        for staged in spent:
            drop_chunks(w, staged)

    def untaken(self) -> int:
        """About how many jobs changed since `take`."""
        return self._w.journal.size()

    def untaken_bytes(self) -> int:
        """About what the record of that will have."""
        journal = self._w.journal
        return 0 if journal.is_empty() else int(journal.bytes)

    def is_within(self, record_bytes: int, last_id: int, last_event: int) -> bool:
        """Whether the next record has no more bytes than that, and no higher number was given to a job or an event."""
        w = self._w
        return w.last_id <= last_id and w.log.seq <= last_event and w.journal.bytes <= record_bytes

    def unsaved(self) -> int:
        """About how many pages and entities a checkpoint would save."""
        journal = self._w.journal
        found = len(journal.unsaved_pages) + len(journal.unsaved_entities) + len(journal.unsaved_output)
        found += len(journal.silenced) + len(journal.trimmed)
        return found + 1 if journal.all_queues else found

    def is_loading(self, within_ms: int) -> bool:
        """Whether a load is being staged or let in, and went on in that time."""
        w = self._w
        return w.staged_jobs > 0 and w.elapsed_ms - w.loaded_ms <= within_ms

    def left_out(self) -> int:
        """How much of the elapsed time does not count for leases, in milliseconds."""
        return int(self._w.left_out_ms)

    def last_id(self) -> int:
        return int(self._w.last_id)

    # Blobs.

    def accept_blobs(self, bytes_max: int) -> None:
        """There is a blob store: content may come as a `Blob`."""
        self._w.blob_bytes_max = bytes_max

    def payload_bytes_max(self) -> int:
        """The cap above which content goes to the blob store."""
        return int(self._w.payload_bytes_max)

    def blobs(self) -> list[str]:
        """The names of all blobs that something holds."""
        return list(self._w.blobs)

    def blob_sizes(self) -> dict[str, int]:
        """The bytes of each of them; all jobs are looked at."""
        w = self._w
        return size_blobs(w, w.index.scan(0, w.index.size + 1, w.last_id))

    def is_held(self, blob: str) -> bool:
        return blob in self._w.blobs

    def take_dropped_blobs(self) -> list[str]:
        """Blobs whose last holder went since the last call; one may be held again by now."""
        dropped = self._w.blobs_dropped
        if dropped:
            self._w.blobs_dropped = []
        return dropped

    def leased_payload(self, id: int, token: bytes) -> bytes | Blob | None:
        """The payload as it is now, of a job that runs under this token; None when it does not any more."""
        job = self._w.index.get(id)
        if job is None or job.state != RUNNING or job.lease is None or job.lease.token != token:
            return None
        if job.side is not None and job.side.payload_blob is not None:
            return job.side.payload_blob
        return job.payload

    # Steps.

    def _begin(self, now: Now) -> i64:
        """Move the clock, and do what is due; answers the budget left."""
        w = self._w
        w.step += 1
        move_clock(w, now)
        w.log.begin(w.at_ms)
        if w.wall.next_ms > w.wall_ms and w.elapsed.next_ms > w.elapsed_ms and w.served.next_ms > w.served_ms:
            return BUDGET
        return self._end(ring_alarms(w, BUDGET))

    def _end(self, budget: i64) -> i64:
        """What the step leaves behind; answers the budget left."""
        w = self._w
        if w.ended or w.owed or w.dirty or w.changed_limits:
            return finish_step(w, budget)
        return budget

    def tick(self, now: Now) -> Now | None:
        """Do what is due and owed; answers when to come again: `now` itself when there is more to do at once."""
        w = self._w
        self._end(self._begin(now))
        if self._has_work():
            return Now(w.wall_ms, w.elapsed_ms, w.left_out_ms)
        wall: i64 = w.wall.next_ms
        elapsed: i64 = w.elapsed.next_ms
        if w.served.next_ms < elapsed - w.left_out_ms:
            elapsed = w.served.next_ms + w.left_out_ms
        if wall == NEVER and elapsed == NEVER:
            return None
        return Now(wall, elapsed, w.left_out_ms)

    def _has_work(self) -> bool:
        w = self._w
        w.wall.peek(w.wall_ms)
        w.elapsed.peek(w.elapsed_ms)
        w.served.peek(w.served_ms)
        if w.wall.next_ms <= w.wall_ms or w.elapsed.next_ms <= w.elapsed_ms or w.served.next_ms <= w.served_ms:
            return True
        return bool(w.dirty) or any(owed.next_elapsed <= w.elapsed_ms for owed in w.owed)

    def drain_outbox(self) -> list[tuple[int, object]]:
        """Answers to tickets since the last call: Claimed, JobRecord (None: time is over), or the count of a sweep."""
        w = self._w
        if not w.outbox:
            return []
        sent = w.outbox
        w.outbox = []
        return sent

    def withdraw(self, ticket: int, now: Now) -> None:
        """Nobody waits for this ticket any more."""
        budget = self._begin(now)
        w = self._w
        waiter = w.waiters.get(ticket)
        if waiter is not None:
            forget_waiter(w, waiter)
        watch = w.watches.get(ticket)
        if watch is not None:
            forget_watch(w, watch)
        self._end(budget)

    def waiting_claims(self) -> list[int]:
        """The tickets of all claims that wait."""
        return list(self._w.waiters)

    def give_back(self, claimed: Claimed, now: Now) -> None:
        """The answer could not be delivered: release what it leased, at once."""
        tokens = [claimed.token] * len(claimed.ids)
        context = Context(tenants=(ANY_TENANT,))
        self.settle(context, Settle(SETTLE_RELEASE, claimed.ids, tokens), now)

    # Verbs that change something.

    def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        budget = self._begin(now)
        op = context.op
        if op is not None:
            seen = look_up_each(self._w, context.tenant, op, ENQUEUE, len(batch.payloads))
            if seen is not None:
                return seen
        answers = enqueue(self._w, context.tenant, context.queues, batch, False)
        self._end(budget + len(batch.payloads))
        if op is not None:
            note(self._w, context.tenant, op, ENQUEUE, answers)
        return answers

    def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        budget = self._begin(now)
        w = self._w
        op = context.op
        if claim.withdraw and op is None:
            raise InvalidRequest("withdraw", True, "it takes the op_id of the claim that is withdrawn")
        if op is not None:
            seen = look_up(w, context.tenant, op, CLAIM)
            if seen is not None:
                again = still_leased(w, seen)
                if again is not None and claim.withdraw:
                    release = Settle(SETTLE_RELEASE, again.ids, [again.token] * len(again.ids))
                    settle(w, Context(tenants=(ANY_TENANT,)), release)
                elif again is not None:
                    return again
            if claim.withdraw:
                self._forget_claim(w.waiting_ops.get((context.tenant, op.session, op.counter), 0))
                self._end(budget)
                return Claimed()
        if claim.worker:
            see_worker(w, context, claim.worker)
        tenant, tenants, principal = context.tenant, context.tenants, context.principal
        answer = claim_now(w, claim, tenant, tenants, context.connection, principal, claim.n)
        if not answer.ids and claim.wait_ms > 0:
            answer.ticket = int(wait(w, claim, tenant, tenants, context.connection, principal, op))
        elif op is not None:
            note_claim(w, context.tenant, op, answer)
        self._end(budget)
        return answer

    def _forget_claim(self, ticket: int) -> None:
        """Who waits for it is answered that there is nothing."""
        waiter = self._w.waiters.get(ticket)
        if waiter is not None:
            forget_waiter(self._w, waiter)
            self._w.outbox.append((ticket, Claimed()))

    def settle(self, context: Context, request: Settle, now: Now) -> Answers:
        budget = self._begin(now)
        op = context.op
        if op is not None:
            seen = look_up_each(self._w, context.tenant, op, SETTLE, len(request.ids))
            if seen is not None:
                return seen
        answers = settle(self._w, context, request)
        self._end(budget)
        if op is not None:
            note(self._w, context.tenant, op, SETTLE, answers)
        return answers

    def extend(self, context: Context, request: Extend, now: Now) -> Extended:
        budget = self._begin(now)
        answer = extend(self._w, context, request)
        self._end(budget)
        return answer

    def change(self, context: Context, request: Change, now: Now) -> Answers:
        budget = self._begin(now)
        verb = SWEEP if request.ids is None else CHANGE
        op = context.op
        if op is not None:
            seen = look_up_each(self._w, context.tenant, op, verb, 0 if request.ids is None else len(request.ids))
            if seen is not None:
                return seen
        answers = change(self._w, context, request)
        if op is not None:
            if answers.ticket:
                note_sweep(self._w, context.tenant, op, self._w.owed[-1])
            else:
                note(self._w, context.tenant, op, verb, answers)
        self._end(budget)
        return answers

    def append(self, context: Context, request: Append, now: Now) -> int:
        budget = self._begin(now)
        offset = append(self._w, context, request)
        self._end(budget)
        return offset

    def configure(self, context: Context, request: Configure, now: Now) -> dict[str, object]:
        budget = self._begin(now)
        settings = configure(self._w, context, request)
        stepped = step_text(self._w) if request.subject == STORE else ""
        if stepped:
            settings = {**settings, "clock": stepped}
        self._end(budget)
        return settings

    def load(self, context: Context, request: Load, now: Now) -> LoadReport:
        budget = self._begin(now)
        report = load(self._w, context, request)
        self._end(budget)
        return report

    def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> int:
        """A ticket for the job's end, or 0 when it has ended already."""
        budget = self._begin(now)
        bound.wait_ms("wait_ms", wait_ms)
        job = self._visible(context, id)
        w = self._w
        ticket = 0
        if not is_terminal(int(job.state)):
            w.last_ticket += 1
            ticket = int(w.last_ticket)
            if wait_ms == 0:
                w.outbox.append((ticket, None))
                return ticket
            watch = Watch(w.elapsed_ms + wait_ms, w.last_ticket, job.id)
            w.watches[ticket] = watch
            w.elapsed.add(watch)
            side = side_of(job)
            if side.watchers is None:
                side.watchers = []
            side.watchers.append(ticket)
            side.pins += 1
        self._end(budget)
        return ticket

    # Verbs that read.

    def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        self._end(self._begin(now))
        return query.get(self._w, context, ids, custom_ids)

    def find(self, context: Context, filter: Filter, limit: int, cursor: str, now: Now) -> JobPage:
        self._end(self._begin(now))
        return query.find(self._w, context, filter, limit, cursor)

    def count(self, context: Context, queue: str, now: Now) -> dict[str, dict[str, int]]:
        self._end(self._begin(now))
        return query.count(self._w, context, queue)

    def groups(self, context: Context, queue: str, now: Now) -> list[DeadLetterGroup]:
        self._end(self._begin(now))
        return query.groups(self._w, context, queue)

    def explain(self, context: Context, id: int, now: Now) -> Explanation:
        self._end(self._begin(now))
        return query.explain(self._w, self._visible(context, id))

    def events(self, context: Context, cursor: str, limit: int, now: Now) -> EventPage:
        self._end(self._begin(now))
        if not 0 < limit <= EVENTS_PAGE_MAX:
            raise InvalidRequest("limit", limit, f"it must be from 1 to {EVENTS_PAGE_MAX}")
        log = self._w.log
        if cursor == "end":
            return EventPage((), f"e{int(log.seq)}")
        if not cursor:
            after: i64 = log.oldest() - 1
        elif cursor[0] == "e" and cursor[1:].isdecimal() and len(cursor) <= 20:
            number = int(cursor[1:])
            if number > EVENT_SEQ_MAX:
                raise InvalidRequest("cursor", cursor, "it must be a cursor that a page answered, empty, or end")
            after = number
        else:
            raise InvalidRequest("cursor", cursor, "it must be a cursor that a page answered, empty, or end")
        tenant = "" if ANY_TENANT in context.tenants else context.tenant
        found, upto = log.read(after, limit, tenant, EVENT_RUNS_PER_READ)
        return EventPage(tuple(found), f"e{upto}")

    def scan(self, context: Context, asked: Scan, now: Now) -> Scanned:
        self._end(self._begin(now))
        return scan(self._w, context, asked)

    def come_again(self, wait_ms: int, now: Now) -> None:
        """Somebody waits for events or items until then: let `tick` ask to be called."""
        w = self._w
        w.elapsed.add(Alarm(max(now.elapsed_ms, w.elapsed_ms) + wait_ms, WAIT, 0))

    def oldest_event(self) -> int:
        """The first that memory has, or the next one."""
        return int(self._w.log.oldest())

    def events_kept(self) -> int:
        """How many the store was asked to keep; 0 when nobody said."""
        kept = self._w.settings.changed.get("events_max", 0)
        return kept if isinstance(kept, int) else 0

    def last_event(self) -> int:
        return int(self._w.log.seq)

    def stream(self, context: Context, id: int, kind: int, offset: int, limit: int, now: Now) -> list[StreamItem]:
        self._end(self._begin(now))
        if kind != LOG and kind != EMIT:
            raise InvalidRequest("kind", kind, "it must be log or emit")
        if offset < 0 or not 0 < limit <= bound.BATCH_ITEMS_MAX:
            raise InvalidRequest(
                "offset", offset, f"it must not be negative, and limit from 1 to {bound.BATCH_ITEMS_MAX}"
            )
        side = self._visible(context, id).side
        if side is None:
            return []
        items = side.log if kind == LOG else side.stream
        if items is None:
            return []
        first = int(side.log_first) if kind == LOG else 0
        start = max(offset - first, 0)
        return items[start : start + limit]

    def has_ended(self, context: Context, id: int) -> bool:
        """For those who wait for more of its stream: there will be none."""
        return is_terminal(self._visible(context, id).state)

    def _visible(self, context: Context, id: int) -> Job:
        bound.job_id("id", id)
        job = self._w.index.get(id)
        if job is None or not self._w.is_visible(job, context.tenant, context.tenants):
            raise JobNotFound(id)
        return job

    def verify(self) -> list[str]:
        """Recompute every index, count and invariant; answers what is wrong."""
        return verify(self._w)
