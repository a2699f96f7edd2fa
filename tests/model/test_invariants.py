"""Every invariant is shown a sound history, and one in which it is broken: a check that cannot fail is no check."""

from collections.abc import Callable

import pytest

from tenure.core.bound import make_claim, make_extras, make_options
from tenure.core.clock import Now
from tenure.core.limit import Rate
from tenure.core.record import Event, JobRecord
from tenure.core.tenant import Context
from tests.model import invariants
from tests.model.history import Accepted, Granted, History, Setting, Word

TOKEN = b"t" * 20


class Plot(History):
    """A history written by hand, event by event; each call is a step of its own, ten milliseconds later."""

    def tell(self, id: int, type: str, state: str, cause: str, **fields: object) -> None:
        at = 10 * len(self.steps)
        step = self.begin(Now(1_000 + at, at), type)
        seq = len(self.events) + 1
        job_seq = sum(1 for _, event in self.events if event.job == id) + 1
        values: dict[str, object] = {
            "seq": seq,
            "job_seq": job_seq,
            "at": 1_000 + at,
            "type": type,
            "tenant": "a",
            "queue": "q",
            "job": id,
            "state": state,
            "cause": cause,
        }
        self.events.append((step, Event(**(values | fields))))  # type: ignore[arg-type]

    def enqueue(self, id: int, state: str = "ready", **fields: object) -> None:
        self.accepted[id] = Accepted(len(self.steps), "a", make_options(), make_extras())
        self.tell(id, "enqueued", state, "enqueue", **fields)

    def start(self, id: int, attempt: int = 1, delivery: int = 1, token: bytes = TOKEN) -> None:
        step = len(self.steps)
        self.grants.append(Granted(step, token + bytes([len(self.grants)]), [id], {id: 10 * step + 500}))
        self.tell(id, "started", "running", "claim", attempt=attempt, delivery=delivery)

    def complete(self, id: int, **fields: object) -> None:
        self.say(id)
        self.tell(id, "completed", "completed", "complete", **fields)

    def fail(self, id: int, state: str = "retrying", **fields: object) -> None:
        self.say(id)
        self.tell(id, state if state == "failed" else "retrying", state, "fail", **fields)

    def say(self, id: int) -> None:
        grants = [grant.token for grant in self.grants if id in grant.ids]
        self.words.append(Word(len(self.steps), id, grants[-1] if grants else b""))

    def cancel(self, id: int) -> None:
        self.tell(id, "cancelled", "cancelled", "cancel")

    def set(self, kind: str, name: str, **values: object) -> None:
        at = 10 * len(self.steps)
        step = self.begin(Now(1_000 + at, at), "configure")
        self.settings.append(Setting(step, kind, "" if kind == "tenant" else "a", name, values))

    def see(self) -> None:
        """The reads that fit the events."""
        for id, events in self.by_job().items():
            last = events[-1][1]
            if last.type != "removed":
                record = JobRecord(id=id, tenant=last.tenant, queue=last.queue, task="t", state=last.state)
                self.view.records[id] = record
                self.view.by_state.setdefault(last.state, []).append(id)
                for views in (self.view.got_by, self.view.found_by):
                    views.setdefault(last.tenant, []).append(id)
                states = self.view.counts.setdefault(last.tenant, {}).setdefault(last.queue, {"ready": 0})
                states[last.state] = states.get(last.state, 0) + 1
        self.view.events_by["a"] = [event for _, event in self.events if event.tenant == "a"]


def sound() -> Plot:
    """A bit of everything, nothing wrong."""
    plot = Plot()
    plot.set("queue", "q", concurrency=2, rate=Rate(2, 1_000), group_concurrency=1)
    plot.enqueue(1, group="g", unique_hash="u", limit_keys=("k",), max_attempts=2)
    plot.enqueue(2, "blocked", depends_on=(1,), group="g")
    plot.start(1)
    plot.complete(1)
    plot.tell(2, "ready", "ready", "satisfy")
    plot.start(2)
    plot.tell(2, "cancelled", "cancelled", "cancel")
    plot.enqueue(3, "scheduled", unique_hash="u", run_at=1_000 + 10 * (len(plot.steps) + 1))
    plot.tell(3, "ready", "ready", "due")
    plot.tell(3, "removed", "", "remove", reason="removed")
    plot.see()
    return plot


def break_i1(plot: Plot) -> None:
    plot.view.by_state["ready"] = [1]


def break_i2(plot: Plot) -> None:
    plot.complete(1)


def break_i3(plot: Plot) -> None:
    plot.enqueue(4)
    plot.start(4)
    plot.start(4, 1, 2)


def break_i4(plot: Plot) -> None:
    plot.enqueue(4)
    plot.start(4)
    plot.words.append(Word(len(plot.steps), 4, b"stale"))
    plot.tell(4, "completed", "completed", "complete")


def break_i4_by_time(plot: Plot) -> None:
    plot.enqueue(4)
    plot.start(4)
    plot.begin(Now(9_000, 8_000), "late")
    plot.say(4)
    plot.events.append((plot.step, completed(plot, 4)))
    plot.words[-1].step = plot.step


def completed(plot: Plot, id: int) -> Event:
    return Event(
        seq=len(plot.events) + 1,
        job_seq=3,
        at=9_000,
        type="completed",
        tenant="a",
        queue="q",
        job=id,
        state="completed",
        cause="complete",
    )


def break_i5_by_skipping(plot: Plot) -> None:
    plot.enqueue(4)
    plot.start(4, attempt=2)


def break_i5_by_running_once_more(plot: Plot) -> None:
    plot.enqueue(4, max_attempts=1)
    plot.start(4)
    plot.fail(4, "retrying")


def break_i5_by_dying_early(plot: Plot) -> None:
    plot.enqueue(4, max_attempts=3)
    plot.start(4)
    plot.fail(4, "failed", reason="attempts_exhausted")


def break_i6(plot: Plot) -> None:
    plot.start(2, 2, 2)


def break_i7(plot: Plot) -> None:
    plot.set("queue", "q", concurrency=1)
    plot.set("queue", "q", concurrency=1)
    for id in (4, 5):
        plot.enqueue(id)
        plot.start(id)


def break_i7_by_key(plot: Plot) -> None:
    plot.set("key", "k", concurrency=1)
    plot.set("queue", "q")
    for id in (4, 5):
        plot.enqueue(id, limit_keys=("k1",))
        plot.start(id)


def break_i7_by_tenant(plot: Plot) -> None:
    plot.set("tenant", "a", running_max=1)
    plot.set("queue", "q")
    for id in (4, 5):
        plot.enqueue(id)
        plot.start(id)


def break_i8(plot: Plot) -> None:
    plot.enqueue(4)
    plot.start(4)


def break_i9_by_width(plot: Plot) -> None:
    plot.set("queue", "q")
    for id in (4, 5):
        plot.enqueue(id, group="g")
        plot.start(id)


def break_i9_by_order(plot: Plot) -> None:
    plot.set("queue", "q")
    plot.enqueue(4, group="h")
    plot.enqueue(5, group="h")
    plot.start(5)


def break_i10(plot: Plot) -> None:
    for id in (4, 5):
        plot.enqueue(id, unique_hash="v")


def break_i11_by_time(plot: Plot) -> None:
    plot.enqueue(4, "scheduled", run_at=1_000_000)
    plot.tell(4, "ready", "ready", "due")


def break_i11_by_dependency(plot: Plot) -> None:
    plot.set("queue", "q")
    plot.enqueue(4)
    plot.enqueue(5, depends_on=(4,))
    plot.start(5)
    plot.start(4)
    plot.complete(4)


def break_i12_by_path(plot: Plot) -> None:
    plot.tell(1, "ready", "ready", "due")


def break_i12_by_gap(plot: Plot) -> None:
    plot.enqueue(4)
    plot.tell(4, "cancelled", "cancelled", "cancel", job_seq=3)


def break_i12_by_seq(plot: Plot) -> None:
    plot.enqueue(4, seq=99)


def break_i13(plot: Plot) -> None:
    plot.view.counts["a"]["q"]["ready"] = 1


def break_i14_by_losing(plot: Plot) -> None:
    for where in (plot.view.records, plot.view.counts, plot.view.got_by, plot.view.found_by):
        where.clear()
    plot.view.by_state.clear()


def break_i14_by_inventing(plot: Plot) -> None:
    plot.enqueue(4)
    del plot.accepted[4]


def break_i14_by_forgetting(plot: Plot) -> None:
    plot.accepted[4] = Accepted(0, "a", make_options(), make_extras())


def break_i15_by_reading(plot: Plot) -> None:
    plot.view.got_by["b"] = [1]


def break_i15_by_finding(plot: Plot) -> None:
    plot.view.found_by["b"] = [1]


def break_i15_by_events(plot: Plot) -> None:
    plot.view.events_by["b"] = [plot.events[0][1]]


def break_i16(plot: Plot) -> None:
    plot.set("queue", "q")
    plot.enqueue(4)
    plot.waiting[7] = (Context("a"), make_claim(queues=["q*"], tasks=["t"], wait_ms=1))


def break_i17(plot: Plot) -> None:
    plot.residue["parked jobs"] = 1


def break_i18_by_id(plot: Plot) -> None:
    plot.enqueue(3)


def break_i18_by_delivery(plot: Plot) -> None:
    plot.enqueue(4)
    plot.start(4)
    plot.tell(4, "released", "ready", "release")
    plot.start(4)


def break_i18_by_token(plot: Plot) -> None:
    plot.grants.append(Granted(0, plot.grants[0].token, [9], {}))


BREAKS: list[Callable[[Plot], None]] = [value for name, value in list(globals().items()) if name.startswith("break_i")]
READS = ("i1_", "i13_", "i14_", "i15_", "i16_")


def number_of(name: str) -> str:
    return name.removeprefix("break_").split("_")[0] + "_"


def test_sound_history_breaks_nothing() -> None:
    assert invariants.breaches(sound()) == []


@pytest.mark.parametrize("plant", BREAKS, ids=lambda plant: str(plant.__name__))
def test_planted_breach_is_found(plant: Callable[[Plot], None]) -> None:
    plot = sound()
    plant(plot)
    number = number_of(plant.__name__)
    if number not in READS or number == "i16_":
        plot.view = type(plot.view)()
        plot.see()
    found = {breach.split("_")[0] + "_" for breach in invariants.breaches(plot)}
    assert number in found


def test_every_invariant_has_a_planted_breach() -> None:
    planted = {number_of(plant.__name__) for plant in BREAKS}
    assert planted == {check.__name__.split("_")[0] + "_" for check in invariants.INVARIANTS}


def test_limit_that_is_kept_is_no_breach() -> None:
    plot = Plot()
    plot.set("queue", "q", concurrency=2, rate=Rate(1, 10, 2), group_concurrency=2)
    plot.set("queue", "q", concurrency=2, rate=Rate(1, 10, 2), group_concurrency=2)
    for id in (4, 5):
        plot.enqueue(id, group="g", limit_keys=("k",))
    plot.start(4)
    plot.start(5)
    plot.see()
    assert invariants.breaches(plot) == []


def test_job_that_was_delayed_lets_others_of_its_group_pass() -> None:
    plot = Plot()
    for id in (4, 5):
        plot.enqueue(id, group="g")
    plot.tell(4, "updated", "scheduled", "delay", run_at=99_999)
    plot.start(5)
    plot.see()
    assert invariants.breaches(plot) == []
