"""The accountant: it follows a run by what was asked, answered and seen, and says what cannot be.

It knows nothing of the engine's inside. What it holds a store to is docs/semantics.md, section 21.
"""

from collections.abc import Callable
from typing import Final

from tenure.core import request, state
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import AlreadySettled, Error, InvalidRequest, JobCancelled, JobNotFound, LeaseLost
from tenure.core.job import DELIVERIES_EXTRA, LEASE_DEFAULT_MS, TRAILING, UNSET, Extras, Options
from tenure.core.record import Event, JobRecord
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Load, Settle
from tenure.core.retry import delay_ms
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.clock import LEASE_LEAST_MS, STEP_MS
from tests.simulation.ledger import Ledger
from tests.simulation.record import Record
from tests.simulation.slots import Slots
from tests.simulation.story import Holdover, Lease, Scope, Story
from tests.simulation.trace import render

DAY_MS: Final = 86_400_000
OP_MS: Final = 120_000
KEEP_MIN_MS: Final = 60_000

SPENT: Final = ("fail", "expire_lease", "time_out")
SAID: Final = ("complete", "fail", "refuse", "release", "snooze")
TRIED_AGAIN: Final = ("fail", "expire_lease", "time_out", "release", "snooze")  # when the job has not ended
TERMINAL: Final = ("completed", "failed", "cancelled")
CONFIRMS: Final = (state.SETTLE_COMPLETE, state.SETTLE_FAIL, state.SETTLE_RELEASE)
REFUSALS: Final = (LeaseLost, JobCancelled, AlreadySettled, JobNotFound)
# Causes that only somebody's request can have, and the actions that ask for them.
ASKED: Final[dict[str, tuple[int, ...]]] = {
    "cancel": (request.CANCEL,),
    "discard": (request.DISCARD,),
    "promote": (request.PROMOTE, request.DELAY),
    "delay": (request.DELAY,),
    "replay": (request.REPLAY,),
}

NewJob = tuple[Options, Extras | None]


def sees(context: Context, tenant: str) -> bool:
    names = context.tenants or (context.tenant,)
    return ANY_TENANT in names or tenant in names


class Step:
    """What the record in hand asked for, so that its events can be told from things that come from nowhere."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.is_repeat = False
        self.new: dict[int, NewJob] = {}  # ids answered as new
        self.words: dict[int, list[tuple[bytes | None, int]]] = {}  # per job: token and item that were not refused
        self.verb = record.request.verb if isinstance(record.request, Settle) else state.SETTLE_NONE
        self.grants: dict[int, list[tuple[Lease, int, int]]] = {}  # per job: lease, attempt, lease length (0: any)
        self.confirmed: list[tuple[bytes | None, int]] = []  # token and job of words that end a holdover
        self.clones: dict[int, str] = {}  # of jobs whose options are not known: the tenant
        self.actions: dict[int, int] = {}  # per job: what was asked of it
        self.said: dict[int, str] = {}  # per job: the cause that its events show, and the item that brought it about
        self.said_at: dict[int, int] = {}


class Checker:
    def __init__(self) -> None:
        self.stories: dict[int, Story] = {}  # of jobs that are there
        self.gone: dict[int, Story] = {}
        self.ledger = Ledger()
        self.holdovers: dict[tuple[bytes, int], Holdover] = {}
        self.slots = Slots()
        self.freed: dict[Scope, int] = {}  # slots of holdovers that ended in this step
        self.is_changed = False  # the settings that this step changes are in force
        self.tokens: dict[bytes, bool] = {}
        self.tickets: dict[int, tuple[str, Record]] = {}
        self.sweeps: list[tuple[str, Change]] = []  # every one that was ever begun
        self.open_sweeps: dict[int, tuple[str, Change]] = {}
        self.ops: dict[tuple[str, str, int], tuple[str, int, object]] = {}
        self.unnamed: dict[str, int] = {}  # per tenant: jobs that may come without having been answered
        self.loads: dict[tuple[str, str], dict[tuple[int, str, int], int]] = {}
        self.published: dict[tuple[str, str], bool] = {}
        self.unique: dict[tuple[str, str, str], int] = {}
        self.custom: dict[tuple[str, str], tuple[int, int]] = {}  # holder, and until when it holds (0: open)
        self.idempotent: dict[tuple[str, str, str, str], tuple[int, int]] = {}  # holder, and when its time is over
        self.dependents: dict[int, list[int]] = {}
        self.groups: dict[tuple[str, str, str], dict[int, Story]] = {}  # live members that have joined
        self.by_tenant: dict[str, list[Event]] = {}  # not yet compared with what the tenant reads
        self.counts: dict[tuple[str, str], dict[int, int]] = {}
        self.accepted = 0
        self.seq = 0
        self.wall = 0
        self.at = 0  # as the wall, but it never falls
        self.elapsed = 0
        self.served = 0  # elapsed, without the time in which the owner did not run
        self.left_out = 0
        self.offset = 0  # of the wall from elapsed time, 0 if not known; it follows steps of over a second
        self.found: list[str] = []

    def feed(self, record: Record) -> list[str]:
        """Follow one step; answers what is wrong with it."""
        self.found = []
        self.freed = {}
        self.is_changed = False
        self._move_clock(record)
        self._drop_holdovers()
        step = Step(record)
        self._look_at_op(step)
        expect = EXPECTATIONS.get(record.verb)
        if expect is not None:
            expect(self, step)
        for ticket, answer in record.sent:
            self._hear_ticket(step, ticket, answer)
        for event in record.events:
            self._see(step, event)
        judge = JUDGEMENTS.get(record.verb)
        if judge is not None:
            judge(self, step)
        self._end_step(step)
        return self.found

    def _move_clock(self, record: Record) -> None:
        if record.elapsed < self.elapsed:
            return
        is_first = self.offset == 0
        self.wall, self.elapsed = record.wall, record.elapsed
        self.at = max(self.at, self.wall)
        if is_first or abs(self.wall - self.elapsed - self.offset) > STEP_MS:
            self.offset = self.wall - self.elapsed
        before, self.served = self.served, self.elapsed - record.left_out
        if record.left_out != self.left_out:
            self.left_out = record.left_out
            for story in self.stories.values():
                lease = story.lease
                if lease is not None and before < lease.deadline:
                    lease.deadline = max(lease.deadline, self.served + min(lease.length, LEASE_LEAST_MS))

    def _late(self, story: Story) -> int:
        """By how much its time to run has come; negative before."""
        return (self.elapsed if story.is_delayed else self.wall) - story.run_at

    def restart(self, now: Now, offset: int, seq: int, deadlines: dict[int, int]) -> None:
        """The store was lost and opened again, at these times; its events go on after a number.

        Waits, watches and connections have ended. A lease that lived when the store last wrote has time to be renewed;
        `deadlines` says until when.
        """
        self.wall, self.elapsed, self.left_out = int(now.wall_ms), int(now.elapsed_ms), int(now.left_out_ms)
        self.served = self.elapsed - self.left_out
        self.at = max(self.at, self.wall)
        self.offset = offset
        self.seq = seq
        self.tickets = {ticket: asked for ticket, asked in self.tickets.items() if asked[0] == "sweep"}
        for held in self.holdovers.values():
            held.connection = 0
        for story in self.stories.values():
            lease = story.lease
            if lease is not None:
                lease.connection = 0
                deadline = deadlines[story.id]
                if lease.deadline > self.served and deadline < self.served + min(lease.length, LEASE_LEAST_MS):
                    self.say(f"job {story.id}: its lease has {deadline - self.served} ms left after a restart")
                lease.deadline = deadline

    def say(self, text: str) -> None:
        self.found.append(text)

    # Before the events: what the step was asked to do.

    def _look_at_op(self, step: Step) -> None:
        record = step.record
        op = record.context.op
        if op is None or record.verb not in ("enqueue", "settle", "change", "claim"):
            return
        key = (record.context.tenant, op.session, op.counter)
        seen = self.ops.get(key)
        if seen is not None and self.elapsed - seen[1] >= DAY_MS:
            seen = None  # a session is not remembered for ever
        if isinstance(record.answer, Error):
            if seen is not None and record.verb != "claim":
                step.is_repeat = True
                if self.elapsed - seen[1] < OP_MS and not isinstance(record.answer, InvalidRequest):
                    self.say(f"the repeat of operation {key} was refused: {record.answer}")
            return
        if isinstance(record.answer, Claimed):
            # Leases that live are answered again; otherwise the claim is made anew.
            if not record.answer.ticket and record.answer.token not in self.tokens:
                self.ops[key] = ("", self.elapsed, record.answer)
            return
        if seen is None:
            self.ops[key] = (render(record.answer), self.elapsed, record.answer)
            return
        step.is_repeat = True
        if self.elapsed - seen[1] >= OP_MS:
            self.say(f"operation {key} was answered again after {self.elapsed - seen[1]} ms")
        if seen[0] != render(record.answer):
            self.say(f"operation {key} was answered {render(record.answer)}, first {seen[0]}")

    def _expect_enqueue(self, step: Step) -> None:
        batch, answers = step.record.request, step.record.answer
        if not isinstance(answers, Answers) or step.is_repeat:
            return
        assert isinstance(batch, Batch)
        if len(answers) != len(batch.payloads):
            self.say(f"{len(batch.payloads)} items got {len(answers)} answers")
        tenant = step.record.context.tenant
        for at in range(len(answers)):
            item = answers.item(at)
            if item.error is not None:
                continue
            if item.duplicate:
                known = self.stories.get(item.id) or self.gone.get(item.id)
                if (known is None or known.tenant != tenant) and item.id not in step.new:
                    self.say(f"job {item.id} was answered as a duplicate and is not the tenant's")
                continue
            options = batch.options if batch.each is None else batch.each[at]
            step.new[item.id] = (options, batch.extra(at))

    def _expect_claim(self, step: Step) -> None:
        answer = step.record.answer
        if not isinstance(answer, Claimed):
            return
        if answer.ticket:
            if answer.ids:
                self.say(f"claim {answer.ticket} waits and has {answer.ids}")
            self.tickets[answer.ticket] = ("claim", step.record)
            return
        self._grant(step, step.record, answer)

    def _grant(self, step: Step, asked: Record, answer: Claimed) -> None:
        """A claim was answered, by itself (`asked` is the step's own record) or to its ticket."""
        claim, context = asked.request, asked.context
        assert isinstance(claim, Claim)
        if not answer.ids:
            return
        if len(answer.ids) > claim.n:
            self.say(f"{len(answer.ids)} jobs were leased to a claim for {claim.n}")
        if answer.token in self.tokens:
            self._repeat_claim(step, asked, answer)
            return
        self.tokens[answer.token] = True
        for at, id in enumerate(answer.ids):
            until = answer.lease_until[at]
            length = until - self.offset - self.elapsed
            lease = Lease(answer.token, length, self.served, self.served + length, context.connection, claim.worker)
            step.grants.setdefault(id, []).append((lease, answer.attempts[at], claim.lease_ms))
            if not sees(context, answer.tenants[at]):
                self.say(f"job {id} of {answer.tenants[at]} was leased to a claim that may not see it")
            story = self.stories.get(id)
            if story is not None:
                self._check_wish(claim, story)

    def _check_wish(self, claim: Claim, story: Story) -> None:
        if claim.tasks is not None and story.task not in claim.tasks:
            self.say(f"job {story.id} with task {story.task} was leased to a worker that does not know it")
        if not wants_queue(claim, story.queue):
            self.say(f"job {story.id} of queue {story.queue} was leased to a claim for others")

    def _repeat_claim(self, step: Step, asked: Record, answer: Claimed) -> None:
        """A claim that waited may be granted in the very step in which its repeat comes."""
        op = asked.context.op
        seen = None if op is None else self.ops.get((asked.context.tenant, op.session, op.counter))
        first = None if seen is None else seen[2]
        if not isinstance(first, Claimed) or first.token != answer.token:
            self.say(f"token {answer.token.hex()} was given twice")
        for id in answer.ids:
            story = self.stories.get(id)
            ended = story is None or story.lease is None or story.lease.token != answer.token
            is_new = any(lease.token == answer.token for lease, _, _ in step.grants.get(id, ()))
            if ended and not is_new:
                self.say(f"job {id} was answered again to a claim whose lease is over")

    def _expect_settle(self, step: Step) -> None:
        settle, answers = step.record.request, step.record.answer
        if not isinstance(answers, Answers) or step.is_repeat:
            return
        assert isinstance(settle, Settle)
        tokens: list[bytes | None] = [None] * len(settle.ids) if settle.tokens is None else list(settle.tokens)
        for at, (id, token) in enumerate(zip(settle.ids, tokens, strict=True)):
            item = answers.item(at)
            self._confirm(step, id, token, settle.verb)
            if item.error is not None:
                if isinstance(item.error, REFUSALS) and self._is_live(step, id, token):
                    self.say(f"the live token of job {id} was refused: {item.error}")
                continue
            step.words.setdefault(id, []).append((token, at))
            followups = None if settle.followups is None else settle.followups[at]
            if followups is not None:
                story = self.stories.get(id)
                if story is not None:
                    most = self.unnamed.get(story.tenant, 0) + len(followups.payloads)
                    self.unnamed[story.tenant] = most

    def _is_live(self, step: Step, id: int, token: bytes | None) -> bool:
        """Whether the token was the live one when the step's request came, after what was due had been done."""
        story = self.stories.get(id)
        if story is None or story.lease is None or token != story.lease.token or story.lease.deadline <= self.served:
            return False
        if not sees(step.record.context, story.tenant) or id in step.words:
            return False
        return all(event.job != id or event.cause not in ("time_out", "expire_lease") for event in step.record.events)

    def _confirm(self, step: Step, id: int, token: bytes | None, verb: int) -> None:
        """A worker's word about an attempt that was taken from it frees what the attempt held."""
        if verb not in CONFIRMS:
            return
        step.confirmed.append((token, id))
        for key, holdover in list(self.holdovers.items()):
            if self._is_confirmed(step, holdover, token, id):
                del self.holdovers[key]
                self._free(holdover.scopes)

    def _is_confirmed(self, step: Step, holdover: Holdover, token: bytes | None, id: int) -> bool:
        context = step.record.context
        is_own = token is None and 0 < holdover.connection == context.connection
        return holdover.job == id and (holdover.token == token or is_own) and sees(context, holdover.tenant)

    def _expect_change(self, step: Step) -> None:
        change, answers = step.record.request, step.record.answer
        if not isinstance(answers, Answers) or step.is_repeat:
            return
        assert isinstance(change, Change)
        context = step.record.context
        if change.ids is None:
            self.tickets[answers.ticket] = ("sweep", step.record)
            self.sweeps.append((context.tenant, change))
            self.open_sweeps[answers.ticket] = (context.tenant, change)
            return
        for at, id in enumerate(change.ids):
            item = answers.item(at)
            story = self.stories.get(id)
            is_hidden = story is not None and not sees(context, story.tenant)
            if is_hidden and not isinstance(item.error, JobNotFound):
                self.say(f"job {id} was changed or shown to a tenant that may not see it")
            if item.error is not None:
                continue
            if change.action == request.CLONE:
                self._expect_clone(step, id, item.id)
                continue
            step.actions[id] = change.action
            if change.action == request.REMOVE and story is not None:
                story.is_removal_asked = True

    def _expect_clone(self, step: Step, of: int, id: int) -> None:
        story = self.stories.get(of)
        options = step.new[of][0] if of in step.new else None if story is None else story.options
        if options is not None:
            step.new[id] = (options, None)
            return
        tenant = step.clones.get(of, "") if story is None else story.tenant
        step.clones[id] = tenant
        self.unnamed[tenant] = self.unnamed.get(tenant, 0) + 1

    def _expect_configure(self, step: Step) -> None:
        if not isinstance(step.record.answer, Error):
            assert isinstance(step.record.request, Configure)
            if step.record.request.changes:
                self.ledger.configure(step.record.context.tenant, step.record.request, self.elapsed)
                self._relax(step.record.context.tenant, step.record.request)

    def _relax(self, tenant: str, configured: Configure) -> None:
        if configured.subject == request.QUEUE and configured.changes.get("group_order") == "relaxed":
            for group in self.slots.groups(tenant, configured.name):
                self.slots.clear(group)

    def _narrow(self, event: Event) -> None:
        """Limits of a queue were changed just now."""
        self.is_changed = True
        width = self.ledger.group_width(self.ledger.now, event.tenant, event.queue)
        for group in self.slots.groups(event.tenant, event.queue):
            self.slots.narrow(group, self.ledger.taken.get(group, 0), width)

    def _expect_load(self, step: Step) -> None:
        load = step.record.request
        if isinstance(step.record.answer, Error):
            return
        assert isinstance(load, Load)
        name = (step.record.context.tenant, load.load_id)
        if load.step == request.STAGE:
            assert load.batch is not None
            chunks = self.loads.setdefault(name, {})
            chunks[(load.part, load.writing, load.chunk)] = len(load.batch.payloads)
        elif load.step == request.ABORT:
            self.loads.pop(name, None)
        elif name not in self.published:
            self.published[name] = True
            parts = load.parts or {}
            chunks = self.loads.get(name, {})
            rows = sum(count for key, count in chunks.items() if parts.get(key[0]) == key[1])
            self.unnamed[name[0]] = self.unnamed.get(name[0], 0) + rows

    def _expect_watch(self, step: Step) -> None:
        ticket = step.record.answer
        if isinstance(ticket, int) and ticket:
            self.tickets[ticket] = ("watch", step.record)

    def _judge_withdraw(self, step: Step) -> None:
        assert isinstance(step.record.request, int)
        self.tickets.pop(step.record.request, None)

    def _hear_ticket(self, step: Step, ticket: int, answer: object) -> None:
        kind, asked = self.tickets.pop(ticket, ("", step.record))
        if kind == "claim" and isinstance(answer, Claimed):
            assert isinstance(asked.request, Claim)
            self._grant(step, asked, answer)
            if not answer.ids and self.elapsed < asked.elapsed + asked.request.wait_ms:
                self.say(f"claim {ticket} gave up after {self.elapsed - asked.elapsed} ms")
            op = asked.context.op
            if op is not None:
                self.ops[(asked.context.tenant, op.session, op.counter)] = ("", self.elapsed, answer)
        elif kind == "watch" and isinstance(answer, JobRecord):
            if answer.state not in TERMINAL:
                self.say(f"the watch {ticket} of job {answer.id} ended with {answer.state}")
        elif kind == "watch" and answer is None:
            assert isinstance(asked.request, tuple)
            if self.elapsed < asked.elapsed + asked.request[1]:
                self.say(f"the watch {ticket} gave up after {self.elapsed - asked.elapsed} ms")
        elif kind == "sweep" and isinstance(answer, int):
            pass
        else:
            self.say(f"ticket {ticket} ({kind or 'unknown'}) was answered with {render(answer)}")

    # The events.

    def _see(self, step: Step, event: Event) -> None:
        self.seq += 1
        if event.seq != self.seq:
            self.say(f"event {event.seq} came where {self.seq} was due")
            self.seq = event.seq
        if event.at != self.at:
            self.say(f"event {event.seq} is of {event.at}, the step of {self.at}")
        self.by_tenant.setdefault(event.tenant, []).append(event)
        if event.type == "limits_changed":
            self._narrow(event)
        if not event.job:
            return
        if event.type == "enqueued":
            story = self._begin(step, event)
        else:
            found = self.stories.get(event.job)
            if found is None:
                self.say(f"event {event.seq} ({event.type}) is of job {event.job}, which is not there")
                return
            story = found
        self._follow_path(story, event)
        before = story.state
        self._enter(story, event)
        if event.type == "started":
            self._start(step, story, event)
        elif before == state.RUNNING and event.type != "progress" and story.state != state.RUNNING:
            self._stop(step, story, event)
        elif event.cause in SAID:
            self.say(f"job {story.id}: {event.cause} while {state.STATE_NAMES[before]}")
        self._check_asked(step, story, event, before)
        self._keep_time(story, event)
        self._keep_groups(story, event)
        if event.type in TERMINAL or event.type == "removed":
            self._end(story, event, before)

    def _follow_path(self, story: Story, event: Event) -> None:
        story.seq += 1
        if event.job_seq != story.seq:
            self.say(f"job {story.id}: job_seq {event.job_seq} came where {story.seq} was due")
            story.seq = event.job_seq
        if (event.tenant, event.queue, event.task) != (story.tenant, story.queue, story.task):
            self.say(f"event {event.seq} of job {story.id} names {event.tenant}/{event.queue}/{event.task}")
        if event.type == "progress":
            if story.state != state.RUNNING:
                self.say(f"job {story.id}: progress while {state.STATE_NAMES[story.state]}")
            return
        after = code_of(event)
        if not state.allows(state.CAUSE_NAMES.index(event.cause), story.state, after):
            names = (*state.STATE_NAMES, "new", "gone")
            self.say(f"job {story.id}: {event.cause} led from {names[story.state]} to {names[after]}")

    def _enter(self, story: Story, event: Event) -> None:
        if event.type == "progress":
            return
        counts = self.counts.setdefault((story.tenant, story.queue), {})
        after = code_of(event)
        if story.state != state.NEW:
            counts[story.state] -= 1
        if after != state.GONE:
            counts[after] = counts.get(after, 0) + 1
        story.state = after

    def _begin(self, step: Step, event: Event) -> Story:
        id = event.job
        if id in self.stories or id in self.gone:
            self.say(f"id {id} was given twice")
        options, extras = step.new.pop(id, (None, None))
        if options is None:
            left = self.unnamed.get(event.tenant, 0)
            if left <= 0:
                self.say(f"job {id} of {event.tenant} came from nowhere")
            else:
                self.unnamed[event.tenant] = left - 1
        else:
            self._compare(event, options, extras, step)
        story = Story.begin(event, options, extras)
        story.expires_at = event.expires_at
        self.stories[id] = story
        self.accepted += 1
        for need in story.depends_on:
            if need not in self.stories and need not in self.gone:
                self.say(f"job {id} depends on {need}, which never was")
            self.dependents.setdefault(need, []).append(id)
        self._take_unique(story)
        self._take_keys(story)
        return story

    def _compare(self, event: Event, options: Options, extras: Extras | None, step: Step) -> None:
        """The event against the request that asked for it."""
        is_clone = step.record.verb == "change"
        asked = (options.queue, options.task, options.max_attempts or None, options.limit_keys)
        if asked != (event.queue, event.task, event.max_attempts, event.limit_keys):
            self.say(f"job {event.job} was asked for as {asked}, the event says otherwise")
        if not is_clone and event.tenant != step.record.context.tenant:
            self.say(f"job {event.job} was asked for by {step.record.context.tenant} and belongs to {event.tenant}")
        if is_clone:
            return
        group = "" if extras is None else extras.group
        needs = () if extras is None else extras.depends_on
        if (group, needs) != (event.group, event.depends_on):
            self.say(f"job {event.job} was asked for with {group!r}, {needs}, the event says otherwise")
        if extras is not None and extras.debounce_key:
            return
        run_at = self.wall if extras is None else max(extras.run_at, self.wall)
        if options.delay_ms:
            run_at = self.elapsed + self.offset + options.delay_ms
        # A job of which nothing special is asked is to run when it came.
        if event.run_at != run_at and not (run_at == self.wall and event.run_at == self.at):
            self.say(f"job {event.job} was asked for at {run_at}, and is to run at {event.run_at}")
        if event.state == "ready" and event.run_at > self.at:
            self.say(f"job {event.job} is ready before its time")

    def _take_unique(self, story: Story) -> None:
        if not story.unique:
            return
        key = (story.tenant, story.queue, story.unique)
        if self.unique.get(key, story.id) != story.id:
            self.say(f"jobs {self.unique[key]} and {story.id} both hold the unique key {key}")
        self.unique[key] = story.id

    def _take_keys(self, story: Story) -> None:
        extras = story.extras
        if extras is None:
            return
        if extras.custom_id:
            name = (story.tenant, extras.custom_id)
            holder, until = self.custom.get(name, (0, -1))
            if until == 0 or until > self.elapsed:
                self.say(f"jobs {holder} and {story.id} both have the custom id {extras.custom_id}")
            self.custom[name] = (story.id, 0)
        if extras.idempotency_key:
            assert story.options is not None
            key = (story.tenant, story.queue, story.task, extras.idempotency_key)
            holder, until = self.idempotent.get(key, (0, 0))
            is_live = holder in self.stories and self.stories[holder].state in state.LIVE
            if is_live or until > self.elapsed:
                self.say(f"jobs {holder} and {story.id} both have the idempotency key {extras.idempotency_key}")
            self.idempotent[key] = (story.id, self.elapsed + story.options.idempotency_ttl_ms)

    def _start(self, step: Step, story: Story, event: Event) -> None:
        granted = step.grants.get(story.id)
        if story.lease is not None:
            self.say(f"job {story.id} was leased while it was leased")
        if not granted:
            self.say(f"job {story.id} was started and given to nobody")
            return
        lease, attempt, lease_ms = granted.pop()
        story.lease = lease
        story.attempt = story.spent + 1
        story.delivery += 1
        if event.attempt != story.attempt or attempt != story.attempt:
            self.say(f"job {story.id}: attempt {event.attempt} ({attempt}) after {story.spent} were spent")
        if story.max_attempts is not None and event.attempt > story.max_attempts:
            self.say(f"job {story.id}: attempt {event.attempt} of {story.max_attempts}")
        if event.delivery != story.delivery:
            self.say(f"job {story.id}: delivery {event.delivery} came where {story.delivery} was due")
        if event.worker != lease.worker:
            self.say(f"job {story.id} was started by {event.worker!r} and given to {lease.worker!r}")
        self._check_lease(story, lease, lease_ms)
        if self._late(story) < 0:
            self.say(f"job {story.id} was started {-self._late(story)} ms before its time")
        if 0 < story.expires_at <= self.wall:
            self.say(f"job {story.id} was started at {self.wall}, though it expired at {story.expires_at}")
        if not story.are_needs_met([self._endings(need) for need in story.depends_on]):
            self.say(f"job {story.id} was started before its dependencies {story.depends_on}")
        self._check_group(story)
        had_slot = self.slots.drop(group_scope(story), story)
        self.found += self.ledger.start(story, self.elapsed)
        if not had_slot:
            self._check_kept(story)

    def _endings(self, id: int) -> list[str]:
        story = self.stories.get(id) or self.gone.get(id)
        return [] if story is None else story.endings

    def _check_lease(self, story: Story, lease: Lease, lease_ms: int) -> None:
        if story.options is None:
            return
        found = []
        for settings in self.ledger.both():
            value = settings.queue(story).get("lease_ms")
            of_queue = value if isinstance(value, int) else 0
            found.append(lease_ms or story.options.lease_ms or of_queue or LEASE_DEFAULT_MS)
        if lease.deadline - self.served not in found:
            self.say(f"job {story.id} was leased for {lease.deadline - self.served} ms instead of {found}")

    def _check_group(self, story: Story) -> None:
        if not story.group or story.has_started:
            return
        for other in self.groups.get((story.tenant, story.queue, story.group), {}).values():
            if not other.has_started and other.joined < story.joined and other.state == state.READY:
                self.say(f"job {story.id} was started before {other.id}, which joined {story.group} earlier")

    def _check_kept(self, story: Story) -> None:
        """In strict order a job that is to be tried again keeps its slot."""
        if not story.group or not all(self.ledger.is_strict(each, story) for each in self.ledger.both()):
            return
        group = group_scope(story)
        kept = self.slots.sure(group)
        taken = self.ledger.taken[group]
        width = max(self.ledger.group_width(each, story.tenant, story.queue) for each in self.ledger.both())
        if kept and taken + kept > width:
            self.say(f"{taken} run in the group {story.group} of {width} and {kept} keep their slot: job {story.id}")

    def _stop(self, step: Step, story: Story, event: Event) -> None:
        """The job is not running any more."""
        lease = story.lease
        story.lease = None
        if lease is None:
            self.say(f"job {story.id}: {event.cause} ended a lease that nobody had")
            return
        if event.attempt != story.attempt:
            self.say(f"job {story.id}: attempt {event.attempt} ended, {story.attempt} was running")
        is_own = step.verb == state.SETTLE_CANCEL and story.id in step.words
        said = event.cause in SAID or (event.cause == "cancel" and is_own)
        if said:
            self._check_word(step, story, event, lease)
        if event.cause == "expire_lease" and self.served < lease.deadline:
            self.say(f"job {story.id} lost its lease {lease.deadline - self.served} ms before the deadline")
        if event.cause == "snooze":
            story.snoozes += 1
        if not said and event.cause in ("cancel", "discard", "time_out"):
            held = Holdover(story.id, story.tenant, lease.token, lease.deadline, lease.connection, story.scopes)
            # Over already, or taken away in the step in which its worker speaks, which confirms it.
            is_confirmed = any(self._is_confirmed(step, held, token, id) for token, id in step.confirmed)
            if is_confirmed or lease.deadline <= self.served:
                self._free(story.scopes)
            else:
                self.holdovers[(lease.token, story.id)] = held
        else:
            self.ledger.give(story.scopes)
        story.scopes = ()
        if event.cause in SPENT:
            story.spent += 1
        self._check_last_word(story, event)
        self._check_retry(step, story, event)

    def _check_word(self, step: Step, story: Story, event: Event, lease: Lease) -> None:
        context = step.record.context
        for token, at in step.words.get(story.id, []):
            is_own = token is None and context.connection == lease.connection and lease.connection > 0
            if (token == lease.token or is_own) and state.SETTLE_NAMES[step.verb] == word_of(event.cause):
                story.last_word = (lease.token, step.verb)
                step.said[story.id] = event.cause
                step.said_at[story.id] = at
                if lease.deadline <= self.served:
                    self.say(f"job {story.id}: {event.cause} was taken {self.served - lease.deadline} ms too late")
                return
        self.say(f"job {story.id}: {event.cause} without the live token")

    def _check_last_word(self, story: Story, event: Event) -> None:
        most = story.max_attempts
        is_last = most is not None and story.spent >= most
        if event.type == "retrying" and is_last:
            self.say(f"job {story.id} is tried again after {story.spent} of {most}")
        if event.type != "failed" or event.cause not in (*SPENT, "release", "refuse"):
            return
        if event.reason == "delivery_limit":
            if most is None or story.delivery - story.snoozes < most + DELIVERIES_EXTRA:
                self.say(f"job {story.id} was given up after {story.delivery} deliveries")
        elif event.reason not in ("permanent", "undecodable") and not is_last:
            self.say(f"job {story.id} is dead ({event.reason}) after {story.spent} of {most}")

    def _check_retry(self, step: Step, story: Story, event: Event) -> None:
        if event.type != "retrying" or story.options is None:
            return
        wait = delay_ms(story.options.backoff, story.id, story.attempt)
        settle = step.record.request
        if event.cause == "fail" and isinstance(settle, Settle) and settle.failures is not None:
            asked = settle.failures[step.said_at[story.id]].delay_ms
            wait = wait if asked < 0 else asked
        run_at = self.elapsed + self.offset + wait if wait else self.wall
        if event.run_at != run_at:
            self.say(f"job {story.id} is tried again at {event.run_at} instead of {run_at}")
        if event.state != ("retrying" if wait else "ready"):
            self.say(f"job {story.id} is {event.state} with {wait} ms to wait")

    def _check_asked(self, step: Step, story: Story, event: Event, before: int) -> None:
        """What only somebody's request can do was requested: of this job, or by a sweep that is under way."""
        if event.type == "removed" and event.reason == "removed":
            swept = any(
                sweep.action == request.REMOVE and tenant in (story.tenant, "") for tenant, sweep in self.sweeps
            )
            if not story.is_removal_asked and not swept:
                self.say(f"job {story.id} was removed, and nobody asked for it")
        actions = ASKED.get(event.cause)
        if actions is None or step.said.get(story.id) == event.cause:
            return
        if step.actions.get(story.id) in actions:
            return
        if any(sweep.action in actions and tenant == story.tenant for tenant, sweep in self.open_sweeps.values()):
            return
        self.say(f"job {story.id}: {event.cause}, and nobody asked for it")

    def _is_delayed(self, story: Story, event: Event) -> bool:
        """Whether its time to run came from a duration."""
        if event.cause == "delay":
            return False
        options = story.options
        if event.cause in ("enqueue", "clone") and options is not None:
            has_key = story.extras is not None and bool(story.extras.debounce_key)
            return options.delay_ms > 0 or (has_key and options.debounce_mode == TRAILING)
        return story.is_delayed if event.cause in ("update", "satisfy") else True

    def _keep_time(self, story: Story, event: Event) -> None:
        """When the job may start at the earliest."""
        is_ready = event.state == "ready"
        if (event.cause == "due" or (event.cause == "satisfy" and is_ready)) and self._late(story) < 0:
            self.say(f"job {story.id} became ready {-self._late(story)} ms before its time")
        if event.type == "replayed":
            story.run_at = story.expires_at = story.spent = 0
            self._take_unique(story)
        elif is_ready or event.cause in ("due", "promote", "claim"):  # what is ready stays so, whatever the clock does
            story.run_at, story.is_delayed = 0, False
        elif event.state in ("scheduled", "retrying", "blocked") and event.run_at:
            story.is_delayed = self._is_delayed(story, event)
            story.run_at = event.run_at - self.offset if story.is_delayed else event.run_at

    def _keep_groups(self, story: Story, event: Event) -> None:
        if not story.group:
            return
        members = self.groups.setdefault((story.tenant, story.queue, story.group), {})
        if story.state == state.READY and not story.joined:
            story.joined = event.seq
            members[story.id] = story
        if event.type == "started":
            story.has_started = True
        if story.state in (*state.TERMINAL, state.GONE):
            story.joined = 0
            story.has_started = False
            members.pop(story.id, None)
            self.slots.drop(group_scope(story), story)
        elif event.cause in TRIED_AGAIN:
            self._keep_slot(story, event)

    def _keep_slot(self, story: Story, event: Event) -> None:
        """The job is to be tried again: in strict order its slot stays its own, unless too many are taken."""
        group = group_scope(story)
        strict = [self.ledger.is_strict(settings, story) for settings in self.ledger.both()]
        if not any(strict):
            return
        if event.cause == "time_out" or not all(strict):
            self.slots.doubt(group, story)
            return
        settings = self.ledger.now if self.is_changed or self.ledger.before is None else self.ledger.before
        taken = self.ledger.taken.get(group, 0)
        width = self.ledger.group_width(settings, story.tenant, story.queue)
        self.slots.retry(group, story, taken, taken + self.freed.get(group, 0), width)

    def _end(self, story: Story, event: Event, before: int) -> None:
        key = (story.tenant, story.queue, story.unique)
        if story.unique and self.unique.get(key) == story.id:
            del self.unique[key]
        if event.type != "removed":
            story.endings.append(event.type)
            story.ended_at = self.elapsed
            return
        if before not in state.TERMINAL:
            story.endings.append("cancelled")
            if event.reason not in ("removed", "aborted"):
                self.say(f"job {story.id} was removed ({event.reason}) before it ended")
        else:
            self._check_removal(story, event)
        if story.extras is not None and story.extras.custom_id:
            self.custom[(story.tenant, story.extras.custom_id)] = (story.id, self.elapsed + DAY_MS)
        del self.stories[story.id]
        self.gone[story.id] = story

    def _check_removal(self, story: Story, event: Event) -> None:
        if event.reason == "age" and self.elapsed - story.ended_at < self._kept_ms(story):
            self.say(f"job {story.id} was removed by age {self.elapsed - story.ended_at} ms after its end")
        for id in self.dependents.get(story.id, []):
            other = self.stories.get(id)
            if other is not None and other.state in state.LIVE:
                self.say(f"job {story.id} was removed ({event.reason}) while {id} depends on it")

    def _kept_ms(self, story: Story) -> int:
        """How long the job, which has ended, is kept at least."""
        is_failed = story.endings[-1] == "failed"
        own = UNSET
        if story.options is not None:
            own = story.options.keep_failed_ms if is_failed else story.options.keep_completed_ms
        if own != UNSET:
            return max(own, KEEP_MIN_MS) if own else 0
        # A job that others depended on goes late, under a setting that was in force before.
        name = "keep_failed_ms" if is_failed else "keep_completed_ms"
        found = [30 * DAY_MS if is_failed else DAY_MS, *self.ledger.ever.get((story.tenant, story.queue, name), [])]
        return min(max(ms, KEEP_MIN_MS) if ms else 0 for ms in found)

    # After the events: what the answer has to fit.

    def _judge_enqueue(self, step: Step) -> None:
        for id in step.new:
            self.say(f"job {id} was accepted and never appeared")

    def _judge_settle(self, step: Step) -> None:
        settle, answers = step.record.request, step.record.answer
        if not isinstance(answers, Answers) or step.is_repeat:
            return
        assert isinstance(settle, Settle)
        for id, words in step.words.items():
            story = self.stories.get(id) or self.gone.get(id)
            if story is None:
                self.say(f"job {id} was settled and never was")
                continue
            if not sees(step.record.context, story.tenant):
                self.say(f"job {id} was settled by a tenant that may not see it")
            if id in step.said:
                if settle.pause_key and settle.verb in (state.SETTLE_RELEASE, state.SETTLE_SNOOZE):
                    self.ledger.pause_key(story.tenant, settle.pause_key, self.elapsed + settle.delay_ms)
                continue
            for token, _ in words:
                if story.last_word is None or (token is not None and story.last_word != (token, settle.verb)):
                    self.say(f"job {id}: {state.SETTLE_NAMES[settle.verb]} was answered, and is not a repeat")

    def _judge_extend(self, step: Step) -> None:
        extend, answer = step.record.request, step.record.answer
        if not isinstance(answer, Extended):
            return
        assert isinstance(extend, Extend)
        for at, id in enumerate(extend.ids):
            story = self.stories.get(id)
            token = None if extend.tokens is None else extend.tokens[at]
            if answer.lease_until[at]:
                if story is None or story.lease is None or (token is not None and story.lease.token != token):
                    self.say(f"job {id}: a lease was renewed that is over")
                    continue
                self._renew(story, story.lease, extend.lease_ms, answer.lease_until[at])
            elif story is not None and self._is_live(step, id, token):
                self.say(f"job {id}: the live lease was not renewed")

    def _renew(self, story: Story, lease: Lease, asked_ms: int, until: int) -> None:
        if lease.deadline <= self.served:
            self.say(f"job {story.id}: a lease was renewed after its deadline")
        deadline = self.served + (asked_ms or lease.length)
        if story.options is not None and story.options.timeout_ms:
            deadline = min(deadline, lease.started + story.options.timeout_ms)
        if deadline > lease.deadline:
            lease.deadline = deadline
        shown = lease.deadline + self.left_out + self.offset
        if until != shown:
            self.say(f"job {story.id}: the lease was renewed until {until} instead of {shown}")

    def _judge_append(self, step: Step) -> None:
        append = step.record.request
        assert isinstance(append, Append)
        if isinstance(step.record.answer, Error):
            if isinstance(step.record.answer, REFUSALS) and self._is_live(step, append.id, append.token):
                self.say(f"job {append.id}: the live token was refused: {step.record.answer}")
            return
        story = self.stories.get(append.id)
        if story is None or story.lease is None or append.token not in (None, story.lease.token):
            self.say(f"job {append.id} took output under a lease that is over")

    def _judge_get(self, step: Step) -> None:
        """A read shows what the events said, to those who may see it, and nothing to others."""
        ids, records = step.record.request, step.record.answer
        assert isinstance(ids, tuple)
        assert isinstance(records, list)
        for id, record in zip(ids, records, strict=True):
            story = self.stories.get(id)
            if story is None or not sees(step.record.context, story.tenant):
                if record is not None:
                    self.say(f"job {id} was read by {step.record.context.tenant}, which has none such")
                continue
            if record is None:
                self.say(f"job {id} is lost")
                continue
            # An attempt that was given back is not counted; one that ended otherwise is.
            attempt = story.spent if record.state in ("ready", "scheduled", "blocked", "retrying") else record.attempt
            shown = (record.state, record.attempt, record.delivery, record.tenant)
            known = (state.STATE_NAMES[story.state], attempt, story.delivery, story.tenant)
            if shown != known:
                self.say(f"job {id} reads {shown}, its events say {known}")

    def _judge_count(self, step: Step) -> None:
        counts = step.record.answer
        assert isinstance(counts, dict)
        tenant = step.record.context.tenant
        shown = {(queue, name): count for queue, states in counts.items() for name, count in states.items() if count}
        known = {
            (queue, state.STATE_NAMES[code]): count
            for (owner, queue), states in self.counts.items()
            for code, count in states.items()
            if owner == tenant and count
        }
        for key in sorted({*shown, *known}):
            if shown.get(key, 0) != known.get(key, 0):
                self.say(f"{tenant} counts {shown.get(key, 0)} for {key}, the events say {known.get(key, 0)}")

    def _judge_events(self, step: Step) -> None:
        """A tenant reads exactly its own."""
        read = step.record.answer
        tenant = step.record.context.tenant
        assert isinstance(read, list)
        if read != self.by_tenant.get(tenant, []):
            self.say(f"{tenant} reads {len(read)} events, {len(self.by_tenant.get(tenant, []))} are its own")
        self.by_tenant[tenant] = []

    def _judge_tick(self, step: Step) -> None:
        """Nothing left to do at once: then no claim waits beside a job it could have."""
        if step.record.answer is True:
            return
        waits = [asked for kind, asked in self.tickets.values() if kind == "claim"]
        if not waits:
            return
        free = [story for story in self.stories.values() if self._is_claimable(story)]
        for asked in waits:
            claim = asked.request
            assert isinstance(claim, Claim)
            for story in free:
                known = claim.tasks is None or story.task in claim.tasks
                if known and sees(asked.context, story.tenant) and wants_queue(claim, story.queue):
                    self.say(f"a claim of step {asked.step} waits beside job {story.id}")

    def _is_claimable(self, story: Story) -> bool:
        is_expired = 0 < story.expires_at <= self.wall
        return story.state == state.READY and not is_expired and self.ledger.is_free(story)

    # Keeping up.

    def _drop_holdovers(self) -> None:
        for key in [key for key, held in self.holdovers.items() if held.deadline <= self.served]:
            self._free(self.holdovers.pop(key).scopes)

    def _free(self, scopes: tuple[Scope, ...]) -> None:
        """The slots of a holdover. When in the step that was, before or after what its events tell, is not known."""
        self.ledger.give(scopes)
        for scope in scopes:
            self.freed[scope] = self.freed.get(scope, 0) + 1

    def _end_step(self, step: Step) -> None:
        self._drop_holdovers()
        for id, granted in step.grants.items():
            if granted:
                self.say(f"job {id} was given to a claim and not started")
        for ticket in [ticket for ticket in self.open_sweeps if ticket not in self.tickets]:
            del self.open_sweeps[ticket]
        self.ledger.end_step()

    def live(self) -> int:
        return sum(1 for story in self.stories.values() if story.state in state.LIVE)

    def leftovers(self) -> list[str]:
        """What is still open when everything should be over."""
        found = [f"job {story.id} ({story.state}) is left" for story in self.stories.values()]
        found += [f"ticket {ticket} ({kind}) was never answered" for ticket, (kind, _) in self.tickets.items()]
        found += [f"job {held.job} still holds slots" for held in self.holdovers.values()]
        return found + [f"{count} slots of {scope} are taken" for scope, count in self.ledger.taken.items()]


def group_scope(story: Story) -> Scope:
    return ("group", story.tenant, story.queue, story.group)


def code_of(event: Event) -> int:
    return state.GONE if event.type == "removed" else state.STATE_NAMES.index(event.state)


def word_of(cause: str) -> str:
    """The verb by which a worker brings the cause about."""
    return "fail" if cause == "refuse" else cause


def wants_queue(claim: Claim, queue: str) -> bool:
    for pick in claim.queues:
        if queue.startswith(pick.name[:-1]) if pick.name.endswith("*") else queue == pick.name:
            return True
    return False


Rule = Callable[[Checker, Step], None]

EXPECTATIONS: Final[dict[str, Rule]] = {
    "enqueue": Checker._expect_enqueue,
    "claim": Checker._expect_claim,
    "settle": Checker._expect_settle,
    "change": Checker._expect_change,
    "configure": Checker._expect_configure,
    "load": Checker._expect_load,
    "watch": Checker._expect_watch,
}
JUDGEMENTS: Final[dict[str, Rule]] = {
    "enqueue": Checker._judge_enqueue,
    "settle": Checker._judge_settle,
    "change": Checker._judge_enqueue,
    "extend": Checker._judge_extend,
    "append": Checker._judge_append,
    "get": Checker._judge_get,
    "count": Checker._judge_count,
    "events": Checker._judge_events,
    "tick": Checker._judge_tick,
    "withdraw": Checker._judge_withdraw,
}
