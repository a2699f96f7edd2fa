"""The store under test with everything around it: the clock, the chance, the trace and the checker.

Actors reach the store only through here, so that nothing is asked, answered or seen without being written down.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error
from tenure.core.record import Event
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Load, Settle
from tenure.core.state import SETTLE_RELEASE
from tenure.core.tenant import ANY_TENANT, Context
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tests.simulation.checker import Checker
from tests.simulation.clock import Clock
from tests.simulation.record import Record
from tests.simulation.trace import Trace

PAGE: Final = 10_000
EVERYONE: Final = Context(tenant="operator", tenants=(ANY_TENANT,))


class Breach(Exception):
    """The store did what it may not do."""

    def __init__(self, step: int, findings: list[str]) -> None:
        super().__init__("; ".join(findings[:10]))
        self.step = step
        self.findings = findings


class World:
    def __init__(self, random: Random, keep: bool = False) -> None:
        self.random = random
        self.clock = Clock()
        self.engine = Engine(bytes(random.randrange(256) for _ in range(SECRET_BYTES)), 1, self.clock.now())
        self.trace = Trace()
        self.checker = Checker()
        self.checker.offset = self.clock.wall - self.clock.elapsed
        self.step = 0
        self.mail: dict[int, object] = {}  # answers to tickets that nobody has fetched yet
        self.history: list[Record] = []  # only when it is to be kept
        self._keep = keep
        self._cursor = ""
        self._cursors: dict[str, str] = {}
        self._waiting: dict[int, Context] = {}
        self._next = (0, 0)

    # What actors ask.

    def enqueue(self, context: Context, batch: Batch) -> Answers | None:
        answer = self._call("enqueue", context, batch)
        return answer if isinstance(answer, Answers) else None

    def claim(self, context: Context, claim: Claim) -> Claimed | None:
        answer = self._call("claim", context, claim)
        return answer if isinstance(answer, Claimed) else None

    def settle(self, context: Context, settle: Settle) -> Answers | None:
        answer = self._call("settle", context, settle)
        return answer if isinstance(answer, Answers) else None

    def extend(self, context: Context, extend: Extend) -> Extended | None:
        answer = self._call("extend", context, extend)
        return answer if isinstance(answer, Extended) else None

    def change(self, context: Context, change: Change) -> Answers | None:
        answer = self._call("change", context, change)
        return answer if isinstance(answer, Answers) else None

    def append(self, context: Context, append: Append) -> None:
        self._call("append", context, append)

    def configure(self, context: Context, subject: int, name: str, changes: dict[str, object]) -> None:
        self._call("configure", context, Configure(subject, name, changes))

    def load(self, context: Context, load: Load) -> None:
        self._call("load", context, load)

    def watch(self, context: Context, id: int, wait_ms: int) -> None:
        self._call("watch", context, (id, wait_ms))

    def withdraw(self, ticket: int) -> None:
        """Nobody waits any more. What was leased to it in the same moment is given back."""
        self._call("withdraw", EVERYONE, ticket)
        late = self.mail.pop(ticket, None)
        if isinstance(late, Claimed) and late.ids:
            self.settle(EVERYONE, Settle(SETTLE_RELEASE, late.ids, [late.token] * len(late.ids)))

    def get(self, context: Context, ids: tuple[int, ...]) -> None:
        self._call("get", context, ids)

    def count(self, tenant: str) -> None:
        self._call("count", Context(tenant=tenant), "")

    def read_events(self, tenant: str) -> None:
        """What the tenant itself reads, since it did last."""
        self._call("events", Context(tenant=tenant), "")

    def tick(self) -> Now | None:
        """Do what is due. Answers when to come again: a time ahead, or None when there is nothing."""
        while True:
            answer = self._call("tick", EVERYONE, "")
            if answer is not True:
                break
        return None if answer is None else Now(*self._next)

    def calm(self) -> None:
        """From now on nothing goes wrong but what actors do."""

    def verify(self) -> None:
        found = self.engine.verify()
        if found:
            raise Breach(self.step, [f"verify: {text}" for text in found])

    # One step.

    def _call(self, verb: str, context: Context, request: object) -> object:
        record = self._do(verb, context, request)
        self._deliver(record.sent)
        self._tell(record)
        return record.answer

    def _do(self, verb: str, context: Context, request: object) -> Record:
        self.step += 1
        now = self._now()
        try:
            answer = self._ask(verb, context, request, now)
        except Error as error:
            answer = error
        if isinstance(answer, Claimed) and answer.ticket:
            self._waiting[answer.ticket] = context
        events = self._read(now)
        sent = self._sent()
        wall, elapsed, left_out = int(now.wall_ms), int(now.elapsed_ms), int(now.left_out_ms)
        return Record(self.step, wall, elapsed, left_out, verb, context, request, answer, tuple(events), tuple(sent))

    def _now(self) -> Now:
        return self.clock.now()

    def _sent(self) -> list[tuple[int, object]]:
        return self.engine.drain_outbox()

    def _tell(self, record: Record) -> None:
        """To those who keep the books."""
        self.trace.add(record)
        if self._keep:
            self.history.append(record)
        found = self.checker.feed(record)
        if found:
            raise Breach(record.step, found)

    def _ask(self, verb: str, context: Context, request: object, now: Now) -> object:
        engine = self.engine
        if isinstance(request, Batch):
            return engine.enqueue(context, request, now)
        if isinstance(request, Claim):
            return engine.claim(context, request, now)
        if isinstance(request, Settle):
            return engine.settle(context, request, now)
        if isinstance(request, Extend):
            return engine.extend(context, request, now)
        if isinstance(request, Change):
            return engine.change(context, request, now)
        if isinstance(request, Append):
            return engine.append(context, request, now)
        if isinstance(request, Configure):
            return engine.configure(context, request, now)
        if isinstance(request, Load):
            return engine.load(context, request, now)
        if isinstance(request, int):
            engine.withdraw(request, now)
            return None
        if isinstance(request, tuple):
            if verb == "watch":
                return engine.watch(context, request[0], request[1], now)
            return engine.get(context, list(request), [], now)
        if verb == "count":
            return engine.count(context, "", now)
        if verb == "events":
            return self._read_tenant(context, now)
        assert verb == "tick", verb
        return self._tick(now)

    def _tick(self, now: Now) -> object:
        return self._next_of(self.engine.tick(now), now)

    def _next_of(self, again: Now | None, now: Now) -> object:
        """When to come again: True for at once."""
        if again is None:
            return None
        checker = self.checker
        wall, elapsed = int(now.wall_ms), max(checker.elapsed, int(now.elapsed_ms))
        if again.wall_ms <= wall and again.elapsed_ms <= elapsed:
            return True
        self._next = (int(again.wall_ms), int(again.elapsed_ms))
        return self._next

    def _read(self, now: Now) -> list[Event]:
        found: list[Event] = []
        while self._cursor != f"e{self.engine.last_event()}":
            page = self.engine.events(EVERYONE, self._cursor, PAGE, now)
            found += page.events
            self._cursor = page.cursor
        return found

    def _read_tenant(self, context: Context, now: Now) -> list[Event]:
        found: list[Event] = []
        cursor = self._cursors.get(context.tenant, "e0")
        while True:
            page = self.engine.events(context, cursor, PAGE, now)
            found += page.events
            if page.cursor == cursor:
                break
            cursor = page.cursor
        self._cursors[context.tenant] = cursor
        return found

    def _deliver(self, sent: Iterable[tuple[int, object]]) -> None:
        for ticket, late in sent:
            waiting = self._waiting.pop(ticket, None)
            if isinstance(late, Claimed) and waiting is not None:
                self.mail[ticket] = late
