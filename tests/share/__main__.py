"""`python -m tests.share --cycles N [--seed S]`: kills and stops owners of shared files, and prints what was lost."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.share.family import Family, Totals

MODES = ("fsync", "write")
CYCLES_PER_FILE = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.share", description=__doc__)
    parser.add_argument("--cycles", type=int, default=100, help="how many kills and stops (100)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (1)")
    given = parser.parse_args()
    total = Totals()
    seed = given.seed
    done = 0
    while done < given.cycles:
        cycles = min(CYCLES_PER_FILE, given.cycles - done)
        with tempfile.TemporaryDirectory(prefix="tenure-share-") as folder:
            found = Family(Path(folder), MODES[seed % 2], seed).run(cycles)
        print(f"{MODES[seed % 2]} seed {seed}: {found.line()}", *found.findings[:20], sep="\n  ", flush=True)
        total.add(found)
        done += cycles
        seed += 1
    print(total.line())
    return 1 if total.findings else 0


if __name__ == "__main__":
    sys.exit(main())
