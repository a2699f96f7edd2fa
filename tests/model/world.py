"""What the model knows, in plain lists and dicts.

Nothing is indexed and nothing is counted ahead of time: whatever a rule needs is looked for by going over all jobs. It
is slow and easy to check against `docs/semantics.md`, and that is all it is for.

A `World` is told the time, changes through `move` alone, and notes every transition as a `Seen`, which is what the
engine's event of the same transition must say.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tenure.core import bound, state
from tenure.core.clock import Now
from tenure.core.job import UNSET, Extras, Options
from tenure.core.limit import Rate
from tenure.core.record import StreamItem
from tenure.core.request import Claim
from tenure.core.state import NEW
from tenure.core.tenant import ANY_TENANT, Context

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
LEASE_LEAST_MS: Final = 30_000

QUEUE_DEFAULTS: Final[dict[str, object]] = {
    "paused": False,
    "rate": None,
    "concurrency": None,
    "enqueue_rate": None,
    "group_concurrency": 1,
    "group_order": "strict",
    "age_ms": 0,
    "lease_ms": 0,
    "jobs_max": None,
    "bytes_max": None,
}
KEY_DEFAULTS: Final[dict[str, object]] = {"rate": None, "concurrency": None, "shared": False}
TENANT_DEFAULTS: Final[dict[str, object]] = {
    "weight": 1,
    "jobs_max": None,
    "bytes_max": None,
    "running_max": None,
    "rate": None,
    "enqueue_rate": None,
    "queues_max": bound.QUEUES_PER_TENANT_MAX,
}
STORE_DEFAULTS: Final[dict[str, object]] = {
    "jobs_max": bound.LIVE_JOBS_MAX,
    "bytes_max": None,
    "payload_bytes_max": bound.PAYLOAD_BYTES_DEFAULT,
    "terminal_jobs_max": 1_000_000,
    "keep_completed_ms": DAY_MS,
    "keep_completed_count": 10_000,
    "keep_failed_ms": 30 * DAY_MS,
    "keep_failed_count": 1 << 60,
}


class Seen(NamedTuple):
    """One transition, as its event must tell it."""

    job: int
    job_seq: int
    type: str
    state: str
    cause: str
    reason: str


@dataclass
class Lease:
    token: bytes
    worker: str
    connection: int
    principal: str
    length_ms: int
    deadline: int  # served
    timeout_at: int | None  # served
    order: int  # of the claims and renewals that set deadlines


@dataclass
class Settlement:
    """How the last lease that is over ended: by which word (`core.state.SETTLE_*`), and what was answered."""

    token: bytes
    verb: int
    state: int
    run_at: int


@dataclass
class Holdover:
    """Slots of an attempt that was taken away, until its worker confirms or its old deadline is there."""

    job: "Job"
    token: bytes
    deadline: int  # served
    joined: int | None  # when the job had joined its group


@dataclass(eq=False)
class Job:
    id: int
    tenant: str
    options: Options
    extras: Extras
    payload: bytes
    priority: int
    created_at: int
    run_at: int  # wall; of one that is delayed: elapsed
    expires_at: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    state: int = NEW
    job_seq: int = 0
    attempt: int = 0
    delivery: int = 0
    snoozes: int = 0
    replays: int = 0
    number: int = 0  # its ready number
    ready_at: int = 0
    is_delayed: bool = False
    heard: dict[int, int] = field(default_factory=dict)  # how its dependencies ended, as far as they did
    joined: int | None = None  # when it joined its group
    keeps_slot: bool = False  # of its group, until it runs again
    started_at: int = 0
    ended_at: int = 0
    ended_elapsed: int = 0
    ended_order: int = 0
    removed_elapsed: int = 0
    is_doomed: bool = False  # somebody asked for its removal while it was still needed
    lease: Lease | None = None
    last: Settlement | None = None  # how the last lease that is over ended
    tokens: list[bytes] = field(default_factory=list)  # of all its leases
    last_connection: int = 0  # of whoever claimed it last
    last_principal: str = ""
    was_lost: bool = False  # a lease before the last one ended without its holder's word
    worker: str = ""
    result: bytes | None = None
    reason: str = ""
    error: tuple[str, str] | None = None  # type and message of the last failure
    progress: tuple[int, str, int] | None = None  # percent, message, elapsed
    log: list[StreamItem] = field(default_factory=list)
    stream: list[StreamItem] = field(default_factory=list)
    opened_at: int = 0  # its debounce window
    aside_from: int | None = None  # it may be set aside since (elapsed)
    aside_sure: int | None = None  # it is set aside since (elapsed)
    asked_at: int = 0  # a worker that knows its task last asked (elapsed)

    @property
    def queue(self) -> str:
        return self.options.queue

    @property
    def task(self) -> str:
        return self.options.task

    @property
    def group(self) -> tuple[str, str, str] | None:
        return (self.tenant, self.queue, self.extras.group) if self.extras.group else None

    @property
    def is_live(self) -> bool:
        return self.state in state.LIVE

    @property
    def is_terminal(self) -> bool:
        return self.state in state.TERMINAL


@dataclass
class Waiter:
    """A claim that found nothing and waits."""

    ticket: int
    context: Context
    claim: Claim
    until: int  # elapsed


@dataclass
class Watch:
    ticket: int
    job: int
    until: int  # elapsed


class Bucket:
    """A token bucket in fractions of a token, kept as whole numbers of 1/period."""

    def __init__(self, rate: Rate, at: int) -> None:
        self.rate = rate
        self.level = rate.burst * rate.period_ms
        self.at = at

    def refill(self, now: int) -> None:
        self.level = min(self.rate.burst * self.rate.period_ms, self.level + (now - self.at) * self.rate.tokens)
        self.at = now

    def has_token(self, now: int) -> bool:
        self.refill(now)
        return self.level >= self.rate.period_ms

    def take(self) -> None:
        self.level -= self.rate.period_ms

    def change(self, rate: Rate, now: int) -> None:
        """What was taken stays taken."""
        self.refill(now)
        missing = (self.rate.burst * self.rate.period_ms - self.level) // self.rate.period_ms
        self.rate = rate
        self.level = max(rate.burst - missing, 0) * rate.period_ms


class World:
    def __init__(self, now: Now) -> None:
        self.wall = int(now.wall_ms)
        self.at = self.wall  # as the wall, but it never falls
        self.elapsed = int(now.elapsed_ms)
        self.served = self.elapsed  # without the time in which the owner did not run
        self.left_out = 0
        self.longer: list[tuple[int, int]] = []  # leases that got time because the owner had not run: job, deadline
        self.offset = self.wall - self.elapsed  # of the wall from elapsed time; it follows steps of over a second
        self.jobs: dict[int, Job] = {}
        self.graves: dict[int, Job] = {}  # removed, in the state they were last in
        self.ended: list[tuple[Job, int]] = []  # in this step, and how; their dependents do not know yet
        self.holdovers: list[Holdover] = []
        self.waiters: list[Waiter] = []
        self.watches: list[Watch] = []
        self.queues: dict[tuple[str, str], dict[str, object]] = {}
        self.keys: dict[tuple[str, str], dict[str, object]] = {}
        self.pauses: dict[tuple[str, str, bool], int] = {}  # (tenant, key or prefix, is prefix) -> until (elapsed)
        self.tenants: dict[str, dict[str, object]] = {}
        self.store: dict[str, object] = {}
        self.buckets: dict[tuple[str, ...], Bucket] = {}
        self.seen: list[Seen] = []
        self.seen_queues: set[tuple[str, str]] = set()
        self.answers: list[tuple[int, object]] = []  # to watches, in order
        self.last_id = 0
        self.number_high = 0
        self.number_low = 0
        self.last_joined = 0
        self.last_lease = 0
        self.last_ended = 0
        self.turns: list[str] = []  # tenants with claimable jobs, the next one first
        self.credit: dict[str, int] = {}
        self.standing: dict[tuple[str, str], None] = {}  # queues (of a tenant) with something to claim
        self.stays: dict[tuple[str, str], int] = {}  # how often each came to have something

    def advance(self, now: Now) -> None:
        self.wall = int(now.wall_ms)
        self.at = max(self.at, self.wall)
        self.elapsed = int(now.elapsed_ms)
        if abs(self.wall - self.elapsed - self.offset) > 1_000:
            self.offset = self.wall - self.elapsed
        served = self.elapsed - int(now.left_out_ms)
        if self.left_out != now.left_out_ms:
            self.left_out = int(now.left_out_ms)
            self.longer += self.give_time(self.served, served)
        self.served = served

    def give_time(self, before: int, after: int) -> list[tuple[int, int]]:
        """Nobody could renew: leases that were alive have some time left. Answers those that got some."""
        longer: list[tuple[int, int]] = []
        for job in self.in_state(state.RUNNING):
            assert job.lease is not None
            least = after + min(job.lease.length_ms, LEASE_LEAST_MS)
            if before < job.lease.deadline < least:
                job.lease.deadline = least
                longer.append((job.id, least))
        return longer

    def show(self, elapsed: int) -> int:
        """As the wall clock would say."""
        return elapsed + self.offset

    def shown_run_at(self, job: Job) -> int:
        return self.show(job.run_at) if job.is_delayed else job.run_at

    def shown_deadline(self, lease: Lease) -> int:
        return self.show(lease.deadline + self.left_out)

    def overdue(self, job: Job) -> int:
        """By how much the job's time to run has come; negative before."""
        return (self.elapsed if job.is_delayed else self.wall) - job.run_at

    def run_after(self, job: Job, delay_ms: int) -> None:
        job.is_delayed = delay_ms > 0
        job.run_at = self.elapsed + delay_ms if delay_ms else self.wall

    def copy(self) -> "World":
        """Jobs and settings anew; requests and values, which nobody changes, are shared."""
        return copy.deepcopy(self, {id(value): value for value in self.values()})

    def values(self) -> Iterator[object]:
        for job in (*self.jobs.values(), *self.graves.values()):
            yield from (job.options, job.extras)
        for waiter in self.waiters:
            yield from (waiter.context, waiter.claim)
        for settings in (*self.queues.values(), *self.keys.values(), *self.tenants.values(), self.store):
            yield from (value for value in settings.values() if isinstance(value, Rate))
        yield from (bucket.rate for bucket in self.buckets.values())

    def restore(self, before: "World") -> None:
        """Back to a copy made before. Jobs are other objects afterwards."""
        self.__dict__.update(before.__dict__)

    def move(self, job: Job, cause: int, after: int, type: str, reason: str = "") -> None:
        """The one way in which a job changes its state."""
        assert state.allows(cause, job.state, after), (job.id, state.CAUSE_NAMES[cause], job.state, after)
        job.state = after
        self.note(job, type, cause, reason)

    def note(self, job: Job, type: str, cause: int, reason: str = "") -> None:
        job.job_seq += 1
        name = state.STATE_NAMES[job.state] if job.state < NEW else ""
        self.seen.append(Seen(job.id, job.job_seq, type, name, state.CAUSE_NAMES[cause], reason))

    def live(self) -> Iterator[Job]:
        return (job for job in self.jobs.values() if job.is_live)

    def in_state(self, *states: int) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in states]

    def visible(self, context: Context, id: object) -> Job | None:
        job = self.jobs.get(id) if isinstance(id, int) else None
        return job if job is not None and sees(context, job.tenant) else None

    def dependents(self, id: int) -> list[Job]:
        return [job for job in self.live() if id in job.extras.depends_on]

    def outcome(self, tenant: str, id: int) -> int | None:
        """The state of a job of the tenant, or of one removed less than a day ago; None when there is no such."""
        job = self.jobs.get(id)
        if job is not None:
            return job.state if job.tenant == tenant else None
        grave = self.graves.get(id)
        if grave is None or grave.tenant != tenant or grave.removed_elapsed + DAY_MS <= self.elapsed:
            return None
        return grave.state

    # Settings.

    def of_queue(self, tenant: str, queue: str, name: str) -> object:
        return self.queues.get((tenant, queue), {}).get(name, QUEUE_DEFAULTS.get(name))

    def of_tenant(self, tenant: str, name: str) -> object:
        return self.tenants.get(tenant, {}).get(name, TENANT_DEFAULTS.get(name))

    def of_store(self, name: str) -> object:
        return self.store.get(name, STORE_DEFAULTS.get(name))

    def of_key(self, tenant: str, key: str) -> tuple[str, dict[str, object]] | None:
        """The owner ("" when shared) and the settings of a limit key: by the longest configured prefix."""
        found: tuple[str, dict[str, object]] | None = None
        longest = -1
        for (owner, prefix), settings in self.keys.items():
            if owner in (tenant, "") and key.startswith(prefix) and len(prefix) > longest:
                longest = len(prefix)
                found = (owner, settings)
        return found

    def keep(self, job: Job) -> tuple[int, int]:
        """For how long, and how many, ended jobs like this one are kept: job, queue, tenant, store, in this order."""
        kind = "failed" if job.state == state.FAILED else "completed"
        return self._keep(job, f"keep_{kind}_ms"), self._keep(job, f"keep_{kind}_count")

    def _keep(self, job: Job, name: str) -> int:
        own = getattr(job.options, name)
        if own != UNSET:
            return int(own)
        for found in (self.of_queue(job.tenant, job.queue, name), self.of_tenant(job.tenant, name)):
            if isinstance(found, int):
                return found
        found = self.of_store(name)
        assert isinstance(found, int)
        return found


def sees(context: Context, tenant: str) -> bool:
    if not context.tenants:
        return tenant == context.tenant
    return ANY_TENANT in context.tenants or tenant in context.tenants
