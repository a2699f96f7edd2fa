"""`python -m tests.simulation --seeds N [--start S] [--disk]`: one line per seed; the first finding ends the run."""

import argparse
import sys

from tests.simulation.disk import run_on_disk
from tests.simulation.run import Failed, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many to run (100)")
    parser.add_argument("--start", type=int, default=1, help="the first one (1)")
    parser.add_argument("--keep-going", action="store_true", help="run all of them, whatever they find")
    parser.add_argument("--disk", action="store_true", help="on a store with a disk that fails and loses power")
    given = parser.parse_args()
    failed = 0
    for seed in range(given.start, given.start + given.seeds):
        try:
            result = on_disk(seed) if given.disk else run(seed)[0].line()
        except Failed as failure:
            failed += 1
            tell(failure, " --disk" if given.disk else "")
            if not given.keep_going:
                break
        else:
            print(result, flush=True)
    return 1 if failed else 0


def on_disk(seed: int) -> str:
    result, world = run_on_disk(seed)
    return f"{result.line()}, {world.crashes} crashes, {world.refused} refused, {world.lost} unanswered and lost"


def tell(failure: Failed, where: str = "") -> None:
    print(f"seed {failure.seed} FAILED at step {failure.step}, {failure.world.trace.digest()}:", flush=True)
    for finding in failure.findings[:20]:
        print(f"  {finding}")
    print(f"repeat it: python -m tests.simulation --seeds 1 --start {failure.seed}{where}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
