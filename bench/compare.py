"""Two builds of Tenure side by side: the same benchmark in turns, and for each figure the median of the ratios.

    python -m bench.compare build/before build/compiled engine server --rounds 7

A build is a folder with the package in it, as `make compile` makes it. The machine's pace changes within a minute, so
each round runs both, the first one first in every other round, and a ratio is of the two in one round. Above 1 the
second build is better, whether that means more or less of the unit.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import msgspec

LESS_IS_BETTER = ("us", "ms", "s", "bytes/job", "MB", "times")


class Figure(msgspec.Struct):
    name: str
    value: float
    unit: str


def measure(build: Path, bench: str, arguments: list[str]) -> dict[str, Figure]:
    paths = os.pathsep.join((str(build.resolve()), str(Path.cwd())))
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "TENURE_BUILD": "compiled"}
    command = [sys.executable, "-m", f"bench.{bench}", "--json", *arguments]
    out = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout
    return {figure.name: figure for figure in (msgspec.json.decode(line, type=Figure) for line in out.splitlines())}


def ratio(before: Figure, after: Figure) -> float:
    better, worse = (before, after) if after.unit in LESS_IS_BETTER else (after, before)
    return better.value / worse.value if worse.value else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("benches", nargs="+", help="names of programs in bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--full", action="store_true", help="not the quick form of the benchmarks")
    given = parser.parse_args()
    arguments = [] if given.full else ["--quick"]
    for bench in given.benches:
        ratios: dict[str, list[float]] = {}
        for turn in range(given.rounds):
            builds = (given.before, given.after)
            found = {build: measure(build, bench, arguments) for build in (builds if turn % 2 else builds[::-1])}
            for name, figure in found[given.before].items():
                if name in found[given.after]:
                    ratios.setdefault(name, []).append(ratio(figure, found[given.after][name]))
            print(f"{bench}: round {turn + 1} of {given.rounds}", file=sys.stderr, flush=True)
        for name, several in ratios.items():
            print(f"{name:34} {median(several):6.3f}   from {min(several):.3f} to {max(several):.3f}", flush=True)


if __name__ == "__main__":
    main()
