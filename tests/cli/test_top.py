"""`tenure top`: one screen, what it shows and how it fits."""

import pytest
from rich.console import Console

from tenure.cli.session import Session
from tenure.cli.top import render
from tenure.cli.watch import Watch
from tests.cli.rig import Place, run


def session_of(place: Place) -> Session:
    return Session(place.url, None, place.tenant, False)


def test_one_screen_has_queues_running_jobs_and_failures(place: Place) -> None:
    place.enqueue(1_500, queue="mail", task="send", max_attempts=1)
    place.enqueue(2, queue="image")
    place.run("queues", "pause", "image")
    with session_of(place) as session:
        watch = Watch(session)
        with place.client() as client:
            bad, good, _ = client.claim("mail", n=3, worker="w-1")
            client.fail(bad, "ValueError", "550 no such user")
            client.complete(good)
        frame = watch.look()
        assert (frame.total("ready"), frame.total("running"), frame.total("failed")) == (1_499, 1, 1)
        [running] = frame.running
        assert (running.queue, running.task, running.worker) == ("mail", "send", "w-1")
        [mail] = [line for line in frame.queues if line.name == "mail"]
        assert mail.rates["started"] > mail.rates["completed"] > 0
        again = watch.look()
        assert (again.rate("completed"), len(again.running), len(again.failures)) == (0, 1, 1)
    console = Console(width=160, force_terminal=True)
    with console.capture() as captured:
        console.print(render(frame, place.url, place.tenant, 30))
    text = captured.get()
    for word in ("mail", "1,497", "paused", "w-1", "550 no such user", "in/s", "done/s"):
        assert word in text


def test_jobs_that_ran_before_are_known_and_go_when_they_end(place: Place) -> None:
    place.enqueue(2, queue="mail")
    with place.client() as client:
        held = client.claim("mail", n=2, worker="w-1")
        with session_of(place) as session:
            watch = Watch(session, "mail")
            assert [job.id for job in watch.look().running] == [job.id for job in held]
            client.complete(held[0])
            assert [job.id for job in watch.look().running] == [held[1].id]
            client.release(held[1])
            assert watch.look().running == ()


def test_more_events_than_can_be_read_are_said_to_be_the_least(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.cli.watch.PAGES_MAX", 1)
    place.enqueue(1, queue="mail")
    with session_of(place) as session:
        watch = Watch(session)
        place.enqueue(3_000, queue="mail")
        with place.client() as client:
            [held] = client.claim("mail")
        frame = watch.look()
        assert (frame.is_partial, frame.total("ready")) == (True, 3_000)
        assert [job.id for job in frame.running] == [held.id]


@pytest.mark.parametrize("lines", [10, 24, 80])
def test_screen_fits_the_terminal(lines: int, served: Place) -> None:
    for number in range(30):
        served.enqueue(1, queue=f"queue-{number:02}", task="send")
    with session_of(served) as session:
        watch = Watch(session)
        with served.client() as client:
            for job in client.claim("queue-*", n=25, worker="w")[:15]:
                client.fail(job, "ValueError", "bad")
        frame = watch.look()
    console = Console(width=160, force_terminal=True, height=lines)
    with console.capture() as captured:
        console.print(render(frame, served.url, served.tenant, lines))
    text = captured.get()
    assert len(text.splitlines()) <= lines
    assert ("more" in text) == (lines < 40)


def test_once_prints_one_screen_and_json_one_object(place: Place) -> None:
    place.enqueue(2, queue="mail")
    text = place.run("top", "--once", "--interval", "100ms").out
    assert text.count("tenant ") == 1
    assert "mail" in text
    found = place.run("top", "--once", "--interval", "100ms", "--json", "--queue", "mail").json
    assert (found["totals"]["ready"], found["queues"][0]["name"], found["has_events"]) == (2, "mail", True)


@pytest.mark.parametrize("interval", ["1ms", "often", "-1s"])
def test_wrong_interval_is_named(interval: str) -> None:
    ended = run("top", "--once", "--interval", interval)
    assert (ended.code, "interval" in ended.err) == (2, True)
