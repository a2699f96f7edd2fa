"""`tenure bench`: how fast this store or server is for this client, with jobs that do nothing."""

import statistics
import time
from collections.abc import Callable
from typing import Annotated

import typer

from tenure.cli.screen import show_json, show_line, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import make_table
from tenure.core.bound import make_claim, make_options
from tenure.core.error import InvalidRequest
from tenure.core.request import REMOVE, Batch, Change, Filter, Settle
from tenure.core.state import READY, SETTLE_COMPLETE

QUEUE = "tenure.bench"
PAYLOAD = b'{"n": 1}'
BATCH_MAX = 10_000


@connected
def bench(
    session: Session,
    jobs: Annotated[int, typer.Option(help="How many jobs in batches.")] = 20_000,
    batch: Annotated[int, typer.Option(help="Jobs in one request.")] = 1_000,
    singles: Annotated[int, typer.Option(help="How many jobs one by one.")] = 300,
) -> None:
    """Enqueue, claim and complete jobs of the queue tenure.bench, which is left empty, and say how fast that was.

    The figures are those of one client that waits for each answer, on a store that may have other work to do.
    """
    if not 0 < batch <= BATCH_MAX or jobs < batch or singles < 1:
        rule = f"it must be from 1 to {BATCH_MAX}, with jobs for at least one batch, and one single job"
        raise InvalidRequest("batch", batch, rule)
    figures = Figures(session, jobs // batch, batch, singles)
    try:
        found = figures.measure()
    finally:
        session.client.change_batch(figures.cleaning())
    if session.as_json:
        show_json(found)
        return
    table = make_table("what", ">value", "unit")
    for name, (value, unit) in figures.shown(found).items():
        table.add_row(name, f"{value:,.0f}", unit)
    show_table(table)
    show_line(f"durability {found['durability']}; {jobs // batch} batches of {batch}, {singles} single jobs")


class Figures:
    def __init__(self, session: Session, batches: int, size: int, singles: int) -> None:
        self._client = session.open(create=True)
        self._batches = batches
        self._size = size
        self._singles = singles
        self._options = make_options(queue=QUEUE, keep_completed_ms=0)

    def measure(self) -> dict[str, object]:
        single = sorted(self._timed(self._enqueue, 1) for _ in range(self._singles))
        cycle = sorted(self._timed(self._work, 1) for _ in range(self._singles))
        enqueued = [self._timed(self._enqueue, self._size) for _ in range(self._batches)]
        worked = [self._timed(self._work, self._size) for _ in range(self._batches)]
        durability = self._client.capabilities.durability
        return {
            "durability": durability[-1] if durability else "none",
            "enqueue_p50_us": statistics.median(single) * 1e6,
            "enqueue_p99_us": single[int(len(single) * 0.99)] * 1e6,
            "claim_complete_p50_us": statistics.median(cycle) * 1e6,
            "claim_complete_p99_us": cycle[int(len(cycle) * 0.99)] * 1e6,
            "enqueue_per_s": self._size / statistics.median(enqueued),
            "claim_complete_per_s": self._size / statistics.median(worked),
        }

    @staticmethod
    def shown(found: dict[str, object]) -> dict[str, tuple[float, str]]:
        rows = {
            "enqueue one, half within": ("enqueue_p50_us", "µs"),
            "enqueue one, 99 of 100 within": ("enqueue_p99_us", "µs"),
            "claim and complete one, half within": ("claim_complete_p50_us", "µs"),
            "claim and complete one, 99 of 100 within": ("claim_complete_p99_us", "µs"),
            "enqueue in batches": ("enqueue_per_s", "jobs/s"),
            "claim and complete in batches": ("claim_complete_per_s", "jobs/s"),
        }
        return {name: (float(str(found[key])), unit) for name, (key, unit) in rows.items()}

    def cleaning(self) -> Change:
        """What an interrupted run left behind is removed by the next."""
        return Change(REMOVE, None, Filter(QUEUE, 1 << READY))

    def _timed(self, work: Callable[[int], None], count: int) -> float:
        began = time.perf_counter()
        work(count)
        return time.perf_counter() - began

    def _enqueue(self, count: int) -> None:
        errors = self._client.enqueue_batch(Batch(self._options, [PAYLOAD] * count)).errors()
        if errors:
            raise next(iter(errors.values()))

    def _work(self, count: int) -> None:
        found = self._client.claim_batch(make_claim((QUEUE,), count))
        self._client.settle_batch(Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids)))
