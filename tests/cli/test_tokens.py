"""`tenure tokens`, and what commands do for a token that does not reach everything."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from tenure.server.auth import hash_token
from tenure.server.config import Settings
from tests.cli.rig import run, serving

ROLES = {"boss": ("--tenant", "acme"), "shop": ("--tenant", "acme", "--role", "producer")}


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
        (("make", "shop", "--queue", "ma?l"), "a prefix ending in *"),
        (("make", "shop", "--queue", "mail", "--queue", "*-mail"), "a prefix ending in *"),
        (("make", "shop", "--tenant", "ac*"), "or * alone"),
    ],
)
def test_wrong_use_of_tokens_is_named(arguments: tuple[str, ...], word: str) -> None:
    ended = run("tokens", *arguments)
    assert (ended.code, word in ended.err) == (2, True), ended


@pytest.mark.slow
def test_token_of_a_producer_sees_queues_without_settings_and_top_without_rates(tmp_path: Path) -> None:
    lines = [run("tokens", "make", name, *more).out.partition("\n\n") for name, more in ROLES.items()]
    (tmp_path / "tenure.toml").write_text("".join(line[2] for line in lines))
    operator, producer = (line[0].split()[1] for line in lines)
    with serving(tmp_path) as url:
        all_of_them = ("--url", url, "--tenant", "acme", "--token")
        assert run("enqueue", "send", "--queue", "mail", *all_of_them, operator).code == 0
        assert run("queues", "pause", "mail", *all_of_them, operator).code == 0
        assert "paused" in run("queues", "list", *all_of_them, operator).out
        seen = run("queues", "list", *all_of_them, producer)
        assert (seen.code, "mail" in seen.out, "paused" in seen.out) == (0, True, False)
        top = run("top", "--once", "--interval", "100ms", *all_of_them, producer)
        assert (top.code, "no rates" in top.out, "in/s" in top.out) == (0, True, False), top
        refused = run("queues", "pause", "mail", *all_of_them, producer)
        assert (refused.code, "operator" in refused.err) == (1, True), refused
        assert run("queues", "list", "--url", url).code == 1
