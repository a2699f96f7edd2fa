"""The accountant must notice: a sound account is shown, then one thing in the database or the account is made wrong."""

from collections.abc import Callable

import pytest

from tenure.core.record import JobRecord
from tests.kill.account import Account, Audit, last_synced
from tests.kill.line import Ask, Item, Life, Line, Seen, Tell

Lives = list[list[Line]]
Jobs = dict[int, JobRecord]


def job(id: int, payload: str, state: str = "ready", custom_id: str = "", delivery: int = 0) -> JobRecord:
    return JobRecord(
        id=id,
        tenant="default",
        queue="work",
        task="default",
        state=state,
        payload=payload.encode(),
        custom_id=custom_id,
        delivery=delivery,
        attempt=min(delivery, 1),
    )


def sound(mode: str = "fsync") -> tuple[Lives, Jobs]:
    """Two jobs, one of them with an operation id; one completed with a follow-up; a batch that was not answered."""
    lines: list[Line] = [
        Life(mode),
        Ask(1, "enqueue", "s", 1, payloads=["a"]),
        Tell(1, 0, [Item(1, "ready")]),
        Ask(2, "enqueue", payloads=["b"], custom_ids=["name"]),
        Tell(2, 0, [Item(2, "ready")]),
        Seen(2, 2, "enqueued"),
        Ask(3, "claim", count=1),
        Tell(3, 0, [Item(1, "running")], "t1", ["a"], [1]),
        Ask(4, "complete", ids=[1], tokens=["t1"], followups=["f", "g"]),
        Tell(4, 0, [Item(1, "completed")]),
        Ask(5, "enqueue", payloads=["x", "y"]),
    ]
    again: list[Line] = [Life(mode), Ask(1, "enqueue", "s", 1, payloads=["a"]), Tell(1, 9, [Item(1, "ready")])]
    jobs = [job(1, "a", "completed", delivery=1), job(2, "b", custom_id="name"), job(3, "f"), job(4, "g")]
    return [lines, again], {one.id: one for one in jobs}


def kinds(lives: Lives, jobs: Jobs) -> set[str]:
    return {finding.kind for finding in Audit(Account(lives), list(jobs.values())).run()}


@pytest.mark.parametrize("mode", ["fsync", "write", "relaxed"])
def test_sound_account_has_no_findings(mode: str) -> None:
    assert kinds(*sound(mode)) == set()


def put(one: JobRecord) -> Callable[[Lives, Jobs], None]:
    return lambda lives, jobs: jobs.update({one.id: one})


def drop(id: int) -> Callable[[Lives, Jobs], None]:
    return lambda lives, jobs: jobs.__delitem__(id)


def tell(*lines: Line) -> Callable[[Lives, Jobs], None]:
    return lambda lives, jobs: lives[1].extend(lines)


WRONGS = [
    ("an answered job is gone", "lost", drop(2)),
    ("a completed job runs", "lost", put(job(1, "a", "running", delivery=1))),
    ("a lease is forgotten", "lost", put(job(1, "a", "completed"))),
    ("half of the follow-ups", "wrong", drop(4)),
    ("half of a batch", "wrong", put(job(9, "x"))),
    ("nobody sent it", "wrong", put(job(9, "z"))),
    ("a job is there twice", "doubled", put(job(9, "a"))),
    ("a custom id is there twice", "doubled", put(job(9, "x", custom_id="name"))),
    ("another job has the id", "doubled", put(job(2, "x", custom_id="name"))),
    ("it ran again", "wrong", tell(Ask(2, "claim"), Tell(2, 0, [Item(1, "running")], "t2", ["a"], [2]))),
    ("too many attempts", "wrong", tell(Ask(2, "claim"), Tell(2, 0, [Item(2, "running")], "t2", ["b"], [6]))),
    ("a token twice", "doubled", tell(Ask(2, "claim"), Tell(2, 0, [Item(2, "running")], "t1", ["b"], [1]))),
    ("an event number twice", "doubled", tell(Seen(2, 1, "enqueued"))),
    (
        "another answer to a repeat",
        "wrong",
        tell(Ask(2, "enqueue", "s", 1, payloads=["a"]), Tell(2, 0, [Item(1, "ready", True)])),
    ),
]


@pytest.mark.parametrize(("kind", "spoil"), [row[1:] for row in WRONGS], ids=[row[0] for row in WRONGS])
def test_wrong_is_noticed(kind: str, spoil: Callable[[Lives, Jobs], None]) -> None:
    lives, jobs = sound()
    spoil(lives, jobs)
    assert kind in kinds(lives, jobs)


def test_relaxed_may_lose_what_no_sync_covers() -> None:
    lives, jobs = sound("relaxed")
    del jobs[2]
    assert kinds(lives, jobs) == set()


def test_relaxed_may_not_lose_what_a_sync_covers() -> None:
    lives, jobs = sound("relaxed")
    lives[0] += [Ask(6, "enqueue", payloads=["s"], on_disk=True), Tell(6, 0, [Item(7, "ready")])]
    jobs[7] = job(7, "s")
    assert kinds(lives, jobs) == set()
    del jobs[2]
    assert kinds(lives, jobs) == {"lost"}


def test_sync_covers_what_stands_before_it_was_asked_for() -> None:
    ask, told = Ask(1, "enqueue", on_disk=True), Tell(1, 0)
    assert last_synced([Life("relaxed"), ask, Seen(1, 1, "enqueued"), told]) == 1
    assert last_synced([Life("relaxed"), ask]) == 0
