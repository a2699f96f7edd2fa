"""A handle of a job: what became of it, its result, its stream. Calls that talk to the store have a `_sync` twin."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

from tenure.client.client import Client, raise_outcome
from tenure.core.bound import WAIT_MS_MAX
from tenure.core.duration import Duration, milliseconds
from tenure.core.error import Error, Timeout
from tenure.core.record import Explanation, JobRecord, StreamItem
from tenure.task.home import Home
from tenure.task.result import Reader

R_co = TypeVar("R_co", covariant=True)
ENDED = ("completed", "failed", "cancelled")
STREAM_PAGE = 1_000
STREAM_WAIT_S = 60


class Job(Generic[R_co]):
    def __init__(
        self,
        home: Home,
        reader: Reader,
        id: int,
        tenant: str,
        duplicate: bool = False,
        replaced: bool = False,
        error: Error | None = None,
    ) -> None:
        self.id = id
        self.tenant = tenant  # empty: that of the app, which is not open yet
        self.duplicate = duplicate  # it was there already
        self.replaced = replaced  # and has the new payload
        self.error = error  # why it was not stored, where many are enqueued at once
        self._home = home
        self._reader = reader

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    # Results.

    async def result(self, timeout: Duration | None = None) -> R_co:
        """The value, once there is one; `JobFailed`, `JobCancelled`, or `Timeout`, which does not cancel the job."""
        return self._value(await self._home.run(self._tenant_client, _until_ended(self.id, timeout)))

    def result_sync(self, timeout: Duration | None = None) -> R_co:
        return self._value(self._home.run_sync(self._tenant_client, _until_ended(self.id, timeout)))

    def _value(self, found: JobRecord) -> R_co:
        raise_outcome(found)
        value: R_co = self._reader.result(found.result, found.codec)
        return value

    def _tenant_client(self, client: Client) -> Client:
        return client.as_tenant(self.tenant) if self.tenant else client

    # Looking, and stopping.

    async def info(self) -> JobRecord:
        return await self._home.run(self._tenant_client, lambda client: client.get(self.id))

    def info_sync(self) -> JobRecord:
        return self._home.run_sync(self._tenant_client, lambda client: client.get(self.id))

    async def state(self) -> str:
        return (await self.info()).state

    def state_sync(self) -> str:
        return self.info_sync().state

    async def cancel(self) -> str:
        """Ends it, whatever it is doing: a running handler is told, and its result is not taken."""
        return await self._home.run(self._tenant_client, lambda client: client.cancel(self.id))

    def cancel_sync(self) -> str:
        return self._home.run_sync(self._tenant_client, lambda client: client.cancel(self.id))

    async def replay(self) -> str:
        """Tries a failed job once more, with all its attempts."""
        return await self._home.run(self._tenant_client, lambda client: client.replay(self.id))

    def replay_sync(self) -> str:
        return self._home.run_sync(self._tenant_client, lambda client: client.replay(self.id))

    async def explain(self) -> Explanation:
        """What holds it, since when, and when it can start."""
        return await self._home.run(self._tenant_client, lambda client: client.explain(self.id))

    def explain_sync(self) -> Explanation:
        return self._home.run_sync(self._tenant_client, lambda client: client.explain(self.id))

    async def logs(self) -> list[str]:
        return _lines(await self._home.run(self._tenant_client, lambda client: client.logs(self.id)))

    def logs_sync(self) -> list[str]:
        return _lines(self._home.run_sync(self._tenant_client, lambda client: client.logs(self.id)))

    # What the handler emits.

    async def stream(self, offset: int = 0) -> AsyncIterator[Any]:
        """Every item from the offset on, until the job has ended."""
        while True:
            items, codec, has_ended = await self._home.run(self._tenant_client, _stream_page(self.id, offset))
            for item in items:
                yield self._reader.item(item.data, codec)
                offset = item.offset + 1
            if has_ended and not items:
                return

    def stream_sync(self, offset: int = 0) -> Iterator[Any]:
        while True:
            items, codec, has_ended = self._home.run_sync(self._tenant_client, _stream_page(self.id, offset))
            for item in items:
                yield self._reader.item(item.data, codec)
                offset = item.offset + 1
            if has_ended and not items:
                return


def _lines(items: list[StreamItem]) -> list[str]:
    return [item.data.decode() for item in items]


def _until_ended(id: int, timeout: Duration | None) -> Any:
    left_ms = -1 if timeout is None else milliseconds("timeout", timeout)

    async def wait(client: Client) -> JobRecord:
        nonlocal left_ms
        while True:
            portion_ms = WAIT_MS_MAX if left_ms < 0 else min(left_ms, WAIT_MS_MAX)
            try:
                return await client.watch(id, portion_ms / 1000)
            except Timeout:
                if left_ms >= 0:
                    left_ms -= portion_ms
                    if left_ms <= 0:
                        raise

    return wait


def _stream_page(id: int, offset: int) -> Any:
    async def read(client: Client) -> tuple[list[StreamItem], str, bool]:
        found = await client.get(id)
        items = await client.stream(id, offset, STREAM_PAGE, 0 if found.state in ENDED else STREAM_WAIT_S)
        return items, found.codec, found.state in ENDED

    return read
