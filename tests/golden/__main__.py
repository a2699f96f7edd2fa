"""`python -m tests.golden`: records anew what goes over the wire and what the simulation sees.

`git diff` shows what has changed since it was recorded. With `--quick` only what the tests compare with.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.golden.files import FILES, write
from tests.simulation.run import run

SEEDS: Final = 100
SUITES: Final = {
    "tests/conformance/test_server.py": "tcp",
    "tests/http/test_conformance.py": "http",
    "tests/grpc/test_conformance.py": "grpc",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the simulation and the behaviours")
    parser.add_argument("--jobs", default="2", help="test processes (2)")
    given = parser.parse_args()
    for name, make in FILES.items():
        note(name, asyncio.run(make()))
    if not given.quick:
        note("simulation.txt", [run(seed)[0].line() for seed in range(1, SEEDS + 1)])
        note("behaviours.txt", digests(given.jobs))
    return 0


def note(name: str, lines: list[str]) -> None:
    write(name, lines)
    print(f"{name}: {len(lines)} lines", flush=True)


def digests(jobs: str) -> list[str]:
    """A line for each behaviour: the digest of what it said through each door."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digests"
        command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "-p", "tests.golden.plugin"]
        steady = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run([*command, "--digests", str(path), *SUITES], check=True, env=steady)
        found: dict[str, dict[str, str]] = {}
        for line in path.read_text().splitlines():
            node, _, digest = line.rpartition(" ")
            suite, _, rest = node.partition("::")
            behaviour, form = named(rest)
            found.setdefault(behaviour, {})["-".join(filter(None, (SUITES[suite], form)))] = digest
    doors = sorted({door for by_door in found.values() for door in by_door})
    return [
        " ".join([behaviour, *(f"{door}={found[behaviour][door]}" for door in doors if door in found[behaviour])])
        for behaviour in sorted(found)
    ]


def named(test: str) -> tuple[str, str]:
    """The behaviour and the format of `test_behaviour[name-format]`."""
    inside = test.partition("[")[2].rstrip("]")
    name, _, form = inside.rpartition("-")
    return (name, form) if form in ("json", "msgpack") else (inside, "")


if __name__ == "__main__":
    sys.exit(main())
