"""The reference model: every verb of the store contract, done in the plainest way.

A step is `begin`, one verb, `end`. Where the contract leaves a choice (whose turn it is, which queue by weight, the
moment in which an unknown task is found out), the model does not guess: it is shown what the engine did (`Observed`),
makes sure that it was allowed, and goes on from there. Everything else it says by itself, and `Mismatch` is raised
where the engine did something else.
"""

from dataclasses import dataclass, field

from tenure.core import request
from tenure.core.answer import Claimed, Outcome
from tenure.core.clock import Now
from tenure.core.error import Error, JobNotFound
from tenure.core.record import JobRecord, StreamItem
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Settle
from tenure.core.state import READY, STATE_NAMES
from tenure.core.tenant import Context
from tenure.core.token import Mint
from tests.model import claim as claiming
from tests.model import settle as settling
from tests.model.change import change_ids, change_matching, is_match
from tests.model.claim import Mismatch
from tests.model.ending import settle_debts
from tests.model.enqueue import enqueue_batch
from tests.model.fairness import Fairness
from tests.model.limit import change_buckets
from tests.model.line import give_up_slots
from tests.model.timer import abandon, abandon_due, apply_timers
from tests.model.turn import refresh_turns
from tests.model.world import Job, Seen, Waiter, Watch, World, sees


@dataclass
class Observed:
    """What the engine did in a step. None, for a field that is a choice, lets the model choose."""

    leased: list[int] | None = None
    token: bytes = b""
    ticket: int = 0
    outbox: dict[int, object] | None = None
    abandoned: list[int] | None = None


@dataclass
class Expected:
    """What the model says the engine must have answered to waits in a step."""

    watches: dict[int, str | None] = field(default_factory=dict)
    claims: dict[int, list[int]] = field(default_factory=dict)


class Model:
    def __init__(self, secret: bytes, epoch: int, now: Now) -> None:
        self.world = World(now)
        self.mint = Mint(secret, epoch)
        self.fairness = Fairness()
        self.expected = Expected()
        self.claims = 0

    # Steps.

    def begin(self, now: Now, observed: Observed) -> None:
        self.world.advance(now)
        self.world.seen = []
        self.world.answers = []
        self.expected = Expected()
        late = [watch.ticket for watch in self.world.watches if watch.until <= self.world.elapsed]
        apply_timers(self.world)
        self.abandon(observed)
        self.serve(observed, is_end=False)
        self.late_watches = late

    def end(self, observed: Observed) -> None:
        settle_debts(self.world)
        self.serve(observed, is_end=True)
        self.time_out(observed)
        refresh_turns(self.world)

    def again(self, observed: Observed) -> None:
        """One more step at the same time, which asks for nothing."""
        self.world.answers = []
        self.expected = Expected()
        self.late_watches = []
        apply_timers(self.world)
        self.end(observed)

    def abandon(self, observed: Observed) -> None:
        if observed.abandoned is None:
            abandon_due(self.world)
            return
        for id in observed.abandoned:
            job = self.world.jobs[id]
            if not claiming.may_abandon(self.world, job):
                raise Mismatch(f"job {id} was abandoned, though it was not set aside for an hour")
            abandon(self.world, job)
        for job in self.world.in_state(READY):
            if claiming.must_abandon(self.world, job):
                raise Mismatch(f"job {job.id} is set aside for an hour and was not abandoned")

    def serve(self, observed: Observed, is_end: bool) -> None:
        """Waiting claims, first come first served."""
        for waiter in list(self.world.waiters):
            answer = None if observed.outbox is None else observed.outbox.get(waiter.ticket)
            choices = claiming.choices_of(self.world, waiter.context, waiter.claim)
            if observed.outbox is None:
                if choices:
                    self.grant(waiter, self.next_token(), None)
            elif isinstance(answer, Claimed) and answer.ids:
                first = [choice.job.id for choice in choices]
                if is_end or (answer.ids[0] in first and all(self.is_ready(id) for id in answer.ids)):
                    self.grant(waiter, answer.token, list(answer.ids))
            elif choices and answer is None:
                raise Mismatch(f"claim {waiter.ticket} waits though {choices[0].job.id} could be leased")

    def is_ready(self, id: int) -> bool:
        return id in self.world.jobs and self.world.jobs[id].state == READY

    def grant(self, waiter: Waiter, token: bytes, answer: list[int] | None) -> None:
        self.world.waiters.remove(waiter)
        ids = claiming.claim(self.world, self.fairness, waiter.context, waiter.claim, token, answer)
        self.expected.claims[waiter.ticket] = ids

    def time_out(self, observed: Observed) -> None:
        for waiter in [waiter for waiter in self.world.waiters if waiter.until <= self.world.elapsed]:
            self.world.waiters.remove(waiter)
            self.expected.claims[waiter.ticket] = []
        self.expected.watches.update((ticket, str(answer)) for ticket, answer in self.world.answers)
        for watch in [watch for watch in self.world.watches if watch.until <= self.world.elapsed]:
            self.world.watches.remove(watch)
            self.expected.watches[watch.ticket] = None
        for ticket in self.late_watches:
            if observed.outbox is not None and observed.outbox.get(ticket, 0) is None:
                self.expected.watches[ticket] = None

    def next_token(self) -> bytes:
        self.claims += 1
        return self.mint.token(self.claims)

    # Verbs.

    def enqueue(self, context: Context, batch: Batch) -> list[Outcome]:
        answers = enqueue_batch(self.world, context.tenant, batch)
        refresh_turns(self.world)
        return answers

    def claim(self, context: Context, wish: Claim, observed: Observed) -> list[int]:
        """The ids leased. With none, and a wait, the claim waits under the ticket it was given."""
        token = observed.token or self.next_token()
        ids = claiming.claim(self.world, self.fairness, context, wish, token, observed.leased)
        if not ids and wish.wait_ms:
            if not observed.ticket:
                raise Mismatch("a claim that found nothing must wait")
            until = self.world.elapsed + wish.wait_ms
            self.world.waiters.append(Waiter(observed.ticket, context, wish, until))
        elif observed.ticket:
            raise Mismatch("a claim waits that has its answer, or no time")
        return ids

    def settle(self, context: Context, order: Settle) -> list[Outcome]:
        return settling.settle(self.world, self.mint, context, order)

    def extend(self, context: Context, order: Extend) -> list[int | Error]:
        return settling.extend(self.world, self.mint, context, order)

    def append(self, context: Context, order: Append) -> int:
        return settling.append(self.world, self.mint, context, order)

    def change(self, context: Context, order: Change) -> list[Outcome] | int:
        """Outcomes by ids, or how many by filter."""
        if order.filter is not None:
            return change_matching(self.world, context, order)
        return change_ids(self.world, context, order)

    def withdraw(self, ticket: int) -> None:
        self.world.waiters = [waiter for waiter in self.world.waiters if waiter.ticket != ticket]
        self.world.watches = [watch for watch in self.world.watches if watch.ticket != ticket]

    def watch(self, context: Context, id: int, wait_ms: int, ticket: int) -> int:
        """The ticket, or 0 when there is nothing to wait for."""
        job = self.world.visible(context, id)
        if job is None:
            raise JobNotFound(id)
        if job.is_terminal:
            return 0
        if not ticket:
            raise Mismatch(f"nobody waits for job {id}, which is {STATE_NAMES[job.state]}")
        self.world.watches.append(Watch(ticket, id, self.world.elapsed + wait_ms))
        return ticket

    def configure(self, context: Context, order: Configure) -> None:
        if order.subject == request.QUEUE:
            put(self.world.queues.setdefault((context.tenant, order.name), {}), order.changes)
            give_up_slots(self.world, context.tenant, order.name)
        elif order.subject == request.TENANT:
            if "weight" in order.changes:
                self.fairness.restart(self.world)
            put(self.world.tenants.setdefault(order.name, {}), order.changes)
        elif order.subject == request.STORE:
            put(self.world.store, order.changes)
        elif order.subject == request.KEY:
            self.configure_key(context.tenant, order.name, dict(order.changes))
        change_buckets(self.world)
        refresh_turns(self.world)

    def configure_key(self, tenant: str, prefix: str, changes: dict[str, object]) -> None:
        if "paused_ms" in changes:
            pause_ms = changes.pop("paused_ms")
            self.pause_keys(tenant, prefix, pause_ms if isinstance(pause_ms, int) else 0)
        settings = self.world.keys.setdefault((tenant, prefix), {})
        put(settings, changes)
        if not settings:
            del self.world.keys[tenant, prefix]

    def pause_keys(self, tenant: str, prefix: str, pause_ms: int) -> None:
        """All keys that begin so; without a time it is lifted, and so is what handlers asked for those keys."""
        pauses = self.world.pauses
        pauses[(tenant, prefix, True)] = self.world.elapsed + pause_ms
        if not pause_ms:
            for owner, key, is_prefix in list(pauses):
                if owner == tenant and key.startswith(prefix) and not is_prefix:
                    del pauses[owner, key, is_prefix]

    def restart(self) -> list[tuple[int, int]]:
        """What nobody writes down is gone: waits, connections, turns. A lease that lives gets time to be renewed; the
        jobs whose leases got some are answered, with their new deadlines."""
        world = self.world
        world.waiters.clear()
        world.watches.clear()
        for job in (*world.jobs.values(), *world.graves.values()):
            job.last_connection = 0
            if job.lease is not None:
                job.lease.connection = 0
        world.standing = {}
        self.fairness.shares.clear()
        refresh_turns(world)
        return world.give_time(world.served, world.served)

    # Reads.

    def get(self, context: Context, id: int) -> Job | None:
        return self.world.visible(context, id)

    def find(self, context: Context, filter: Filter) -> list[int]:
        jobs = self.world.jobs.values()
        return sorted(job.id for job in jobs if sees(context, job.tenant) and is_match(job, filter))

    def count(self, context: Context, queue: str) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for job in self.world.jobs.values():
            if job.tenant == context.tenant and queue in ("", job.queue):
                states = counts.setdefault(job.queue, {})
                states[STATE_NAMES[job.state]] = states.get(STATE_NAMES[job.state], 0) + 1
        return counts

    def stream(self, context: Context, id: int, kind: int) -> list[StreamItem]:
        job = self.world.visible(context, id)
        if job is None:
            raise JobNotFound(id)
        return job.log if kind == request.LOG else job.stream

    @property
    def seen(self) -> list[Seen]:
        return self.world.seen


def put(settings: dict[str, object], changes: dict[str, object]) -> None:
    for name, value in changes.items():
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value


def differences(world: World, job: Job, record: JobRecord) -> list[str]:
    """Fields of a record that are not what the model says, each with both values."""
    found: list[str] = []
    for name, wanted in fields_of(world, job).items():
        if getattr(record, name) != wanted:
            found.append(f"job {job.id}: {name} is {getattr(record, name)!r}, should be {wanted!r}")
    return found


def fields_of(world: World, job: Job) -> dict[str, object]:
    fields: dict[str, object] = {
        "id": job.id,
        "custom_id": job.extras.custom_id,
        "tenant": job.tenant,
        "queue": job.queue,
        "task": job.task,
        "state": STATE_NAMES[job.state],
        "priority": job.priority,
        "payload": job.payload,
        "attempt": job.attempt,
        "delivery": job.delivery,
        "max_attempts": job.options.max_attempts or None,
        "created_at": job.created_at,
        "expires_at": job.expires_at,
        "group": job.extras.group,
        "tags": job.tags,
        "metadata": job.metadata,
        "depends_on": job.extras.depends_on,
        "replays": job.replays,
        "result": job.result,
    }
    return fields | fields_of_state(world, job)


def fields_of_state(world: World, job: Job) -> dict[str, object]:
    if job.lease is not None:
        lease = job.lease
        until = world.shown_deadline(lease)
        return {"lease_until": until, "started_at": job.started_at, "worker": lease.worker, "ended_at": 0}
    if job.is_terminal:
        return {"ended_at": job.ended_at, "reason": job.reason}
    if STATE_NAMES[job.state] in ("scheduled", "retrying"):
        return {"run_at": world.shown_run_at(job)}
    return {}
