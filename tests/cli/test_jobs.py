"""`tenure jobs`."""

import pytest

from tests.cli.rig import Place


def test_list_shows_what_a_filter_finds(place: Place) -> None:
    place.enqueue(2, queue="mail", task="send", tags=["vip"])
    place.enqueue(1, queue="image", task="resize", delay="1h")
    assert [job["queue"] for job in place.run("jobs", "list", "--json").lines] == ["mail", "mail", "image"]
    for arguments, count in (
        (("--queue", "mail"), 2),
        (("--state", "scheduled"), 1),
        (("--state", "scheduled", "--state", "ready"), 3),
        (("--task", "resize"), 1),
        (("--tag", "vip"), 2),
        (("--worker", "w-1"), 0),
        (("--error", "boom"), 0),
    ):
        assert len(place.run("jobs", "list", "--json", *arguments).lines) == count, arguments


def test_list_is_a_table_for_people(place: Place) -> None:
    [id] = place.enqueue(queue="mail", task="send")
    head, row = place.run("jobs", "list").out.splitlines()
    assert head.split() == ["id", "queue", "task", "state", "attempt", "created", "note", "payload"]
    assert row.split()[:5] == [str(id), "mail", "send", "ready", "0/3"]
    assert row.endswith('{"n":0}')
    assert "ago" in row
    assert place.run("jobs", "list", "--queue", "none").out == "no job (queue none)\n"


def test_list_goes_on_at_its_cursor(place: Place) -> None:
    ids = place.enqueue(5, queue="mail")
    first = place.run("jobs", "list", "--limit", "2", "--json")
    assert [job["id"] for job in first.lines] == ids[:2]
    cursor = first.err.split()[-1]
    rest = place.run("jobs", "list", "--cursor", cursor, "--json")
    assert [job["id"] for job in rest.lines] == ids[2:]
    assert rest.err == ""


def test_long_payload_is_shortened_for_people_and_whole_for_programs(place: Place) -> None:
    with place.client() as client:
        client.enqueue(b'"' + b"x" * 5_000 + b'"', queue="mail")
    assert max(len(line) for line in place.run("jobs", "list").out.splitlines()) < 200
    assert place.run("jobs", "list", "--json").json["payload"] == "x" * 5_000


def test_payload_that_is_no_json_is_shown(place: Place) -> None:
    with place.client() as client:
        client.enqueue(b"\xff\x00", queue="mail", custom_id="bytes")
        client.enqueue(b"\xff\x00", queue="mail", codec="own", custom_id="own")
    for id in ("bytes", "own"):
        assert place.run("jobs", "show", id, "--json").json["payload"] == {"$bin": "/wA="}
        assert "/wA=" in place.run("jobs", "show", id).out


def test_show_says_everything_of_a_job(place: Place) -> None:
    [id] = place.fail(message="550 no such user")
    with place.client() as client:
        client.enqueue(b"[1]", queue="mail", custom_id="order-1", tags=["vip"], metadata={"customer": "42"})
    found = place.run("jobs", "show", str(id), "--json").json
    assert (found["id"], found["state"], found["error"]["message"]) == (id, "failed", "550 no such user")
    assert found["created_at"].endswith("Z")
    assert found["expires_at"] is None
    assert [past["cause"] for past in found["history"]] == ["fail"]
    text = place.run("jobs", "show", str(id)).out
    for word in ("attempts_exhausted", "550 no such user", "1/1, delivery 1", "w-1", '{"n":0}'):
        assert word in text
    own = place.run("jobs", "show", "order-1").out
    for word in ("order-1", "vip", "metadata.customer", "42", "[1]"):
        assert word in own


def test_number_that_is_no_id_may_be_a_custom_id(place: Place) -> None:
    with place.client() as client:
        id = client.enqueue(b"1", custom_id="123456789").id
    assert place.run("jobs", "show", "123456789", "--json").json["id"] == id


@pytest.mark.parametrize("command", ["show", "explain", "logs", "cancel", "replay", "promote", "clone"])
@pytest.mark.parametrize("id", ["999999999", "order-none", "9" * 40])
def test_unknown_job_is_named(command: str, id: str, served: Place) -> None:
    served.enqueue()
    ended = served.run("jobs", command, id, code=1)
    assert f"no job '{id}'" in ended.err
    assert ended.out == ""


def test_explain_says_what_holds_a_job(place: Place) -> None:
    with place.client() as client:
        client.configure("queue", "mail", paused=True)
        id = client.enqueue(b"1", queue="mail").id
        late = client.enqueue(b"1", queue="mail", delay="1h").id
    found = place.run("jobs", "explain", str(id), "--json").json
    assert (found["held_by"], found["place"]) == ("queue_paused", 0)
    assert "queue mail is paused" in place.run("jobs", "explain", str(id)).out
    assert "before it  0 jobs" in place.run("jobs", "explain", str(id)).out
    assert "earliest" in place.run("jobs", "explain", str(late)).out


def test_logs_of_a_job(place: Place) -> None:
    [id] = place.enqueue(queue="mail")
    assert "has logged nothing" in place.run("jobs", "logs", str(id)).out
    with place.client() as client:
        [job] = client.claim("mail")
        for line in ("one", "two", "three"):
            client.log(job, line)
    assert [item["line"] for item in place.run("jobs", "logs", str(id), "--json").lines] == ["one", "two", "three"]
    assert [item["line"] for item in place.run("jobs", "logs", str(id), "--json", "--limit", "1").lines] == ["one"]
    assert place.run("jobs", "logs", str(id), "--offset", "2").out.split()[-1] == "three"


def test_cancel_promote_replay_and_clone_by_ids(place: Place) -> None:
    late, other = place.enqueue(2, queue="mail", delay="1h")
    assert place.run("jobs", "promote", str(late)).out == f"promoted {late}, now ready\n"
    assert place.run("jobs", "cancel", str(late), "--json").json == {
        "id": late,
        "action": "cancel",
        "state": "cancelled",
    }
    [dead] = place.fail()
    assert place.run("jobs", "replay", str(dead), "--payload", "[7]").out == f"replayed {dead}, now ready\n"
    assert place.run("jobs", "show", str(dead), "--json").json["payload"] == [7]
    made = place.run("jobs", "clone", str(other), "--json").json
    assert made["clone"] > dead
    assert place.run("jobs", "clone", str(other), "--payload", "-", input='{"new": 1}').out.startswith(
        f"cloned {other} as "
    )


def test_one_that_is_refused_harms_no_other(place: Place) -> None:
    [id] = place.enqueue(queue="mail")
    ended = place.run("jobs", "cancel", "nothing", str(id), "--json", code=1)
    assert [line.get("error", {}).get("code") for line in ended.lines] == ["JobNotFound", None]
    assert place.count("mail") == {"cancelled": 1}
    ended = place.run("jobs", "promote", str(id), code=1)
    assert "settled before (cancelled)" in ended.err


def test_cancel_by_filter_asks_first(place: Place) -> None:
    place.enqueue(3, queue="mail")
    place.enqueue(1, queue="image")
    asked = place.run("jobs", "cancel", "--queue", "mail", input="n\n", code=1)
    assert asked.err == "cancel 3 jobs (queue mail)? [y/N] error: nothing was changed\n"
    assert place.count("mail") == {"ready": 3}
    place.run("jobs", "cancel", "--queue", "mail", input="", code=1)
    done = place.run("jobs", "cancel", "--queue", "mail", input="y\n")
    assert done.out == "cancelled 3 jobs (queue mail)\n"
    assert (place.count("mail"), place.count("image")) == ({"cancelled": 3}, {"ready": 1})


def test_promote_and_replay_by_filter(place: Place) -> None:
    place.enqueue(2, queue="late", delay="1h")
    place.fail(2)
    assert place.run("jobs", "promote", "--queue", "late", "--yes", "--json").json == {"action": "promote", "count": 2}
    assert place.run("jobs", "replay", "--error", "valueerror", "-y").out.startswith("replayed 2 jobs")
    assert (place.count("late"), place.count("mail")) == ({"ready": 2}, {"ready": 2})


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("list", "--state", "redy"), "did you mean ready?"),
        (("list", "--limit", "0"), "--limit"),
        (("list", "--limit", "many"), "--limit"),
        (("list", "--cursor", "nonsense"), "cursor"),
        (("cancel",), "name jobs by their ids, or by a filter"),
        (("cancel", "1", "--queue", "mail"), "not both"),
        (("cancel", "--state", "completed"), "can be cancelled"),
        (("cancel", "--queue", "mail", "--json"), "say --yes"),
        (("promote", "--state", "ready"), "can be promoted"),
        (("replay", "1", "--payload", "{"), "it must be JSON"),
        (("clone",), "ID"),
        (("show",), "ID"),
        (("logs", "1", "--offset", "-1"), "--offset"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], word: str, served: Place) -> None:
    served.enqueue(queue="mail")
    assert word in served.run("jobs", *arguments, code=2).err


def test_all_tenants_are_read_and_none_is_changed(place: Place) -> None:
    other = Place(place.url, f"{place.tenant}-b")
    ids = {place.enqueue(queue="mail")[0], other.enqueue(queue="mail")[0]}
    everybody = Place(place.url, "*")
    assert ids <= {job["id"] for job in everybody.run("jobs", "list", "--limit", "100000", "--json").lines}
    assert "tenant" in everybody.run("jobs", "list", "--queue", "mail").out.splitlines()[0]
    for arguments in (("cancel", "--queue", "mail", "--yes"), ("cancel", str(min(ids)))):
        assert "belongs to one tenant" in everybody.run("jobs", *arguments, code=2).err
