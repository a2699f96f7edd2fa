"""What a store is asked: one class per verb, batches first.

A batch is columns, not a list of objects: what its jobs share is said once. All fields were checked when the value was
made (`core.bound`); the ones that come by the thousand, payloads and ids, are checked by the store as it goes, item by
item, so that a bad one harms no other.
"""

from collections.abc import Sequence
from typing import Final

from tenure.core.blob import Blob
from tenure.core.job import Extras, Options
from tenure.core.packed import Packed, Texts
from tenure.core.record import Past

CLAIM_BYTES_MAX: Final = 8 * 1024 * 1024


class Batch:
    """Jobs to enqueue. `options` serves every job, unless `each` gives one per job; `extras`, one per job or none.
    Instead of extras, `keys` are idempotency keys of jobs that have nothing else besides; an empty one is none.

    Callers give bytes; a store puts a blob in the place of those that are over its cap.
    `pasts`, one per job, makes whole records of them: only in an admin's load. Only a load takes packed keys.
    """

    def __init__(
        self,
        options: Options,
        payloads: Sequence[bytes | Blob] | Packed,
        extras: list[Extras | None] | None = None,
        each: list[Options] | None = None,
        atomic: bool = False,
        pasts: list[Past] | None = None,
        keys: list[str] | Texts | None = None,
    ) -> None:
        self.options = options
        self.payloads = payloads
        self.extras = extras
        self.each = each
        self.atomic = atomic
        self.pasts = pasts
        self.keys = keys

    def unpacked(self) -> "Batch":
        """The same with lists for columns."""
        payloads: list[bytes | Blob] = list(self.payloads)
        keys: list[str] | None = None if self.keys is None else list(self.keys)
        return Batch(self.options, payloads, self.extras, self.each, self.atomic, self.pasts, keys)

    def extra(self, at: int) -> Extras | None:
        if self.extras is not None:
            return self.extras[at]
        if self.keys is not None and self.keys[at]:
            return Extras("", "", self.keys[at])
        return None


class Pick:
    """One of the queues that a claim names: a name, or a prefix ending in `*`, and its weight."""

    def __init__(self, name: str, weight: int = 1) -> None:
        self.name = name
        self.weight = weight


class Claim:
    """A worker's standing wish. Reused from call to call; `strict` takes the queues as listed instead of by weight.

    `withdraw` takes back the claim that has the same operation id: it waits no more, and what it leased is released.
    """

    def __init__(
        self,
        queues: tuple[Pick, ...],
        n: int = 1,
        wait_ms: int = 0,
        worker: str = "",
        tasks: frozenset[str] | None = None,
        max_bytes: int = CLAIM_BYTES_MAX,
        lease_ms: int = 0,
        strict: bool = False,
        withdraw: bool = False,
    ) -> None:
        self.queues = queues
        self.n = n
        self.wait_ms = wait_ms
        self.worker = worker
        self.tasks = tasks
        self.max_bytes = max_bytes
        self.lease_ms = lease_ms
        self.strict = strict
        self.withdraw = withdraw


class Failure:
    """What went wrong in an attempt. `delay_ms` -1 leaves the wait to the job's backoff."""

    def __init__(
        self,
        type: str = "",
        message: str = "",
        trace: str = "",
        retryable: bool = True,
        undecodable: bool = False,
        delay_ms: int = -1,
    ) -> None:
        self.type = type
        self.message = message
        self.trace = trace
        self.retryable = retryable
        self.undecodable = undecodable
        self.delay_ms = delay_ms


class Settle:
    """Settles jobs by one verb (`core.state.SETTLE_*`).

    `tokens` has one token per job, or is None on the connection that claimed them. The other columns, where given, have
    one entry per job. `delay_ms` is for release and snooze. `pause_key` with `delay_ms` also pauses that limit key.
    """

    def __init__(
        self,
        verb: int,
        ids: list[int],
        tokens: list[bytes] | None = None,
        results: Sequence[bytes | Blob | None] | None = None,
        failures: list[Failure] | None = None,
        followups: list[Batch | None] | None = None,
        delay_ms: int = 0,
        pause_key: str = "",
    ) -> None:
        self.verb = verb
        self.ids = ids
        self.tokens = tokens
        self.results = results
        self.failures = failures
        self.followups = followups
        self.delay_ms = delay_ms
        self.pause_key = pause_key


class Extend:
    """Renews leases, for `lease_ms` or, when 0, for as long as each was granted."""

    def __init__(self, ids: list[int], tokens: list[bytes] | None = None, lease_ms: int = 0) -> None:
        self.ids = ids
        self.tokens = tokens
        self.lease_ms = lease_ms


CANCEL: Final = 0
DISCARD: Final = 1
PROMOTE: Final = 2
PRIORITY: Final = 3
UPDATE: Final = 4
DELAY: Final = 5
CLONE: Final = 6
REPLAY: Final = 7
REMOVE: Final = 8

ACTION_NAMES: Final = (
    "cancel",
    "discard",
    "promote",
    "priority",
    "update",
    "delay",
    "clone",
    "replay",
    "remove",
)


class Filter:
    """Which jobs: all conditions that are set must hold. `states` is a bit set of state codes, 0 is every state."""

    def __init__(
        self,
        queue: str = "",
        states: int = 0,
        task: str = "",
        tag: str = "",
        metadata: tuple[tuple[str, str], ...] = (),
        worker: str = "",
        error: str = "",
        fingerprint: str = "",
        reason: str = "",
        created_from: int = 0,
        created_to: int = 0,
        ended_before: int = 0,
        group: str = "",
        custom_id_prefix: str = "",
    ) -> None:
        self.queue = queue
        self.states = states
        self.task = task
        self.tag = tag
        self.metadata = metadata
        self.worker = worker
        self.error = error
        self.fingerprint = fingerprint
        self.reason = reason
        self.created_from = created_from
        self.created_to = created_to
        self.ended_before = ended_before
        self.group = group
        self.custom_id_prefix = custom_id_prefix


class Change:
    """Does `action` to the jobs in `ids`, or to all that match `filter`; the latter is done in bounded steps.

    `priority` is for PRIORITY; `payload`, `metadata` and `tags` for UPDATE, CLONE and REPLAY (None leaves them);
    `run_at` for DELAY; `limit` bounds how many a filter may reach (0: all); `rate_per_s` slows a filter's REPLAY.
    """

    def __init__(
        self,
        action: int,
        ids: list[int] | None = None,
        filter: Filter | None = None,
        priority: int = 0,
        payload: bytes | Blob | None = None,
        metadata: dict[str, str] | None = None,
        tags: tuple[str, ...] | None = None,
        run_at: int = 0,
        reason: str = "",
        limit: int = 0,
        rate_per_s: int = 0,
    ) -> None:
        self.action = action
        self.ids = ids
        self.filter = filter
        self.priority = priority
        self.payload = payload
        self.metadata = metadata
        self.tags = tags
        self.run_at = run_at
        self.reason = reason
        self.limit = limit
        self.rate_per_s = rate_per_s


PROGRESS: Final = 0
LOG: Final = 1
EMIT: Final = 2


class Append:
    """Adds to a running job: `percent` and `text` for PROGRESS, `text` for LOG, `data` for EMIT."""

    def __init__(
        self, kind: int, id: int, token: bytes | None = None, percent: int = 0, text: str = "", data: bytes = b""
    ) -> None:
        self.kind = kind
        self.id = id
        self.token = token
        self.percent = percent
        self.text = text
        self.data = data


QUEUE: Final = 0
KEY: Final = 1
TENANT: Final = 2
STORE: Final = 3
WORKER: Final = 4
TASK: Final = 5

SUBJECT_NAMES: Final = ("queue", "key", "tenant", "store", "worker", "task")


class Configure:
    """Changes settings of a queue, a limit key (by prefix), a tenant, the store, or what a worker says of itself. Of a
    task it reads what is published of it.

    `changes` maps a setting to its new value; None puts it back to its default. An empty one only reads.
    """

    def __init__(self, subject: int, name: str, changes: dict[str, object]) -> None:
        self.subject = subject
        self.name = name
        self.changes = changes


STAGE: Final = 0
PUBLISH: Final = 1
ABORT: Final = 2
READ: Final = 3


class Load:
    """A set of jobs that becomes visible at once.

    STAGE adds a chunk; PUBLISH names the writing that counts per part; READ asks what became of a chunk's rows or, if
    no chunk is named, of how many rows in all. `digest` is any text that is the same for the same rows: it is kept with
    the publication, and one that comes again with another digest is refused.
    """

    def __init__(
        self,
        step: int,
        load_id: str,
        part: int = 0,
        writing: str = "",
        chunk: int = 0,
        batch: Batch | None = None,
        parts: dict[int, str] | None = None,
        digest: str = "",
    ) -> None:
        self.step = step
        self.load_id = load_id
        self.part = part
        self.writing = writing
        self.chunk = chunk
        self.batch = batch
        self.parts = parts
        self.digest = digest


class Scan:
    """Rows of a table whose number, `seq` of events and `id` of jobs, is over `after` and at most `upto`, in the order
    of the numbers. With `limit` 0 only the bounds of the table are asked for.
    """

    def __init__(
        self,
        table: str,
        after: int = 0,
        upto: int = 0,
        limit: int = 0,
        queue: str = "",
        states: int = 0,
        types: tuple[str, ...] = (),
        columns: tuple[str, ...] = (),
    ) -> None:
        self.table = table
        self.after = after
        self.upto = upto
        self.limit = limit
        self.queue = queue
        self.states = states
        self.types = types
        self.columns = columns
