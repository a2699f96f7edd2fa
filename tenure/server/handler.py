"""The one place where an operation is authorised and executed, whatever door it came through.

A door reads a command, translates it to a `Call` and hands it over with who calls. What lies out of a caller's reach is
answered exactly as if it did not exist.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from tenure.core import bound, request
from tenure.core.answer import Answers, Claimed, Extended, Outcome
from tenure.core.clock import Now
from tenure.core.error import (
    TOKEN_NOT_HELD,
    AlreadySettled,
    DependencyNotFound,
    Error,
    Forbidden,
    InvalidRequest,
    JobNotFound,
    LeaseLost,
    Unavailable,
)
from tenure.core.record import EventPage, JobRecord
from tenure.core.request import Batch, Change, Claim, Configure, Filter, Load, Settle
from tenure.core.state import LIVE, RUNNING, SETTLE_RELEASE, STATE_NAMES, TERMINAL
from tenure.core.tenant import ADMIN, ANY_TENANT, OPERATOR, PRODUCER, WORKER, Context, OpId
from tenure.server.caller import Caller
from tenure.server.hidden import hide
from tenure.store.contract import Prompt, Store, Told, Wait
from tenure.store.obliterate import obliterate
from tenure.wire.speech import Call
from tenure.wire.value import WireFilter

READS = PRODUCER | WORKER | OPERATOR
ROLES = {
    "enqueue": PRODUCER,
    "load": PRODUCER | ADMIN,
    "claim": WORKER,
    "settle": WORKER,
    "extend": WORKER,
    "append": WORKER,
    "get": READS,
    "stream": READS,
    "find": PRODUCER | OPERATOR,
    "count": PRODUCER | OPERATOR,
    "watch": PRODUCER | OPERATOR,
    "groups": OPERATOR,
    "explain": OPERATOR,
    "events": OPERATOR,
    "scan": OPERATOR,
    "obliterate": OPERATOR,
}
SUBJECT_ROLES = {
    request.QUEUE: OPERATOR,
    request.KEY: OPERATOR,
    request.WORKER: WORKER | OPERATOR,
    request.TASK: READS,
    request.TENANT: ADMIN,
    request.STORE: ADMIN,
}
WAITS = frozenset({"watch", "events", "stream"})  # when their last argument says so
STOPPING = "the server is stopping; connect again"
OP_CHARS_MAX = 200
OP_COUNTER_MAX = 2**63 - 1
RUNNING_PAGE = 1_000
LIVE_STATES = sum(1 << code for code in LIVE)
ENDED_STATES = sum(1 << code for code in TERMINAL)

log = logging.getLogger("tenure.server")
audit = logging.getLogger("tenure.audit")


class Asked:
    """What every request says besides its command."""

    __slots__ = ("connection", "durability", "op_id", "tenant", "tenants", "tokenless", "trace")

    def __init__(
        self,
        tenant: str = "",
        tenants: list[str] | None = None,
        op_id: str = "",
        durability: str = "",
        connection: int = 0,
        trace: str = "",
        tokenless: bool = False,
    ) -> None:
        """`tokenless`: of a client that knows no lease tokens."""
        self.tenant = tenant
        self.tenants = tenants
        self.op_id = op_id
        self.durability = durability
        self.connection = connection
        self.trace = trace
        self.tokenless = tokenless


PLAIN = Asked()  # nothing


def stopping() -> Unavailable:
    """Nothing was done: a client asks the next server (`tenure.store.repeat`)."""
    return Unavailable(STOPPING, stopping=True)


def may_wait(call: Call) -> bool:
    """For something to happen: such a call is ended when the server stops."""
    return call.verb == "claim" or (call.verb in WAITS and call.arguments[-1] > 0)


class Telling(Protocol):
    """A door through which workers can be told that a job they run was cancelled."""

    @property
    def has_workers(self) -> bool: ...

    def tell_worker(self, job: JobRecord) -> None: ...


class Figure(Protocol):
    """A number of a part of the server, for whoever watches it."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def value(self) -> float: ...

    @property
    def is_counter(self) -> bool: ...


class Handler:
    def __init__(self, store: Store, clock: Callable[[], Now], arm: Callable[[], None]) -> None:
        """`arm` is told that a call is being made."""
        self.store = store
        self._prompt = store if isinstance(store, Prompt) else None
        self.is_prompt = self._prompt is not None and self._prompt.is_prompt
        self.clock = clock
        self._arm = arm
        self.doors: list[Telling] = []
        self.figures: list[Callable[[], Sequence[Figure]]] = []  # of parts that are not always there
        self.requests = 0  # so far
        self.answered: defaultdict[tuple[str, str, str], int] = defaultdict(int)  # by door, command and outcome
        self._connections = 0
        self._duties: set[asyncio.Task[None]] = set()

    def note(self, door: str, command: str, outcome: str) -> None:
        self.answered[door, command, outcome] += 1

    def number(self) -> int:
        """Of a connection; no two have the same, whatever door they came through."""
        self._connections += 1
        return self._connections

    async def execute(self, caller: Caller, asked: Asked, call: Call) -> Any:
        """What the store answers."""
        self.admit(caller, call)
        context = self.context(caller, asked)
        found = self.at_once(caller, context, call, self.clock())
        return await self.carry_out(caller, context, call) if found is None else found

    # The steps of it, for a door that answers what it can without a coroutine.

    def admit(self, caller: Caller, call: Call) -> None:
        """Whether the caller may ask this, at all and now."""
        self.requests += 1
        if caller.is_bounded:
            caller.spend()
        verb = call.verb
        roles = ROLES.get(verb)
        if roles is None:
            roles = self._roles_of(verb, call.arguments[0])
        if not caller.roles & roles:
            caller.need(roles, verb)
        self._arm()

    def context(self, caller: Caller, asked: Asked) -> Context:
        if asked is not PLAIN:
            return self._context(caller, asked)
        if caller.plain is None:
            caller.plain = self._context(caller, asked)
        return caller.plain

    def _context(self, caller: Caller, asked: Asked) -> Context:
        if asked.durability:
            self._check_durability(asked.durability)
        return Context(
            caller.tenant(asked.tenant),
            caller.several(tuple(asked.tenants)) if asked.tenants else (),
            caller.name,
            caller.roles,
            asked.trace,
            self._op(caller, asked.op_id) if asked.op_id else None,
            asked.connection,
            asked.durability,
            asked.tokenless,
            () if caller.is_free else caller.queues,
            caller.reaches_all_tenants,
        )

    def at_once(self, caller: Caller, context: Context, call: Call, now: Now) -> Any | None:
        """What the store answers, when that takes no wait. None: it is to be carried out."""
        if self._prompt is None or not caller.is_free:
            return None
        return self._prompt.at_once(context, call.arguments[0], now)

    def soon(self, caller: Caller, context: Context, call: Call, now: Now, told: Told) -> Wait | None:
        """As `at_once`, where something must be written first."""
        if self._prompt is None or not caller.is_free:
            return None
        return self._prompt.soon(context, call.arguments[0], now, told)

    def quickly(self, context: Context, asked: object) -> Any | None:
        """As `admit` and `at_once`, for a caller without any bounds whose role was looked at."""
        if self._prompt is None:
            return None
        self.requests += 1
        try:
            found = self._prompt.at_once(context, asked, self.clock())
        except Exception:
            self._arm()
            raise
        if found is None:
            self.requests -= 1  # it will be admitted
        else:
            self._arm()
        return found

    def claim_or_wait(
        self, caller: Caller, context: Context, call: Call, now: Now, told: Told
    ) -> Claimed | Wait | None:
        """As `at_once`, for a claim that may wait."""
        if self._prompt is None or not caller.is_free:
            return None
        return self._prompt.claim_or_wait(context, call.arguments[0], now, told)

    async def carry_out(self, caller: Caller, context: Context, call: Call) -> Any:
        verb = call.verb
        arguments = call.arguments
        if verb == "obliterate":
            return await self._obliterate(caller, context, *arguments)
        if verb == "change" or verb == "configure":
            return await self._change(caller, context, verb, arguments)
        if not caller.is_free:
            return await self._within(caller, context, verb, arguments)
        return await getattr(self.store, verb)(context, *arguments, self.clock())

    def _roles_of(self, verb: str, asked: Any) -> int:
        if verb == "change":
            return PRODUCER | OPERATOR if asked.action == request.CANCEL else OPERATOR
        roles = SUBJECT_ROLES[asked.subject]
        if asked.subject == request.WORKER and "stop" in asked.changes:
            return OPERATOR
        return roles | WORKER if asked.subject == request.QUEUE and not asked.changes else roles

    def _check_durability(self, durability: str) -> None:
        if durability not in self.store.capabilities.durability:
            modes = ", ".join(self.store.capabilities.durability) or "none"
            raise InvalidRequest("durability", durability, f"this store has: {modes}")

    def _op(self, caller: Caller, text: str) -> OpId:
        """A session belongs to one caller, whatever others call themselves and theirs."""
        session, _, counter = text.rpartition(":")
        if not session or not counter.isascii() or not counter.isdigit() or len(text) > OP_CHARS_MAX:
            raise InvalidRequest("opId", text, "it must be a session and a counter, as in session:7")
        if int(counter) > OP_COUNTER_MAX:
            raise InvalidRequest("opId", text, f"its counter is {OP_COUNTER_MAX} at most")
        return OpId(f"{caller.key}/{session}", int(counter))

    def see_to(self, duty: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Done to its end, whoever goes away meanwhile, and before the store is closed."""
        task = asyncio.get_running_loop().create_task(duty)
        self._duties.add(task)
        task.add_done_callback(self._duties.discard)
        return task

    async def settled(self) -> None:
        """Until all duties are done."""
        while self._duties:
            await asyncio.gather(*self._duties, return_exceptions=True)
            await asyncio.sleep(0)  # those that were done before leave the set at the loop's next turn

    def give_back_soon(self, found: Claimed) -> None:
        _ = self.see_to(self.give_back(found))

    async def give_back(self, found: object) -> None:
        """What was leased to a caller that cannot be told."""
        if isinstance(found, Claimed) and found.ids:
            await self.release(found.ids, [found.token] * len(found.ids))

    async def release(self, ids: list[int], tokens: list[bytes]) -> None:
        """Leases whose holder is gone."""
        for at in range(0, len(ids), bound.BATCH_ITEMS_MAX):
            part = slice(at, at + bound.BATCH_ITEMS_MAX)
            release = Settle(SETTLE_RELEASE, ids[part], tokens[part])
            try:
                await self.store.settle(Context(tenants=(ANY_TENANT,)), release, self.clock())
            except Error as error:
                log.warning("%d leases could not be released and will expire: %s", len(release.ids), error)
        self._arm()

    # Changes: told to the audit, and to workers whose job is cancelled.

    async def _change(self, caller: Caller, context: Context, verb: str, arguments: tuple[Any, ...]) -> Any:
        asked = arguments[0]
        if verb == "configure" and asked.subject == request.TENANT and not asked.name:
            asked.name = context.tenant
        running: list[JobRecord] = []
        if verb == "change" and asked.action == request.CANCEL and any(door.has_workers for door in self.doors):
            running = [job for job in await self._running(context, asked) if caller.reaches(job.queue)]
        if verb == "configure" and not caller.reaches_all_tenants:
            found = await self._configure_within(caller, context, arguments)
        elif caller.is_free:
            found = await getattr(self.store, verb)(context, asked, self.clock())
        else:
            found = await self._within(caller, context, verb, arguments)
        if verb == "change" or asked.changes:
            audit.info("%s", describe(context, asked), extra={"fields": audited(context, asked)})
        for job in running:
            for door in self.doors:
                door.tell_worker(job)
        return found

    async def _obliterate(self, caller: Caller, context: Context, queue: str, force: bool) -> int:
        """A queue and all its jobs, in steps that each go the way of their verb."""
        caller.need_queue(queue)
        context.op = None  # of several steps there is no answer to be remembered
        return await obliterate(_Steps(self, caller, context), queue, force)

    async def _running(self, context: Context, change: Change) -> list[JobRecord]:
        """The jobs that somebody works on and that are about to be cancelled; of a filter the first thousand."""
        if change.ids is not None:
            found = await self.store.get(context, change.ids, [], self.clock())
            return [job for job in found if job is not None and job.state == "running"]
        states = change.filter.states if change.filter is not None else 0
        if change.filter is None or (states and not states & 1 << RUNNING):
            return []
        filter = Filter(**{**vars_of(change.filter), "states": 1 << RUNNING})
        return list((await self.store.find(context, filter, RUNNING_PAGE, "", self.clock())).jobs)

    # Callers that reach some tenants only.

    async def _configure_within(self, caller: Caller, context: Context, arguments: tuple[Any, ...]) -> Any:
        """Settings that belong to no tenant, or to another one, are out of reach."""
        asked: Configure = arguments[0]
        if asked.subject == request.STORE:
            caller.need_all_tenants("a setting of the store")
        elif asked.subject == request.TENANT and asked.name != "*":
            caller.tenant(asked.name)
        found = await self._within(caller, context, "configure", arguments)
        if asked.subject == request.TENANT and asked.name == "*":
            return {name: settings for name, settings in found.items() if name in caller.tenants}
        return found

    # Callers that reach some queues only.

    async def _within(self, caller: Caller, context: Context, verb: str, arguments: tuple[Any, ...]) -> Any:
        """A verb has its rule here, or it is refused."""
        asked = arguments[0]
        now = self.clock()
        call = getattr(self.store, verb)
        match verb:
            case "enqueue":
                for queue in queues_of(asked):
                    caller.need_queue(queue)
                return await self._enqueue_within(caller, context, asked, now)
            case "settle" | "extend" | "append":
                return await self._settle_within(caller, context, verb, arguments)
            case "change":
                return await self._change_within(caller, context, asked, now)
            case "load" | "claim" | "find" | "configure":
                for queue in queues_of(asked):
                    caller.need_queue(queue)
                return await call(context, *arguments, now)
            case "scan" | "groups":
                queue = asked.queue if verb == "scan" else asked
                if not caller.reaches(queue or "*"):
                    raise Forbidden(f"the token {caller.name!r} must name a queue that it reaches")
                return await call(context, *arguments, now)
            case "get":
                found = await call(context, *arguments, now)
                return [job if job is not None and caller.reaches(job.queue) else None for job in found]
            case "watch" | "explain" | "stream":
                [job] = await self.store.get(context, [asked], [], now)
                if job is None or not caller.reaches(job.queue):
                    raise JobNotFound(asked)
                return await call(context, *arguments, now)
            case "count":
                counts = await call(context, asked, now)
                return {queue: states for queue, states in counts.items() if caller.reaches(queue)}
            case "events":
                return await self._events_within(caller, context, *arguments)
            case _:
                raise Forbidden(f"{verb} is for tokens that reach all queues, which {caller.name!r} does not")

    async def _enqueue_within(self, caller: Caller, context: Context, batch: Batch, now: Now) -> Answers:
        hidden = await hide(self.store, caller, context, [batch], now)
        try:
            return hidden.answers(await self.store.enqueue(context, batch, now))
        except DependencyNotFound as error:
            raise hidden.error(error) from None

    async def _settle_within(self, caller: Caller, context: Context, verb: str, arguments: tuple[Any, ...]) -> Any:
        """Who holds the lease may settle. To others a job out of reach is not there."""
        asked = arguments[0]
        for queue in queues_of(asked):
            caller.need_queue(queue)
        call = getattr(self.store, verb)
        if verb == "append":
            try:
                return await call(context, asked, self.clock())
            except Error as error:
                if await self._is_hidden(caller, context, asked.id):
                    raise as_absent(error, asked.id) from None
                raise
        followups = [batch for batch in asked.followups or () if batch is not None] if verb == "settle" else []
        hidden = await hide(self.store, caller, context, followups, self.clock())
        found: Answers | Extended = await call(context, asked, self.clock())
        if isinstance(found, Extended):
            for at, refused in list((found.errors or {}).items()):
                if found.errors and await self._is_hidden(caller, context, asked.ids[at]):
                    found.errors[at] = as_absent(refused, asked.ids[at])
            return found
        for at, outcome in list((found.other or {}).items()):
            if found.other and outcome.error and await self._is_hidden(caller, context, asked.ids[at]):
                found.other[at] = Outcome(asked.ids[at], error=as_absent(outcome.error, asked.ids[at]))
        return hidden.answers(found)

    async def _is_hidden(self, caller: Caller, context: Context, id: int) -> bool:
        [job] = await self.store.get(context, [id], [], self.clock())
        return job is not None and not caller.reaches(job.queue)

    async def _change_within(self, caller: Caller, context: Context, change: Change, now: Now) -> Answers:
        if change.ids is None:
            for queue in queues_of(change.filter):
                caller.need_queue(queue)
            return await self.store.change(context, change, now)
        asked = change.ids
        jobs = await self.store.get(context, asked, [], now)
        # A number that no job has stands for one out of reach: so the answers, also of a repeat, keep their places.
        change.ids = [
            id if job is not None and caller.reaches(job.queue) else bound.ID_MAX - at
            for at, (id, job) in enumerate(zip(asked, jobs, strict=True))
        ]
        answers = await self.store.change(context, change, now)
        change.ids = asked  # for the audit
        other = dict(answers.other or {})
        for at, outcome in other.items():
            if isinstance(outcome.error, JobNotFound):
                other[at] = Outcome(0, error=JobNotFound(asked[at]))
        ids = [0 if at in other and other[at].error is not None else id for at, id in enumerate(answers.ids)]
        return Answers(ids, answers.state, other, answers.count)

    async def _events_within(
        self, caller: Caller, context: Context, cursor: str, limit: int, wait_ms: int
    ) -> EventPage:
        """A wait is not ended by events of queues out of reach."""
        until = self.clock().elapsed_ms + wait_ms
        while True:
            now = self.clock()
            page = await self.store.events(context, cursor, limit, max(until - now.elapsed_ms, 0), now)
            own = tuple(event for event in page.events if caller.reaches(event.queue))
            if own or not page.events or self.clock().elapsed_ms >= until:
                return EventPage(own, page.cursor)
            cursor = page.cursor
            await asyncio.sleep(0)  # others have their turn between two pages


def as_absent(error: Error, id: int) -> Error:
    """What is answered to a token that is not the job's, as it is for a job that does not exist."""
    if isinstance(error, LeaseLost) and error.reason == "superseded":
        return AlreadySettled(id, "unknown")
    is_strange = isinstance(error, LeaseLost) and error.reason in ("unknown", TOKEN_NOT_HELD)
    return JobNotFound(id) if is_strange or isinstance(error, InvalidRequest) else error


class _Steps:
    """Of obliterating a queue: authorised, noted in the audit and told to workers like any other change."""

    def __init__(self, handler: Handler, caller: Caller, context: Context) -> None:
        self._handler = handler
        self._caller = caller
        self._context = context

    async def count(self, queue: str) -> dict[str, int]:
        handler = self._handler
        return (await handler.store.count(self._context, queue, handler.clock())).get(queue, {})

    async def configure(self, queue: str, changes: dict[str, object]) -> dict[str, object]:
        asked = Configure(request.QUEUE, queue, changes)
        found: dict[str, object] = await self._handler._change(self._caller, self._context, "configure", (asked,))
        return found

    async def change(self, change: Change) -> Answers:
        found: Answers = await self._handler._change(self._caller, self._context, "change", (change,))
        return found


def queues_of(asked: Any) -> list[str]:
    """Every queue that a request names; `*` for all of them."""
    if isinstance(asked, Batch):
        return [asked.options.queue] if asked.each is None else [options.queue for options in asked.each]
    if isinstance(asked, Claim):
        return [pick.name for pick in asked.queues]
    if isinstance(asked, Load):
        return ["*"]  # what was staged for which queue is not known here
    if isinstance(asked, Settle):
        return [queue for batch in asked.followups or () if batch is not None for queue in queues_of(batch)]
    if isinstance(asked, Filter):
        return [asked.queue or "*"]
    if isinstance(asked, Configure):
        if asked.subject == request.QUEUE:
            return [asked.name]
        return [] if asked.subject in (request.WORKER, request.TASK) else ["*"]  # workers belong to no queue
    return []


def vars_of(filter: Filter) -> dict[str, Any]:
    return {name: getattr(filter, name) for name in WireFilter.__struct_fields__}


def audited(context: Context, asked: Change | Configure) -> dict[str, object]:
    """The same as `describe`, for machines."""
    fields: dict[str, object] = {
        "principal": context.principal,
        "tenant": context.tenant,
        "connection": context.connection,
    }
    if isinstance(asked, Configure):
        return {**fields, "subject": request.SUBJECT_NAMES[asked.subject], "name": asked.name, "changes": asked.changes}
    fields["action"] = request.ACTION_NAMES[asked.action]
    if asked.ids is not None:
        return {**fields, "ids": asked.ids}
    assert asked.filter is not None
    return {**fields, "filter": wishes(asked.filter)}


def wishes(filter: Filter) -> dict[str, object]:
    """What a filter asks for, in words."""
    found = {name: value for name, value in vars_of(filter).items() if value}
    if filter.states:
        found["states"] = [name for code, name in enumerate(STATE_NAMES) if filter.states & 1 << code]
    return found


def describe(context: Context, asked: Change | Configure) -> str:
    """A line for the audit: who did what to what."""
    who = f"{context.principal or 'somebody'} for {context.tenant}"
    if isinstance(asked, Configure):
        changes = ", ".join(f"{name}={value!r}" for name, value in sorted(asked.changes.items()))
        return f"{who}: {request.SUBJECT_NAMES[asked.subject]} {asked.name}: {changes}"
    action = request.ACTION_NAMES[asked.action]
    if asked.ids is not None:
        shown = ", ".join(str(id) for id in asked.ids[:10]) + (", ..." if len(asked.ids) > 10 else "")
        return f"{who}: {action} jobs {shown}"
    assert asked.filter is not None
    return f"{who}: {action} all with {wishes(asked.filter)}"
