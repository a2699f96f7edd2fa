"""A store as its readers see it, as rows to import, and how it must read in the store it is copied to."""

from random import Random
from typing import Final

import msgspec

from tenure.core.bound import make_claim
from tenure.core.clock import Now
from tenure.core.job import Extras, Options
from tenure.core.past import row_of
from tenure.core.record import JobRecord, Past
from tenure.core.request import STAGE, Batch, Filter, Load
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.engine import Engine
from tests.simulation.clock import Clock
from tests.simulation.run import live
from tests.simulation.scenario import furnish, plan
from tests.simulation.world import World

EVERYBODY: Final = Context("operator", (ANY_TENANT,))
TICKS_MAX: Final = 10_000
CHUNK_ROWS: Final = 40

Row = tuple[Options, Extras, Past]


class UnsetClock(Clock):
    """Nobody sets it: which ended jobs are past their time is the same in a store that begins later."""

    def set_wall(self, by_ms: int) -> None:
        pass


class Source:
    """A store with a life behind it, at a moment in which nothing is due."""

    def __init__(self, seed: int) -> None:
        world = World(Random(seed))
        world.clock = UnsetClock()
        scenario = plan(world.random)
        furnish(world, scenario)
        live(world, scenario)
        self.engine: Engine = world.engine
        self.tenants = scenario.tenants
        self.now = Now(self.engine._w.wall_ms, self.engine._w.elapsed_ms, self.engine._w.left_out_ms)
        settle_down(self.engine, self.now)
        self.engine.claim(EVERYBODY, make_claim(("*",), n=20, worker="at work", lease_ms=600_000), self.now)
        settle_down(self.engine, self.now)

    def records(self, tenant: str) -> list[JobRecord]:
        found: list[JobRecord] = []
        cursor = ""
        while True:
            page = self.engine.find(Context(tenant), Filter(), 100, cursor, self.now)
            found += page.jobs
            cursor = page.cursor
            if not cursor:
                return found

    def row(self, record: JobRecord, there: set[int]) -> Row:
        """The record, and what readers are not shown: whoever copies a store knows how its jobs were enqueued."""
        job = self.engine._w.index.get(record.id)
        if job is None:
            return row_of(record)
        options = job.spec.options.without_times()
        options.priority = record.priority
        asked = None if job.side is None else job.side.extras
        _, extras, past = row_of(record)
        if asked is not None:
            extras.unique_key = asked.unique_key
            extras.idempotency_key = asked.idempotency_key
        extras.depends_on = tuple(id for id in record.depends_on if id in there)
        return options, extras, past


def settle_down(engine: Engine, now: Now) -> None:
    for _ in range(TICKS_MAX):
        again = engine.tick(now)
        if again is None or (again.wall_ms > now.wall_ms and again.elapsed_ms > now.elapsed_ms):
            return
    raise AssertionError("there is always more to do")


def chunks_of(source: Source, records: list[JobRecord]) -> list[Load]:
    there = {record.id for record in records}
    loads: list[Load] = []
    for first in range(0, len(records), CHUNK_ROWS):
        part = records[first : first + CHUNK_ROWS]
        rows = [source.row(record, there) for record in part]
        batch = Batch(
            rows[0][0],
            [record.payload for record in part],
            [extras for _, extras, _ in rows],
            [options for options, _, _ in rows],
            pasts=[past for _, _, past in rows],
        )
        loads.append(Load(STAGE, "copy", 0, "w", len(loads), batch))
    return loads


def expected(record: JobRecord, ids: dict[int, int], now: Now) -> JobRecord:
    """The record in the store it was copied to."""
    fields: dict[str, object] = {
        "id": ids[record.id],
        "depends_on": tuple(ids[id] for id in record.depends_on if id in ids),
        "parent": ids.get(record.parent, 0),
        "lease_until": 0,
    }
    if record.state == "running":
        waits = record.lease_until > now.wall_ms
        fields["attempt"] = record.attempt - 1
        fields["state"] = "scheduled" if waits else "ready"
        fields["run_at"] = record.lease_until if waits else record.run_at
    return msgspec.structs.replace(record, **fields)
