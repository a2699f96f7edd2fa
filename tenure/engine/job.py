"""The engine's mutable records of a job and its lease. Plain typed classes: compiled, an attribute is one load.

These classes are outside the cyclic collector (`acyclic`), so they must not reach themselves: queues, tenants, limits
and groups are referred to by number or name. What a job *holds* (slots, a place in a group, keys) is written down where
it is taken; nothing is inferred from the state.
"""

from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from tenure.core.blob import Blob
from tenure.core.job import Extras, Options
from tenure.core.record import Ended, Failed, Progress, StreamItem
from tenure.engine.alarm import IDEMPOTENCY, LEASE, Alarm

# Where a job stands: which structure has to be told when it leaves.
NOWHERE: Final = 0  # blocked, running or terminal
LINE: Final = 1  # in its queue's order
ASIDE: Final = 2  # in its queue's order for one task
PARKED: Final = 3  # waits for a limit key
MEMBER: Final = 4  # waits in its group
TIMED: Final = 5  # an alarm will make it ready
BUNDLED: Final = 6  # of a stand-in for jobs in line that nobody has looked at, see engine.bundle

NO_IDS: Final[list[int]] = []  # of leases that need no list; never appended to

PLACE_NAMES: Final = ("nowhere", "line", "aside", "parked", "member", "timed")


class Spec:
    """The options that jobs of one tenant share, with what the engine looked up for them once."""

    def __init__(self, options: Options, tenant: int, tenant_name: str, queue: int) -> None:
        self.options = options
        self.tenant: i64 = tenant
        self.tenant_name = tenant_name
        self.queue: i64 = queue
        self.rank: i64 = -options.priority
        self.deliveries_max: i64 = options.max_attempts + 50 if options.max_attempts else 0
        self.attempts_max: i64 = options.max_attempts
        self.head = b""  # of its events, see engine.eventlog
        self.fact = b""  # see engine.specs
        # Jobs with these options that are in the index; at 0 the spec may be forgotten.
        self.jobs: i64 = 0
        # Where its jobs end up when they complete and when they fail, -1 until first needed.
        self.kept_done: i64 = -1
        self.kept_failed: i64 = -1


@mypyc_attr(acyclic=True)
class Lease(Alarm):
    """One per claim and lease length, shared by its jobs. An extension moves jobs to a new one with the same token."""

    def __init__(
        self, due_ms: i64, id: i64, token: bytes, worker: str, length_ms: i64, connection: i64, principal: str = ""
    ) -> None:
        super().__init__(due_ms, LEASE, id)
        self.token = token
        self.worker = worker
        self.length_ms: i64 = length_ms
        self.connection: i64 = connection
        self.principal = principal  # who claimed it; empty when nobody said
        self.count: i64 = 0  # jobs that run under it
        # All jobs it was given, ended ones included until there are too many of them. The only one has no list: leases
        # of one job are many, and each list is an object for the collector.
        self.lone: i64 = 0
        self.ids: list[int] = NO_IDS

    def add(self, id: int) -> None:
        """One more job runs under it."""
        self.count += 1
        if self.ids is not NO_IDS:
            self.ids.append(id)
        elif self.lone == 0:
            self.lone = id
        else:
            self.ids = [int(self.lone), id]
            self.lone = 0

    def listed(self) -> list[int]:
        """Its jobs as a list of its own, to be read and shortened."""
        if self.lone:
            self.ids = [int(self.lone)]
            self.lone = 0
        return self.ids

    def has(self, id: i64) -> bool:
        return self.lone == id or int(id) in self.ids

    def clear(self) -> None:
        self.lone = 0
        self.ids = NO_IDS


@mypyc_attr(acyclic=True)
class IdempotencyKey(Alarm):
    """The key of a job that is gone, until its time is over; see `engine.idempotency`."""

    def __init__(self, due_ms: i64, id: i64, queue: i64, task: str, key: str, job: i64) -> None:
        super().__init__(due_ms, IDEMPOTENCY, id)
        self.queue: i64 = queue
        self.task = task
        self.key = key
        self.job: i64 = job


@mypyc_attr(acyclic=True)
class Side:
    """What most jobs do not have."""

    def __init__(self, extras: Extras | None) -> None:
        self.extras = extras
        self.expires_at: i64 = 0
        self.expiry: Alarm | None = None
        # Retry and outcome.
        self.error: Failed | None = None
        self.reason: str = ""
        self.history: list[Ended] | None = None
        self.result: bytes | None = None
        # In the blob store instead of here: then `job.payload` and `result` are empty.
        self.payload_blob: Blob | None = None
        self.result_blob: Blob | None = None
        self.snoozes: i64 = 0
        self.replays: i64 = 0
        # The last settlement and its answer, for a repeat: also after the job was leased again.
        self.answer_run_at: i64 = 0
        self.answer_state: i64 = 0
        self.settled_token: bytes = b""
        self.settled_verb: i64 = 0
        # An earlier lease was not ended by its holder's own settlement: its handler may still run, and settle late.
        self.lease_lost: bool = False
        # Output.
        self.progress: Progress | None = None
        self.log: list[StreamItem] | None = None
        self.log_first: i64 = 0
        self.stream: list[StreamItem] | None = None
        self.stream_bytes: i64 = 0
        # Dependencies: counts of this job's, and who waits for this job.
        self.pending: i64 = 0
        self.succeeded: i64 = 0
        self.failed: i64 = 0
        self.dependents: list[int] | None = None
        self.pins: i64 = 0  # live dependents and watchers: not removed while there are any
        self.doomed: str = ""  # removal is owed once the pins are gone
        # Jobs up to this id have heard that it failed; it was replayed since. And, of one that was replayed itself:
        # the newest id when it looked at its dependencies anew.
        self.told_upto: i64 = 0
        self.rejoined: i64 = 0
        self.watchers: list[int] | None = None
        # Group: 0 before it joined.
        self.joined: i64 = 0
        self.holds_group: bool = False
        # Limits, by number.
        self.holds: list[int] | None = None
        self.parked_on: i64 = -1
        self.candidate_of: i64 = -1
        # Keys it holds.
        self.holds_unique: bool = False
        self.holds_custom: bool = False
        self.debounced: bool = False
        self.aside_at: i64 = 0
        self.metadata: dict[str, str] | None = None
        self.tags: tuple[str, ...] = ()
        self.flow: i64 = 0
        self.parent: i64 = 0
        self.worker: str = ""  # of the last attempt, when that was in the store it was imported from


@mypyc_attr(acyclic=True)
class Job:
    def __init__(self, id: i64, spec: Spec, payload: bytes, created_at: i64, priority: i32, rank: i64) -> None:
        self.id: i64 = id
        self.spec = spec
        self.payload = payload
        self.created_at: i64 = created_at
        self.run_at: i64 = created_at
        self.ready_at: i64 = 0
        self.started_at: i64 = 0
        self.ended_at: i64 = 0
        self.rank: i64 = rank
        self.number: i64 = 0
        self.priority: i32 = priority
        self.attempt: i32 = 0
        self.delivery: i32 = 0
        self.seq: i32 = 1
        self.state: i32 = 2
        self.place: i32 = NOWHERE
        self.settled: i32 = 0  # how the last lease ended (core.state.SETTLE_*)
        self.aged: bool = False
        self.is_delayed: bool = False  # `run_at` came from a duration: a time of the steady clock, not of the wall
        # For the journal: changed since the last record; in a record or page; with another payload since; removed.
        self.dirty: bool = True
        self.stored: bool = False
        self.rewritten: bool = False
        self.gone: bool = False
        # Its idempotency key, and until when it holds it; 0 when it never did or does not any more.
        self.key: str = ""
        self.key_until: i64 = 0
        self.side: Side | None = None
        self.lease: Lease | None = None  # the live one, or the last
        self.alarm: Alarm | None = None  # run_at while waiting for it, the timeout while running


def payload_bytes(job: Job) -> i64:
    """Its true size, wherever it is kept."""
    side = job.side
    if side is not None and side.payload_blob is not None:
        return side.payload_blob.size
    return len(job.payload)


NO_SPEC: Final = Spec(Options(), 0, "", 0)
NO_JOB: Final = Job(0, NO_SPEC, b"", 0, 0, 0)
