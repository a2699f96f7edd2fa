"""`tenure copy SRC DST`."""

import json
from pathlib import Path

import pytest

import tenure
from tests.cli.rig import Place, run, serving


def test_store_is_copied_and_verified(server: str, tmp_path: Path) -> None:
    old = Place(f"sqlite:///{tmp_path}/old.db", "acme-copy")
    old.enqueue(3, queue="mail")
    old.fail(1, queue="dead")
    said = run("copy", old.url, server, "--tenant", old.tenant)
    assert (said.code, said.err) == (0, "")
    assert f"copied 4 jobs of 1 tenant to {server}: 4 new, 0 there already, 0 refused" in said.out
    assert "verified 4 jobs in 2 queues: counts, hashes and every field agree" in said.out
    new = Place(server, old.tenant)
    assert (new.count("mail"), new.count("dead")) == ({"ready": 3}, {"failed": 1})
    again = run("copy", old.url, server, "--tenant", old.tenant, "--json").json
    assert (again["is_repeated"], again["new"], again["verified"]["same"]) == (True, 4, True)
    assert new.count_all() == 4


def test_what_differs_is_shown_and_written_down(tmp_path: Path) -> None:
    old, new = Place(f"sqlite:///{tmp_path}/old.db", "default"), Place(f"sqlite:///{tmp_path}/new.db", "default")
    [id] = old.enqueue(1, queue="mail")
    assert run("copy", old.url, new.url).code == 0
    new.run("jobs", "cancel", str(id))
    old.run("queues", "pause", "mail")
    file = tmp_path / "all.jsonl"
    said = run("copy", old.url, new.url, "--differences", str(file))
    assert said.code == 1
    assert "nothing was added" in said.out
    assert "paused of queue mail is None in DST, not True" in said.out
    assert "2 differences in 1 job, 1 setting differ" in said.err
    named = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["field"] for each in named] == ["state", "ended_at"]
    assert {each["note"] for each in named} == {"it changed in the new store after it was copied"}
    assert run("copy", old.url, new.url, "--no-verify").code == 0


def test_running_jobs_are_told(tmp_path: Path) -> None:
    old = Place(f"sqlite:///{tmp_path}/old.db", "default")
    old.enqueue(1, queue="mail")
    with old.client() as client:
        client.claim("mail", lease=60)
    said = run("copy", old.url, f"sqlite:///{tmp_path}/new.db")
    assert said.code == 0
    assert "1 job ran: released in DST" in said.err


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("sqlite:///none.db", "sqlite:///new.db"), "none.db is not there"),
        (("sqlite:///old.db", "sqlite:///./old.db"), "it is the store that is copied from"),
        (("sqlite:///old.db", "memory://"), "a store in memory ends with this command"),
        (("sqlite:///old.db", "sqlite:///new.db", "--source-token-file", "nothing"), "it cannot be read"),
    ],
)
def test_wrong_use_is_refused_with_the_fix(arguments: tuple[str, ...], fault: str) -> None:
    with tenure.connect_sync("sqlite:///old.db") as client:
        client.enqueue(b"1")
    said = run("copy", *arguments)
    assert said.code in (1, 2)
    assert fault in said.err


@pytest.mark.parametrize("is_file", [False, True])
def test_token_of_the_target_comes_from_the_environment_or_a_file(tmp_path: Path, is_file: bool) -> None:
    made = run("tokens", "make", "boss").out.partition("\n\n")
    token = made[0].split()[1]
    (tmp_path / "tenure.toml").write_text(made[2])
    (tmp_path / "token").write_text(token)
    old = Place(f"sqlite:///{tmp_path}/old.db", "acme")
    old.enqueue(3, queue="mail")
    more = ("--target-token-file", str(tmp_path / "token")) if is_file else ()
    with serving(tmp_path) as url:
        refused = run("copy", old.url, url)
        assert (refused.code, "token" in refused.err.lower()) == (1, True), refused
        said = run("copy", old.url, url, *more, env={} if is_file else {"TENURE_TARGET_TOKEN": token})
        assert (said.code, "verified 3 jobs" in said.out) == (0, True), said
        assert token not in said.out + said.err
