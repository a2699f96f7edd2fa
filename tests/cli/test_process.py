"""The command line as scripts and people meet it: processes, pipes, signals, exit codes."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.rig import ENVIRONMENT, WAIT_S, Place, run_process, spawn

pytestmark = pytest.mark.slow  # Each starts processes.


def test_exit_codes_and_json_through_a_pipe(server: str, tmp_path: Path) -> None:
    environment = {"TENURE_URL": server, "TENURE_TENANT": "pipe"}
    made = run_process("enqueue", "send", "-", "--json", folder=tmp_path, input='{"n": 1}', env=environment)
    assert (made.code, made.err) == (0, "")
    found = run_process("jobs", "list", "--json", folder=tmp_path, env=environment)
    assert [job["id"] for job in found.lines] == [made.json["id"]]
    assert run_process("jobs", "show", "nothing", folder=tmp_path, env=environment).code == 1
    assert run_process("jobs", "list", "--state", "nothing", folder=tmp_path, env=environment).code == 2
    assert run_process("jobs", "nothing", folder=tmp_path, env=environment).code == 2


def test_table_is_not_cut_without_a_terminal_and_has_no_colours(server: str, tmp_path: Path) -> None:
    place = Place(server, "wide")
    name = "q" * 200
    place.enqueue(queue=name, task="t" * 200)
    narrow = {"COLUMNS": "40", "TENURE_URL": server, "TENURE_TENANT": "wide"}
    found = run_process("jobs", "list", folder=tmp_path, env=narrow)
    assert name in found.out
    assert "t" * 200 in found.out
    assert "\x1b" not in found.out
    assert len(found.out.splitlines()) == 2


def test_reader_that_goes_away_is_no_error_to_be_reported(server: str, tmp_path: Path) -> None:
    Place(server, "gone").enqueue(5_000, queue="mail")
    environment = {"TENURE_URL": server, "TENURE_TENANT": "gone"}
    with spawn("jobs", "list", "--json", "--limit", "5000", folder=tmp_path, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("{")
        process.stdout.close()
        assert "unexpected" not in process.stderr.read()
        process.wait(WAIT_S)


def test_ctrl_c_ends_events_that_are_followed(server: str, tmp_path: Path) -> None:
    place = Place(server, "follow")
    [first] = place.enqueue(queue="mail")
    environment = {"TENURE_URL": server, "TENURE_TENANT": "follow"}
    with spawn("events", "--follow", "--json", folder=tmp_path, env=environment) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["job"] == first
        [second] = place.enqueue(queue="mail")
        assert json.loads(process.stdout.readline())["job"] == second
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (0, "")
    assert err.startswith("go on with: --from ")
    [third] = place.enqueue(queue="mail")
    rest = run_process("events", "--json", "--from", err.split()[-1], folder=tmp_path, env=environment)
    assert [event["job"] for event in rest.lines] == [third]


def test_ctrl_c_ends_top_and_every_frame_is_a_line(server: str, tmp_path: Path) -> None:
    place = Place(server, "top")
    place.enqueue(3, queue="mail")
    environment = {"TENURE_URL": server, "TENURE_TENANT": "top"}
    with spawn("top", "--json", "--interval", "100ms", folder=tmp_path, env=environment) as process:
        assert process.stdout is not None
        frames = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
    assert [frame["totals"]["ready"] for frame in frames] == [3, 3]
    assert (process.returncode, err) == (0, "")


def read_until(terminal: int, word: bytes) -> bytes:
    said = b""
    while word not in said:
        assert select.select([terminal], [], [], WAIT_S)[0], said
        said += os.read(terminal, 65_536)
    return said


@pytest.mark.parametrize("colour", [True, False])
def test_top_on_a_terminal_is_a_screen_and_leaves_it_as_it_was(colour: bool, server: str, tmp_path: Path) -> None:
    Place(server, "screen").enqueue(3, queue="mail")
    own, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", "LINES": "30", **({} if colour else {"NO_COLOR": "1"})}
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "top", "--url", server, "--tenant", "screen", "--interval", "100ms"],
        cwd=tmp_path,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        said = read_until(own, b"mail")
        process.send_signal(signal.SIGINT)
        rest = read_until(own, b"\x1b[?1049l")
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(own)
    assert b"\x1b[?1049h" in said  # the screen of its own
    assert (b"\x1b[36m" in said or b";36m" in said) == colour
    assert b"Traceback" not in rest


@pytest.mark.parametrize("moment", [b"\x1b[?1049h", b"\x1b[?25l", b"looking"])
def test_ctrl_c_while_the_screen_is_set_up_leaves_it_as_it_was(moment: bytes, server: str, tmp_path: Path) -> None:
    own, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "top", "--url", server, "--interval", "10m"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "TERM": "xterm-256color", "LINES": "30"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        said = read_until(own, moment)
        process.send_signal(signal.SIGINT)
        if b"\x1b[?1049l" not in said:
            read_until(own, b"\x1b[?1049l")
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(own)


def test_ctrl_c_in_the_middle_of_anything_else_is_no_traceback(server: str, tmp_path: Path) -> None:
    arguments = (
        "enqueue",
        "send",
        "--queue",
        "never",
        "--wait",
        "--timeout",
        "10m",
        "--url",
        server,
        "--tenant",
        "wait",
    )
    with spawn(*arguments, folder=tmp_path) as process:
        place = Place(server, "wait")
        with place.client() as client:
            events = client.events("", follow=WAIT_S)
            assert next(events).type == "enqueued"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode != 0
    assert "Traceback" not in err
    assert "unexpected" not in err
