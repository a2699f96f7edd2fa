"""Time inside the engine: which clock each kind of time is on, and what happens when a clock is not as expected.

    wall_ms     as the machine's wall clock says, also backwards: `run_at` and `expires_at` given as instants
    at_ms       as the wall, but never backwards: events, and when something happened to a job
    elapsed_ms  steadily, also while the store was down: delays, backoff, snooze, debounce, retention, rates, waits
    served_ms   as elapsed, but not while the owner did not run: leases, timeouts, silent workers

A duration that people see as a time (`run_at` of a delayed job, until when a key is held) is kept on the *steady*
clock: elapsed time, counted from what the wall said when the store was made. While nobody sets the wall clock the two
agree. When somebody does, `shift_ms` follows, and the same moment is shown as another time of day.

When time was left out, a lease that lived then has at least min(its length, 30 s) left: its holder could not renew.
That is worked out when somebody looks at the lease (`lease_due`), so that no step has to go through all of them.
"""

from typing import Final

from mypy_extensions import i64

from tenure.core.clock import Now
from tenure.engine.job import Job, Lease
from tenure.engine.journal import CLOCK
from tenure.engine.world import DAY_MS, World

STEP_MS: Final = 1_000  # the wall clock was set when it is off by more than this
LEASE_LEAST_MS: Final = 30_000
GAPS_MAX: Final = 64


def move_clock(w: World, now: Now) -> None:
    """The step's time is `now`, or the last one if that was later."""
    if now.elapsed_ms < w.elapsed_ms:
        return
    w.elapsed_ms = now.elapsed_ms
    served: i64 = w.elapsed_ms - now.left_out_ms
    if now.left_out_ms > w.left_out_ms:
        w.left_out_ms = now.left_out_ms
        note_gap(w, w.served_ms, max(served, w.served_ms))
    w.served_ms = max(served, w.served_ms)
    w.steady_ms = w.elapsed_ms + w.steady_from
    w.wall_ms = now.wall_ms
    ahead: i64 = w.wall_ms - w.steady_ms - w.shift_ms
    if ahead > STEP_MS or ahead < -STEP_MS:
        _step(w, ahead)
    if w.wall_ms > w.at_ms:
        w.at_ms = w.wall_ms


def _step(w: World, by_ms: i64) -> None:
    w.shift_ms += by_ms
    w.log.shift_ms = w.shift_ms
    w.stepped_ms = by_ms
    w.stepped_at = w.elapsed_ms
    w.journal.mark((CLOCK,))


def note_gap(w: World, before_ms: i64, after_ms: i64) -> None:
    """Leases that were alive before, in served time, could not be renewed until after."""
    w.gaps = [gap for gap in w.gaps if gap[1] + LEASE_LEAST_MS > before_ms][1 - GAPS_MAX :]
    w.gaps.append((int(before_ms), int(after_ms)))
    w.journal.mark((CLOCK,))


def lease_due(w: World, lease: Lease) -> i64:
    """When the lease is over, in served time."""
    due: i64 = lease.due_ms
    if w.gaps:
        least: i64 = lease.length_ms if lease.length_ms < LEASE_LEAST_MS else LEASE_LEAST_MS
        for before, after in w.gaps:
            if before < due < after + least:
                due = after + least
    return due


def shown_lease_until(w: World, lease: Lease) -> i64:
    """When the lease is over, as the wall clock would say."""
    return on_steady(w, lease_due(w, lease) + w.left_out_ms) + w.shift_ms


def on_elapsed(w: World, steady_ms: i64) -> i64:
    return steady_ms - w.steady_from


def on_steady(w: World, elapsed_ms: i64) -> i64:
    return elapsed_ms + w.steady_from


def run_after(w: World, job: Job, delay_ms: i64) -> None:
    """The job may run when so much time has passed."""
    job.is_delayed = delay_ms > 0
    job.run_at = w.steady_ms + delay_ms if job.is_delayed else w.wall_ms


def run_at_instant(job: Job, run_at: i64) -> None:
    """The job may run when the wall clock says so."""
    job.is_delayed = False
    job.run_at = run_at


def must_wait(w: World, job: Job) -> bool:
    """Whether its `run_at` is still ahead."""
    return job.run_at > (w.steady_ms if job.is_delayed else w.wall_ms)


def shown_run_at(w: World, job: Job) -> i64:
    """Its `run_at` as the wall clock would say."""
    return job.run_at + w.shift_ms if job.is_delayed else job.run_at


def step_text(w: World) -> str:
    """What is said of the last step of the wall clock, for a day; empty when there was none."""
    if w.stepped_ms == 0 or w.elapsed_ms - w.stepped_at > DAY_MS:
        return ""
    way = "forward" if w.stepped_ms > 0 else "back"
    by_ms = int(w.stepped_ms if w.stepped_ms > 0 else -w.stepped_ms)
    ago_s = int(w.elapsed_ms - w.stepped_at) // 1000
    return f"the wall clock was set {way} by {by_ms / 1000:.1f} s, {ago_s} s ago"


def clock_fact(w: World) -> dict[str, object]:
    """What is written down of the clocks, besides the times in the head of every record."""
    return {
        "gaps": [list(gap) for gap in w.gaps],
        "steady_from": int(w.steady_from),
        "shift": int(w.shift_ms),
        "stepped": int(w.stepped_ms),
        "stepped_at": int(w.stepped_at),
    }


def restore_clock(w: World, fact: dict[str, object] | None, wall_ms: i64, at_ms: i64, elapsed_ms: i64) -> None:
    """The clocks as they were at these times, when the last record was written; `fact` is None if there was none."""
    w.wall_ms = wall_ms
    w.at_ms = at_ms
    w.elapsed_ms = elapsed_ms
    w.steady_from = wall_ms - elapsed_ms
    if fact is not None:
        gaps = fact["gaps"]
        assert isinstance(gaps, list)
        w.gaps = [(_number(gap[0]), _number(gap[1])) for gap in gaps]
        w.steady_from = _number(fact["steady_from"])
        w.shift_ms = _number(fact["shift"])
        w.stepped_ms = _number(fact["stepped"])
        w.stepped_at = _number(fact["stepped_at"])
    w.log.shift_ms = w.shift_ms
    w.served_ms = w.elapsed_ms - w.left_out_ms
    w.steady_ms = w.elapsed_ms + w.steady_from


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
