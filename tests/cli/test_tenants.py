"""`tenure tenants`, `tenure workers` and `tenure tokens`."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from tenure.server.auth import hash_token
from tenure.server.config import Settings
from tests.cli.rig import Place, run


def test_tenant_is_set_shown_and_reset(place: Place) -> None:
    place.enqueue(3, queue="mail")
    name = place.tenant
    said = place.run(
        *(
            "tenants",
            "set",
            name,
            "--weight",
            "3",
            "--jobs-max",
            "10000",
            "--bytes-max",
            "1000000",
            "--running-max",
            "5",
        ),
        *(
            "--queues-max",
            "7",
            "--rate",
            "100/s",
            "--enqueue-rate",
            "6/m",
            "--keep-completed",
            "1h",
            "--keep-failed",
            "7d",
        ),
    )
    assert said.out.startswith(
        f"{name}: weight 3, jobs_max 10,000, bytes_max 1.0 MB, running_max 5, queues_max 7, rate 100/s"
    )
    found = place.run("tenants", "show", name, "--json").json
    assert (found["tenant"], found["queues"], found["counts"]["ready"]) == (name, 1, 3)
    assert found["settings"]["rate"] == {"tokens": 100, "period_ms": 1_000, "burst": 100}
    assert (found["settings"]["keep_completed_ms"], found["settings"]["keep_failed_ms"]) == (3_600_000, 604_800_000)
    assert "7 d 0 h" in place.run("tenants", "show", name).out
    [listed] = [line for line in place.run("tenants", "list", "--json").lines if line["tenant"] == name]
    assert listed["settings"] == found["settings"]
    assert f"{name}" in place.run("tenants", "list").out
    settings = place.run("tenants", "set", name, "--reset", "jobs-max", "--reset", "rate", "--json").json["settings"]
    assert settings.keys() == found["settings"].keys() - {"jobs_max", "rate"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("set", "acme"), "say what to set"),
        (("set", "acme", "--weight", "0"), "weight"),
        (("set", "acme", "--weight", "heavy"), "--weight"),
        (("set", "acme", "--jobs-max", "-1"), "jobs_max"),
        (("set", "acme", "--rate", "fast"), "100/s"),
        (("set", "acme", "--keep-failed", "long"), "keep_failed"),
        (("set", "acme", "--reset", "wieght"), "did you mean weight?"),
        (("set", "a/b", "--weight", "1"), "tenant"),
        (("set", "*", "--weight", "1"), "name one"),
        (("show", "*"), "name one"),
        (("show",), "TENANT"),
    ],
)
def test_wrong_use_of_tenants_is_named(arguments: tuple[str, ...], word: str, place: Place) -> None:
    place.enqueue()
    assert word in place.run("tenants", *arguments, code=2).err


def test_workers_are_listed(place: Place) -> None:
    place.enqueue()
    with place.client() as client:
        client.claim("none", worker=f"{place.tenant}-w")
        client.configure("worker", f"{place.tenant}-w", version="1.2", tasks=["send", "resize"])
        lines = place.run("workers", "list", "--json").lines
        text = place.run("workers", "list").out
    [found] = [line for line in lines if line["name"] == f"{place.tenant}-w"]
    assert (found["version"], found["tasks"]) == ("1.2", ["send", "resize"])
    assert found["seen_at"].endswith("Z")
    assert f"{place.tenant}-w" in text
    assert "send, resize" in text


def test_store_without_workers_says_so(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'jobs.db'}", "acme")
    place.enqueue()
    assert place.run("workers", "list").out == "no worker has shown a sign of life in the last minute\n"


def test_token_is_made_with_its_hash() -> None:
    made = run("token", "--json").json
    assert hash_token(made["token"]) == made["sha256"]
    assert [line.split()[0] for line in run("token").out.splitlines()] == ["token", "sha256"]


def test_token_of_a_name_comes_with_the_lines_for_the_server() -> None:
    more = ("--role", "producer", "--role", "worker", "--tenant", "acme", "--queue", "image-*", "--rate", "500")
    said = run("tokens", "make", "shop.eu", *more)
    token, _, file = said.out.partition("\n\n")
    settings = msgspec.convert(tomllib.loads(file)["server"], Settings)
    made = settings.tokens["shop.eu"]
    assert made.sha256 == hash_token(token.split()[1])
    assert (made.roles, made.tenants, made.queues, made.rate) == (("producer", "worker"), ("acme",), ("image-*",), 500)
    found = run("tokens", "make", "shop", "--json").json
    assert found["settings"] == {"sha256": hash_token(found["token"])}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("make",), "NAME"),
        (("make", "a/b"), "letters, digits"),
        (("make", "shop", "--role", "producr"), "did you mean producer?"),
        (("make", "shop", "--rate", "-1"), "--rate"),
    ],
)
def test_wrong_use_of_tokens_is_named(arguments: tuple[str, ...], word: str) -> None:
    ended = run("tokens", *arguments)
    assert (ended.code, word in ended.err) == (2, True), ended
