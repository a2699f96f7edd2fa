"""What a store is: seventeen verbs, batch first, and a statement of what it can do.

Every verb takes the context (who asks) and `now`, and is one atomic step: it happens whole, or it answers an error and
nothing happened. Items of a batch succeed or fail one by one unless the batch is `atomic`. Requests are made by
`core.bound`, which checks them; answers are the values of `core.answer` and `core.record`.

Two kinds of store fit under it (docs/decisions/0003-store-contract.md has the SQL and the Lua that prove it):

* owned (memory, SQLite): the engine is the only writer. `now` is what the server's clock said; `tick` applies timers.
* shared (PostgreSQL, Redis, FoundationDB): each verb is one statement, script or transaction. The store reads its own
clock inside the step; `now` is then only an offset for tests. `tick` is the leader's pass over what is due.

Verbs that can wait (`claim`, `watch`, `events`, `stream`) answer as soon as there is something, or after their wait
with nothing. Giving up, by cancelling the call, changes nothing: what was leased to it is released at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error, Unavailable
from tenure.core.record import (
    DeadLetterGroup,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
)
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Load, Scan, Settle
from tenure.core.tenant import Context

VERBS = (
    "enqueue",
    "claim",
    "settle",
    "extend",
    "change",
    "get",
    "find",
    "count",
    "groups",
    "explain",
    "configure",
    "watch",
    "events",
    "append",
    "stream",
    "load",
    "scan",
)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can do. What it cannot answers `Unsupported` at the call."""

    name: str
    shared: bool
    durability: tuple[str, ...]  # the modes it has, strongest last; none for memory
    dense_events: bool = True
    ageing: bool = True
    groups: bool = True
    limits: bool = True
    fairness: bool = True
    dependencies: bool = True
    streams: bool = True
    loads: bool = True
    search: bool = True
    schedules: bool = False
    flows: bool = False
    blobs: bool = False
    scans: bool = True


class Store(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    async def open(self, now: Now) -> None: ...

    async def close(self) -> None: ...

    async def tick(self, now: Now) -> Now | None:
        """Apply what is due and owed, within a step's bound; answers when to come again (None: nothing is planned)."""

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers: ...

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed: ...

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers: ...

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended: ...

    async def change(self, context: Context, change: Change, now: Now) -> Answers:
        """By ids: answers item by item. By filter: answers, when all is done, how many were changed."""

    async def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        """The jobs, first those by id, then those by custom id; None for what this tenant does not have."""

    async def find(self, context: Context, filter: Filter, limit: int, cursor: str, now: Now) -> JobPage: ...

    async def count(self, context: Context, queue: str, now: Now) -> dict[str, dict[str, int]]:
        """Per queue (all when `queue` is empty), per state, how many jobs; exact."""

    async def groups(self, context: Context, queue: str, now: Now) -> list[DeadLetterGroup]:
        """Dead letters by fingerprint and reason, largest first, at most 1,000 groups; of one queue, or of all."""

    async def explain(self, context: Context, id: int, now: Now) -> Explanation: ...

    async def configure(self, context: Context, configure: Configure, now: Now) -> dict[str, object]:
        """The settings after the change. With the name `*` and no changes: all of that subject, by name."""

    async def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> JobRecord:
        """The job once it is terminal, or `Timeout`."""

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        """Events after the cursor ("" from the oldest kept, "end" from now on); `EventsLost` when it is too old."""

    async def append(self, context: Context, append: Append, now: Now) -> int:
        """The offset of the line or item, or the percentage kept."""

    async def stream(
        self, context: Context, id: int, kind: int, offset: int, limit: int, wait_ms: int, now: Now
    ) -> list[StreamItem]:
        """Log lines or emitted items from `offset` on."""

    async def load(self, context: Context, load: Load, now: Now) -> LoadReport: ...

    async def scan(self, context: Context, scan: Scan, now: Now) -> Scanned:
        """A page of a table in columns, for bulk readers; `EventsLost` when it asks for events that are not kept."""


Told = Callable[[Any, Error | None], None]


class Wait:
    """An answer that is not there yet. Whoever asked for it is told once, within a step of the store: the answer, or an
    error. Of a claim an error says that the verb must be called instead, and so does `Moved` of anything else. Who has
    given up is not told."""

    __slots__ = ()

    def give_up(self) -> None:
        raise NotImplementedError


class Moved(Unavailable):
    """Nothing was done: the store is another's now. The verb finds it."""


@runtime_checkable
class Prompt(Protocol):
    """A store that can often answer without a coroutine, which is half of a small call."""

    @property
    def is_prompt(self) -> bool:
        """Whether `at_once` is worth asking: nothing has to be written before an answer leaves."""

    def at_once(self, context: Context, asked: object, now: Now) -> object | None:
        """What enqueue, claim, settle or extend answers. None: nothing was done, and the verb itself must be called."""

    def soon(self, context: Context, asked: object, now: Now, told: Told) -> Wait | None:
        """The same where something must be written first. `told` may be called before this answers."""

    def claim_or_wait(self, context: Context, claim: Claim, now: Now, told: Told) -> Claimed | Wait | None:
        """A claim that may wait, as both of these. None as above."""


@runtime_checkable
class Hosted(Protocol):
    """A store that other processes may call through this one."""

    def attach(self, clock: Callable[[], Now], arm: Callable[[], None]) -> None:
        """The time for such calls, and whom to tell that there was one; before the store is opened."""


class Identity(NamedTuple):
    """Which store it is. Neither name gives anything of its secret away."""

    store: str  # stays the same when it is restored from a backup
    life: str  # another one from then on


@runtime_checkable
class Identified(Protocol):
    """A store that can be told from every other one."""

    async def identity(self) -> Identity:
        """Once it is open."""
