"""Hot reload: what is watched, and that a change starts the command anew."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tenure.worker.reload import changed, sources


def test_sources_are_python_files_outside_of_caches(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "b/d.txt", ".venv/e.py", "__pycache__/f.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    assert sorted(os.path.relpath(path, tmp_path) for path in sources(tmp_path)) == ["a.py", "b/c.py", "pyproject.toml"]


def test_new_gone_and_touched_files_are_changes() -> None:
    assert changed({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 2.0, "d": 1.0}) == ["b", "c", "d"]


def test_change_starts_the_command_anew(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import signal\nprint('one', flush=True)\nsignal.pause()\n")
    run = "import sys; from tenure.worker.reload import run_reloading; run_reloading([sys.executable, 'program.py'])"
    process = subprocess.Popen(
        [sys.executable, "-c", run],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "one\n"
        (tmp_path / "program.py").write_text("import signal\nprint('number two', flush=True)\nsignal.pause()\n")
        assert process.stdout.readline() == "number two\n"
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert "changed: program.py" in said
