"""A store whose clock the test moves, an exporter on it, and the comparison of a lake with the store's events."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from tenure.core.bound import make_claim, make_options
from tenure.core.clock import Now
from tenure.core.error import EventsLost
from tenure.core.record import Event
from tenure.core.request import STORE, Batch, Configure, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import ANY_TENANT, Context
from tenure.lake.export import Exporter
from tenure.lake.lake import Lake
from tenure.lake.place import Draft, Place
from tenure.lake.rows import batch_of
from tenure.lake.source import StoreSource
from tenure.lake.tidy import Rules
from tenure.lake.verify import verify
from tenure.store.contract import Store
from tenure.store.embedded.memory import MemoryStore
from tenure.store.embedded.sqlite import SqliteStore

BEGIN_MS = 1_767_182_400_000  # 2025-12-31 12:00 UTC
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SMALL = Rules(rows=40, page_rows=16, group_rows=16, is_compacted=False, grace_ms=HOUR_MS)
EVERYBODY = Context(ANY_TENANT, (ANY_TENANT,))


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def __call__(self) -> Now:
        return Now(BEGIN_MS + self.passed_ms, self.passed_ms)

    def wall_ms(self) -> int:
        return BEGIN_MS + self.passed_ms


class Rig:
    def __init__(self, store: MemoryStore | SqliteStore | None = None) -> None:
        self.clock = Clock()
        self.store: MemoryStore | SqliteStore = store or MemoryStore()

    async def open(self) -> "Rig":
        await self.store.open(self.clock())
        return self

    async def enqueue(self, count: int, tenant: str = "acme", **options: object) -> None:
        batch = Batch(make_options(**{"queue": "mail", "task": "send", **options}), [b"{}"] * count)
        await self.store.enqueue(Context(tenant), batch, self.clock())

    async def work(self, count: int, tenant: str = "acme") -> None:
        """Jobs from their beginning to their end: three events each."""
        await self.enqueue(count, tenant)
        found = await self.store.claim(Context(tenant), make_claim(("mail",), count, 0, "w-1"), self.clock())
        done = Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids))
        await self.store.settle(Context(tenant), done, self.clock())

    async def keep_events(self, count: int) -> None:
        """Roughly so many: they go in chunks."""
        await self.store.configure(EVERYBODY, Configure(STORE, "", {"events_max": count}), self.clock())

    async def exporter(self, place: Place, rules: Rules = SMALL) -> Exporter:
        """One that has been opened."""
        exporter = await self.closed_exporter(place, rules)
        await exporter.open()
        return exporter

    async def closed_exporter(self, place: Place, rules: Rules = SMALL) -> Exporter:
        source = StoreSource(self.store, self.clock)
        return Exporter(place, source, await self.store.identity(), rules, self.clock.wall_ms)

    async def events(self) -> list[Event]:
        return await events_of(self.store, self.clock())


async def events_of(store: Store, now: Now) -> list[Event]:
    """All that the store keeps."""
    found: list[Event] = []
    cursor = ""
    while True:
        try:
            page = await store.events(EVERYBODY, cursor, 10_000, 0, now)
        except EventsLost as lost:
            cursor = f"e{lost.oldest - 1}"
            continue
        found += page.events
        if page.cursor == cursor or not page.events:
            return found
        cursor = page.cursor


def rows_of(lake: Lake) -> pa.Table:
    """All rows by seq, as any reader of Parquet sees them."""
    tables = []
    for segment in lake.segments():
        with lake.place.fetch(segment.path) as file:
            tables.append(pq.read_table(file))
    return pa.concat_tables(tables).sort_by("seq") if tables else pa.Table.from_batches([batch_of([])])


def lake_of(place: Place) -> Lake:
    lake = Lake(place)
    lake.reload()
    return lake


def assert_holds(place: Place, events: list[Event]) -> Lake:
    """Every event once, field by field, and nothing else; and the log agrees with the files."""
    lake = lake_of(place)
    found = rows_of(lake)
    expected = pa.Table.from_batches([batch_of(events)])
    assert found.column("seq").to_pylist() == [event.seq for event in events]
    assert found.cast(expected.schema).equals(expected)
    assert verify(lake).findings == []
    return lake


class Crash(Exception):
    """As if the process had been killed there."""


class Faulty:
    """A place on which the process is killed at its `at`-th operation, before or after it has taken effect."""

    def __init__(self, place: Place, at: int, is_after: bool) -> None:
        self._place = place
        self.title = place.title
        self._left = at
        self._is_after = is_after
        self.calls = 0

    def _count(self) -> bool:
        self.calls += 1
        self._left -= 1
        if self._left == 0 and not self._is_after:
            raise Crash
        if self._left < 0:
            raise Crash  # a dead process does nothing more
        return self._left == 0

    def create(self, name: str, data: bytes) -> bool:
        is_due = self._count()
        made = self._place.create(name, data)
        if is_due:
            raise Crash
        return made

    def put(self, name: str, data: bytes) -> None:
        is_due = self._count()
        self._place.put(name, data)
        if is_due:
            raise Crash

    def keep(self, draft: Draft, name: str) -> None:
        is_due = self._count()
        self._place.keep(draft, name)
        if is_due:
            raise Crash

    def delete(self, names: list[str]) -> None:
        is_due = self._count()
        self._place.delete(names)
        if is_due:
            raise Crash

    def draft(self) -> Draft:
        return self._place.draft()

    def get(self, name: str) -> bytes:
        return self._place.get(name)

    def fetch(self, name: str) -> IO[bytes]:
        return self._place.fetch(name)

    def names(self, prefix: str) -> Iterator[str]:
        return self._place.names(prefix)

    def address(self, name: str) -> str:
        return self._place.address(name)

    def clear_drafts(self, before_s: float) -> int:
        return self._place.clear_drafts(before_s)


def data_files(place: Place) -> list[str]:
    return sorted(name for name in place.names("") if name.startswith("date="))


def tree(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())
