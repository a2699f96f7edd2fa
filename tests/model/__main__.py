"""`python -m tests.model --examples N [--steps S] [--file]`: new random histories; a mismatch ends the run.

What is printed for a mismatch is a script: its lines, after `state = Machine()`, repeat it.
"""

import argparse
import sys
import time

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tenure.engine import engine
from tests.model.filed import FileMachine
from tests.model.test_model import Machine


class Total:
    """The histories and the steps that both sides took, over all of them."""

    histories = 0
    steps = 0

    def add(self, machine: Machine) -> None:
        self.histories += 1
        self.steps += len(machine.pair.history.steps)


TOTAL = Total()


class Counted(Machine):
    def teardown(self) -> None:
        TOTAL.add(self)
        super().teardown()


class CountedFile(FileMachine):
    def teardown(self) -> None:
        TOTAL.add(self)
        super().teardown()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--examples", type=int, default=1_000, help="how many histories (1000)")
    parser.add_argument("--steps", type=int, default=80, help="how long one may be, in calls of rules (80)")
    parser.add_argument("--no-shrink", action="store_true", help="show a mismatch as it was found")
    parser.add_argument("--file", action="store_true", help="restart through a file on a simulated disk")
    given = parser.parse_args()
    print(f"the engine is {engine.__file__}", flush=True)
    began = time.monotonic()
    run_state_machine_as_test(
        CountedFile if given.file else Counted,
        settings=settings(
            max_examples=given.examples,
            stateful_step_count=given.steps,
            deadline=None,
            database=None,
            print_blob=True,
            phases=(Phase.generate,) if given.no_shrink else (Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{TOTAL.histories} histories, {TOTAL.steps} steps agree, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
