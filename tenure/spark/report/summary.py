"""What a report says, as plain values, read from gold."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from tenure.lake.gold import files_of, last_days, read_gold

MINUTES_SPAN_H: Final = 12  # longer, and a point is an hour
HOURS_SPAN_H: Final = 60 * 24  # longer, and a point is a day
UNIT_S: Final = {"minute": 60, "hour": 3_600, "day": 86_400}
DEFAULT_DAYS: Final = 30

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Series:
    """Totals over time; `unit` is what a point stands for."""

    unit: str
    at: list[datetime]
    rows: list[Row]

    def column(self, name: str) -> list[float]:
        """Not a number where there is nothing, so that a line has a gap there."""
        return [float("nan") if row[name] is None else float(row[name]) for row in self.rows]

    def per_minute(self, name: str) -> list[float]:
        return [value * 60 / UNIT_S[self.unit] for value in self.column(name)]


@dataclass(frozen=True, slots=True)
class Failure:
    fingerprint: str
    error_type: str
    message: str
    queue: str
    task: str
    count: int
    dead: int
    first_at: datetime
    last_at: datetime
    example_job: int

    @property
    def title(self) -> str:
        return f"{self.error_type}: {self.message}" if self.error_type else self.message or self.fingerprint


@dataclass(frozen=True, slots=True)
class Tenant:
    name: str
    jobs: int
    failed: int
    compute_s: float
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Queue:
    """Slots, over the hours of the range."""

    name: str
    used: float  # on average
    needed: float  # in the hour that needed most
    needed_peak: float  # in the busiest minute
    mean_run_ms: float
    arrived: int


@dataclass(frozen=True, slots=True)
class Worker:
    name: str
    attempts: int
    failed: int
    busy_s: float
    slots: int
    by_hour: dict[datetime, float]  # slots in use


@dataclass(frozen=True, slots=True)
class Summary:
    first: date
    last: date
    series: Series
    heat: dict[tuple[int, int], float]  # (weekday, hour) -> starts in such an hour, on average
    totals: Row
    wait_p95: float | None
    run_p95: float | None
    slo_kept: float | None
    failures: list[Failure]
    tenants: list[Tenant]
    queues: list[Queue]
    workers: list[Worker]


def summarize(
    folder: Path, first: date | None = None, last: date | None = None, now: datetime | None = None
) -> Summary | None:
    """None when there is no gold of these dates. Without dates, of the newest 30 days.

    Lines end with the last minute, hour or day that is over by `now`: one that goes on looks like a collapse.
    """
    newest = last_days(folder, DEFAULT_DAYS)
    if newest is None:
        return None
    first, last = first or (newest[0] if last is None else date.min), last or date.max
    if not files_of(folder, "minutes", first, last):
        return None
    hours = _totals(folder, "hour_totals", first, last)
    everything = [row for row in hours if row["tenant"] is None and row["queue"] is None]
    if not everything:
        return None
    days = [row for row in _totals(folder, "day_totals", first, last) if row["tenant"] is row["queue"] is None]
    return Summary(
        first=everything[0]["at"].date(),
        last=everything[-1]["at"].date(),
        series=_series(folder, everything, days, now),
        heat=_heat(everything),
        totals={name: sum(row[name] or 0 for row in everything) for name in ADDED},
        wait_p95=_typical(days, "wait_p95"),
        run_p95=_typical(days, "run_p95"),
        slo_kept=_slo_kept(hours),
        failures=_failures(read_gold(folder, "errors", first, last).to_pylist()),
        tenants=_tenants(read_gold(folder, "usage", first, last).to_pylist()),
        queues=_queues(read_gold(folder, "capacity", first, last).to_pylist()),
        workers=_workers(read_gold(folder, "workers", first, last).to_pylist()),
    )


ADDED: Final = (
    *("enqueued", "started", "completed", "failed", "retried", "cancelled", "attempts", "attempts_failed"),
    *("breaches", "run_ms_sum", "payload_bytes", "result_bytes"),
)
SHOWN: Final = (*ADDED, "wait_p50", "wait_p95", "wait_p99", "run_p50", "run_p95", "run_p99", "slo_wait_ms")


def _totals(folder: Path, table: str, first: date | None, last: date | None) -> list[Row]:
    rows: list[Row] = read_gold(folder, table, first, last, ["at", "tenant", "queue", *SHOWN]).to_pylist()
    return sorted(rows, key=lambda row: row["at"])


def _series(folder: Path, hours: list[Row], days: list[Row], now: datetime | None) -> Series:
    begin, end = hours[0]["at"], hours[-1]["at"]
    span_h = (end - begin).total_seconds() / 3_600 + 1
    if span_h <= MINUTES_SPAN_H:
        minutes = _totals(folder, "minute_totals", begin.date(), end.date())
        found = [row for row in minutes if row["tenant"] is row["queue"] is None and row["at"] >= begin]
        return _without_holes("minute", found, now)
    unit, rows = ("hour", hours) if span_h <= HOURS_SPAN_H else ("day", days)
    return _without_holes(unit, rows, now)


def _without_holes(unit: str, rows: list[Row], now: datetime | None) -> Series:
    """Where nothing happened there is no row; a line would lead across."""
    known = {int(row["at"].timestamp()): row for row in rows}
    blank: Row = {name: 0 if name in ADDED else None for name in SHOWN}
    instants = range(min(known), max(known) + 1, UNIT_S[unit])
    if now is not None and len(instants) > 1 and instants[-1] + UNIT_S[unit] > now.timestamp():
        instants = instants[:-1]
    return Series(unit, [datetime.fromtimestamp(at, UTC) for at in instants], [known.get(at, blank) for at in instants])


def _heat(hours: list[Row]) -> dict[tuple[int, int], float]:
    began, ended = hours[0]["at"], hours[-1]["at"]
    starts: defaultdict[tuple[int, int], int] = defaultdict(int)
    times: defaultdict[tuple[int, int], int] = defaultdict(int)
    for at in range(int(began.timestamp()), int(ended.timestamp()) + 1, 3_600):
        instant = datetime.fromtimestamp(at, UTC)
        times[instant.weekday(), instant.hour] += 1
    for row in hours:
        starts[row["at"].weekday(), row["at"].hour] += row["started"]
    return {cell: starts[cell] / count for cell, count in times.items()}


def _typical(days: list[Row], name: str) -> float | None:
    """Quantiles of days do not add up to one of all; the day in the middle is a true statement."""
    known = [row[name] for row in days if row[name] is not None]
    return median(known) if known else None


def _slo_kept(hours: list[Row]) -> float | None:
    promised = [row for row in hours if row["tenant"] and row["queue"] and row["slo_wait_ms"] is not None]
    started = sum(row["started"] for row in promised)
    return 1 - sum(row["breaches"] for row in promised) / started if started else None


def _grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    found: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[key] for key in keys)].append(row)
    return found


def _sum(rows: Sequence[Row], name: str) -> Any:
    return sum(row[name] or 0 for row in rows)


def _failures(rows: list[Row]) -> list[Failure]:
    found = []
    for (fingerprint, queue, task), group in _grouped(rows, "fingerprint", "queue", "task").items():
        newest = max(group, key=lambda row: row["last_at"])
        found.append(
            Failure(
                fingerprint,
                newest["error_type"] or "",
                newest["message"] or "",
                queue or "",
                task or "",
                _sum(group, "count"),
                _sum(group, "dead"),
                min(row["first_at"] for row in group),
                newest["last_at"],
                newest["example_job"],
            )
        )
    return sorted(found, key=lambda failure: (-failure.count, failure.fingerprint, failure.queue, failure.task))


def _tenants(rows: list[Row]) -> list[Tenant]:
    found = [
        Tenant(
            name or "",
            _sum(group, "jobs"),
            _sum(group, "failed"),
            _sum(group, "compute_s"),
            _sum(group, "payload_bytes") + _sum(group, "result_bytes"),
        )
        for (name,), group in _grouped(rows, "tenant").items()
    ]
    return sorted(found, key=lambda tenant: (-tenant.compute_s, -tenant.jobs, tenant.name))


def _queues(rows: list[Row]) -> list[Queue]:
    found = []
    for (name,), group in _grouped((row for row in rows if row["tenant"] is None), "queue").items():
        attempts = _sum(group, "attempts")
        run_ms = sum(row["mean_run_ms"] * row["attempts"] for row in group if row["attempts"])
        found.append(
            Queue(
                name,
                _sum(group, "used") / len(group),
                max((row["needed"] for row in group if row["needed"] is not None), default=0.0),
                max((row["needed_peak"] for row in group if row["needed_peak"] is not None), default=0.0),
                run_ms / attempts if attempts else 0.0,
                _sum(group, "arrived"),
            )
        )
    return sorted(found, key=lambda queue: (-queue.needed_peak, queue.name))


def _workers(rows: list[Row]) -> list[Worker]:
    found = []
    for (name,), group in _grouped(rows, "worker").items():
        by_hour = {at: _sum(part, "busy") for (at,), part in _grouped(group, "at").items()}
        # Attempts of several tenants overlap, so that the slots seen are at least these.
        slots = max(max(row["slots"] for row in group), *(-int(-busy // 1) for busy in by_hour.values()))
        busy_s = _sum(group, "run_ms_sum") / 1000
        found.append(Worker(name, _sum(group, "attempts"), _sum(group, "attempts_failed"), busy_s, slots, by_hour))
    return sorted(found, key=lambda worker: (-worker.busy_s, worker.name))
