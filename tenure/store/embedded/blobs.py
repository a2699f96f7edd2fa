"""An embedded store with a blob store beside it: what is over the cap is put there before the engine's step, and read
from there after it. The engine sees names, callers see bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import cast

import msgspec

from tenure.core import bound
from tenure.core.answer import Answers, Claimed
from tenure.core.blob import Blob
from tenure.core.clock import Now
from tenure.core.error import Error, Internal, InvalidRequest, JobNotFound, Unavailable
from tenure.core.packed import Packed
from tenure.core.record import BlobRecord, JobRecord, LoadReport
from tenure.core.request import CLAIM_BYTES_MAX, Batch, Change, Claim, Failure, Load, Settle
from tenure.core.state import SETTLE_FAIL, SETTLE_SNOOZE
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.engine import Engine
from tenure.store.blob.place import Place
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.home import at_home, owner_of
from tenure.store.embedded.shelf import Lost, Shelf
from tenure.store.embedded.store import EmbeddedStore

AGAIN_MS = 5_000  # how long a job waits when the blob store did not answer
READ_BYTES_MAX = CLAIM_BYTES_MAX  # of blobs in one answer of `get`, though always the first


class Upload:
    """The blobs of one request: pinned until the request is done."""

    def __init__(self, shelf: Shelf | None, payload_bytes_max: int) -> None:
        self._shelf = shelf
        self._payload_bytes_max = payload_bytes_max
        self._blobs: list[Blob] = []

    async def __aenter__(self) -> "Upload":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shelf is not None:
            for blob in self._blobs:
                self._shelf.unpin(blob.name)

    def _is_over(self, content: object) -> bool:
        return isinstance(content, bytes) and self._payload_bytes_max < len(content) <= bound.BLOB_BYTES_MAX

    async def content(self, content: object) -> object:
        if self._shelf is None or not isinstance(content, bytes | Blob):
            return content
        if isinstance(content, Blob):
            return repr(content)  # only this module makes them: a name must not open what others stored
        if not self._is_over(content):
            return content
        blob = await self._shelf.put(content)
        self._blobs.append(blob)
        return blob

    async def column(self, contents: Sequence[object]) -> Sequence[object]:
        """The same column when there is nothing to do."""
        if self._shelf is None or not any(self._is_over(each) or isinstance(each, Blob) for each in contents):
            return contents
        found = await asyncio.gather(*map(self.content, contents), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return list(found)

    async def staged(self, batch: Batch) -> Batch:
        contents = batch.payloads
        if isinstance(contents, Packed) and contents.longest <= self._payload_bytes_max:
            return batch
        payloads: Sequence[object] = list(contents) if isinstance(contents, Packed) else contents
        stored = await self.column(payloads)
        return batch if stored is contents else _with_payloads(batch, stored)

    async def batch(self, batch: Batch) -> Batch:
        contents = batch.payloads
        if len(contents) > 1 and sum(len(each) for each in contents if isinstance(each, bytes)) > bound.BATCH_BYTES_MAX:
            return batch  # the engine refuses it, and nothing was uploaded in vain
        return await self.staged(batch)

    async def settle(self, settle: Settle) -> Settle:
        results, followups = settle.results, settle.followups
        stored = None if results is None else await self.column(results)
        if followups is not None:
            followups = [None if batch is None else await self.batch(batch) for batch in followups]
        return Settle(
            settle.verb,
            settle.ids,
            settle.tokens,
            cast("list[bytes | Blob | None] | None", stored),
            settle.failures,
            followups,
            settle.delay_ms,
            settle.pause_key,
        )

    async def change(self, change: Change) -> Change:
        stored = await self.content(change.payload)
        if stored is change.payload:
            return change
        if not isinstance(stored, Blob):
            raise InvalidRequest("payload", stored, "it must be bytes")
        return Change(
            change.action,
            change.ids,
            change.filter,
            change.priority,
            stored,
            change.metadata,
            change.tags,
            change.run_at,
            change.reason,
            change.limit,
            change.rate_per_s,
        )


async def open_shelf(
    place: Place | None, file: StoreFile, engine: Engine, on_disk: Callable[[], Awaitable[None]]
) -> Shelf | None:
    """The blobs that belong to the file; refused when it has some and no place, or the wrong one, was named."""
    if place is None:
        if engine.blobs():
            raise Unavailable(
                f"{file.path} has payloads in a blob store; name it in the URL, as in ?blobs=./jobs.blobs"
            )
        return None
    engine.accept_blobs(bound.BLOB_BYTES_MAX)
    home = at_home(place, file.blob_home)
    shelf = Shelf(home, owner_of(file.secret), file.epoch, engine, on_disk, file.is_held)
    await shelf.open()
    return shelf


class StoreWithBlobs(EmbeddedStore):
    """Without a shelf it is the store it was."""

    def __init__(self) -> None:
        super().__init__()
        self._shelf: Shelf | None = None

    def _upload(self) -> Upload:
        return Upload(self._shelf, self._engine.payload_bytes_max())

    # What comes in.

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        if self._shelf is None:
            return await super().enqueue(context, batch, now)
        async with self._upload() as upload:
            return await super().enqueue(context, await upload.batch(batch), now)

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        if self._shelf is None or (settle.results is None and settle.followups is None):
            return await super().settle(context, settle, now)
        async with self._upload() as upload:
            return await super().settle(context, await upload.settle(settle), now)

    async def change(self, context: Context, change: Change, now: Now) -> Answers:
        if self._shelf is None or change.payload is None:
            return await super().change(context, change, now)
        async with self._upload() as upload:
            return await super().change(context, await upload.change(change), now)

    async def load(self, context: Context, load: Load, now: Now) -> LoadReport:
        if self._shelf is None or load.batch is None:
            return await super().load(context, load, now)
        async with self._upload() as upload:
            batch = await upload.staged(load.batch)
            stored = Load(load.step, load.load_id, load.part, load.writing, load.chunk, batch, load.parts, load.digest)
            return await super().load(context, stored, now)

    # What goes out.

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        """A job whose blob is lost is a dead letter, and the claim goes on to the next."""
        while True:
            claimed = await super().claim(context, claim, now)
            if claimed.blobs is None or self._shelf is None:
                return claimed
            found = await self._fill(context, claimed)
            if found.ids:
                return found
            claim = Claim(
                claim.queues, claim.n, 0, claim.worker, claim.tasks, claim.max_bytes, claim.lease_ms, claim.strict
            )

    async def _fill(self, context: Context, claimed: Claimed) -> Claimed:
        """The claim with its payloads. What the engine answered stays as it is: it is remembered for a repeat."""
        assert claimed.blobs is not None
        try:
            read = await asyncio.gather(*(self._read_leased(claimed, at) for at in claimed.blobs))
        except BaseException:
            if self._opened is not None:
                self._engine.give_back(claimed, self._now)
                self._deliver(self._now)
            raise
        payloads: dict[int, bytes | Error | Lost | None] = dict(zip(claimed.blobs, read, strict=True))
        await self._give_up(context, claimed, payloads)
        filled = Claimed(claimed.token)
        for at in range(len(claimed.ids)):
            payload = payloads.get(at, claimed.payloads[at])
            if isinstance(payload, bytes):
                filled.ids.append(claimed.ids[at])
                filled.payloads.append(payload)
                filled.options.append(claimed.options[at])
                filled.tenants.append(claimed.tenants[at])
                filled.attempts.append(claimed.attempts[at])
                filled.lease_until.append(claimed.lease_until[at])
                filled.lease_ms.append(claimed.lease_ms[at])
                filled.extras.append(claimed.extras[at])
        if not filled.ids:
            for problem in payloads.values():
                if isinstance(problem, Error):
                    raise problem
        return filled

    async def _read_leased(self, claimed: Claimed, at: int) -> bytes | Error | Lost | None:
        """The payload as it is now, or why there is none; None when the job does not run under this claim any more."""
        assert self._shelf is not None and claimed.blobs is not None
        blob = claimed.blobs[at]
        while True:
            try:
                return await self._shelf.get(blob)
            except Unavailable as unavailable:
                return unavailable
            except Lost as lost:
                now = self._engine.leased_payload(claimed.ids[at], claimed.token)
                if not isinstance(now, Blob):
                    return now
                if now.name == blob.name:
                    return lost
                blob = now

    async def _give_up(
        self, context: Context, claimed: Claimed, payloads: dict[int, bytes | Error | Lost | None]
    ) -> None:
        """Jobs that cannot be handed out: those whose blob is lost end, the others are tried again in a while."""
        lost = [at for at, payload in payloads.items() if isinstance(payload, Lost)]
        away = [at for at, payload in payloads.items() if isinstance(payload, Error)]
        if not lost and not away:
            return
        anyone = Context(tenants=(ANY_TENANT,))
        if lost:
            failures = [_failure(claimed, at, payloads[at]) for at in lost]
            ids = [claimed.ids[at] for at in lost]
            self._engine.settle(
                anyone, Settle(SETTLE_FAIL, ids, [claimed.token] * len(ids), failures=failures), self._now
            )
        if away:
            ids = [claimed.ids[at] for at in away]
            self._engine.settle(
                anyone, Settle(SETTLE_SNOOZE, ids, [claimed.token] * len(ids), delay_ms=AGAIN_MS), self._now
            )
        self._deliver(self._now)
        await self._sure(context)

    async def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        found = await super().get(context, ids, custom_ids, now)
        if self._shelf is None:
            return found
        left = READ_BYTES_MAX
        is_first = True
        for at, record in enumerate(found):
            if record is not None and (record.payload_blob is not None or record.result_blob is not None):
                left -= _blob_bytes(record)
                if left >= 0 or is_first:
                    found[at] = await self._read(context, record, True)
                is_first = False
        return found

    async def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> JobRecord:
        """With its result; of a payload in the blob store it says only that."""
        found = await super().watch(context, id, wait_ms, now)
        if self._shelf is not None and found.result_blob is not None and found.result_blob.absent == "not_read":
            read = await self._read(context, found, False)
            if read is None:
                raise JobNotFound(id)
            found = read
        if found.result_blob is not None and found.result_blob.absent:
            raise Internal(
                f"the result of job {id} is {found.result_blob.absent} in the blob store ({found.result_blob.name});"
                " restore it from a backup, or run the job again with clone"
            )
        return found

    async def _read(self, context: Context, record: JobRecord, payload: bool) -> JobRecord | None:
        """The record with the bytes of its blobs; None when it was removed meanwhile."""
        while True:
            read = await self._read_parts(record, payload)
            if not _misses(read):
                return read
            again = self._engine.get(Context(context.tenant, context.tenants), [record.id], [], self._now)[0]
            self._deliver(self._now)
            if again is None:
                return None
            if again.payload_blob == record.payload_blob and again.result_blob == record.result_blob:
                return read
            record = again

    async def _read_parts(self, record: JobRecord, payload: bool) -> JobRecord:
        if payload and record.payload_blob is not None:
            content, blob = await self._read_blob(record.payload_blob)
            record = msgspec.structs.replace(record, payload=content, payload_blob=blob)
        if record.result_blob is not None:
            content, blob = await self._read_blob(record.result_blob)
            record = msgspec.structs.replace(record, result=content, result_blob=blob)
        return record

    async def _read_blob(self, blob: BlobRecord) -> tuple[bytes, BlobRecord]:
        assert self._shelf is not None
        try:
            content = await self._shelf.get(Blob(blob.name, blob.size))
        except Lost as lost:
            return b"", BlobRecord(blob.name, blob.size, lost.how)
        return content, BlobRecord(blob.name, blob.size, "")

    # Answers to those who waited: a result is pinned from the step that made it, for its job may be removed at once.

    def _drain_outbox(self) -> list[tuple[int, object]]:
        outbox = super()._drain_outbox()
        if self._shelf is not None:
            for _, answer in outbox:
                if isinstance(answer, JobRecord) and answer.result_blob is not None:
                    self._shelf.pin(answer.result_blob.name)
            dropped = self._engine.take_dropped_blobs()
            if dropped:
                self._shelf.doom(dropped)
        return outbox

    def _untaken(self, answer: object) -> None:
        if isinstance(answer, JobRecord) and answer.result_blob is not None and self._shelf is not None:
            self._shelf.unpin(answer.result_blob.name)
        super()._untaken(answer)

    async def _wait(self, ticket: int, now: Now) -> object:
        answer = await super()._wait(ticket, now)
        if not isinstance(answer, JobRecord) or answer.result_blob is None or self._shelf is None:
            return answer
        try:
            return await self._read_parts(answer, False)
        finally:
            self._shelf.unpin(answer.result_blob.name)


def _with_payloads(batch: Batch, payloads: Sequence[object]) -> Batch:
    contents = cast("list[bytes | Blob]", payloads)
    return Batch(batch.options, contents, batch.extras, batch.each, batch.atomic, batch.pasts, batch.keys)


def _failure(claimed: Claimed, at: int, lost: object) -> Failure:
    assert isinstance(lost, Lost) and claimed.blobs is not None
    blob = claimed.blobs[at]
    message = f"the payload, {blob.size} bytes, is {lost.how} in the blob store; restore {blob.name} there and replay"
    return Failure("Blob" + lost.how.capitalize(), message, undecodable=True)


def _blob_bytes(record: JobRecord) -> int:
    return sum(blob.size for blob in (record.payload_blob, record.result_blob) if blob is not None)


def _misses(record: JobRecord) -> bool:
    return any(blob is not None and blob.absent == "missing" for blob in (record.payload_blob, record.result_blob))
