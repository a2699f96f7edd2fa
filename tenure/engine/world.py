"""Everything the engine knows: the records of tenants, queues, limits, groups, leases and waits, and `World`, which
holds them all. Data and look-ups only; what changes them is in the modules named by verbs.
"""

from collections import OrderedDict, deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from tenure.core import bound
from tenure.core.answer import Outcome
from tenure.core.error import Overloaded
from tenure.core.job import Options
from tenure.core.limit import Bucket, Rate
from tenure.core.request import Batch, Change, Claim, Filter
from tenure.core.state import BLOCKED, CANCELLED, COMPLETED, FAILED, READY, RETRYING, RUNNING, SCHEDULED
from tenure.core.tenant import ANY_TENANT, OpId
from tenure.core.token import Mint
from tenure.engine.alarm import DEBOUNCE, HOLDOVER, WAIT, Alarm, Wheel
from tenure.engine.eventlog import EventLog
from tenure.engine.holders import Holders
from tenure.engine.index import Index, Outcomes
from tenure.engine.job import ASIDE, IdempotencyKey, Job, Spec
from tenure.engine.journal import Entity, Journal
from tenure.engine.keys import Keys
from tenure.engine.line import Line, Members, Order
from tenure.engine.staged import Share, Staged

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
KEEP_MIN_MS: Final = 60_000
SESSION_MS: Final = 120_000
SESSION_KEPT_MS: Final = DAY_MS
SESSION_OPS: Final = 1_024
WORKER_SILENT_MS: Final = 60_000
OUTCOMES_MAX: Final = 100_000_000
CUSTOM_OUTCOMES_MAX: Final = 1_000_000
LEFT_MAX: Final = 64  # entries of jobs that are not set aside any more
UNLIMITED: Final = -1
SPECS_MIN: Final = 256


class Settings:
    """Retention and quotas, for a queue, a tenant or the store. -1 is unset (retention) or unlimited (quotas)."""

    def __init__(self) -> None:
        self.jobs_max: i64 = UNLIMITED
        self.bytes_max: i64 = UNLIMITED
        self.keep_completed_ms: i64 = UNLIMITED
        self.keep_completed_count: i64 = UNLIMITED
        self.keep_failed_ms: i64 = UNLIMITED
        self.keep_failed_count: i64 = UNLIMITED
        self.changed: dict[str, object] = {}  # what was set, as it was said


class Group:
    """Jobs of one queue that run in the order of joining. `busy` slots are taken by running, kept or held-over jobs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members = Members()  # waiting, not in line
        self.busy: i64 = 0
        self.kept: list[int] = []  # members that keep their slot while they wait for another try
        self.standing: list[int] = []  # the member let out to the queue's line (or parked, or aside): the next to start
        self.next_joined: i64 = 1
        self.jobs: i64 = 0  # that joined and have not ended


@mypyc_attr(acyclic=True)
class Holdover(Alarm):
    """Slots of an attempt that was cancelled, discarded or timed out, until its worker confirms or the old deadline."""

    def __init__(self, due_ms: i64, id: i64, claim: i64, job: i64, queue: i64) -> None:
        super().__init__(due_ms, HOLDOVER, id)
        self.claim: i64 = claim
        self.job: i64 = job
        self.queue: i64 = queue
        self.limits: list[int] | None = None
        self.group = ""
        self.joined: i64 = 0  # when the job joined that group


class Aside:
    """Jobs of one task that a worker met and did not know, in order, until one that does comes."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.order = Order()
        self.since: list[tuple[int, Job]] = []  # when each was set aside, oldest first; some have left
        self.head: i64 = 0  # of `since`
        self.asked_at: i64 = 0
        self.in_ring: bool = False
        self.ring_turn: i64 = 0
        self.alarm: Alarm | None = None

    def push(self, job: Job, at_ms: i64) -> None:
        self.order.push(job)
        self.since.append((int(at_ms), job))
        if len(self.since) > 2 * self.order.size + LEFT_MAX:
            self.since = [entry for entry in self.since[self.head :] if is_aside_since(entry)]
            self.head = 0

    def oldest(self) -> tuple[int, Job]:
        while not is_aside_since(self.since[self.head]):
            self.head += 1
        return self.since[self.head]


def is_aside_since(entry: tuple[int, Job]) -> bool:
    side = entry[1].side
    return entry[1].place == ASIDE and side is not None and side.aside_at == entry[0]


class Ring:
    """Queues of one name (over all tenants) that have something to claim, in the order of their tenants' turns.

    Almost always a tenant joins at the end, so this is a list with a moving head; the few that join out of turn wait
    in a heap. An entry whose tenant has had a newer turn, or whose queue has nothing left, is put right when met.
    """

    def __init__(self, task: str) -> None:
        self.task = task  # "" for the main ring, else of the jobs set aside
        self.queues: list[int] = []
        self.turns: list[int] = []
        self.head: i64 = 0
        self.late: list[tuple[int, int]] = []
        self.valid: i64 = 0  # entries that count; the others are leftovers


class Lane:
    """All queues of one name, over the tenants, and who waits for them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ring = Ring("")
        self.aside_rings: dict[str, Ring] | None = None
        self.queues: i64 = 0
        self.waiting: i64 = 0
        # Waiting claims by the tasks they know, first come first; those of any tenant, and those of named ones.
        self.waiters: dict[frozenset[str] | None, OrderedDict[int, int]] = {}
        self.waiters_of: dict[str, dict[frozenset[str] | None, OrderedDict[int, int]]] = {}


@mypyc_attr(acyclic=True)
class Waiter(Alarm):
    """A claim that waits. Its id is its ticket; tickets rise, so the smallest came first."""

    def __init__(
        self,
        due_ms: i64,
        ticket: i64,
        claim: Claim,
        tenant: str,
        tenants: tuple[str, ...],
        connection: i64,
        principal: str,
        op: OpId | None,
    ) -> None:
        super().__init__(due_ms, WAIT, ticket)
        self.op = op
        self.claim = claim
        self.tenant = tenant
        self.tenants = tenants
        self.connection: i64 = connection
        self.principal = principal
        self.lanes: list[str] = []

    def scope(self) -> tuple[str, ...]:
        if not self.tenants:
            return (self.tenant,)
        return (ANY_TENANT,) if ANY_TENANT in self.tenants else self.tenants


@mypyc_attr(acyclic=True)
class Watch(Alarm):
    """Somebody waits for a job's end."""

    def __init__(self, due_ms: i64, ticket: i64, job: i64) -> None:
        super().__init__(due_ms, WAIT, ticket)
        self.job: i64 = job


@mypyc_attr(acyclic=True)
class Window(Alarm):
    """A debounce window. `first_at` is when it opened; a trailing one has no alarm, it ends with its job's run."""

    def __init__(self, due_ms: i64, id: i64, queue: i64, key: str, job: i64, first_at: i64, trailing: bool) -> None:
        super().__init__(due_ms, DEBOUNCE, id)
        self.queue: i64 = queue
        self.key = key
        self.job: i64 = job
        self.first_at: i64 = first_at
        self.trailing: bool = trailing


class Kept:
    """Ended jobs of one queue under one policy, oldest first. The policy's own numbers win over the queue's."""

    def __init__(self, number: i64, queue: i64, failed: bool, own_ms: i64, own_count: i64) -> None:
        self.number: i64 = number
        self.queue: i64 = queue
        self.failed: bool = failed
        self.own_ms: i64 = own_ms
        self.own_count: i64 = own_count
        self.line = Line()
        self.age_ms: i64 = 0
        self.count_max: i64 = 0
        self.alarm: Alarm | None = None
        self.in_heap: bool = False
        self.over: bool = False  # noted in World.over


def join_lane(lane: Lane, waiter: Waiter) -> None:
    if lane.name in waiter.lanes:
        return
    waiter.lanes.append(lane.name)
    lane.waiting += 1
    for name in waiter.scope():
        table = lane.waiters if name == ANY_TENANT else lane.waiters_of.get(name)
        if table is None:
            table = {}
            lane.waiters_of[name] = table
        waiting = table.get(waiter.claim.tasks)
        if waiting is None:
            waiting = OrderedDict()
            table[waiter.claim.tasks] = waiting
        waiting[int(waiter.id)] = 1


class Rotation:
    """Whose turn it is among a claim's queues, within one tenant."""

    def __init__(self) -> None:
        self.at: i64 = 0
        self.credit: i64 = 0


class Queue:
    def __init__(self, number: i64, name: str, tenant: i64, tenant_name: str, lane: Lane) -> None:
        self.number: i64 = number
        self.name = name
        self.tenant: i64 = tenant
        self.tenant_name = tenant_name
        self.lane = lane
        self.order = Order()
        # Its tenant's turn among the queues of this name, jobs left in it, and how many rings it stands in.
        self.turn: i64 = 0
        self.credit: i64 = 0
        self.rings: i64 = 0
        self.left_at: i64 = -1  # the step in which it last left one
        self.in_ring: bool = False
        self.ring_turn: i64 = 0
        self.held: bool = False  # among its tenant's held_queues
        self.asides: dict[str, Aside] | None = None
        self.groups: dict[str, Group] | None = None
        self.specs: dict[tuple[object, ...], Spec] = {}
        self.specs_max: i64 = SPECS_MIN  # when there are so many, those without jobs are forgotten
        self.specs_seen: dict[Options, Spec] | None = None
        self.kepts: list[int] = []
        self.unique: Keys | None = None
        # Idempotency keys by task: of jobs, and of jobs that are gone.
        self.holders: dict[str, Holders] | None = None
        self.left_keys: dict[str, dict[str, IdempotencyKey]] | None = None
        self.windows: dict[str, Window] | None = None
        # Settings.
        self.settings: Settings | None = None
        self.paused: bool = False
        self.concurrency: i64 = UNLIMITED
        self.bucket: Bucket | None = None
        self.alarm: Alarm | None = None  # for the bucket
        self.enqueue_bucket: Bucket | None = None
        self.group_concurrency: i64 = 1
        self.group_relaxed: bool = False
        self.age_ms: i64 = 0
        self.lease_ms: i64 = 0
        self.forget: Alarm | None = None
        self.parked: i64 = 0  # jobs that wait for a limit key
        # Counts.
        self.scheduled: i64 = 0
        self.blocked: i64 = 0
        self.ready: i64 = 0
        self.running: i64 = 0
        self.held_over: i64 = 0  # cancelled attempts that still count against concurrency
        self.retrying: i64 = 0
        self.completed: i64 = 0
        self.failed: i64 = 0
        self.cancelled: i64 = 0
        self.bytes: i64 = 0  # payloads of live jobs, blobs included

    def live(self) -> i64:
        return self.scheduled + self.blocked + self.ready + self.running + self.retrying

    def count(self, state: i64, by: i64) -> None:
        if state == READY:
            self.ready += by
        elif state == RUNNING:
            self.running += by
        elif state == COMPLETED:
            self.completed += by
        elif state == SCHEDULED:
            self.scheduled += by
        elif state == RETRYING:
            self.retrying += by
        elif state == BLOCKED:
            self.blocked += by
        elif state == FAILED:
            self.failed += by
        else:
            assert state == CANCELLED
            self.cancelled += by


class Limit:
    """One limit key: its slots, its bucket, and the jobs that wait for it, per queue in queue order."""

    def __init__(self, number: i64, key: str, tenant: i64) -> None:
        self.number: i64 = number
        self.key = key
        self.tenant: i64 = tenant  # -1 when shared by all
        self.concurrency: i64 = UNLIMITED
        self.bucket: Bucket | None = None
        self.paused_until: i64 = 0  # elapsed; by a handler
        self.settings_until: i64 = 0  # elapsed; by settings of a prefix
        self.pauses: dict[int, int] | None = None  # of a shared key: until when (elapsed) it is paused for one tenant
        self.running: i64 = 0
        self.parked: dict[int, Order] | None = None
        self.candidates: dict[int, int] | None = None  # per queue: jobs put back into line because of a free slot
        self.passed: dict[int, int] | None = None  # of those, how many stand behind one that was parked since
        self.alarm: Alarm | None = None
        self.version: i64 = -1  # of the settings it was made from

    def is_parking(self) -> bool:
        return self.parked is not None and len(self.parked) > 0

    def alarm_due(self) -> i64:
        return self.alarm.due_ms if self.alarm is not None and self.alarm.live else 0


class LimitSettings:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.rate: Rate | None = None
        self.concurrency: i64 = UNLIMITED
        self.shared: bool = False
        self.paused_until: i64 = 0
        self.changed: dict[str, object] = {}

    def only_pauses(self) -> bool:
        return len(self.changed) == 1 and "paused_ms" in self.changed


class Tenant:
    def __init__(self, number: i64, name: str) -> None:
        self.number: i64 = number
        self.name = name
        self.queues: dict[str, int] = {}
        # The last options seen, so that jobs with the same find their spec by identity.
        self.seen_options: Options | None = None
        self.seen_spec: Spec | None = None
        self.custom_ids: Keys | None = None
        self.custom_outcomes: OrderedDict[str, tuple[int, int, int, str]] | None = None  # id, state, until, queue
        self.limits: dict[str, int] | None = None
        self.limit_settings: dict[str, LimitSettings] | None = None
        self.rotations: dict[tuple[object, ...], Rotation] | None = None
        # Fairness.
        self.weight: i64 = 1
        # Settings.
        self.settings: Settings | None = None
        self.queues_max: i64 = bound.QUEUES_PER_TENANT_MAX
        self.workers_max: i64 = bound.WORKERS_PER_TENANT_MAX
        self.worker_bytes_max: i64 = bound.WORKER_BYTES_PER_TENANT
        self.running_max: i64 = UNLIMITED
        self.bucket: Bucket | None = None
        self.enqueue_bucket: Bucket | None = None
        self.alarm: Alarm | None = None
        self.held_queues: list[int] | None = None  # out of their rings because of this tenant's limits
        # Counts.
        self.jobs: i64 = 0  # live
        self.bytes: i64 = 0  # of their payloads, blobs included
        self.running: i64 = 0
        self.held_over: i64 = 0


class Remembered:
    """What it takes to answer an operation again, in few bytes. Of a claim that is its token and its ids: the rest is
    read from the jobs that are still leased."""

    def __init__(self, verb: str, at_ms: i64, ids: bytes, token: bytes) -> None:
        self.verb = verb
        self.at_ms: i64 = at_ms  # elapsed
        self.ids = ids  # see engine.session.pack_ids
        self.token = token  # empty but for claims
        self.state: i64 = -1
        self.other: dict[int, Outcome] | None = None
        self.count: i64 = 0
        self.ticket: i64 = 0  # of a sweep that goes on


class Session:
    """The last operations of one client, by counter."""

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.newest: i64 = 0
        self.forgotten: i64 = 0  # the newest counter whose answer is not remembered any more
        self.answers: OrderedDict[int, Remembered] = OrderedDict()
        self.last_at: i64 = 0


class Worker:
    def __init__(self, tenant: str, name: str, at: i64, alarm: Alarm) -> None:
        self.tenant = tenant
        self.tenants: tuple[str, ...] = (tenant,)  # that it may claim from
        self.name = name
        self.version = ""
        self.tasks: tuple[str, ...] = ()
        self.published = ""  # of the tasks: options and schemas, as the worker wrote them
        self.stop = False  # somebody asked it to
        self.joined_at: i64 = at
        self.seen_at: i64 = at
        self.seen_elapsed: i64 = 0
        self.alarm = alarm  # it keeps its id when it is set anew


class Roster:
    """The workers of one tenant."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.said: dict[tuple[tuple[str, ...], str], int] = {}  # tasks and what is published of them, by how many
        self.bytes: i64 = 0


# Work that a step owes and later steps do, 1,000 jobs at a time.
OWED_DEPENDENTS: Final = 0
OWED_UNPIN: Final = 1
OWED_SWEEP: Final = 2
OWED_TOP_UP: Final = 3
OWED_PUBLISH: Final = 4
OWED_ASIDE: Final = 5
OWED_KEPT: Final = 6
OWED_CAP: Final = 7


class Owed:
    def __init__(self, kind: i64, id: i64) -> None:
        self.kind: i64 = kind
        self.id: i64 = id
        self.state: i64 = 0  # how the dependency ended
        self.ids: list[int] = []
        self.at: i64 = 0
        self.filter: Filter | None = None
        self.change: Change | None = None
        self.tenant: str = ""
        self.upto: i64 = 0
        self.count: i64 = 0
        self.batches: list[Batch] = []
        self.next_elapsed: i64 = 0  # a slowed sweep waits until then
        self.noted: tuple[Remembered, Entity] | None = None  # what a repeat of the sweep's request is answered


NO_LANE: Final = Lane("")
NO_QUEUE: Final = Queue(-1, "", -1, "", NO_LANE)


class World:
    def __init__(self, secret: bytes, epoch: int, wall_ms: i64, elapsed_ms: i64) -> None:
        # Time, see `engine.clock`.
        self.wall_ms: i64 = wall_ms
        self.at_ms: i64 = wall_ms  # of events and of what happens to jobs: the wall's, but it never falls
        self.elapsed_ms: i64 = elapsed_ms
        self.left_out_ms: i64 = 0  # of the elapsed time, since the store was made
        self.served_ms: i64 = elapsed_ms  # elapsed less left out
        self.gaps: list[tuple[int, int]] = []  # where time was left out last: the served time before and after
        # Durations that are shown as times are kept on a clock that runs like elapsed time and began with the wall.
        self.steady_from: i64 = wall_ms - elapsed_ms
        self.steady_ms: i64 = wall_ms
        self.shift_ms: i64 = 0  # by which the wall is ahead of it, to within a second
        self.stepped_ms: i64 = 0  # by how much the wall clock was set last, and when, in elapsed time
        self.stepped_at: i64 = 0
        self.mint = Mint(secret, epoch)
        self.index = Index()
        self.outcomes = Outcomes(DAY_MS, OUTCOMES_MAX)
        self.outcomes_alarm: Alarm | None = None
        self.wall = Wheel()
        self.elapsed = Wheel()
        self.served = Wheel()
        self.journal = Journal()
        self.log = EventLog(bound.EVENTS_MAX, self.journal)
        # Tenants, queues and limits by number; numbers of forgotten queues and limits are used again.
        self.tenants: list[Tenant] = []
        self.tenant_numbers: dict[str, int] = {}
        self.queues: list[Queue] = []
        self.queues_free: list[int] = []
        self.lanes: dict[str, Lane] = {}
        self.prefixes: dict[str, list[Lane]] = {}
        self.limits: dict[int, Limit] = {}
        self.limits_shared: dict[str, int] = {}
        self.limit_settings_shared: dict[str, LimitSettings] = {}
        self.limits_version: i64 = 0
        self.limits_given: i64 = 0
        self.kepts: list[Kept] = []
        self.kepts_free: list[int] = []
        self.kept_heap: list[tuple[int, int, int]] = []  # of each line's first: when it ended, its number, the line
        self.is_heap_stale: bool = False  # a job came in front of a line
        # Numbers given.
        self.last_id: i64 = 0
        self.last_claim: i64 = 0
        self.last_ticket: i64 = 0
        self.step: i64 = 0
        self.last_turn: i64 = 0
        self.last_alarm: i64 = 0  # ids of alarms that have no natural one
        self.number_high: i64 = 0
        self.number_low: i64 = 0
        self.last_ended: i64 = 0
        # Store settings and counts.
        self.settings = Settings()
        self.payload_bytes_max: i64 = bound.PAYLOAD_BYTES_DEFAULT
        self.blob_bytes_max: i64 = 0  # 0: there is no blob store
        self.terminal_jobs_max: i64 = 1_000_000
        self.terminal_bytes_max: i64 = 1024 * bound.MIB
        self.jobs: i64 = 0  # live
        self.bytes: i64 = 0  # of their payloads, in memory
        self.staged_jobs: i64 = 0
        self.kept: dict[tuple[str, str], Share] = {}  # by tenant and queue, for what is staged; "" is all its queues
        self.kept_held: i64 = 0  # bytes in memory, of all of them
        self.loaded_ms: i64 = 0  # when a load last grew or was let in, of the elapsed time
        self.terminal_jobs: i64 = 0
        self.terminal_bytes: i64 = 0
        self.settings.jobs_max = bound.LIVE_JOBS_MAX
        # Waits, holdovers, sessions, workers, loads.
        self.waiters: dict[int, Waiter] = {}
        self.waiting_ops: dict[tuple[str, str, int], int] = {}  # tenant, session and counter to ticket
        self.prefix_waiters: dict[str, OrderedDict[int, int]] = {}
        self.watches: dict[int, Watch] = {}
        self.holdovers: dict[tuple[int, int], Holdover] = {}
        self.sessions: dict[str, dict[str, Session]] = {}  # by tenant and name, the oldest first
        self.sessions_max: i64 = 1_000_000
        self.sessions_per_tenant_max: i64 = 100_000
        self.session_names: dict[int, str] = {}
        self.rosters: dict[str, Roster] = {}  # workers by tenant
        self.workers: dict[int, Worker] = {}  # all of them, by the id of their alarm
        self.serving: dict[int, Worker] = {}  # those that serve other tenants than their own
        self.worker_bytes: i64 = 0
        self.workers_max: i64 = bound.WORKERS_MAX
        self.worker_bytes_max: i64 = bound.WORKER_BYTES_IN_ALL
        self.loads: dict[tuple[str, str], Staged] = {}
        self.load_names: dict[int, tuple[str, str]] = {}
        self.spent_loads: list[Staged] = []  # all let in; the journal quotes their chunks
        # What this step leaves behind.
        self.owed: deque[Owed] = deque()
        self.changed_limits: list[int] = []
        self.ended: i64 = 0  # jobs that ended in this step
        self.leaving: list[int] = []  # of those, the ones that are not kept at all
        self.over: list[int] = []  # lines of ended jobs that are longer than their policy
        self.dirty: list[int] = []  # queues that became claimable while somebody waits
        self.outbox: list[tuple[int, object]] = []
        # Holders of blobs by name, and names whose last holder went; see engine.blob.
        self.blobs: dict[str, int] = {}
        self.blobs_dropped: list[str] = []

    def find(self, id: int) -> Job | None:
        """The job with this id; any number may be asked for."""
        return self.index.get(id) if 0 < id <= bound.ID_MAX else None

    def queue_of(self, job: Job) -> Queue:
        return self.queues[job.spec.queue]

    def tenant_of(self, job: Job) -> Tenant:
        return self.tenants[job.spec.tenant]

    def tenant(self, name: str) -> Tenant:
        number = self.tenant_numbers.get(name)
        if number is None:
            bound.tenant_name("tenant", name)
            number = len(self.tenants)
            self.tenants.append(Tenant(number, name))
            self.tenant_numbers[name] = number
        return self.tenants[number]

    def find_queue(self, tenant: str, name: str) -> Queue | None:
        number = self.tenant_numbers.get(tenant)
        if number is None:
            return None
        queue = self.tenants[number].queues.get(name)
        return None if queue is None else self.queues[queue]

    def queue(self, tenant: Tenant, name: str) -> Queue:
        number = tenant.queues.get(name)
        if number is not None:
            return self.queues[number]
        if len(tenant.queues) >= tenant.queues_max:
            raise Overloaded(f"the tenant's set of queues ({tenant.queues_max})", HOUR_MS)
        lane = self.lane(name)
        lane.queues += 1
        if self.queues_free:
            number = self.queues_free.pop()
            self.queues[number] = Queue(number, name, tenant.number, tenant.name, lane)
        else:
            number = len(self.queues)
            self.queues.append(Queue(number, name, tenant.number, tenant.name, lane))
        tenant.queues[name] = number
        return self.queues[number]

    def lane(self, name: str) -> Lane:
        lane = self.lanes.get(name)
        if lane is None:
            lane = Lane(name)
            self.lanes[name] = lane
            for prefix, lanes in self.prefixes.items():
                if name.startswith(prefix):
                    lanes.append(lane)
            for prefix, tickets in self.prefix_waiters.items():
                if name.startswith(prefix):
                    for ticket in tickets:
                        join_lane(lane, self.waiters[ticket])
        return lane

    def lanes_of(self, pattern: str) -> list[Lane]:
        """The lanes a claim's entry stands for: one by name, or all with the prefix."""
        if not pattern.endswith("*"):
            lane = self.lanes.get(pattern)
            return [] if lane is None else [lane]
        prefix = pattern[:-1]
        lanes = self.prefixes.get(prefix)
        if lanes is None:
            if len(self.prefixes) >= 1000:
                del self.prefixes[next(iter(self.prefixes))]
            lanes = [self.lanes[name] for name in sorted(self.lanes) if name.startswith(prefix)]
            self.prefixes[prefix] = lanes
        return lanes

    def spec(self, tenant_name: str, options: Options) -> Spec:
        """The shared record of these options in this tenant; makes tenant and queue by first use."""
        tenant = self.tenant(tenant_name)
        if options is tenant.seen_options and tenant.seen_spec is not None:
            return tenant.seen_spec
        queue = self.queue(tenant, options.queue)
        seen = queue.specs_seen
        spec = None if seen is None else seen.get(options)
        if spec is None:
            key = options.key()
            spec = queue.specs.get(key)
            if spec is None:
                if len(queue.specs) >= queue.specs_max:
                    self._forget_specs(queue)
                spec = Spec(options, tenant.number, tenant.name, queue.number)
                queue.specs[key] = spec
            if tenant.seen_spec is not None:
                # A second set of options: from now on remember which is which.
                if seen is None or len(seen) >= 256:
                    seen = {}
                    queue.specs_seen = seen
                seen[options] = spec
        tenant.seen_options = options
        tenant.seen_spec = spec
        return spec

    def _forget_specs(self, queue: Queue) -> None:
        for key in [key for key, spec in queue.specs.items() if spec.jobs == 0]:
            del queue.specs[key]
        queue.specs_max = max(2 * len(queue.specs), SPECS_MIN)
        queue.specs_seen = None
        self.tenants[queue.tenant].seen_spec = None

    def is_visible(self, job: Job, tenant: str, tenants: tuple[str, ...]) -> bool:
        owner = job.spec.tenant_name
        if not tenants:
            return owner == tenant
        return "*" in tenants or owner in tenants

    def next_alarm_id(self) -> i64:
        self.last_alarm += 1
        return self.last_alarm
