"""A store with a long random life is read through `find` and imported into another: field by field the same."""

from collections import Counter
from pathlib import Path

import pytest

from tenure.core.bound import make_claim
from tenure.core.clock import Now
from tenure.core.record import JobRecord, LoadedRow
from tenure.core.request import PUBLISH, READ, STORE, Configure, Load, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.store.contract import Store
from tenure.store.embedded.memory import MemoryStore
from tenure.store.embedded.sqlite import SqliteStore
from tests.migration.copy import EVERYBODY, Source, chunks_of, expected, settle_down

SEEDS = range(8)
KEEP: dict[str, object] = {
    "keep_completed_ms": 10**11,
    "keep_completed_count": 10**9,
    "keep_failed_ms": 10**11,
    "keep_failed_count": 10**9,
}


async def until_done(store: Store, tenant: str, now: Now) -> None:
    while True:
        report = await store.load(Context(tenant), Load(PUBLISH, "copy", parts={0: "w"}), now)
        if report.done:
            assert (report.new, report.duplicates, report.refused) == (report.rows, 0, 0), report
            return


async def translation(store: Store, tenant: str, chunks: int, now: Now) -> dict[int, int]:
    rows: list[LoadedRow] = []
    for at in range(chunks):
        rows += (await store.load(Context(tenant), Load(READ, "copy", 0, "w", at), now)).outcomes
    return {row.source: row.id for row in rows}


async def compare(store: Store, source: Source, tenant: str, ids: dict[int, int]) -> Counter[str]:
    records = source.records(tenant)
    found = await store.get(Context(tenant), [ids[record.id] for record in records], [], source.now)
    for record, copied in zip(records, found, strict=True):
        assert copied == expected(record, ids, source.now)
    return Counter(record.state for record in records)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_store_is_copied_field_by_field(seed: int) -> None:
    source = Source(seed)
    store = MemoryStore()
    await store.open(source.now)
    await store.configure(EVERYBODY, Configure(STORE, "", dict(KEEP)), source.now)
    states: Counter[str] = Counter()
    for tenant in filter(source.records, source.tenants):
        loads = chunks_of(source, source.records(tenant))
        for load in loads:
            await store.load(Context(tenant), load, source.now)
        await until_done(store, tenant, source.now)
        states += await compare(store, source, tenant, await translation(store, tenant, len(loads), source.now))
        counts = await store.count(Context(tenant), "", source.now)
        assert sum(sum(queue.values()) for queue in counts.values()) == len(source.records(tenant))
    assert store._engine.verify() == []
    assert len(states) >= 5, states
    drain(store._engine, source.now)
    await store.close()


def drain(engine: Engine, now: Now) -> None:
    """Every live job of the copy can be brought to an end."""
    claim = make_claim(("*",), n=1_000, worker="last")
    for _ in range(500):
        claimed = engine.claim(EVERYBODY, claim, now)
        if claimed.ids:
            engine.settle(EVERYBODY, Settle(SETTLE_COMPLETE, claimed.ids, [claimed.token] * len(claimed.ids)), now)
        else:
            now = Now(now.wall_ms + 600_000, now.elapsed_ms + 600_000)
        settle_down(engine, now)
        if engine._w.jobs == 0:
            assert engine.verify() == []
            return
    raise AssertionError(f"{int(engine._w.jobs)} jobs cannot be brought to an end")


async def reopened(store: SqliteStore, path: Path, now: Now) -> SqliteStore:
    await store.close()
    again = SqliteStore(path, "relaxed")
    await again.open(now)
    return again


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:2])
async def test_a_copy_goes_on_after_a_restart_at_any_point(seed: int, tmp_path: Path) -> None:
    """Closed and opened again between any two steps: while it is staged, and half let in."""
    source = Source(seed)
    path = tmp_path / "jobs.db"
    store = SqliteStore(path, "relaxed")
    await store.open(source.now)
    await store.configure(EVERYBODY, Configure(STORE, "", dict(KEEP)), source.now)
    tenant = max(source.tenants, key=lambda name: len(source.records(name)))
    records = source.records(tenant)
    while len(records) < 2_100:  # more than two steps let in
        first = 1_000_000 + len(records)  # ids that nothing in the source has, also of what is gone
        records += [
            JobRecord(id=first + at, tenant=tenant, queue="more", task="t", state="ready", created_at=1, ready_at=1)
            for at in range(500)
        ]
    loads = chunks_of(source, records)
    for load in loads:
        await store.load(Context(tenant), load, source.now)
    store = await reopened(store, path, source.now)
    halves = 0
    while True:
        report = await store.load(Context(tenant), Load(PUBLISH, "copy", parts={0: "w"}), source.now)
        if report.done:
            break
        halves += report.new < report.rows
        store = await reopened(store, path, source.now)
    assert halves >= 2
    assert (report.new, report.duplicates, report.refused) == (len(records), 0, 0)
    ids = await translation(store, tenant, len(loads), source.now)
    assert len(set(ids.values())) == len(records)
    await compare(store, source, tenant, ids)
    assert store._engine.verify() == []
    await store.close()
