"""`tenure doctor`: what it says of what works, and of what does not."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tenure.cli.doctor import build_of
from tenure.client.client import Client
from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.core.clock import Now
from tenure.core.tenant import Context
from tenure.store.embedded.sqlite import SqliteStore
from tests.cli.rig import Ended, Place, run, serving

HOUR_MS = 3_600_000


def checks(ended: Ended) -> dict[str, tuple[str, str, str]]:
    return {check["name"]: (check["status"], check["text"], check["fix"]) for check in ended.json["checks"]}


def test_all_is_well(place: Place) -> None:
    place.enqueue(3)
    ended = place.run("doctor", "--json")
    found = checks(ended)
    assert ended.json["is_well"]
    assert {status for status, _, _ in found.values()} <= {"ok", "note"}
    assert "1 queue, 3 jobs" in found["answers"][1]
    assert "fsync" in found["durability"][1]
    assert ended.json["capabilities"]["name"] == "sqlite"
    assert found["build"][1] == build_of()
    text = place.run("doctor").out
    assert text.endswith("all is well\n")
    for name in ("tenure", "python", "build", "clock", "settings", "answers", "durability", "capabilities"):
        assert name in text
    assert run("doctor", place.url).code == 0


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("tenure://127.0.0.1:1", "start it with tenure serve"),
        ("tenure+unix:///nowhere.sock", "start it with tenure serve"),
        ("sqlite:///none.db", "none.db is not there"),
        ("memory://", "a store in memory ends with this command"),
        ("redis://localhost", "cannot do redis"),
        ("ftp://localhost", "it must begin with"),
        ("tenure://host:port", "it cannot be read"),
    ],
)
def test_place_that_does_not_answer_is_wrong(url: str, word: str) -> None:
    ended = run("doctor", url)
    assert ended.code == 1
    assert word in ended.out
    assert "all is well" not in ended.out
    assert not run("doctor", url, "--json").json["is_well"]


def test_damaged_file_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database" * 1_000)
    ended = run("doctor", "sqlite:///notes.db")
    assert (ended.code, "damaged" in ended.out) == (1, True), ended


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text("[server]\ntcp_prt = 1\n")
    ended = run("doctor")
    assert (ended.code, "did you mean tcp_port?" in ended.out) == (1, True), ended


def test_clock_behind_the_file_is_wrong(tmp_path: Path) -> None:
    run("enqueue", "send", "--url", "sqlite:///jobs.db")
    ahead = time.time() + 3_600
    os.utime(tmp_path / "jobs.db", (ahead, ahead))
    ended = run("doctor", "sqlite:///jobs.db")
    assert (ended.code, "the clock has gone back" in ended.out) == (1, True), ended


def test_step_of_the_clock_is_named(tmp_path: Path) -> None:
    """The store was last written by a clock that was an hour ahead."""

    async def write_ahead() -> None:
        store = SqliteStore(tmp_path / "jobs.db", "fsync")
        driver = Driver(store, lambda: Now(read_clock().wall_ms + HOUR_MS, read_clock().elapsed_ms))
        client = Client(driver, Context())
        async with client:
            await client.enqueue(b"x", delay="1h")

    asyncio.run(write_ahead())
    found = checks(run("doctor", "sqlite:///jobs.db", "--json"))
    assert found["store's clock"][0] == "note"
    assert "the wall clock was set back by" in found["store's clock"][1]


@pytest.mark.slow
def test_missing_token_is_wrong_and_a_token_file_is_read(tmp_path: Path) -> None:
    made = run("tokens", "make", "shop", "--tenant", "acme")
    token, _, file = made.out.partition("\n\n")
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "tenure.toml").write_text(file)
    with serving(tmp_path / "served") as url:
        refused = run("doctor", url)
        assert (refused.code, "tenure tokens make" in refused.out) == (1, True), refused
        (tmp_path / "token").write_text(token.split()[1] + "\n")
        own = run("doctor", url, env={"TENURE_TOKEN_FILE": "token"})
        assert (own.code, "tenant acme" in own.out) == (0, True), own
        foreign = run("doctor", url, "--tenant", "globex", env={"TENURE_TOKEN_FILE": "token"})
        assert (foreign.code, "--tenant" in foreign.out) == (1, True), foreign
        assert run("doctor", url, env={"TENURE_TOKEN_FILE": "token", "TENURE_TENANT": "acme"}).code == 0
        assert run("doctor", url, "--token", token.split()[1], "--tenant", "acme").code == 0
        assert run("doctor", url, env={"TENURE_TOKEN_FILE": "nowhere"}).code == 1
