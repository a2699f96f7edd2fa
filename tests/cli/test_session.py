"""Which store a command talks to, and what the shell offers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.cli.completion import complete_event, complete_queue, complete_state
from tenure.cli.session import choose_place
from tests.cli.rig import ENVIRONMENT, Place, run


def test_default_is_the_server_on_this_machine() -> None:
    assert choose_place(None) == ("tenure://127.0.0.1:6789", "default")


@pytest.mark.parametrize(
    ("file", "environment", "url"),
    [
        ("store = 'sqlite:///a.db'", {}, "sqlite:///a.db"),
        ("store = 'sqlite:///a.db'", {"TENURE_STORE": "sqlite:///b.db"}, "sqlite:///b.db"),
        ("", {"TENURE_STORE": "memory://", "TENURE_TCP_PORT": "7000"}, "tenure://127.0.0.1:7000"),
        ("host = '::1'", {}, "tenure://[::1]:6789"),
        ("tcp_port = 7001\ntls_cert = 'c'\ntls_key = 'k'", {}, "tenure+tls://127.0.0.1:7001"),
        ("tcp = false\nunix = '/run/tenure.sock'", {}, "tenure+unix:///run/tenure.sock"),
    ],
)
def test_store_is_chosen_as_the_server_chooses_it(
    file: str, environment: dict[str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tenure.toml").write_text(f"[server]\n{file}\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert choose_place(None).url == url
    assert choose_place("sqlite:///given.db").url == "sqlite:///given.db"


def test_environment_names_url_and_tenant(place: Place) -> None:
    place.enqueue(2, queue="mail")
    environment = {"TENURE_URL": place.url, "TENURE_TENANT": place.tenant}
    assert len(run("jobs", "list", "--json", env=environment).lines) == 2


@pytest.mark.parametrize(
    ("url", "code", "word"),
    [
        ("memory://", 2, "name a file or a server"),
        ("http://localhost", 2, "it must begin with"),
        ("tenure://", 2, "it must be tenure://"),
        ("tenure://[::1", 2, "it cannot be read"),
        ("tenure://host:99999", 2, "it cannot be read"),
        ("tenure://127.0.0.1:1", 1, "no server answers at 127.0.0.1:1"),
        ("tenure+unix:///nowhere.sock", 1, "no server answers at /nowhere.sock"),
        ("sqlite://jobs.db", 2, "sqlite:///"),
    ],
)
def test_place_that_cannot_be_is_refused(url: str, code: int, word: str) -> None:
    ended = run("queues", "list", "--url", url)
    assert (ended.code, word in ended.err) == (code, True), ended


def test_shell_is_offered_names(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = Place(server, "completion")
    for queue in ("mail", "main", "image"):
        place.enqueue(queue=queue)
    monkeypatch.setenv("TENURE_URL", server)
    monkeypatch.setenv("TENURE_TENANT", "completion")
    assert complete_queue("mai") == ["mail", "main"]
    assert complete_state("re") == ["ready", "retrying"]
    assert complete_event("worker") == ["worker_joined", "worker_left"]
    for url in ("sqlite:///none.db", "tenure://127.0.0.1:1", "nonsense"):
        monkeypatch.setenv("TENURE_URL", url)
        assert complete_queue("") == []
    assert not (tmp_path / "none.db").exists()
    assert os.environ["TENURE_URL"] == "nonsense"


def test_completion_is_shown(tmp_path: Path) -> None:
    line = f"{sys.executable} -m tenure --show-completion; exit"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert "complete -o default -F _tenure_completion tenure" in done.stdout


def test_completion_answers(server: str) -> None:
    Place(server, "completion").enqueue(queue="mail")
    environment = {
        "TENURE_URL": server,
        "TENURE_TENANT": "completion",
        "_TENURE_COMPLETE": "complete_bash",
        "COMP_WORDS": "tenure queues pause ma",
        "COMP_CWORD": "3",
    }
    assert "mail" in run(env=environment).out.split()
    assert "queues" in run(env={**environment, "COMP_WORDS": "tenure que", "COMP_CWORD": "1"}).out.split()
