"""The client without `await`: `with tenure.connect_sync(url) as client`. A thin face over the async one.

The async client lives in a loop of its own, in a thread of its own. A call from inside a running loop is refused: it
would block that loop; use the async client there.
"""

import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tenure.client.client import SCAN_PAGE, Client, Enqueued, Leased, Settled, connect
from tenure.client.loop import LoopThread
from tenure.client.published import Published
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.duration import Duration
from tenure.core.error import Unavailable
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
)
from tenure.core.request import Append, Batch, Change, Claim, Extend, Filter, Load, Settle
from tenure.core.tenant import OpId
from tenure.store.contract import Capabilities

T = TypeVar("T")


def connect_sync(
    url: str = "memory://",
    *,
    tenant: str = "",
    tenants: Iterable[str] = (),
    token: str = "",
    format: str = "msgpack",
    tls: ssl.SSLContext | None = None,
) -> "SyncClient":
    """As `connect`, for programs without a loop."""
    return SyncClient(connect(url, tenant=tenant, tenants=tenants, token=token, format=format, tls=tls))


class SyncClient:
    def __init__(self, client: Client, loop: LoopThread | None = None) -> None:
        self._client = client
        self._shared = loop

    def __enter__(self) -> "SyncClient":
        self._shared = LoopThread("tenure-client")
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            self._shared.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        loop, self._shared = self._shared, None
        if loop is not None:
            try:
                loop.run(self._client.close())
            finally:
                loop.stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._shared is None:
            work.close()
            raise Unavailable("the client is not open; use it in a with statement")
        return self._shared.run(work)

    @property
    def capabilities(self) -> Capabilities:
        return self._client.capabilities

    @property
    def tenant(self) -> str:
        return self._client.tenant

    def listen(self, told: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """As the async one; `told` is called in the client's thread."""
        return self._client.listen(told)

    def as_tenant(self, tenant: str, tenants: Iterable[str] = ()) -> "SyncClient":
        return SyncClient(self._client.as_tenant(tenant, tenants), self._shared)

    # Enqueue.

    def enqueue(self, payload: bytes, **fields: object) -> Enqueued:
        return self._run(self._client.enqueue(payload, **fields))

    def enqueue_many(self, payloads: list[bytes], **fields: object) -> list[Enqueued]:
        return self._run(self._client.enqueue_many(payloads, **fields))

    def enqueue_batch(self, batch: Batch, durability: str = "") -> Answers:
        return self._run(self._client.enqueue_batch(batch, durability))

    def load(self, load: Load) -> LoadReport:
        return self._run(self._client.load(load))

    # Claim and settle.

    def claim(
        self,
        *queues: str | tuple[str, int],
        n: int = 1,
        wait: Duration = 0,
        worker: str = "",
        tasks: Iterable[str] | None = None,
        lease: Duration = 0,
        strict: bool = False,
    ) -> list[Leased]:
        asked = self._client.claim(*queues, n=n, wait=wait, worker=worker, tasks=tasks, lease=lease, strict=strict)
        return self._run(asked)

    def claim_batch(self, claim: Claim, op: OpId | None = None) -> Claimed:
        return self._run(self._client.claim_batch(claim, op))

    def complete(self, job: Leased, result: bytes | None = None, followups: Batch | None = None) -> Settled:
        return self._run(self._client.complete(job, result, followups))

    def fail(
        self,
        job: Leased,
        type: str = "",
        message: str = "",
        trace: str = "",
        retryable: bool = True,
        retry_after: Duration | None = None,
    ) -> Settled:
        return self._run(self._client.fail(job, type, message, trace, retryable, retry_after))

    def release(self, job: Leased, delay: Duration = 0) -> Settled:
        return self._run(self._client.release(job, delay))

    def snooze(self, job: Leased, delay: Duration) -> Settled:
        return self._run(self._client.snooze(job, delay))

    def cancel_own(self, job: Leased) -> Settled:
        return self._run(self._client.cancel_own(job))

    def settle_batch(self, settle: Settle) -> Answers:
        return self._run(self._client.settle_batch(settle))

    def extend(self, job: Leased, lease: Duration = 0) -> int:
        return self._run(self._client.extend(job, lease))

    def extend_batch(self, extend: Extend) -> Extended:
        return self._run(self._client.extend_batch(extend))

    def progress(self, job: Leased, percent: int, message: str = "") -> int:
        return self._run(self._client.progress(job, percent, message))

    def log(self, job: Leased, line: str) -> int:
        return self._run(self._client.log(job, line))

    def emit(self, job: Leased, data: bytes) -> int:
        return self._run(self._client.emit(job, data))

    def append(self, append: Append) -> int:
        return self._run(self._client.append(append))

    # Change.

    def cancel(self, id: int) -> str:
        return self._run(self._client.cancel(id))

    def discard(self, id: int) -> str:
        return self._run(self._client.discard(id))

    def promote(self, id: int) -> str:
        return self._run(self._client.promote(id))

    def replay(self, id: int, payload: bytes | None = None) -> str:
        return self._run(self._client.replay(id, payload))

    def remove(self, id: int) -> str:
        return self._run(self._client.remove(id))

    def change_batch(self, change: Change) -> Answers:
        return self._run(self._client.change_batch(change))

    def configure(self, subject: str, name: str, **changes: object) -> dict[str, object]:
        return self._run(self._client.configure(subject, name, **changes))

    def obliterate(self, queue: str, force: bool = False) -> int:
        return self._run(self._client.obliterate(queue, force))

    def published(self, task: str) -> Published | None:
        return self._run(self._client.published(task))

    # Read.

    def get(self, id: int | str) -> JobRecord:
        return self._run(self._client.get(id))

    def find(self, filter: Filter | None = None, limit: int = 100, cursor: str = "") -> JobPage:
        return self._run(self._client.find(filter, limit, cursor))

    def count(self, queue: str = "") -> dict[str, dict[str, int]]:
        return self._run(self._client.count(queue))

    def dead_letter_groups(self, queue: str = "") -> list[DeadLetterGroup]:
        return self._run(self._client.dead_letter_groups(queue))

    def explain(self, id: int) -> Explanation:
        return self._run(self._client.explain(id))

    def wait(self, id: int, timeout: Duration = 30) -> bytes | None:
        return self._run(self._client.wait(id, timeout))

    def watch(self, id: int, timeout: Duration = 30) -> JobRecord:
        return self._run(self._client.watch(id, timeout))

    def stream(self, id: int, offset: int = 0, limit: int = 1_000, wait: Duration = 0) -> list[StreamItem]:
        return self._run(self._client.stream(id, offset, limit, wait))

    def logs(self, id: int, offset: int = 0, limit: int = 100) -> list[StreamItem]:
        return self._run(self._client.logs(id, offset, limit))

    def event_page(self, cursor: str = "", limit: int = 1_000, wait: Duration = 0) -> EventPage:
        return self._run(self._client.event_page(cursor, limit, wait))

    def scan_bounds(self, table: str) -> Scanned:
        return self._run(self._client.scan_bounds(table))

    def scan_page(
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
        return self._run(
            self._client.scan_page(
                table,
                after=after,
                upto=upto,
                limit=limit,
                queue=queue,
                states=states,
                types=types,
                columns=columns,
            )
        )

    def events(self, cursor: str = "", follow: Duration = 0) -> Iterator[Event]:
        """Page by page: what a page has is given before the next one is waited for."""
        while True:
            page = self.event_page(cursor, wait=follow)
            yield from page.events
            if not page.events and (follow or page.cursor == cursor):
                return
            cursor = page.cursor
