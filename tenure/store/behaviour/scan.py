"""Bulk reads: the tables of events and jobs in columns, in parts with fixed bounds."""

from typing import Any, cast

import msgspec

from tenure.core.bound import make_scan
from tenure.core.error import EventsLost, InvalidRequest
from tenure.core.record import Event
from tenure.core.request import REMOVE, STORE, Scan
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import STATE_NAMES
from tenure.core.table import COLUMNS, EVENT_NUMBERS, EVENT_TEXTS, rows_of_events
from tenure.store.behaviour.event import busy_day
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, Rig

ALL = ("*",)
PAGES_MAX = 1_000

Row = dict[str, object]


async def bounds(rig: Rig, table: str) -> tuple[int, int]:
    found = await rig.store.scan(rig.context(), Scan(table), rig.now())
    assert found.rows == 0
    assert found.columns == {}
    return found.first, found.last


async def pages(
    rig: Rig,
    table: str,
    limit: int = 1_000,
    tenant: str = ACME,
    tenants: tuple[str, ...] = (),
    after: int = -1,
    upto: int = -1,
    queue: str = "",
    states: int = 0,
    types: tuple[str, ...] = (),
) -> list[Row]:
    """All rows between the bounds, page by page."""
    first, last = await bounds(rig, table)
    at = first - 1 if after < 0 else after
    end = last if upto < 0 else upto
    found: list[Row] = []
    for _ in range(PAGES_MAX):
        if at >= end:
            return found
        scan = Scan(table, at, end, limit, queue, states, types)
        page = await rig.store.scan(rig.context(tenant, tenants), scan, rig.now())
        assert page.rows <= limit
        assert at < page.next <= end
        at = page.next
        if table == "events":
            found += rows_of_events(page.columns, page.rows)
        elif page.rows:
            names = list(page.columns)
            found += [dict(zip(names, row, strict=True)) for row in zip(*page.columns.values(), strict=True)]
    raise AssertionError("the pages have no end")


def row_of(event: Event) -> Row:
    row: Row = {name: getattr(event, name) for name in (*EVENT_NUMBERS, *EVENT_TEXTS) if getattr(event, name)}
    for name in ("limit_keys", "depends_on"):
        if getattr(event, name):
            row[name] = list(getattr(event, name))
    if event.detail:
        row["detail"] = msgspec.json.encode(event.detail).decode()
    return row


@behaviour(15, needs=("scans",))
async def scanned_events_say_what_events_say(rig: Rig) -> None:
    await busy_day(rig)
    await rig.enqueue(limit_keys=("a", "b"), group="g", unique_key="u", priority=-3, max_attempts=None)
    await rig.set_queue(concurrency=3)
    assert await pages(rig, "events") == [row_of(event) for event in await rig.events()]


@behaviour(15, needs=("scans",))
async def pages_of_a_scan_have_every_row_once(rig: Rig) -> None:
    await busy_day(rig)
    whole = await pages(rig, "events")
    for limit in (1, 2, 7):
        assert await pages(rig, "events", limit) == whole
    jobs = await pages(rig, "jobs")
    assert len(jobs) > 7
    for limit in (1, 2, 7):
        assert await pages(rig, "jobs", limit) == jobs


@behaviour(15, needs=("scans",))
async def parts_of_a_scan_are_the_whole(rig: Rig) -> None:
    await busy_day(rig)
    for table in ("events", "jobs"):
        first, last = await bounds(rig, table)
        middle = (first + last) // 2
        whole = await pages(rig, table)
        await rig.enqueue()  # what comes later is in none of the parts
        parts = await pages(rig, table, after=first - 1, upto=middle) + await pages(rig, table, after=middle, upto=last)
        assert parts[: len(whole)] == whole
        key = "seq" if table == "events" else "id"
        assert [row[key] for row in parts] == sorted(str_free(row[key]) for row in parts)
        assert len(parts) == len(whole)


def str_free(value: object) -> int:
    assert isinstance(value, int)
    return value


@behaviour(2, needs=("scans",))
async def scan_shows_a_tenant_its_own(rig: Rig) -> None:
    own = await rig.enqueue()
    foreign = await rig.enqueue(tenant=GLOBEX)
    await rig.set_queue(tenant=GLOBEX, paused=True)
    assert [row["job"] for row in await pages(rig, "events")] == [own]
    assert [row["id"] for row in await pages(rig, "jobs")] == [own]
    assert [row["id"] for row in await pages(rig, "jobs", tenant=GLOBEX)] == [foreign]
    assert [row["id"] for row in await pages(rig, "jobs", tenants=ALL)] == [own, foreign]
    assert {row["tenant"] for row in await pages(rig, "events", tenants=ALL)} == {ACME, GLOBEX}
    assert await pages(rig, "jobs", tenant="initech") == []


@behaviour(15, needs=("scans",))
async def scan_of_events_by_queue_and_type(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 3, queue="mail")
    await rig.enqueue_ids([b"x"] * 2, queue="image")
    await rig.claim(2, queues="mail")
    events = await rig.events()
    asked = [row_of(event) for event in events if event.queue == "mail" and event.type == "started"]
    assert len(asked) == 2
    assert await pages(rig, "events", queue="mail", types=("started",)) == asked
    assert await pages(rig, "events", 1, queue="mail", types=("started",)) == asked
    assert await pages(rig, "events", types=("completed",)) == []


@behaviour(15, needs=("scans",))
async def scan_of_events_behind_retention_is_told_what_is_lost(rig: Rig) -> None:
    await rig.configure(STORE, "", events_max=10)
    for _ in range(6):
        await rig.enqueue_ids([b"x"] * 10_000)
        await rig.advance(1)
    first, last = await bounds(rig, "events")
    assert first > 1
    scan = Scan("events", first - 2, last, 10)
    await refused(EventsLost, rig.store.scan(rig.context(), scan, rig.now()), oldest=first)
    rows = await pages(rig, "events", 10_000)
    assert [row["seq"] for row in rows] == list(range(first, last + 1))


@behaviour(15, needs=("scans",))
async def scanned_jobs_say_what_get_says_and_their_options(rig: Rig) -> None:
    await busy_day(rig)
    backoff = Backoff(FIXED, 1_234)
    await rig.enqueue(
        custom_id="c",
        unique_key="u",
        idempotency_key="i",
        limit_keys=("a", "b"),
        group="g",
        tags=("t",),
        metadata={"k": "v"},
        timeout_ms=HOUR,
        lease_ms=7_000,
        backoff=backoff,
        keep_failed_count=3,
    )
    rows = await pages(rig, "jobs")
    for row in rows:
        job = await rig.get(str_free(row["id"]))
        for name, value in msgspec.to_builtins(job, builtin_types=(bytes,)).items():
            assert same(row[name]) == same(value), name
    last = rows[-1]
    shown = {name: same(last[name]) for name in ("unique_key", "idempotency_key", "limit_keys", "timeout_ms", "lifo")}
    assert shown == {
        "unique_key": "u",
        "idempotency_key": "i",
        "limit_keys": ["a", "b"],
        "timeout_ms": HOUR,
        "lifo": False,
    }
    assert (last["lease_ms"], last["keep_failed_count"], last["keep_failed_ms"]) == (7_000, 3, -1)
    told = last["backoff"]
    assert isinstance(told, dict)
    assert (told["kind"], told["base"]) == ("fixed", 1_234)
    assert set(last) == set(COLUMNS["jobs"])


def same(value: object) -> object:
    """Lists and tuples of the same values are the same here."""
    return [same(each) for each in value] if isinstance(value, (list, tuple)) else value


@behaviour(15, needs=("scans",))
async def scan_of_jobs_by_queue_and_state(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 4, queue="mail")
    await rig.enqueue(queue="image")
    leased = await rig.claim(2, queues="mail")
    await rig.complete(leased[0], b"r")
    completed = 1 << STATE_NAMES.index("completed")
    found = await pages(rig, "jobs", queue="mail", states=completed)
    assert [(row["id"], row["result"]) for row in found] == [(ids[0], b"r")]
    assert len(await pages(rig, "jobs", queue="mail")) == 4
    await rig.change_one(REMOVE, ids[0])
    assert await pages(rig, "jobs", states=completed) == []


@behaviour(15, needs=("scans",))
async def scan_answers_the_columns_that_were_asked_for(rig: Rig) -> None:
    await rig.enqueue()
    for table in ("events", "jobs"):
        names = COLUMNS[table][:3]
        page = await rig.store.scan(rig.context(), Scan(table, 0, 1, 10, columns=names), rig.now())
        assert tuple(page.columns) == names
        assert page.rows == 1
        nothing = await rig.store.scan(rig.context("initech"), Scan(table, 0, 1, 10, columns=names), rig.now())
        assert (nothing.rows, nothing.next) == (0, 1)


@behaviour(20, needs=("scans",))
async def scan_with_the_wrong_values_is_refused_by_field(rig: Rig) -> None:
    wrong: dict[str, dict[str, object]] = {
        "table": {"table": "secrets"},
        "limit": {"table": "events", "limit": 20_001},
        "after": {"table": "events", "after": -1},
        "states": {"table": "events", "states": ("ready",)},
        "types": {"table": "events", "types": ("exploded",)},
        "columns": {"table": "jobs", "columns": ("password",)},
    }
    for field, fields in wrong.items():
        try:
            make_scan(**cast("Any", fields))
        except InvalidRequest as error:
            assert error.fields["field"] == field
        else:
            raise AssertionError(f"{field} was accepted")
    await bounds(rig, "events")
