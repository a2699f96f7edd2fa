"""What must hold after every behaviour, whatever it was about (docs/semantics.md, section 21).

The history of each job, read from its events, is a path in the table of transitions with a dense `job_seq` (I12) and at
most one terminal state per replay (I2); where it ends is where the job is (I1, I14); and what is counted is what is
there (I13).
"""

from collections import Counter
from typing import Final

from tenure.core import state as states
from tenure.core.error import EventsLost
from tenure.core.record import Event
from tenure.store.behaviour.rig import Rig

EVENTS_MAX: Final = 25_000  # a longer history is not read: it was a behaviour about numbers

Place = tuple[str, str, int]  # tenant, queue, state


async def begin(rig: Rig) -> str:
    """The cursor from which the audit will read."""
    return (await rig.store.events(rig.context("", ("*",)), "end", 1, 0, rig.now())).cursor


async def audit(rig: Rig, cursor: str) -> None:
    histories = await _histories(rig, cursor)
    if histories is None:
        return
    places = {job: _walk(job, history) for job, history in histories.items()}
    await _compare_states(rig, histories, places)
    await _compare_counts(rig, places)


async def _histories(rig: Rig, cursor: str) -> dict[int, list[Event]] | None:
    """The events of each job; None when there are too many, or some are past retention."""
    found: dict[int, list[Event]] = {}
    read = 0
    while read <= EVENTS_MAX:
        try:
            page = await rig.store.events(rig.context("", ("*",)), cursor, 10_000, 0, rig.now())
        except EventsLost:
            return None
        for event in page.events:
            if event.job:
                found.setdefault(event.job, []).append(event)
        if not page.events:
            return found
        read += len(page.events)
        cursor = page.cursor
    return None


def _walk(job: int, history: list[Event]) -> Place:
    state = states.NEW
    terminal = 0
    for at, event in enumerate(history):
        assert event.job_seq == history[0].job_seq + at, f"job {job}: job_seq {event.job_seq} is event {at} of the job"
        if event.type == "progress":
            assert state == states.RUNNING, f"job {job}: progress while {state}"
            continue
        after = states.GONE if event.type == "removed" else states.STATE_NAMES.index(event.state)
        cause = states.CAUSE_NAMES.index(event.cause)
        assert states.allows(cause, state, after), f"job {job}: {event.type} by {event.cause} from {state} to {after}"
        terminal += states.is_terminal(after) - (cause == states.REPLAY)
        assert terminal <= 1, f"job {job} ended twice"
        state = after
    return (history[0].tenant, history[0].queue, state)


async def _compare_states(rig: Rig, histories: dict[int, list[Event]], places: dict[int, Place]) -> None:
    for tenant in sorted({place[0] for place in places.values()}):
        ids = [job for job in histories if places[job][0] == tenant]
        for first in range(0, len(ids), 1_000):
            part = ids[first : first + 1_000]
            for job, name in zip(part, await rig.states(*part, tenant=tenant), strict=True):
                told = places[job][2]
                wanted = "gone" if told == states.GONE else states.STATE_NAMES[told]
                assert name == wanted, f"job {job} is {name}, its last event says {wanted}"


async def _compare_counts(rig: Rig, places: dict[int, Place]) -> None:
    there = Counter(place for place in places.values() if place[2] != states.GONE)
    counted: Counter[Place] = Counter()
    for tenant in {place[0] for place in there}:
        counts = await rig.store.count(rig.context(tenant), "", rig.now())
        for queue, by_state in counts.items():
            for name, number in by_state.items():
                counted[(tenant, queue, states.STATE_NAMES.index(name))] += number
    assert +counted == there, f"counted {dict(+counted)}, there are {dict(there)}"
