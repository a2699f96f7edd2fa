"""Copies the jobs and settings of one store into another, through their clients.

All jobs are staged out of sight, tenant by tenant under one load id, and become visible when everything is staged. So
a copy that fails leaves nothing, and one that is repeated adds nothing: the store remembers the load for seven days.
"""

from collections.abc import Callable

import msgspec

from tenure.client.client import Client
from tenure.core.bound import PAYLOAD_BYTES_DEFAULT
from tenure.core.error import Conflict, Error
from tenure.core.record import LoadReport
from tenure.core.tenant import ANY_TENANT
from tenure.transfer.difference import View
from tenure.transfer.ids import Ids, Known
from tenure.transfer.read import as_reader, read_jobs
from tenure.transfer.row import Row
from tenure.transfer.settings import Differing, Settings, compare_settings, put_settings, read_settings
from tenure.transfer.since import Since, changed_copies, changed_jobs
from tenure.transfer.stage import WRITING, Stage, publish, read_outcomes, read_published
from tenure.transfer.verify import Pages, Told, Verified, Verifier

# What is being done, how far it has come, and how far it goes, in ids of jobs.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Shows nothing."""


class Bounds(msgspec.Struct, frozen=True):
    """The newest job and event of a store at a moment."""

    job: int
    event: int


class Copied(msgspec.Struct):
    """What a copy did. `changed` are jobs of the source that moved on while it was read."""

    load_id: str
    tenants: list[str] = []
    rows: int = 0
    new: int = 0
    duplicates: int = 0
    refused: int = 0
    settings: int = 0
    running: int = 0
    is_repeated: bool = False  # everything had been published by an earlier run
    results_left: list[int] = []  # jobs whose result is too large for the store they went to
    events_meanwhile: int = 0
    changed: list[int] = []

    def count(self, report: LoadReport) -> None:
        self.rows += report.rows
        self.new += report.new
        self.duplicates += report.duplicates
        self.refused += report.refused


class Copy:
    """One copy, of one tenant or of all, from `source` to `target`."""

    def __init__(
        self,
        source: Client,
        target: Client,
        load_id: str,
        now_ms: Callable[[], int],
        tenant: str = ANY_TENANT,
        progress: Progress = silent,
    ) -> None:
        self._source = as_reader(source, tenant)
        self._target = target
        self._tenant = tenant
        self._progress = progress
        self._load_id = load_id
        self._now_ms = now_ms
        self._began_ms = 0
        self._stages: dict[str, Stage] = {}
        self._known = Known()
        self._ids = Ids()
        self._bounds = Bounds(0, 0)
        self._target_event = 0  # the newest of the new store before the copies came in
        self._result_bytes_max = PAYLOAD_BYTES_DEFAULT
        self._copied = Copied(load_id)

    async def run(self) -> Copied:
        self._began_ms = self._now_ms()
        self._bounds = await bounds_of(self._source)
        self._result_bytes_max = await payload_bytes_max(self._target)
        self._target_event = (await as_reader(self._target, self._tenant).scan_bounds("events")).last
        try:
            await self._stage()
            await self._note_changes()
        except BaseException:
            await self._drop()
            raise
        self._copied.tenants = sorted({*await tenants_of(self._source, self._tenant), *self._stages})
        self._copied.is_repeated = bool(self._stages) and all(each.is_published for each in self._stages.values())
        for tenant in [] if self._copied.is_repeated else self._copied.tenants:
            settings = await read_settings(self._source, tenant)
            self._copied.settings += await put_settings(self._target, tenant, settings)
        for stage in self._stages.values():
            self._copied.count(await self._publish(stage))
        return self._copied

    async def _stage(self) -> None:
        first = (await self._source.scan_bounds("jobs")).first - 1
        async for upto, rows in read_jobs(self._source, first, self._bounds.job):
            pages: dict[str, list[Row]] = {}
            for row in rows:
                self._known.add(row["id"])
                self._copied.running += row["state"] == "running"
                pages.setdefault(row["tenant"], []).append(self._fitting(row))
            for tenant, own in pages.items():
                stage = await self._stage_of(tenant)
                if not stage.is_published:
                    await stage.add(own, self._known.__contains__)
            self._progress("copy", upto - first, self._bounds.job - first)
        for stage in self._stages.values():
            await stage.flush()

    async def _stage_of(self, tenant: str) -> Stage:
        stage = self._stages.get(tenant)
        if stage is None:
            stage = Stage(self._target, tenant, self._load_id)
            await stage.begin()
            self._stages[tenant] = stage
        return stage

    def _fitting(self, row: Row) -> Row:
        """A store keeps results of imported jobs beside them, not in its blob store."""
        result = row["result"]
        if result is None or len(result) <= self._result_bytes_max:
            return row
        self._copied.results_left.append(row["id"])
        return {**row, "result": None}

    async def _drop(self) -> None:
        for stage in self._stages.values():
            try:
                await stage.drop()
            except Error:
                pass  # it cannot be reached; what is staged is out of sight, and goes by itself after a day

    async def _publish(self, stage: Stage) -> LoadReport:
        if stage.is_published:
            return (await read_published(stage.client, self._load_id, iter([(0, WRITING)]), self._ids)).report
        report = await publish(stage.client, self._load_id, {0: WRITING})
        if report.rows != stage.rows:
            raise Conflict(
                f"load {self._load_id} was staged by two copies at once; {report.rows} rows of tenant {stage.tenant}"
                f" came in instead of {stage.rows}: compare with the source, and copy with another load id",
                0,
            )
        await read_outcomes(stage.client, self._load_id, 0, WRITING, stage.chunks, self._ids)
        return report

    async def _note_changes(self) -> None:
        """Which jobs moved on while they were read, as far as events tell."""
        now = await bounds_of(self._source)
        self._copied.events_meanwhile = now.event - self._bounds.event
        changed = await changed_jobs(self._source, self._bounds.event, now.event, self._bounds.job)
        self._copied.changed = sorted(changed.ids)

    async def verify(self, tell: Told | None = None) -> Verified:
        """Both stores are read again. Jobs that a worker has taken since are not what they were, and are named."""
        target = as_reader(self._target, self._tenant)
        now = await bounds_of(self._source)
        since = Since(
            await changed_jobs(self._source, self._bounds.event, now.event, self._bounds.job),
            await changed_copies(target, 0 if self._copied.is_repeated else self._target_event, *self._ids.targets),
            self._copied.is_repeated,
        )
        bound = self._ids.last if self._copied.is_repeated else self._bounds.job
        verifier = Verifier(target, self._ids, View(self._ids.get, self._began_ms), bound, since, tell)
        await verifier.run(self._pages(now.job))
        return verifier.verified(await self._compare_settings())

    async def _pages(self, upto: int) -> Pages:
        first = (await self._source.scan_bounds("jobs")).first - 1
        async for at, rows in read_jobs(self._source, first, upto):
            yield at, rows
            self._progress("verify", at - first, upto - first)

    async def _compare_settings(self) -> list[Differing]:
        differing: list[Differing] = []
        for tenant in self._copied.tenants:
            ours: Settings = await read_settings(self._source, tenant)
            differing += compare_settings(tenant, ours, await read_settings(self._target, tenant))
        return differing


async def bounds_of(client: Client) -> Bounds:
    jobs, events = await client.scan_bounds("jobs"), await client.scan_bounds("events")
    return Bounds(jobs.last, events.last)


async def payload_bytes_max(client: Client) -> int:
    """Of one payload or result that is kept beside its job."""
    found = (await client.configure("store", "*")).get("payload_bytes_max", PAYLOAD_BYTES_DEFAULT)
    assert isinstance(found, int)
    return found


async def tenants_of(client: Client, tenant: str) -> list[str]:
    return [tenant] if tenant != ANY_TENANT else list(await client.configure("tenant", "*"))
