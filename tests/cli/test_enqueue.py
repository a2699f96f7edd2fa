"""`tenure enqueue`."""

import json
import threading
from pathlib import Path

import pytest

from tests.cli.rig import Place, run


def test_job_is_enqueued_with_its_options(place: Place) -> None:
    made = place.run(
        *("enqueue", "send", '{"to": "ü"}', "--queue", "mail", "--priority", "high", "--custom-id", "order-1"),
        *("--unique-key", "u", "--max-attempts", "7", "--tag", "vip", "--tag", "new", "--metadata", "customer=4=2"),
    )
    job = place.run("jobs", "show", "order-1", "--json").json
    assert made.out == f"enqueued {job['id']}, ready\n"
    assert (job["queue"], job["task"], job["payload"], job["codec"]) == ("mail", "send", {"to": "ü"}, "json")
    assert (job["priority"], job["max_attempts"], job["tags"]) == (10, 7, ["vip", "new"])
    assert job["metadata"] == {"customer": "4=2"}
    again = place.run("enqueue", "send", "1", "--custom-id", "order-1", "--json").json
    assert again == {"id": job["id"], "state": "ready", "duplicate": True}
    assert "was there already" in place.run("enqueue", "send", "--custom-id", "order-1").out


def test_payload_comes_from_an_argument_from_standard_input_or_is_null(place: Place) -> None:
    for arguments, given, found in ((("[1]",), None, [1]), (("-",), '{"a": 1}\n', {"a": 1}), ((), None, None)):
        id = place.run("enqueue", "send", *arguments, "--json", input=given).json["id"]
        assert place.run("jobs", "show", str(id), "--json").json["payload"] == found


def test_delay_and_negative_priority(place: Place) -> None:
    made = place.run("enqueue", "send", "--delay", "5m", "--priority", "-3", "--json").json
    assert made["state"] == "scheduled"
    assert place.run("jobs", "show", str(made["id"]), "--json").json["priority"] == -3


def test_lines_become_jobs_in_batches(place: Place) -> None:
    lines = "".join(f'{{"n": {number}}}\n\n' for number in range(2_500))
    said = place.run("enqueue", "count", "--lines", "--queue", "numbers", input=lines)
    assert said.out.startswith("enqueued 2,500 jobs in ")
    assert place.count("numbers") == {"ready": 2_500}
    made = place.run("enqueue", "count", "-", "--lines", "--queue", "few", "--json", input="1\n2\n").lines
    assert [(line["line"], line["state"]) for line in made] == [(1, "ready"), (2, "ready")]


def test_line_that_is_refused_harms_no_other(place: Place) -> None:
    lines = b'1\n{"broken\n\xff\n2\n'
    said = place.run("enqueue", "count", "--lines", "--queue", "numbers", input=lines, code=1)
    assert said.out.startswith("enqueued 2 jobs")
    assert "line 2: " in said.err
    assert "line 3: " in said.err
    assert "2 lines refused" in said.err
    found = place.run("enqueue", "count", "--lines", "--json", input=lines, code=1).lines
    assert sorted(line["line"] for line in found if "error" in line) == [2, 3]


def test_wait_writes_the_result(place: Place) -> None:
    with place.client() as client:
        worked = threading.Thread(
            target=lambda: [client.complete(job, b'{"ok": 1}') for job in client.claim("w", wait=30)]
        )
        worked.start()
        said = place.run("enqueue", "send", "1", "--queue", "w", "--wait")
        worked.join()
    assert json.loads(said.out) == {"ok": 1}


def test_wait_says_how_a_job_failed(place: Place) -> None:
    with place.client() as client:
        worked = threading.Thread(
            target=lambda: [client.fail(job, "ValueError", "bad") for job in client.claim("w", wait=30)]
        )
        worked.start()
        said = place.run("enqueue", "send", "1", "--queue", "w", "--wait", "--max-attempts", "1", "--json", code=1)
        worked.join()
    assert said.err == "error: ValueError: bad\n"


def test_wait_gives_up_and_the_job_stays(place: Place) -> None:
    said = place.run("enqueue", "send", "1", "--queue", "w", "--wait", "--timeout", "10ms", code=1)
    assert said.err.startswith("error: ")
    assert place.count("w") == {"ready": 1}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "TASK"),
        (("a/b",), "task"),
        (("send", "{to: me}"), "it must be JSON"),
        (("send", "text"), "a text needs quotes"),
        (("send", "-"), "standard input"),
        (("send", "--priority", "urgent"), "low, normal, high, critical"),
        (("send", "--priority=--3"), "priority"),
        (("send", "--priority", "9" * 5_000), "priority"),
        (("send", "--custom-id", ""), "custom_id"),
        (("send", "--unique-key", ""), "unique_key"),
        (("send", "--delay", "soon"), "delay"),
        (("send", "--queue", "a b"), "queue"),
        (("send", "--max-attempts", "0"), "max_attempts"),
        (("send", "--max-attempts", "none"), "--max-attempts"),
        (("send", "--metadata", "novalue"), "customer=42"),
        (("send", "--tag", "a", "--tag", "a"), "tags"),
        (("send", "--wait", "--timeout", "soon"), "timeout"),
        (("send", "--wait", "--timeout", "11m"), "timeout"),
        (("send", "[1]", "--lines"), "standard input"),
        (("send", "--lines", "--wait"), "not for --lines"),
        (("send", "--lines", "--custom-id", "x"), "not for --lines"),
        (("send", "--lines", "--unique-key", "x"), "not for --lines"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], word: str, served: Place) -> None:
    assert word in served.run("enqueue", *arguments, code=2, input="").err
    assert served.count_all() == 0


def test_new_file_is_made_by_enqueue_and_by_nothing_else(tmp_path: Path) -> None:
    url = "sqlite:///new.db"
    for arguments in (("jobs", "list"), ("queues", "pause", "x", "--create"), ("events",), ("top", "--once")):
        refused = run(*arguments, "--url", url)
        assert (refused.code, "new.db is not there" in refused.err) == (1, True)
    assert list(tmp_path.iterdir()) == []
    for wrong in (("--priority", "urgent"), ("--queue", "a b"), ("{",)):
        assert run("enqueue", "send", *wrong, "--url", url).code == 2
    assert list(tmp_path.iterdir()) == []
    assert run("enqueue", "send", "--url", url).code == 0
    assert len(run("jobs", "list", "--url", url, "--json").lines) == 1


def test_all_tenants_are_no_tenant_to_enqueue_for(place: Place) -> None:
    assert "belongs to one tenant" in Place(place.url, "*").run("enqueue", "send", code=2).err
