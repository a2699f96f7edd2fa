"""`python -m tests.kill --cycles N [--seed S]`: kills stores at work in every mode, and prints what was lost."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.kill.cycle import MODES, Totals, run_database

LIVES = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200, help="how many kills (200)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (1)")
    parser.add_argument("--mode", choices=MODES, help="only this one (all)")
    given = parser.parse_args()
    modes = (given.mode,) if given.mode else MODES
    totals = Totals()
    seed = given.seed
    while totals.cycles < given.cycles:
        for mode in modes:
            cycles = min(LIVES, given.cycles - totals.cycles)
            if cycles:
                totals.add(run_one(mode, seed, cycles))
        seed += 1
    print(totals.line())
    return 1 if totals.findings else 0


def run_one(mode: str, seed: int, cycles: int) -> Totals:
    with tempfile.TemporaryDirectory(prefix="tenure-kill-") as folder:
        totals = run_database(Path(folder), mode, seed, cycles)
    print(f"{mode} seed {seed}: {totals.line()}", flush=True)
    for finding in totals.findings[:20]:
        print(f"  {finding}", flush=True)
    return totals


if __name__ == "__main__":
    sys.exit(main())
