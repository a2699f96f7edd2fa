"""A process and the one that started it: it ends with it, and knows whether that one is stopped."""

import ctypes
import subprocess

PR_SET_PDEATHSIG = 1  # of Linux
PS_S = 5.0


def end_with_parent(number: int) -> None:
    """The signal comes when the parent is gone; where the system has no such thing, nothing does."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(number))


def is_stopped(process: int) -> bool:
    """Whether it runs nothing until it is told to go on: after SIGSTOP, or in a debugger. False where nobody knows."""
    return state_of(process) in (b"T", b"t")


def state_of(process: int) -> bytes:
    """The letter that the system shows for it; empty where nobody knows."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return asked_state(process)


def asked_state(process: int) -> bytes:
    """As `state_of`, where the system has no `/proc`."""
    command = ["ps", "-o", "state=", "-p", str(process)]
    try:
        return subprocess.run(command, capture_output=True, timeout=PS_S, check=False).stdout.strip()[:1]
    except (OSError, subprocess.TimeoutExpired):
        return b""
