"""What type checkers say of tasks, asked of both that people use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
import tenure

app = tenure.App("memory://")


@app.task
async def plain(x: int) -> str:
    return ""


@app.task
def with_context(ctx: tenure.Context, x: int) -> bytes:
    return b""


@app.task(queue="q", max_attempts=3, backoff=tenure.Backoff.fixed("1s"))
async def with_options(x: int, *, y: str = "") -> list[int]:
    return []


@app.batch(10)
async def together(texts: list[str]) -> list[float]:
    return []


async def main() -> None:
    reveal_type(await (await plain.enqueue(1)).result())
    reveal_type(await (await with_context.enqueue(3)).result())
    reveal_type(await (await with_options.options(tenant="x", delay="5m").enqueue(3, y="")).result())
    reveal_type(await (await together.enqueue("s")).result())
    reveal_type(plain.enqueue_sync(1).result_sync())
    reveal_type(plain.bind(1))
    async for job in app.enqueue_many(plain.bind(n) for n in range(3)):
        reveal_type(job)
"""
REVEALED = ["str", "bytes", "list[int]", "float", "str", "Bound[str]", "Job[str]"]
WRONG = """
import tenure
from typed import app, plain, with_options


async def main() -> None:
    await plain.enqueue("wrong")
    await plain.enqueue()
    await with_options.options(unknown=1).enqueue(1)
    plain.bind(1, 2)


@app.task(quue="typo")
async def typo() -> None: ...
"""
WRONG_LINES = [7, 8, 9, 10, 13]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "typed.py").write_text(SOURCE)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def lines_of(output: str) -> list[tuple[str, int, str]]:
    found = [line.split(":", 3) for line in output.splitlines() if line.count(":") >= 3]
    return [(parts[0], int(parts[1]), parts[-1].strip()) for parts in found if parts[1].isdigit()]


@pytest.mark.slow
def test_mypy_knows_what_a_task_takes_and_gives(folder: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    run = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), "typed.py", "wrong.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = lines_of(run.stdout)
    revealed = [text.split('"')[1] for file, _, text in lines if file == "typed.py" and "Revealed" in text]
    assert [text.rsplit("tenure.task.", 1)[-1].split(".", 1)[-1] for text in revealed] == REVEALED
    assert [text for file, _, text in lines if file == "typed.py" and "error" in text] == []
    assert sorted({number for file, number, text in lines if file == "wrong.py"}) == WRONG_LINES


@pytest.mark.slow
def test_pyright_knows_what_a_task_takes_and_gives(folder: Path) -> None:
    run = subprocess.run(
        [str(Path(sys.executable).with_name("basedpyright")), "--outputjson", "--pythonpath", sys.executable, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    typed = [each for each in found if each["file"].endswith("typed.py")]
    revealed = [each["message"].split('is "')[1][:-1] for each in typed if each["severity"] == "information"]
    assert revealed == REVEALED
    assert [each for each in typed if each["severity"] == "error"] == []
    wrong = [each for each in found if each["file"].endswith("wrong.py") and each["severity"] == "error"]
    assert sorted({each["range"]["start"]["line"] + 1 for each in wrong}) == WRONG_LINES
