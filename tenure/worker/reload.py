"""Hot reload: a command is run, and run anew when a source file changes. For development."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tenure.worker.parent import end_with_parent

LOOK_S = 0.3
STOP_S = 120.0  # its jobs may end
LEFT_OUT = {"__pycache__", ".git", ".venv", "venv", "node_modules", "build", "dist", ".mypy_cache", ".ruff_cache"}


def sources(folder: Path) -> dict[str, float]:
    """Every Python file below the folder, and when it was changed."""
    found: dict[str, float] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each not in LEFT_OUT and not each.startswith(".")]
        for file in files:
            if file.endswith((".py", ".toml")):
                path = os.path.join(place, file)
                try:
                    found[path] = os.stat(path).st_mtime
                except OSError:
                    continue
    return found


def changed(before: dict[str, float], after: dict[str, float]) -> list[str]:
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def run_reloading(command: list[str], folders: Iterable[Path] = ()) -> int:
    """Until a signal, or until the command fails by itself without a change to wait for."""
    watched = list(folders) or [Path.cwd()]
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: asked.append(number))
    while True:
        before = _look(watched)
        # In a session of its own: Ctrl-C reaches this process, which then asks it to stop, once.
        environment = {**os.environ, "TENURE_RELOADED": "1"}
        process = subprocess.Popen(
            command, env=environment, start_new_session=True, preexec_fn=lambda: end_with_parent(signal.SIGTERM)
        )
        files: list[str] = []
        while not asked and not files:
            time.sleep(LOOK_S)
            files = changed(before, _look(watched))
            if process.poll() is not None and not files:
                if process.returncode == 0:
                    return 0
                sys.stderr.write("it ended; waiting for a change\n")
                while not asked and not (files := changed(before, _look(watched))):
                    time.sleep(LOOK_S)
        _end(process)
        if asked:
            return process.returncode or 0
        sys.stderr.write(f"changed: {', '.join(os.path.relpath(file) for file in files[:5])}\n")


def _look(folders: list[Path]) -> dict[str, float]:
    return {path: at for folder in folders for path, at in sources(folder).items()}


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
