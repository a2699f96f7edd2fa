"""`tenure dead`."""

import pytest

from tests.cli.rig import Place


def test_list_shows_dead_letters_only(place: Place) -> None:
    ids = place.fail(2)
    place.fail(1, queue="image", type="OSError", message="disk full")
    place.enqueue(queue="mail")
    assert [job["id"] for job in place.run("dead", "list", "--queue", "mail", "--json").lines] == ids
    for arguments, count in (
        ((), 3),
        (("--error", "disk"), 1),
        (("--task", "send"), 3),
        (("--reason", "attempts_exhausted"), 3),
        (("--reason", "expired"), 0),
        (("--limit", "1"), 1),
    ):
        assert len(place.run("dead", "list", "--json", *arguments).lines) == count, arguments
    assert "OSError: disk full" in place.run("dead", "list").out


def test_groups_are_counted_and_named(place: Place) -> None:
    place.enqueue()
    assert place.run("dead", "groups").out == "no dead letter\n"
    for number in range(3):
        place.fail(message=f"550 user {number}")
    place.fail(type="OSError", message="disk full")
    first, second = place.run("dead", "groups", "--json").lines
    assert (first["count"], first["type"], second["count"]) == (3, "ValueError", 1)
    assert first["first_at"].endswith("Z")
    table = place.run("dead", "groups", "--queue", "mail").out
    assert first["fingerprint"] in table
    assert place.run("dead", "groups", "--queue", "none").out == "no dead letter in none\n"


def test_replay_by_fingerprint_by_ids_and_slowly(place: Place) -> None:
    ids = place.fail(3)
    place.fail(2, type="OSError", message="disk full")
    [group] = [line for line in place.run("dead", "groups", "--json").lines if line["type"] == "OSError"]
    said = place.run("dead", "replay", "--fingerprint", group["fingerprint"], "--rate", "1000", input="y\n")
    assert said.out.startswith("replayed 2 jobs")
    assert place.run("dead", "replay", str(ids[0])).out == f"replayed {ids[0]}, now ready\n"
    assert place.run("dead", "replay", "--queue", "mail", "--count", "1", "--yes", "--json").json["count"] == 1
    assert place.count("mail") == {"ready": 4, "failed": 1}
    assert place.run("dead", "replay", "--queue", "mail", "--payload", '"new"', "--yes").out.startswith(
        "replayed 1 job"
    )


def test_purge_removes_dead_letters_and_no_other_job(place: Place) -> None:
    ids = place.fail(3)
    [live] = place.enqueue(queue="mail")
    refused = place.run("dead", "purge", str(live), code=1)
    assert f"job {live} is ready, not failed" in refused.err
    assert place.run("dead", "purge", str(ids[0])).out == f"removed {ids[0]}\n"
    assert place.run("dead", "purge", str(ids[1]), "--json").json == {"id": ids[1], "action": "remove"}
    assert place.run("dead", "purge", "--older", "1h", "--yes", "--json").json["count"] == 0
    assert "remove 1 job" in place.run("dead", "purge", "--queue", "mail", input="n\n", code=1).err
    assert place.run("dead", "purge", "--queue", "mail", "--yes", "--json").json["count"] == 1
    assert place.count("mail") == {"ready": 1}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("list", "--reason", "expird"), "did you mean expired?"),
        (("replay",), "name jobs by their ids"),
        (("replay", "1", "--queue", "mail"), "not both"),
        (("replay", "1", "--rate", "5"), "it goes with a filter"),
        (("replay", "1", "--count", "5"), "it goes with a filter"),
        (("replay", "--queue", "mail", "--rate", "0"), "--rate"),
        (("replay", "--queue", "mail", "--payload", "nonsense"), "it must be JSON"),
        (("purge",), "name jobs by their ids"),
        (("purge", "--older", "long"), "older"),
        (("purge", "--queue", "mail", "--json"), "say --yes"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], word: str, served: Place) -> None:
    served.enqueue(queue="mail")
    assert word in served.run("dead", *arguments, code=2).err
