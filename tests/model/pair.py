"""Engine and model side by side: each step is done by both, and everything that can be seen must agree.

A step goes: the engine answers, its outbox and its events are read; the model does the same, shown what the engine did
where it has a choice; then answers, events, records and counts are compared, the engine verifies itself, and the
invariants are checked over the history. Reading is a step too: what a request left for the next step is done then.
"""

from collections.abc import Callable
from typing import NamedTuple

from tenure.core import request
from tenure.core.answer import Answers, Claimed, Extended, Outcome
from tenure.core.clock import Now
from tenure.core.error import AlreadySettled, Error, InvalidRequest, LeaseLost, PayloadTooLarge
from tenure.core.job import Extras
from tenure.core.record import Event, JobRecord
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Settle
from tenure.core.state import RETRYING, SCHEDULED, STATE_NAMES
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.engine.redo import head
from tenure.engine.restore import Restore
from tests.model import session
from tests.model.claim import Mismatch
from tests.model.enqueue import item_of
from tests.model.history import Accepted, Granted, History, Setting, View, Word
from tests.model.invariants import breaches
from tests.model.model import Model, Observed, differences, put
from tests.model.session import Sessions
from tests.model.world import Job, Seen

SECRET = bytes(range(32))
START_MS = 1_700_000_000_000
ALL = Context("operator", ("*",))
KINDS = {request.QUEUE: "queue", request.KEY: "key", request.TENANT: "tenant", request.STORE: "store"}

NOBODY = Context("")


class Leased(NamedTuple):
    """What a claim answered."""

    ids: list[int]
    token: bytes


Ask = Callable[[], object]
Say = Callable[[Observed], object]
Note = Callable[[object], None]


class Pair:
    def __init__(self, tenants: tuple[str, ...]) -> None:
        self.tenants = tenants
        self.wall = START_MS
        self.elapsed = 0
        self.left_out = 0
        self.engine = Engine(SECRET, 1, self.now)
        self.engine.keep_journal()
        self.epoch = 1
        self.records: list[bytes] = []  # the journal
        self.model = Model(SECRET, 1, self.now)
        self.history = History()
        self.sessions = Sessions()
        self.cursor = ""
        self.cursors = dict.fromkeys(tenants, "")
        self.next: Now | None = None  # what the last tick answered
        self.early: list[tuple[int, object]] = []  # answers that came while something else was waited for
        self.granted: list[tuple[int, bytes]] = []  # every lease ever: id, token

    @property
    def now(self) -> Now:
        return Now(self.wall, self.elapsed, self.left_out)

    # One step.

    def step(self, verb: str, context: Context, ask: Ask, say: Say, note: Note | None = None) -> object:
        """Do it on both sides and compare; answers what the engine answered, an error as a value."""
        number = self.history.begin(self.now, verb)
        answer = caught(ask)
        outbox = self.drain()
        events = self.read_events(number)
        later = self.drain()
        observed = self.observe(answer, outbox | later, events)
        self.model.begin(self.now, observed)
        self.note_longer(self.model.world.longer)
        self.model.world.longer = []
        kind, remembered = self.recall(context)
        if kind == session.OLD:
            same(f"refusal of an old {verb}", isinstance(answer, Error), True)
        elif kind == session.REPEATED:
            same(f"repeat of {verb}", plain(answer, verb), remembered)
        else:
            same(f"answer to {verb}", plain(answer, verb), plain(caught(lambda: say(observed)), verb))
            self.sessions.remember(context, plain(answer, verb), self.elapsed)
        self.model.end(observed)
        self.check_outbox(outbox)
        self.model.again(observed)
        self.check_outbox(later)
        check_events(events, self.model.seen)
        if kind == session.NEW:
            self.note(answer, note)
        self.look()
        self.write_down()
        return answer

    def note_longer(self, longer: list[tuple[int, int]]) -> None:
        self.history.extensions += [(self.history.step, id, deadline) for id, deadline in longer]

    def write_down(self) -> None:
        """What the step changed; and the time, also when that is nothing."""
        self.records.append(self.engine.take() or head(self.engine._w))

    def restart(self) -> None:
        """The engine is lost, and another made of its journal."""
        restore = Restore(SECRET, self.epoch + 1)
        for record in self.records:
            restore.record(record)
        self.epoch += 1
        self.engine = restore.finish(self.now, self.engine.last_event())
        self.restarted()

    def restarted(self) -> None:
        """Waits, watches and connections have ended with the engine that was lost."""
        self.note_longer(self.model.restart())
        self.history.waiting.clear()
        self.tick()

    def recall(self, context: Context) -> tuple[int, object]:
        """What the operation id says. A repeated claim answers the leases that live, and claims anew when none does."""
        kind, remembered = self.sessions.look(context, self.elapsed)
        if kind != session.REPEATED or not isinstance(remembered, Leased):
            return kind, remembered
        jobs = self.model.world.jobs
        living = [id for id in remembered.ids if id in jobs and is_held(jobs[id], remembered.token)]
        return (kind, Leased(living, remembered.token)) if living else (session.NEW, None)

    def note(self, answer: object, note: Note | None) -> None:
        if isinstance(answer, Claimed):
            self.note_grant(answer)
        if note is not None:
            note(answer)

    def observe(self, answer: object, outbox: dict[int, object], events: list[Event]) -> Observed:
        observed = Observed([], b"", 0, outbox, [event.job for event in events if event.cause == "abandon"])
        if isinstance(answer, Claimed):
            observed.leased = list(answer.ids)
            observed.token = answer.token
            observed.ticket = answer.ticket
        elif isinstance(answer, int):
            observed.ticket = answer
        return observed

    def drain(self) -> dict[int, object]:
        outbox: dict[int, object] = {}
        early, self.early = self.early, []
        for ticket, answer in [*early, *self.engine.drain_outbox()]:
            if ticket in outbox:
                raise Mismatch(f"ticket {ticket} was answered twice")
            outbox[ticket] = answer
        return outbox

    def read_events(self, step: int) -> list[Event]:
        found: list[Event] = []
        while True:
            page = self.engine.events(ALL, self.cursor, 1_000, self.now)
            self.cursor = page.cursor
            if not page.events:
                break
            found += page.events
        self.history.events += [(step, event) for event in found]
        return found

    def check_outbox(self, outbox: dict[int, object]) -> None:
        expected = self.model.expected
        for ticket, answer in outbox.items():
            if isinstance(answer, Claimed):
                same(f"claim {ticket}", list(answer.ids), expected.claims.get(ticket))
                self.history.waiting.pop(ticket, None)
                self.note_grant(answer)
            elif isinstance(answer, JobRecord):
                same(f"watch {ticket}", answer.state, expected.watches.get(ticket, "no answer"))
            elif answer is None:
                same(f"watch {ticket}", None, expected.watches.get(ticket, "no answer"))
        missing = (expected.claims.keys() | expected.watches.keys()) - outbox.keys()
        same("tickets without an answer", sorted(missing), [])

    def note_grant(self, answer: Claimed) -> None:
        if not answer.ids:
            return
        deadlines: dict[int, int] = {}
        for at, id in enumerate(answer.ids):
            deadlines[id] = self.served(answer.lease_until[at])
            self.check_claimed(answer, at, id)
        self.history.grants.append(Granted(self.history.step, answer.token, list(answer.ids), deadlines))
        if not self.model.mint.is_genuine(answer.token):
            raise Mismatch("a token that is not genuine was given")

    def check_claimed(self, answer: Claimed, at: int, id: int) -> None:
        job = self.model.world.jobs.get(id)
        if job is None or job.lease is None:
            return
        self.granted.append((id, answer.token))
        told = (answer.payloads[at], answer.tenants[at], answer.attempts[at], answer.lease_until[at])
        same(f"claimed {id}", told, (job.payload, job.tenant, job.attempt, self.model.world.shown_deadline(job.lease)))
        same(f"task of {id}", answer.options[at].task, job.task)

    # What can be read.

    def look(self) -> None:
        self.history.view = self.view()
        world = self.model.world
        records = self.history.view.records
        same("jobs there", sorted(records), sorted(world.jobs))
        for id, record in records.items():
            same("records", differences(world, world.jobs[id], record), [])
        for tenant in self.tenants:
            counts = {queue: trim(states) for queue, states in self.history.view.counts[tenant].items() if trim(states)}
            same(f"counts of {tenant}", counts, self.model.count(Context(tenant), ""))
        same("engine.verify()", self.engine.verify(), [])
        same("fairness", self.model.fairness.problems, [])
        same("invariants", breaches(self.history), [])

    def view(self) -> View:
        engine, now = self.engine, self.now
        ids = list(range(1, self.model.world.last_id + 2))
        records = {record.id: record for record in engine.get(ALL, ids, [], now) if record is not None}
        view = View(records)
        for code, name in enumerate(STATE_NAMES):
            view.by_state[name] = self.find(ALL, Filter(states=1 << code))
        for tenant in self.tenants:
            own = Context(tenant)
            view.counts[tenant] = engine.count(own, "", now)
            view.got_by[tenant] = [record.id for record in engine.get(own, ids, [], now) if record is not None]
            view.found_by[tenant] = self.find(own, Filter())
            view.events_by[tenant] = self.read_own_events(tenant)
        return view

    def read_own_events(self, tenant: str) -> list[Event]:
        page = self.engine.events(Context(tenant), self.cursors[tenant], 1_000, self.now)
        self.cursors[tenant] = page.cursor
        return list(page.events)

    def find(self, context: Context, filter: Filter) -> list[int]:
        found: list[int] = []
        cursor = ""
        while True:
            page = self.engine.find(context, filter, 7, cursor, self.now)
            found += [record.id for record in page.jobs]
            cursor = page.cursor
            if not cursor:
                return sorted(found)

    # Verbs.

    def tick(self) -> object:
        return self.step("tick", NOBODY, lambda: self.wake(self.engine.tick(self.now)), lambda _: None)

    def wake(self, next: Now | None) -> None:
        """What `tick` answers must not be later than what the model knows to come."""
        self.next = next

    def advance(self, wall_ms: int, elapsed_ms: int, left_out_ms: int = 0) -> object:
        self.wall += wall_ms
        self.elapsed += elapsed_ms
        self.left_out += left_out_ms
        return self.tick()

    def served(self, shown: int) -> int:
        """A deadline as it was shown, in served time."""
        return shown - self.model.world.show(0) - self.left_out

    def enqueue(self, context: Context, batch: Batch) -> object:
        return self.step(
            "enqueue",
            context,
            lambda: self.engine.enqueue(context, batch, self.now),
            lambda _: self.model.enqueue(context, batch),
            lambda answer: self.accept(context.tenant, batch, answer),
        )

    def accept(self, tenant: str, batch: Batch, answer: object) -> None:
        if not isinstance(answer, Answers):
            return
        for at in range(len(answer)):
            outcome = answer.item(at)
            if outcome.error is None and not outcome.duplicate:
                options, extras = item_of(batch, at)
                self.history.accepted[outcome.id] = Accepted(self.history.step, tenant, options, extras)

    def claim(self, context: Context, wish: Claim) -> object:
        def note(answer: object) -> None:
            if isinstance(answer, Claimed) and answer.ticket:
                self.history.waiting[answer.ticket] = (context, wish)

        return self.step(
            "claim",
            context,
            lambda: self.engine.claim(context, wish, self.now),
            lambda observed: Leased(self.model.claim(context, wish, observed), observed.token),
            note,
        )

    def settle(self, context: Context, order: Settle) -> object:
        step = len(self.history.steps)
        self.history.unnamed[step] = sum(len(batch.payloads) for batch in order.followups or [] if batch is not None)
        for at, id in enumerate(order.ids):
            self.history.words.append(Word(step, id, self.token_of(context, order, at)))
        return self.step(
            "settle",
            context,
            lambda: self.engine.settle(context, order, self.now),
            lambda _: self.model.settle(context, order),
        )

    def token_of(self, context: Context, order: Settle, at: int) -> bytes:
        """The token that was said, or that of the last lease if none was."""
        if order.tokens is not None:
            return order.tokens[at]
        held = [token for id, token in self.granted if id == order.ids[at]]
        return held[-1] if held else b""

    def extend(self, context: Context, order: Extend) -> object:
        def note(answer: object) -> None:
            if isinstance(answer, Extended):
                for id, until in zip(order.ids, answer.lease_until, strict=True):
                    if until:
                        self.history.extensions.append((self.history.step, id, self.served(until)))

        return self.step(
            "extend",
            context,
            lambda: self.engine.extend(context, order, self.now),
            lambda _: self.model.extend(context, order),
            note,
        )

    def change(self, context: Context, order: Change) -> object:
        def note(answer: object) -> None:
            if order.action == request.CLONE and isinstance(answer, Answers):
                for at, source in enumerate(order.ids or []):
                    if answer.item(at).error is None:
                        self.accept_clone(answer.item(at).id, source)

        return self.step(
            "change",
            context,
            lambda: self.engine.change(context, order, self.now),
            lambda _: self.model.change(context, order),
            note,
        )

    def accept_clone(self, id: int, source: int) -> None:
        job = self.model.world.jobs.get(source) or self.model.world.graves[source]
        self.history.accepted[id] = Accepted(self.history.step, job.tenant, job.options, Extras())

    def sweep(self, context: Context, order: Change) -> object:
        """A change by filter: all steps until its end is told, at one time."""
        if order.action == request.CLONE:
            self.history.unnamed[len(self.history.steps)] = len(self.model.world.jobs)

        def ask() -> int:
            ticket = self.engine.change(context, order, self.now).ticket
            for _ in range(100):
                answers = dict(self.engine.drain_outbox())
                count = answers.pop(ticket, None)
                self.early += answers.items()
                if isinstance(count, int):
                    return count
                self.engine.tick(self.now)
            raise Mismatch("a change by filter does not end")

        return self.step("sweep", context, ask, lambda _: self.model.change(context, order))

    def append(self, context: Context, order: Append) -> object:
        return self.step(
            "append",
            context,
            lambda: self.engine.append(context, order, self.now),
            lambda _: self.model.append(context, order),
        )

    def configure(self, context: Context, order: Configure) -> object:
        def note(answer: object) -> None:
            if not isinstance(answer, dict) or order.subject not in KINDS:
                return
            kind = KINDS[order.subject]
            tenant = "" if kind in ("tenant", "store") else context.tenant
            values = dict(self.history.values(kind, tenant, order.name, self.history.step))
            put(values, order.changes)
            self.history.settings.append(Setting(self.history.step, kind, tenant, order.name, values))

        return self.step(
            "configure",
            context,
            lambda: self.engine.configure(context, order, self.now),
            lambda _: self.model.configure(context, order),
            note,
        )

    def watch(self, context: Context, id: int, wait_ms: int) -> object:
        return self.step(
            "watch",
            NOBODY,
            lambda: self.engine.watch(context, id, wait_ms, self.now),
            lambda observed: self.model.watch(context, id, wait_ms, observed.ticket),
        )

    def withdraw(self, ticket: int) -> object:
        self.history.withdrawals.add(len(self.history.steps))
        self.history.waiting.pop(ticket, None)
        return self.step(
            "withdraw", NOBODY, lambda: self.engine.withdraw(ticket, self.now), lambda _: self.model.withdraw(ticket)
        )


def is_held(job: Job, token: bytes) -> bool:
    return job.lease is not None and job.lease.token == token


# Comparing.


def caught(call: Callable[[], object]) -> object:
    try:
        return call()
    except Error as error:
        return error


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Mismatch(f"{what}: the engine has {got}, the model {wanted}")


def trim(states: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in states.items() if count}


def plain(answer: object, verb: str = "") -> object:
    """Answers of both sides in one form."""
    if isinstance(answer, Answers):
        if verb == "enqueue":
            same("ids of refused items", [answer.ids[at] for at in answer.errors() if answer.ids[at]], [])
        return [plain_outcome(answer.item(at), verb) for at in range(len(answer))]
    if isinstance(answer, Claimed):
        return Leased(list(answer.ids), answer.token)
    if isinstance(answer, Extended):
        errors = answer.errors or {}
        return [plain(errors.get(at, until)) for at, until in enumerate(answer.lease_until)]
    if isinstance(answer, Error):
        return plain_error(answer)
    if isinstance(answer, list):
        return [plain_outcome(each, verb) if isinstance(each, Outcome) else plain(each) for each in answer]
    return None if isinstance(answer, dict) else answer


def plain_outcome(outcome: Outcome, verb: str) -> tuple[object, ...]:
    if outcome.error is not None:
        return plain_error(outcome.error)
    told = (outcome.id, STATE_NAMES[outcome.state], outcome.duplicate, outcome.replaced)
    is_planned = verb == "settle" and outcome.state in (SCHEDULED, RETRYING)
    return (*told, outcome.run_at) if is_planned else told


def plain_error(error: Error) -> tuple[object, ...]:
    if isinstance(error, LeaseLost):
        return (error.code, error.job, error.reason)
    if isinstance(error, AlreadySettled):
        return (error.code, error.job, error.outcome)
    if isinstance(error, InvalidRequest):
        return (error.code, error.field)
    if isinstance(error, PayloadTooLarge):
        return (error.code, error.size, error.max)
    return (error.code,)


def check_events(events: list[Event], seen: list[Seen]) -> None:
    """Per job, in order: what each event says of its transition."""
    told: dict[int, list[tuple[object, ...]]] = {}
    meant: dict[int, list[tuple[object, ...]]] = {}
    for event in events:
        if event.job:
            told.setdefault(event.job, []).append(plain_event(event))
    for each in seen:
        meant.setdefault(each.job, []).append(plain_event(each))
    for id in sorted({*told, *meant}):
        same(f"events of job {id}", told.get(id, []), meant.get(id, []))


def plain_event(event: Event | Seen) -> tuple[object, ...]:
    state = "" if event.type == "removed" else event.state
    cause = "" if event.type == "progress" else event.cause
    reason = event.reason if event.type in ("failed", "removed") else ""
    return (event.job_seq, event.type, state, cause, reason)
