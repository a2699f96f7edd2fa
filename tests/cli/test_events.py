"""`tenure events`."""

import pytest

from tests.cli.rig import Place


def test_events_are_shown_from_the_oldest_or_a_cursor(place: Place) -> None:
    [id] = place.enqueue(queue="mail", task="send")
    first = place.run("events", "--json")
    assert [(line["type"], line["job"], line["queue"]) for line in first.lines] == [("enqueued", id, "mail")]
    assert first.lines[0]["at"].endswith("Z")
    cursor = first.err.split()[-1]
    place.run("jobs", "cancel", str(id))
    second = place.run("events", "--from", cursor, "--json")
    assert [line["type"] for line in second.lines] == ["cancelled"]
    assert place.run("events", "--from", "end").out == ""


def test_events_are_filtered_by_queue_and_type(place: Place) -> None:
    place.fail(2, message="550 no such user")
    place.enqueue(3, queue="image")
    assert len(place.run("events", "--queue", "image", "--json").lines) == 3
    types = place.run("events", "--type", "failed", "--type", "started", "--json").lines
    assert sorted(line["type"] for line in types) == ["failed", "failed", "started", "started"]
    assert len(place.run("events", "--limit", "2", "--json").lines) == 2
    text = place.run("events", "--type", "failed").out
    assert "ValueError: 550 no such user" in text
    assert "mail send" in text


def test_settings_are_events_too(place: Place) -> None:
    place.enqueue(queue="mail")
    place.run("queues", "limit", "mail", "--concurrency", "2")
    assert "concurrency 2" in place.run("events", "--type", "limits_changed").out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--type", "complete"), "did you mean completed?"),
        (("--from", "nonsense"), "cursor"),
        (("--limit", "0"), "--limit"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], word: str, served: Place) -> None:
    served.enqueue()
    assert word in served.run("events", *arguments, code=2).err
