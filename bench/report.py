"""How every benchmark prints: a table for people, or with --json one object a line."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable


class Report:
    def __init__(self, as_json: bool) -> None:
        self._json = as_json

    def add(self, name: str, value: float, unit: str, reference: float, ratio: float) -> None:
        """`reference` was measured in the same run, in the same unit where that makes sense; `ratio` is against it."""
        if self._json:
            row = {"name": name, "value": value, "unit": unit, "reference": reference, "ratio": round(ratio, 3)}
            print(json.dumps(row), flush=True)
        else:
            print(
                f"{name:<30} {value:>14,.2f} {unit:<10} reference {reference:>14,.2f}  ratio {ratio:>7.3f}", flush=True
            )

    def note(self, text: str) -> None:
        print(text, file=sys.stderr if self._json else sys.stdout, flush=True)


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="under 40 s: smaller backlogs, fewer rounds")
    parser.add_argument("--json", action="store_true", help="one object a line: name, value, unit, reference, ratio")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def median_of(rounds: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(rounds))


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
