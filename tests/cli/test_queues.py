"""`tenure queues`."""

import pytest

from tests.cli.rig import Place


def test_list_and_show_count_jobs_by_state(place: Place) -> None:
    place.enqueue(1_200, queue="mail")
    place.enqueue(2, queue="image", delay="1h")
    image, mail = place.run("queues", "list", "--json").lines
    assert (image["queue"], image["counts"]["scheduled"]) == ("image", 2)
    assert (mail["queue"], mail["counts"]["ready"], mail["settings"]) == ("mail", 1_200, {})
    head, *rows = place.run("queues", "list").out.splitlines()
    assert head.split()[0] == "queue"
    assert rows[1].split()[:4] == ["mail", "0", "0", "1,200"]
    assert place.run("queues", "show", "mail", "--json").json == mail
    assert "1,200" in place.run("queues", "show", "mail").out


def test_tenant_without_a_queue_is_told_so(server: str) -> None:
    assert Place(server, "nobody").run("queues", "list").out.startswith("no queue")


def test_pause_and_resume(place: Place) -> None:
    place.enqueue(queue="mail")
    assert place.run("queues", "pause", "mail").out == "paused mail\n"
    assert "paused" in place.run("queues", "list").out
    with place.client() as client:
        assert client.claim("mail") == []
    assert place.run("queues", "resume", "mail", "--json").json == {"queue": "mail", "settings": {}}
    with place.client() as client:
        assert len(client.claim("mail")) == 1


def test_limit_is_set_shown_and_removed(place: Place) -> None:
    place.enqueue(queue="mail")
    said = place.run("queues", "limit", "mail", "--rate", "100/s", "--concurrency", "5").out
    assert said == "limited mail: rate 100/s, concurrency 5\n"
    settings = place.run("queues", "show", "mail", "--json").json["settings"]
    assert settings == {"rate": {"tokens": 100, "period_ms": 1_000, "burst": 100}, "concurrency": 5}
    assert "100/s" in place.run("queues", "show", "mail").out
    assert place.run("queues", "limit", "mail", "--none").out == "unlimited mail\n"
    assert place.run("queues", "show", "mail", "--json").json["settings"] == {}


@pytest.mark.parametrize(
    ("rate", "burst", "found", "shown"),
    [
        ("30/m", "", [30, 60_000, 30], "30/m"),
        ("5/10s", "", [5, 10_000, 5], "5/10s"),
        ("1000/h", "50", [1_000, 3_600_000, 50], "1,000/h (burst 50)"),
        ("3/250ms", "", [3, 250, 3], "3/250ms"),
    ],
)
def test_rates_as_people_write_them(rate: str, burst: str, found: list[int], shown: str, served: Place) -> None:
    served.enqueue(queue="other")
    more = ("--burst", burst) if burst else ()
    said = served.run("queues", "limit", "new", "--create", "--rate", rate, *more)
    assert said.out == f"limited new: rate {shown}\n"
    settings = served.run("queues", "show", "new", "--json").json["settings"]["rate"]
    assert list(settings.values()) == found


@pytest.mark.parametrize("command", ["show", "pause", "resume", "limit", "empty", "clean", "obliterate"])
def test_unknown_queue_is_named_with_the_nearest(command: str, served: Place) -> None:
    served.enqueue(queue="emails")
    more = ("--concurrency", "1") if command == "limit" else ()
    said = served.run("queues", command, "emials", *more, code=1)
    assert "no queue 'emials' in this tenant; did you mean emails?" in said.err
    assert [line["queue"] for line in served.run("queues", "list", "--json").lines] == ["emails"]


def test_queue_that_is_not_there_yet_is_paused_when_told(place: Place) -> None:
    place.enqueue(queue="other")
    assert place.run("queues", "pause", "new", "--create", "--json").json["settings"] == {"paused": True}


def test_empty_removes_what_waits_and_no_more(place: Place) -> None:
    place.fail()
    place.enqueue(2, queue="mail")
    place.enqueue(2, queue="mail", delay="1h")
    with place.client() as client:
        assert len(client.claim("mail")) == 1
    asked = place.run("queues", "empty", "mail", input="no\n", code=1)
    assert "remove 3 jobs that wait in mail?" in asked.err
    assert place.run("queues", "empty", "mail", "--yes").out == "removed 3 jobs that wait in mail\n"
    assert place.count("mail") == {"running": 1, "failed": 1}


def test_clean_removes_what_ended_by_state_and_age(place: Place) -> None:
    place.fail(2)
    place.enqueue(1, queue="mail")
    with place.client() as client:
        [job] = client.claim("mail")
        client.complete(job)
    assert place.run("queues", "clean", "mail", "--older", "1h", "--yes", "--json").json["count"] == 0
    assert place.run("queues", "clean", "mail", "-y", "--json").json == {"action": "remove", "count": 1}
    assert place.count("mail") == {"failed": 2}
    said = place.run("queues", "clean", "mail", "--state", "failed", input="y\n")
    assert said.out == "removed 2 jobs that are failed in mail\n"


def test_obliterate_removes_jobs_and_settings(place: Place) -> None:
    place.fail(2)
    place.enqueue(3, queue="mail")
    place.run("queues", "limit", "mail", "--concurrency", "9")
    with place.client() as client:
        client.claim("mail")
    refused = place.run("queues", "obliterate", "mail", "--yes", code=1)
    assert "1 job of mail still running" in refused.err
    assert place.count("mail") == {"ready": 2, "running": 1, "failed": 2}
    assert place.run("queues", "show", "mail", "--json").json["settings"] == {"concurrency": 9}
    asked = place.run("queues", "obliterate", "mail", "--force", input="\n", code=1)
    assert "remove mail with 5 jobs?" in asked.err
    assert place.run("queues", "obliterate", "mail", "--force", "--yes", "--json").json["removed"] == 5
    assert place.count("mail") == {}
    with place.client() as client:
        assert client.configure("queue", "mail") == {}


def test_settings_of_all_tenants_are_not_mixed(place: Place) -> None:
    place.enqueue(2, queue="mail")
    place.run("queues", "pause", "mail")
    everybody = Place(place.url, "*")
    [mail] = [line for line in everybody.run("queues", "list", "--json").lines if line["queue"] == "mail"]
    assert (mail["counts"]["ready"] >= 2, mail["settings"]) == (True, {})
    for arguments in (("show", "mail"), ("pause", "mail"), ("empty", "mail", "--yes")):
        assert "belongs to one tenant" in everybody.run("queues", *arguments, code=2).err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("limit", "mail"), "say --rate, --concurrency"),
        (("limit", "mail", "--none", "--rate", "1/s"), "--none"),
        (("limit", "mail", "--rate", "fast"), "100/s"),
        (("limit", "mail", "--rate", "0/s"), "100/s"),
        (("limit", "mail", "--rate", "5/0s"), "rate"),
        (("limit", "mail", "--rate", "9" * 5_000 + "/s"), "100/s"),
        (("limit", "mail", "--rate", "1/1.2.3s"), "rate"),
        (("limit", "mail", "--burst", "3", "--concurrency", "1"), "it goes with --rate"),
        (("limit", "mail", "--concurrency", "-1"), "--concurrency"),
        (("clean", "mail", "--state", "ready"), "can be cleaned"),
        (("clean", "mail", "--older", "soon"), "older"),
        (("empty", "mail", "--json"), "say --yes"),
        (("pause",), "QUEUE"),
        (("pause", "a/b", "--create"), "queue"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], word: str, served: Place) -> None:
    served.enqueue(queue="mail")
    assert word in served.run("queues", *arguments, code=2).err
