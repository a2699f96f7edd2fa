"""The low-level client: the contract's verbs, bytes in and bytes out.

`async with tenure.connect("memory://") as client:` opens a store in this process and keeps its timers running.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.client.published import Published, find_published
from tenure.client.remote import REMOTE, RemoteStore, remote_store
from tenure.core import bound, request
from tenure.core.answer import Answers, Claimed, Extended, Outcome
from tenure.core.clock import Now
from tenure.core.duration import Duration, milliseconds, time_ms
from tenure.core.error import Error, Forbidden, InvalidRequest, JobCancelled, JobFailed, JobNotFound, Unsupported
from tenure.core.job import Extras, Options
from tenure.core.record import (
    DeadLetterGroup,
    Event,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
    Timed,
)
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Failure, Filter, Load, Settle
from tenure.core.state import (
    SETTLE_CANCEL,
    SETTLE_COMPLETE,
    SETTLE_FAIL,
    SETTLE_RELEASE,
    SETTLE_SNOOZE,
    STATE_NAMES,
)
from tenure.core.tenant import DEFAULT_TENANT, Context, OpId
from tenure.store.contract import Capabilities
from tenure.store.obliterate import obliterate

# Options that people give as durations, and the fields of the contract they become.
DURATIONS = {
    "delay": "delay_ms",
    "ttl": "ttl_ms",
    "timeout": "timeout_ms",
    "lease": "lease_ms",
    "idempotency_ttl": "idempotency_ttl_ms",
    "debounce": "debounce_ms",
    "debounce_max_wait": "debounce_max_wait_ms",
    "keep_completed": "keep_completed_ms",
    "keep_failed": "keep_failed_ms",
}
TIMES = frozenset({"run_at", "expires_at"})
SCAN_PAGE = 10_000
# The zero cases of retention, by their own names.
ZEROES = {"remove_on_complete": "keep_completed_ms", "remove_on_fail": "keep_failed_ms"}


class Enqueued(msgspec.Struct, frozen=True):
    """What became of one job: its id and state, and whether it was there already."""

    id: int
    state: str
    duplicate: bool = False
    replaced: bool = False
    error: Error | None = None


class Leased(Timed, frozen=True):
    """A job that this client holds until `lease_until` (milliseconds since 1970, by the store's clock), which was
    `lease_ms` off when the store answered."""

    id: int
    token: bytes
    payload: bytes
    tenant: str
    queue: str
    task: str
    attempt: int
    lease_until: int
    codec: str = "json"
    schema_version: int = 0
    trace: str = ""
    lease_ms: int = 0


class Settled(Timed, frozen=True):
    """How a job stands after its settlement; `run_at` in milliseconds since 1970, 0 when it does not run again."""

    id: int
    state: str
    run_at: int = 0


def connect(
    url: str = "memory://",
    *,
    tenant: str = "",
    tenants: Iterable[str] = (),
    token: str = "",
    format: str = "msgpack",
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], Now] = read_clock,
) -> "Client":
    """A client of the store that the URL names. Without a `tenant`, that of the token, else `default`. `tenants` are
    those a claim takes from; "*" is all of them.

    `token`, `format` (msgpack or json) and `tls` are for a server: tenure://host:6789, tenure+tls://host:6789,
    tenure+unix:///run/tenure.sock.
    """
    if urlsplit(url).scheme in REMOTE:
        context = Context(tenant=tenant, tenants=tuple(tenants))
        return Client(Driver(remote_store(url, token, format, tls), clock), context)
    from tenure.store.url import open_store  # and with it the engine, which a client of a server does not need

    return Client(Driver(open_store(url), clock), Context(tenant=tenant or DEFAULT_TENANT, tenants=tuple(tenants)))


def split_fields(fields: dict[str, object]) -> tuple[Options, Extras | None]:
    """What a caller wrote as keywords, as the values of the contract."""
    options: dict[str, object] = {}
    extras: dict[str, object] = {}
    for field, value in fields.items():
        name = DURATIONS.get(field, field)
        if field in ZEROES:
            if value is not True:
                raise InvalidRequest(field, value, "it is true or left out")
            options[ZEROES[field]] = 0
        elif field in DURATIONS:
            options[name] = milliseconds(field, value)
        elif field in TIMES:
            extras[name] = time_ms(field, value)
        elif name in bound.EXTRA_RULES:
            extras[name] = value
        elif name in bound.OPTION_RULES:
            options[name] = value
        else:
            known = [*bound.OPTION_RULES, *bound.EXTRA_RULES, *DURATIONS]
            raise InvalidRequest(field, value, "there is no such option; " + bound.nearest(field, known))
    return bound.make_options(**options), bound.make_extras(**extras) if extras else None


class Client:
    def __init__(self, driver: Driver, context: Context) -> None:
        self._driver = driver
        self._store = driver.store
        self._context = context

    async def __aenter__(self) -> "Client":
        await self._driver.open()
        if not self._context.tenant and isinstance(self._store, RemoteStore):
            self._context = Context(tenant=self._store.tenant, tenants=self._context.tenants)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store, also for the clients made by `as_tenant`."""
        await self._driver.close()

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    @property
    def tenant(self) -> str:
        """On whose behalf it asks. Of a server's client that was told none it is known once it is open."""
        return self._context.tenant

    def listen(self, told: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Be told what a server says without being asked, such as {"event": "cancelled", "id": 7}, until the function
        that is returned is called. An embedded store says nothing."""
        if not isinstance(self._store, RemoteStore):
            return lambda: None
        listeners = self._store.listeners
        listeners.append(told)
        return lambda: listeners.remove(told)

    def as_tenant(self, tenant: str, tenants: Iterable[str] = ()) -> "Client":
        """The same store on behalf of another tenant. Only the client that was opened is closed."""
        return Client(self._driver, Context(tenant=tenant, tenants=tuple(tenants)))

    def _now(self) -> Now:
        """The time of a call that is about to be made; a store in this process is looked after once it is."""
        if not isinstance(self._store, RemoteStore):
            self._driver.arm()
        return self._driver.now()

    # Enqueue.

    async def enqueue(self, payload: bytes, **fields: object) -> Enqueued:
        """Store one job. Fields: every option of docs/semantics.md, section 4. Durations are timedeltas, text with a
        unit, or seconds; times are datetimes with a zone, or seconds since 1970."""
        durability = self._durability(fields)
        options, extras = split_fields(fields)
        batch = Batch(options, [payload], None if extras is None else [extras])
        outcome = (await self.enqueue_batch(batch, durability)).item(0)
        if outcome.error is not None:
            raise outcome.error
        return _enqueued(outcome)

    async def enqueue_many(self, payloads: list[bytes], **fields: object) -> list[Enqueued]:
        """Store many jobs with the same options; each is answered on its own, errors among them."""
        durability = self._durability(fields)
        options, extras = split_fields(fields)
        batch = Batch(options, payloads, None if extras is None else [extras] * len(payloads))
        answers = await self.enqueue_batch(batch, durability)
        return [_enqueued(answers.item(at)) for at in range(len(answers))]

    async def enqueue_batch(self, batch: Batch, durability: str = "") -> Answers:
        """The contract's own verb, in columns."""
        context = self._context
        if durability:
            self._check_durability(durability)
            context = Context(context.tenant, context.tenants, durability=durability)
        return await self._store.enqueue(context, batch, self._now())

    async def load(self, load: Load) -> LoadReport:
        """The contract's own verb: a step of a load, which becomes visible as a whole."""
        return await self._store.load(self._context, load, self._now())

    def _durability(self, fields: dict[str, object]) -> str:
        """Taken out of the fields: fsync, write, relaxed, or empty for the store's own."""
        asked = str(fields.pop("durability", ""))
        self._check_durability(asked)
        return asked

    def _check_durability(self, asked: str) -> None:
        if asked and asked not in self._store.capabilities.durability:
            raise Unsupported(f"durability {asked!r}")

    # Claim and settle.

    async def claim(
        self,
        *queues: str | tuple[str, int],
        n: int = 1,
        wait: Duration = 0,
        worker: str = "",
        tasks: Iterable[str] | None = None,
        lease: Duration = 0,
        strict: bool = False,
    ) -> list[Leased]:
        """Lease up to `n` jobs; waits for the first one if there is none."""
        claim = bound.make_claim(
            queues or ("default",),
            n,
            milliseconds("wait", wait),
            worker,
            None if tasks is None else list(tasks),
            lease_ms=milliseconds("lease", lease),
            strict=strict,
        )
        found = await self.claim_batch(claim)
        return [
            Leased(
                id,
                found.token,
                found.payloads[at],
                found.tenants[at],
                found.options[at].queue,
                found.options[at].task,
                found.attempts[at],
                found.lease_until[at],
                found.options[at].codec,
                found.options[at].schema_version,
                _trace(found.extras[at]),
                found.lease_ms[at],
            )
            for at, id in enumerate(found.ids)
        ]

    async def claim_batch(self, claim: Claim, op: OpId | None = None) -> Claimed:
        """The contract's own verb, in columns; with the operation id that it is to have."""
        context = self._context
        if op is not None:
            context = Context(context.tenant, context.tenants, op=op)
        return await self._store.claim(context, claim, self._now())

    async def complete(self, job: Leased, result: bytes | None = None, followups: Batch | None = None) -> Settled:
        return await self._settle(job, SETTLE_COMPLETE, results=[result], followups=[followups] if followups else None)

    async def fail(
        self,
        job: Leased,
        type: str = "",
        message: str = "",
        trace: str = "",
        retryable: bool = True,
        retry_after: Duration | None = None,
    ) -> Settled:
        delay_ms = -1 if retry_after is None else milliseconds("retry_after", retry_after)
        failure = bound.make_failure(type, message, trace, retryable, False, delay_ms)
        return await self._settle(job, SETTLE_FAIL, failures=[failure])

    async def release(self, job: Leased, delay: Duration = 0) -> Settled:
        return await self._settle(job, SETTLE_RELEASE, delay_ms=milliseconds("delay", delay))

    async def snooze(self, job: Leased, delay: Duration) -> Settled:
        return await self._settle(job, SETTLE_SNOOZE, delay_ms=milliseconds("delay", delay))

    async def cancel_own(self, job: Leased) -> Settled:
        """The worker itself ends the job as cancelled."""
        return await self._settle(job, SETTLE_CANCEL)

    async def _settle(
        self,
        job: Leased,
        verb: int,
        results: list[bytes | None] | None = None,
        failures: list[Failure] | None = None,
        followups: list[Batch | None] | None = None,
        delay_ms: int = 0,
    ) -> Settled:
        asked = Settle(verb, [job.id], [job.token], results, failures, followups, delay_ms)
        outcome = (await self.settle_batch(asked)).item(0)
        if outcome.error is not None:
            raise outcome.error
        return Settled(outcome.id, STATE_NAMES[outcome.state], outcome.run_at)

    async def settle_batch(self, settle: Settle) -> Answers:
        return await self._store.settle(self._context, settle, self._now())

    async def extend(self, job: Leased, lease: Duration = 0) -> int:
        """Renew the lease; answers until when it holds, in milliseconds since 1970."""
        extended = await self.extend_batch(Extend([job.id], [job.token], milliseconds("lease", lease)))
        if extended.errors:
            raise extended.errors[0]
        return extended.lease_until[0]

    async def extend_batch(self, extend: Extend) -> Extended:
        return await self._store.extend(self._context, extend, self._now())

    async def progress(self, job: Leased, percent: int, message: str = "") -> int:
        return await self.append(Append(request.PROGRESS, job.id, job.token, percent, message))

    async def log(self, job: Leased, line: str) -> int:
        return await self.append(Append(request.LOG, job.id, job.token, text=line))

    async def emit(self, job: Leased, data: bytes) -> int:
        return await self.append(Append(request.EMIT, job.id, job.token, data=data))

    async def append(self, append: Append) -> int:
        return await self._store.append(self._context, append, self._now())

    # Change.

    async def cancel(self, id: int) -> str:
        return await self._change(Change(request.CANCEL, [id]))

    async def discard(self, id: int) -> str:
        return await self._change(Change(request.DISCARD, [id]))

    async def promote(self, id: int) -> str:
        return await self._change(Change(request.PROMOTE, [id]))

    async def replay(self, id: int, payload: bytes | None = None) -> str:
        return await self._change(Change(request.REPLAY, [id], payload=payload))

    async def remove(self, id: int) -> str:
        return await self._change(Change(request.REMOVE, [id]))

    async def _change(self, change: Change) -> str:
        outcome = (await self.change_batch(change)).item(0)
        if outcome.error is not None:
            raise outcome.error
        return STATE_NAMES[outcome.state]

    async def change_batch(self, change: Change) -> Answers:
        """The contract's own verb: by ids, or by a filter, in which case it answers when all is done."""
        return await self._store.change(self._context, change, self._now())

    async def configure(self, subject: str, name: str, **changes: object) -> dict[str, object]:
        """Settings of a "queue", "key", "tenant", "store" or "worker"; without changes it only reads.

        Of a "task" it reads what workers publish.
        """
        if subject not in request.SUBJECT_NAMES:
            raise InvalidRequest("subject", subject, "it must be one of " + ", ".join(request.SUBJECT_NAMES))
        asked = Configure(request.SUBJECT_NAMES.index(subject), name, changes)
        return await self._store.configure(self._context, asked, self._now())

    async def obliterate(self, queue: str, force: bool = False) -> int:
        """Remove a queue: all its jobs and its settings. While jobs run only by `force`, which cancels them; if it is
        refused it has changed nothing. Answers how many jobs were removed."""
        return await obliterate(_Steps(self), queue, force)

    async def published(self, task: str) -> Published | None:
        """What the workers that serve this tenant say of a task: options and schema. None when nobody does."""
        try:
            return find_published(await self.configure("task", task), task)
        except Forbidden:
            return None  # by a server that shows workers to some roles only

    # Read.

    async def get(self, id: int | str) -> JobRecord:
        """One job, by its id or its custom id."""
        ids, custom_ids = ([id], []) if isinstance(id, int) else ([], [id])
        found = (await self._store.get(self._context, ids, custom_ids, self._now()))[0]
        if found is None:
            raise JobNotFound(id)
        return found

    async def find(self, filter: Filter | None = None, limit: int = 100, cursor: str = "") -> JobPage:
        return await self._store.find(self._context, filter or Filter(), limit, cursor, self._now())

    async def count(self, queue: str = "") -> dict[str, dict[str, int]]:
        return await self._store.count(self._context, queue, self._now())

    async def dead_letter_groups(self, queue: str = "") -> list[DeadLetterGroup]:
        return await self._store.groups(self._context, queue, self._now())

    async def explain(self, id: int) -> Explanation:
        return await self._store.explain(self._context, id, self._now())

    async def wait(self, id: int, timeout: Duration = 30) -> bytes | None:
        """The job's result, once there is one; raises what the job ended with. Giving up does not cancel it."""
        found = await self.watch(id, timeout)
        raise_outcome(found)
        return found.result

    async def watch(self, id: int, timeout: Duration = 30) -> JobRecord:
        """The job once it has ended, however it did."""
        return await self._store.watch(self._context, id, milliseconds("timeout", timeout), self._now())

    async def stream(self, id: int, offset: int = 0, limit: int = 1_000, wait: Duration = 0) -> list[StreamItem]:
        """What its handler emitted; waits for the first item if there is none and the job goes on."""
        wait_ms = milliseconds("wait", wait)
        return await self._store.stream(self._context, id, request.EMIT, offset, limit, wait_ms, self._now())

    async def logs(self, id: int, offset: int = 0, limit: int = 100) -> list[StreamItem]:
        return await self._store.stream(self._context, id, request.LOG, offset, limit, 0, self._now())

    async def event_page(self, cursor: str = "", limit: int = 1_000, wait: Duration = 0) -> EventPage:
        """The contract's own verb: a page, and the cursor to go on from; waits for the first event if there is none."""
        wait_ms = milliseconds("wait", wait)
        return await self._store.events(self._context, cursor, limit, wait_ms, self._now())

    async def scan_bounds(self, table: str) -> Scanned:
        """How far a table reaches now: `first` and `last` of events (by `seq`) or jobs (by `id`)."""
        return await self._store.scan(self._context, bound.make_scan(table), self._now())

    async def scan_page(
        self,
        table: str,
        *,
        after: int,
        upto: int,
        limit: int = SCAN_PAGE,
        queue: str = "",
        states: Sequence[str] = (),
        types: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> Scanned:
        """Rows with after < number <= upto in columns (`core.table`; `lake.arrow` makes Arrow of them). The next page
        begins after `next`; there is none when that is `upto`."""
        scan = bound.make_scan(table, after, upto, limit, queue, tuple(states), tuple(types), tuple(columns))
        return await self._store.scan(self._context, scan, self._now())

    async def events(self, cursor: str = "", follow: Duration = 0) -> AsyncIterator[Event]:
        """Events after the cursor; with `follow`, new ones too, until none came for that long."""
        wait_ms = milliseconds("follow", follow)
        while True:
            page = await self._store.events(self._context, cursor, 1_000, wait_ms, self._now())
            for event in page.events:
                yield event
            if not page.events and (wait_ms or page.cursor == cursor):
                return
            cursor = page.cursor


def raise_outcome(found: JobRecord) -> None:
    """What a job ended with, if that was no result."""
    if found.state == "failed":
        error = found.error
        kind, message, trace = ("", "", "") if error is None else (error.type, error.message, error.trace)
        raise JobFailed(kind, message, trace, found.reason)
    if found.state == "cancelled":
        raise JobCancelled(found.id)


def _enqueued(outcome: Outcome) -> Enqueued:
    return Enqueued(outcome.id, STATE_NAMES[outcome.state], outcome.duplicate, outcome.replaced, outcome.error)


def _trace(extras: Extras | None) -> str:
    return "" if extras is None else extras.trace


class _Steps:
    """Of obliterating a queue."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def count(self, queue: str) -> dict[str, int]:
        return (await self._client.count(queue)).get(queue, {})

    async def configure(self, queue: str, changes: dict[str, object]) -> dict[str, object]:
        return await self._client.configure("queue", queue, **changes)

    async def change(self, change: Change) -> Answers:
        return await self._client.change_batch(change)
