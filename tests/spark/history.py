"""Histories to test the pipeline on: one that a real store went through, and rows made by hand."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tenure
from tenure.lake.rows import batch_of
from tenure.lake.schema import EVENTS
from tenure.testing.clock import Clock

BEGIN: Final = datetime(2026, 1, 31, 23, 40, tzinfo=UTC)
DAY_1, DAY_2 = date(2026, 1, 31), date(2026, 2, 1)
EVENTS_LIVED: Final = 31
EVENTS_OF_JOBS: Final = 23  # the rest tells of workers and promises


async def live_a_little() -> pa.Table:
    """Two tenants, a promise, a retry, a dead letter, a replay, a cancel, a removal, across midnight."""
    clock = Clock(BEGIN)
    async with tenure.connect("memory://", tenant="acme", clock=clock) as acme:
        other = acme.as_tenant("globex")
        await acme.configure("queue", "mail", slo_wait_ms=5_000)
        for number in range(4):
            await acme.enqueue(b"x" * 100, queue="mail", task="send", backoff=tenure.Backoff.fixed("10s"))
            clock.advance(f"{number}s")
        first, second, third = await acme.claim("mail", n=3, worker="w1", lease="1h")  # waited 6, 6, 5 seconds
        clock.advance("2s")
        await acme.complete(first, b"y" * 10)
        await acme.fail(second, type="SmtpError", message="no answer from 10.0.0.1")
        clock.advance("1s")
        await acme.complete(third, b"")
        await other.enqueue(b"z", queue="pdf", task="render", max_attempts=1)
        later = await other.enqueue(b"zz", queue="pdf", task="render", delay="1h")
        [job] = await other.claim("pdf", worker="w2", lease="1h")
        clock.advance("25m")  # past midnight
        await other.fail(job, type="RenderError", message="page 7 of 12")
        last, again = await acme.claim("mail", n=2, worker="w1", lease="1h")
        clock.advance("4s")
        await acme.complete(again, b"done")
        await acme.cancel(last.id)
        await other.replay(job.id)
        [job] = await other.claim("pdf", worker="w2")
        clock.advance("3s")
        await other.complete(job, b"pdf")
        await other.remove(later.id)
        await acme.configure("queue", "mail", slo_wait_ms=None)
        page = await acme.as_tenant("acme", tenants=("*",)).event_page(limit=1_000)
        return pa.Table.from_batches([batch_of(page.events)])


def at(text: str) -> datetime:
    """A time of the second day: 10:15:30."""
    return datetime.combine(DAY_2, datetime.strptime(text, "%H:%M:%S").time(), UTC)


def event(seq: int, kind: str, when: str, **fields: Any) -> dict[str, Any]:
    """A row of `events`; what it does not say is null."""
    base = {"seq": seq, "job_seq": seq, "at": at(when), "type": kind}
    job = {"tenant": "acme", "queue": "mail", "task": "send", "job": 1}
    return base | job | fields


def ran(seq: int, kind: str, when: str, run_ms: int, **fields: Any) -> dict[str, Any]:
    """The end of an attempt that ran so long."""
    begun = at(when) - timedelta(milliseconds=run_ms)
    return event(seq, kind, when, **({"run_ms": run_ms, "started_at": begun, "worker": "w1", "attempt": 1} | fields))


def table_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in EVENTS.names} for row in rows], EVENTS)


def write_lake(table: pa.Table, lake: Path, name: str = "first") -> None:
    """As segments by date."""
    days = pc.strftime(table["at"], "%Y-%m-%d")
    for day in pc.unique(days).to_pylist():
        path = lake / f"date={day}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.filter(pc.equal(days, day)), path)
