"""`python -m tests.damage --cases N [--start SEED]`: harm files in so many ways, a line per kind of file."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.damage.campaign import Patient, Tally, closed_patient, harm, harm_head, killed_patient


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000, help="how many of each kind (2,000)")
    parser.add_argument("--start", type=int, default=1, help="the seed (1)")
    given = parser.parse_args()
    failed = 0
    for what, tally in campaign(given.cases, given.start):
        print(f"{what}: {tally.line()}", flush=True)
        for finding in tally.findings[:20]:
            print(f"  {finding}", flush=True)
        failed += len(tally.findings)
    return 1 if failed else 0


def campaign(cases: int, seed: int) -> list[tuple[str, Tally]]:
    found: list[tuple[str, Tally]] = []
    with tempfile.TemporaryDirectory() as folder:
        closed = asyncio.run(closed_patient(Path(folder, "jobs.db")))
        found.append(("a closed file", harm(closed, "jobs.db", cases, seed)))
        found.append(("its head, every bit", harm_head(closed, range(8))))
    for backfilled in (False, True):
        for marked in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found += both_files(
                    asyncio.run(killed_patient(Path(folder, "jobs.db"), backfilled, marked)), cases, seed
                )
    return found


def both_files(patient: Patient, cases: int, seed: int) -> list[tuple[str, Tally]]:
    kind = "with a mark" if "jobs.db-mark" in patient.files else "without a mark"
    size = len(patient.files["jobs.db"])
    return [
        (f"{name} of a killed store of {size} bytes {kind}", harm(patient, name, cases, seed))
        for name in ("jobs.db", "jobs.db-wal")
    ]


if __name__ == "__main__":
    sys.exit(main())
