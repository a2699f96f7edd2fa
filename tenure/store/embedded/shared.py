"""One file, several processes: the first one owns it and serves it, the others join; when it ends, one takes over.

Who holds the lock beside the file owns it. A process that finds it held joins the owner through its socket. When the
owner ends, the lock is free and the first to take it goes on from the file; when it hangs, it is passed over: the epoch
is raised, so that nothing the old owner still does can be committed, and it joins when it wakes up.

A call whose owner ended is made again, on whoever owns the file then, until its own deadline (`tenure.store.repeat`).
Calls that change something carry an operation id, so that one that had been executed is answered and not repeated.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import InvalidRequest, Timeout, Unavailable
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
from tenure.core.tenant import Context, OpId
from tenure.store.blob.place import Place
from tenure.store.contract import Capabilities, Identity, Moved, Told, Wait
from tenure.store.embedded.file import Owned, TakenOver
from tenure.store.embedded.link import Link, Lost, join
from tenure.store.embedded.service import Service
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.repeat import (
    LATE_S,
    WITH_OP_ID,
    deadline_s,
    has_own_deadline,
    is_repeatable,
    wait_ms_of,
    with_wait,
)
from tenure.wire.message import Arguments

PATIENCE_S = 60.0  # how long a call looks for an owner, besides what it waits by itself
SILENCE = 10  # seconds without a word after which an owner counts as hung
OPENING_S = 600.0  # a file may take long to be read
RETRY_FIRST_S = 0.01
RETRY_MOST_S = 0.25
PROOF_S = 1.0


class SharedStore:
    def __init__(
        self, path: str | Path, durability: str = "fsync", silence: int = SILENCE, blobs: Place | None = None
    ) -> None:
        self._path = Path(path)
        self._durability = durability
        self._silence = silence
        self._blobs = blobs
        self._store = SqliteStore(path, durability, blobs=blobs)  # opened when this process owns the file
        self._service: Service | None = None
        self._link: Link | None = None
        self._left: Link | None = None  # the one before, while it is closed
        self._finding: asyncio.Task[None] | None = None  # while it is open and has neither of them
        self._closed = True
        self._session = secrets.token_hex(8)
        self._last_op = 0
        self._clock: Callable[[], Now] | None = None
        self._arm: Callable[[], None] = lambda: None
        self._proved_at = 0.0
        self._time = time.monotonic  # of the loop, once it is known
        self._watching: asyncio.Task[None] | None = None

    def attach(self, clock: Callable[[], Now], arm: Callable[[], None]) -> None:
        """The time for the calls of others, and whom to tell that there was one; before it is opened."""
        self._clock = clock
        self._arm = arm

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    async def identity(self) -> Identity:
        """Of the file, whoever owns it."""
        return await self._store.identity()

    def is_owner(self) -> bool:
        return self._service is not None

    # Finding a place.

    async def open(self, now: Now) -> None:
        if self._clock is None:
            self._clock = lambda: now
        self._closed = False
        self._time = asyncio.get_running_loop().time
        self._finding = asyncio.get_running_loop().create_task(self._find())
        try:
            await self._finding
        except BaseException:
            await self.close()
            raise

    async def _find(self) -> None:
        """Own the file or join its owner."""
        loop = asyncio.get_running_loop()
        wait_s = RETRY_FIRST_S
        heard_at = loop.time()
        while True:
            with suppress(OSError, Lost, TimeoutError):
                self._link = await join(self._socket, self._silence)
                self._watching = loop.create_task(self._watch(self._link))
                return
            try:
                return await self._own()
            except Owned as owner:
                patience_s = OPENING_S if owner.is_opening else float(self._silence)
                epoch = owner.epoch
            if loop.time() - heard_at > patience_s:
                with suppress(Owned):  # another was faster
                    return await self._own(epoch)
                heard_at = loop.time()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_MOST_S)

    @property
    def _socket(self) -> Path:
        return self._path.with_name(self._path.name + "-socket")

    async def _own(self, over: int | None = None) -> None:
        assert self._clock is not None
        store = SqliteStore(self._path, self._durability, blobs=self._blobs)
        await store.open(self._clock(), over)
        service = Service(store, store.epoch, self._clock, self._arm)
        try:
            await service.start(self._socket)
            store.is_serving()
        except BaseException as error:
            await store.close()
            if isinstance(error, OSError):
                raise Unavailable(
                    f"{self._path} cannot be served to other processes: {error}; check its folder"
                ) from error
            raise
        self._store = store
        self._service = service
        self._proved_at = asyncio.get_running_loop().time()
        self._arm()

    async def _watch(self, link: Link) -> None:
        """Whoever has joined finds another place as soon as the owner ends, also when nobody calls."""
        await link.ended.wait()
        self._leave(link)

    def _leave(self, place: Service | Link | None) -> None:
        """Out of the place that is lost, and look for another one; nothing when that was done already."""
        if self._closed or place is None or (place is not self._service and place is not self._link):
            return
        self._service = self._link = None
        self._finding = asyncio.get_running_loop().create_task(self._find_after(place))
        self._finding.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _find_after(self, place: Service | Link) -> None:
        if isinstance(place, Service):
            place.refuse()
            await self._store.abandon()  # answers what is under way, or says that it was not done
            await place.stop()
        else:
            self._left = place
            place.leave()
            if place.is_silent:
                return await self._find_after_silence(place.epoch)
        return await self._find()

    async def _find_after_silence(self, epoch: int) -> None:
        """The owner hangs. Pass it over, unless another was faster."""
        with suppress(Owned):
            await self._own(epoch)
            return
        await self._find()

    async def close(self) -> None:
        self._closed = True
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
        if self._watching is not None:
            self._watching.cancel()
        for link in (self._link, self._left):
            if link is not None:
                link.close()
        self._link = self._left = None
        if self._service is not None:
            service, self._service = self._service, None
            await service.stop()
            await self._store.close()

    async def tick(self, now: Now) -> Now | None:
        if self._service is None:
            return None
        try:
            return await self._store.tick(now)
        except TakenOver:
            self._leave(self._service)
            return None

    # Calls.

    async def _call(self, verb: str, context: Context, arguments: Arguments, now: Now) -> object:
        began = self._time()
        wait_ms = wait_ms_of(verb, arguments)
        until = began + deadline_s(verb, wait_ms, PATIENCE_S)
        is_repeated = False
        while True:
            service, link = self._service, self._link
            try:
                if service is not None:
                    self._prove(self._time())
                    return await getattr(service.store, verb)(context, *arguments, now)
                if link is not None:
                    if context.op is None and verb in WITH_OP_ID:
                        context = self._with_op(context)
                    limit = until + LATE_S if has_own_deadline(verb, wait_ms) else None
                    async with asyncio.timeout_at(limit):
                        return await link.call(verb, context, arguments)
            except Moved:
                self._leave(service or link)  # what was not answered was not committed
            except Lost:
                self._leave(link)
                if not is_repeatable(verb, arguments):
                    raise self._unknown() from None
            except TimeoutError:
                if not has_own_deadline(verb, wait_ms):
                    raise
                raise _timeout(arguments, wait_ms) from None
            except InvalidRequest as error:
                if is_repeated and error.field == "op_id":  # the first one is not remembered any more
                    raise self._unknown() from None
                raise
            if self._closed:
                raise Unavailable("the store is not open; open it first")
            if not await self._is_found(until):
                if has_own_deadline(verb, wait_ms):
                    raise _timeout(arguments, wait_ms)
                raise Unavailable(f"nobody has come to own {self._path} for {self._time() - began:.0f} s; try again")
            assert self._clock is not None
            now = self._clock()
            is_repeated = True
            arguments = with_wait(verb, arguments, max(wait_ms - int((self._time() - began) * 1_000), 0))

    def _unknown(self) -> Unavailable:
        return Unavailable(f"the process that owned {self._path} ended during the call; it may have been done: look")

    @property
    def is_prompt(self) -> bool:
        return self._store.is_prompt

    def at_once(self, context: Context, asked: object, now: Now) -> object | None:
        is_proven = self._service is not None and self._time() - self._proved_at <= PROOF_S
        return self._store.at_once(context, asked, now) if is_proven or self._is_sure_to_own() else None

    def soon(self, context: Context, asked: object, now: Now, told: Told) -> Wait | None:
        return self._store.soon(context, asked, now, told) if self._is_sure_to_own() else None

    def claim_or_wait(self, context: Context, claim: Claim, now: Now, told: Told) -> Claimed | Wait | None:
        return self._store.claim_or_wait(context, claim, now, told) if self._is_sure_to_own() else None

    def _is_sure_to_own(self) -> bool:
        if self._service is None:
            return False
        try:
            self._prove(self._time())
        except TakenOver:
            return False  # the verb looks for the new owner
        return True

    def _prove(self, at: float) -> None:
        """Whether this process owns the file still; it may have been stopped for a while, and passed over."""
        if at - self._proved_at > PROOF_S:
            self._proved_at = at
            self._store.prove_ownership()

    async def _is_found(self, until: float) -> bool:
        """Whether this process owns the file or has joined its owner by then."""
        finding = self._finding
        if finding is None or (finding.done() and self._service is None and self._link is None):
            finding = self._finding = asyncio.get_running_loop().create_task(self._find())
        done, _ = await asyncio.wait([finding], timeout=max(until - self._time(), 0))
        if done:
            finding.result()
        return bool(done)

    def _with_op(self, context: Context) -> Context:
        self._last_op += 1
        return Context(
            context.tenant,
            context.tenants,
            context.principal,
            context.roles,
            context.trace,
            OpId(self._session, self._last_op),
            context.connection,
            context.durability,
            context.tokenless,
            context.queues,
            context.reaches_all_tenants,
        )

    # The verbs.

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        return cast("Answers", await self._call("enqueue", context, (batch,), now))

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        return cast("Claimed", await self._call("claim", context, (claim,), now))

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        return cast("Answers", await self._call("settle", context, (settle,), now))

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended:
        return cast("Extended", await self._call("extend", context, (extend,), now))

    async def change(self, context: Context, change: Change, now: Now) -> Answers:
        return cast("Answers", await self._call("change", context, (change,), now))

    async def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        return cast("list[JobRecord | None]", await self._call("get", context, (ids, custom_ids), now))

    async def find(self, context: Context, filter: Filter, limit: int, cursor: str, now: Now) -> JobPage:
        return cast("JobPage", await self._call("find", context, (filter, limit, cursor), now))

    async def count(self, context: Context, queue: str, now: Now) -> dict[str, dict[str, int]]:
        return cast("dict[str, dict[str, int]]", await self._call("count", context, (queue,), now))

    async def groups(self, context: Context, queue: str, now: Now) -> list[DeadLetterGroup]:
        return cast("list[DeadLetterGroup]", await self._call("groups", context, (queue,), now))

    async def explain(self, context: Context, id: int, now: Now) -> Explanation:
        return cast("Explanation", await self._call("explain", context, (id,), now))

    async def configure(self, context: Context, configure: Configure, now: Now) -> dict[str, object]:
        return cast("dict[str, object]", await self._call("configure", context, (configure,), now))

    async def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> JobRecord:
        return cast("JobRecord", await self._call("watch", context, (id, wait_ms), now))

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        return cast("EventPage", await self._call("events", context, (cursor, limit, wait_ms), now))

    async def append(self, context: Context, append: Append, now: Now) -> int:
        return cast("int", await self._call("append", context, (append,), now))

    async def stream(
        self, context: Context, id: int, kind: int, offset: int, limit: int, wait_ms: int, now: Now
    ) -> list[StreamItem]:
        found = await self._call("stream", context, (id, kind, offset, limit, wait_ms), now)
        return cast("list[StreamItem]", found)

    async def load(self, context: Context, load: Load, now: Now) -> LoadReport:
        return cast("LoadReport", await self._call("load", context, (load,), now))

    async def scan(self, context: Context, scan: Scan, now: Now) -> Scanned:
        return cast("Scanned", await self._call("scan", context, (scan,), now))


def _timeout(arguments: Arguments, wait_ms: int) -> Timeout:
    return Timeout(f"job {arguments[0]} did not end within {wait_ms} ms; it goes on")
