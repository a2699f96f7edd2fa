"""`python -m tests.crash --images N [--start SEED]`: losses of power, a line per run and the totals at the end."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.crash.power import Total, campaign

IMAGES_PER_RUN = 250


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--images", type=int, default=10_000, help="how many to look at (10,000)")
    parser.add_argument("--start", type=int, default=1, help="the first run's seed (1)")
    given = parser.parse_args()
    total = Total()
    seed = given.start
    while total.images < given.images:
        found = run(seed, min(IMAGES_PER_RUN, given.images - total.images))
        print(f"seed {seed}: {found.line()}", flush=True)
        for finding in found.findings[:20]:
            print(f"  {finding}", flush=True)
        total.add(found)
        seed += 1
    print(f"total: {total.line()}, {len(total.findings)} findings", flush=True)
    return 1 if total.findings else 0


def run(seed: int, images: int) -> Total:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(campaign(seed, images, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
