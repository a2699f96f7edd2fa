"""Store to store by a cluster: parts are staged side by side, published together, and compared as tables.

What is copied, and what may differ afterwards, is that of `tenure.transfer`; here is how it is divided. Parts are
ranges of ids, and a load lets its parts in by their numbers: so a job comes after those it depends on, in whatever
part they are.
"""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tenure.client.client import Client
from tenure.core.error import Conflict, Error, InvalidRequest
from tenure.core.tenant import ANY_TENANT
from tenure.spark.agreement import Agreement, Mapping
from tenure.spark.parts import PARTS_MAX, Parts, map_numbers, plan_parts
from tenure.spark.side import Side
from tenure.spark.token import TOKEN_VARIABLE
from tenure.transfer.copy import Bounds, Copied, bounds_of, payload_bytes_max, tenants_of
from tenure.transfer.ids import Ids, Known
from tenure.transfer.read import as_reader, read_jobs
from tenure.transfer.row import Row
from tenure.transfer.settings import Differing, compare_settings, put_settings, read_settings
from tenure.transfer.since import Since, changed_copies, changed_jobs
from tenure.transfer.stage import Published, Stage, publish, read_published
from tenure.transfer.verify import Verified

T = TypeVar("T")

ATTEMPTS_MAX: Final = 8  # of a task; Spark's own limit is 4
STAGED: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("part", pa.int32()),
        ("writing", pa.string()),
        ("chunks", pa.int32()),
        ("rows", pa.int64()),
        ("running", pa.int64()),
        ("results_left", pa.list_(pa.int64())),
    ]
)


class Migrated(msgspec.Struct, frozen=True):
    copied: Copied
    verified: Verified | None


class _Plan(msgspec.Struct, frozen=True):
    """What every task is told."""

    source: Side
    target: Side
    tenant: str
    load_id: str
    parts: Parts
    published: frozenset[str]  # tenants of which an earlier run has published the load
    result_bytes_max: int


def migrate(
    spark: SparkSession,
    source_url: str,
    target_url: str,
    *,
    now_ms: Callable[[], int],
    tenant: str = ANY_TENANT,
    load_id: str = "",
    parts: int = 0,
    verify: bool = True,
    differences: str = "",
    source_token_file: str = "",
    target_token_file: str = "",
    source_token_variable: str = TOKEN_VARIABLE,
    target_token_variable: str = TOKEN_VARIABLE,
) -> Migrated:
    """Copies all jobs and settings, of one tenant or of all. A repeated one adds nothing, a failed one leaves nothing.

    `differences` is a folder, anywhere Spark can write, for a table of all of them.
    """
    if source_url == target_url:
        raise InvalidRequest("target_url", target_url, "it is the store that is copied from; name another")
    source = Side(source_url, source_token_file, source_token_variable)
    target = Side(target_url, target_token_file, target_token_variable)
    source.check("source_url")
    target.check("target_url")
    named = load_id or f"migrate-{hashlib.sha256(f'{source_url} {tenant}'.encode()).hexdigest()[:24]}"
    run = _Run(spark, source, target, tenant, named, now_ms)
    copied = run.copy(parts)
    return Migrated(copied, run.verify(parts, differences) if verify else None)


class _Run:
    def __init__(
        self, spark: SparkSession, source: Side, target: Side, tenant: str, load_id: str, now_ms: Callable[[], int]
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._tenant = tenant
        self._load_id = load_id
        self._now_ms = now_ms
        self._copied = Copied(load_id)
        self._mapping: list[Mapping] = []
        self._bounds = Bounds(0, 0)
        self._target_event = 0  # the newest of the new store before the copies came in
        self._began_ms = 0

    def _with_both(self, work: Callable[[Client, Client], Awaitable[T]]) -> T:
        async def opened() -> T:
            async with self._source.opened() as source, self._target.opened() as target:
                return await work(as_reader(source, self._tenant), target)

        return asyncio.run(opened())

    def copy(self, parts: int) -> Copied:
        self._began_ms = self._now_ms()
        plan = self._with_both(lambda source, target: self._plan(source, target, parts))
        if self._copied.is_repeated:
            self._with_both(self._read_published)
            return self._copied
        try:
            staged = map_numbers(self._spark, plan.parts.count, lambda part: _stage_part(plan, part), STAGED).collect()
            rows = [msgspec.convert(each.asDict(), _Staged) for each in staged]
            self._with_both(lambda source, target: self._publish(source, target, plan, rows))
        except BaseException:
            self._with_both(self._abort)
            raise
        return self._copied

    async def _plan(self, source: Client, target: Client, parts: int) -> _Plan:
        self._bounds = await bounds_of(source)
        self._target_event = (await as_reader(target, self._tenant).scan_bounds("events")).last
        first = (await source.scan_bounds("jobs")).first
        self._copied.tenants = sorted(await tenants_of(source, self._tenant))
        published: set[str] = set()
        for tenant in self._copied.tenants:
            stage = Stage(target, tenant, self._load_id)
            await stage.begin()
            if stage.is_published:
                published.add(tenant)
        # Tenants without jobs have nothing to publish; all others must have been.
        holding = {name for name in self._copied.tenants if await source.as_tenant(name).count()}
        self._copied.is_repeated = bool(published) and holding <= published
        return _Plan(
            self._source,
            self._target,
            self._tenant,
            self._load_id,
            plan_parts(first, self._bounds.job, parts),
            frozenset(published),
            await payload_bytes_max(target),
        )

    async def _abort(self, _source: Client, target: Client) -> None:
        for tenant in self._copied.tenants:
            try:
                await Stage(target, tenant, self._load_id).begin()
            except Error:
                pass  # what is staged is out of sight, and goes by itself after a day

    async def _read_published(self, source: Client, target: Client) -> None:
        for tenant in self._copied.tenants:
            if await source.as_tenant(tenant).count():
                await self._note_published(target, tenant)

    async def _note_published(self, target: Client, tenant: str) -> Published:
        names = itertools.product(range(PARTS_MAX), [f"a{number}" for number in range(ATTEMPTS_MAX)])
        found = await read_published(target.as_tenant(tenant), self._load_id, names, Ids())
        self._mapping += [Mapping(tenant, part, writing, chunks) for part, writing, chunks in found.parts]
        self._copied.count(found.report)
        return found

    async def _publish(self, source: Client, target: Client, plan: _Plan, staged: "list[_Staged]") -> None:
        now = await bounds_of(source)
        self._copied.events_meanwhile = now.event - self._bounds.event
        changed = await changed_jobs(source, self._bounds.event, now.event, self._bounds.job)
        self._copied.changed = sorted(changed.ids)
        self._copied.running = sum(each.running for each in staged)
        self._copied.results_left = [id for each in staged for id in each.results_left]
        for tenant in self._copied.tenants:
            self._copied.settings += await put_settings(target, tenant, await read_settings(source, tenant))
        for tenant in self._copied.tenants:
            if tenant in plan.published:
                await self._note_published(target, tenant)
                continue
            own = [each for each in staged if each.tenant == tenant and each.rows]
            if not own:
                continue
            report = await publish(target.as_tenant(tenant), self._load_id, {each.part: each.writing for each in own})
            rows = sum(each.rows for each in own)
            if report.rows != rows:
                raise Conflict(
                    f"load {self._load_id} was staged by two at once; {report.rows} rows came in instead of {rows}:"
                    " compare with the source, and copy with another load id",
                    0,
                )
            self._mapping += [Mapping(tenant, each.part, each.writing, each.chunks) for each in own]
            self._copied.count(report)

    def verify(self, parts: int, folder: str) -> Verified:
        agreement = Agreement(
            self._spark,
            self._source,
            self._target,
            self._tenant,
            self._load_id,
            self._mapping,
            self._began_ms,
            self._with_both(self._look_back),
        )
        found, rows, queues = agreement.compare(self._bounds.job, parts, folder)
        settings = self._with_both(self._compare_settings)
        return Verified(rows, found.count, queues, {}, found.named, settings)

    async def _look_back(self, source: Client, target: Client) -> Since:
        now = await bounds_of(source)
        reader = as_reader(target, self._tenant)
        newest = (await reader.scan_bounds("jobs")).last
        return Since(
            await changed_jobs(source, self._bounds.event, now.event, self._bounds.job),
            await changed_copies(reader, 0 if self._copied.is_repeated else self._target_event, 1, newest),
            self._copied.is_repeated,
        )

    async def _compare_settings(self, source: Client, target: Client) -> list[Differing]:
        differing: list[Differing] = []
        for tenant in self._copied.tenants:
            ours = await read_settings(source, tenant)
            differing += compare_settings(tenant, ours, await read_settings(target, tenant))
        return differing


class _Staged(msgspec.Struct, frozen=True):
    tenant: str
    part: int
    writing: str
    chunks: int
    rows: int
    running: int
    results_left: list[int]


async def _stage_part(plan: _Plan, part: int) -> AsyncGenerator[pa.RecordBatch, None]:
    """What a task does. Its writing has the number of the attempt: the driver publishes the one that ended well, and
    what a broken or a slow twin has staged is dropped."""
    context = TaskContext.get()
    writing = f"a{0 if context is None else context.attemptNumber()}"
    stages: dict[str, Stage] = {}
    running: dict[str, int] = {}
    left: dict[str, list[int]] = {}
    async with plan.source.opened() as source, plan.target.opened() as target:
        reader = as_reader(source, plan.tenant)
        known = Known()
        outside: set[int] = set()

        def knows(id: int) -> bool:
            return id in known or id in outside

        async for _, rows in read_jobs(reader, *plan.parts.bounds(part)):
            for row in rows:
                known.add(row["id"])
            outside |= await _look_up(reader, rows, known)
            pages: dict[str, list[Row]] = {}
            for row in rows:
                tenant = row["tenant"]
                if tenant in plan.published:
                    continue
                if row["result"] is not None and len(row["result"]) > plan.result_bytes_max:
                    left.setdefault(tenant, []).append(row["id"])
                    row = {**row, "result": None}
                running[tenant] = running.get(tenant, 0) + (row["state"] == "running")
                pages.setdefault(tenant, []).append(row)
            for tenant, own in pages.items():
                if tenant not in stages:
                    stages[tenant] = Stage(target, tenant, plan.load_id, part, writing)
                await stages[tenant].add(own, knows)
        for stage in stages.values():
            await stage.flush()
    said = [
        _Staged(name, part, writing, stage.chunks, stage.rows, running[name], left.get(name, []))
        for name, stage in stages.items()
    ]
    if said:
        yield pa.RecordBatch.from_pylist([msgspec.to_builtins(each) for each in said], schema=STAGED)


async def _look_up(reader: Client, rows: list[Row], known: Known) -> set[int]:
    """Which of the dependencies that are in other parts are still there."""
    asked = sorted({id for row in rows for id in row["depends_on"] or () if id not in known})
    there: set[int] = set()
    for id in asked:
        page = await reader.scan_page("jobs", after=id - 1, upto=id, limit=1, columns=("id",))
        if page.rows:
            there.add(id)
    return there
