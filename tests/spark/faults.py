"""Nodes and executors that die at work, on a cluster: nothing is lost, nothing is there twice.

`python -m tests.spark.faults --rounds 10` does it again and again, each time on a cluster of its own.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

import tenure
from tests.cli.rig import serving
from tests.spark.cluster import Cluster
from tests.spark.faults_child import KILLER, LOAD_ID, ROWS
from tests.spark.rig import ORDERS, Shop, run_child
from tests.spark.workshop import Workshop

JOBS = 60
BATCH = 10
MARKS = ("node", "executor", "mover")


class Round(msgspec.Struct):
    """What is wrong in the end; nothing, if all held."""

    findings: list[str]
    took_s: float

    def expect(self, what: str, found: object, due: object) -> None:
        if found != due:
            self.findings.append(f"{what}: {found!r}, and not {due!r}")


def run_round(folder: Path) -> Round:
    began = time.monotonic()
    found = Round([], 0.0)
    for name in ("source", "target", "cluster", "work"):
        (folder / name).mkdir()
    with (
        serving(folder / "source") as source,
        serving(folder / "target") as target,
        Cluster(folder / "cluster", 2) as it,
    ):
        shop = Workshop(source)
        ids = shop.put(*({"n": number} for number in range(JOBS)), backoff=tenure.Backoff.fixed(0))
        arguments = (it.master, source, target, shop.tenant)
        said = json.loads(run_child("tests.spark.faults_child", folder / "work", *arguments))
        found.expect("what died", [name for name in MARKS if (folder / "work" / name).exists()], list(MARKS))
        _check_work(found, shop, ids)
        _check_load(found, source, shop.tenant, said["loaded"])
        _check_move(found, target, shop.tenant, said["moved"])
    found.took_s = time.monotonic() - began
    return found


def _check_work(found: Round, shop: Workshop, ids: list[int]) -> None:
    found.expect("results", shop.results(), {id: number * 10 for number, id in enumerate(ids)})
    with shop.client() as client:
        completed = [event.job for event in client.events() if event.type == "completed"]
    found.expect("completions", sorted(completed), sorted(ids))
    attempts = [shop.get(id).attempt for id in ids]
    found.expect("attempts of the job that took its node down", attempts[KILLER], 2)
    found.expect("attempts besides", set(attempts), {1, 2})
    found.expect("jobs that were leased with it, at most", attempts.count(2) <= BATCH, True)


def _check_load(found: Round, url: str, tenant: str, report: dict[str, Any]) -> None:
    counts = {name: report[name] for name in ("rows", "new", "duplicates", "refused")}
    found.expect("the load", counts, {"rows": ROWS, "new": ROWS, "duplicates": 0, "refused": 0})
    found.expect("its jobs", Shop(url, tenant).count(), {"ready": ROWS})


def _check_move(found: Round, url: str, tenant: str, said: dict[str, Any]) -> None:
    counts = {name: said["copied"][name] for name in ("new", "duplicates", "refused")}
    found.expect("the copy", counts, {"new": JOBS + ROWS, "duplicates": 0, "refused": 0})
    found.expect("the comparison", (said["is_same"], said["rows"]), (True, JOBS + ROWS))
    payloads = [json.loads(payload)["id"] for payload in Shop(url, tenant).payloads(ORDERS["queue"])]
    found.expect("copies", sorted(payloads), list(range(ROWS)))


def main(rounds: int) -> int:
    broken = 0
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory(prefix="tenure-faults-") as folder:
            done = run_round(Path(folder))
        broken += bool(done.findings)
        print(f"round {number}: {'held' if not done.findings else 'BROKEN'}, {done.took_s:.0f} s", flush=True)
        for finding in done.findings:
            print(f"  {finding}", flush=True)
    print(f"{rounds} rounds, {3 * rounds} deaths, {broken} broken ({LOAD_ID})")
    return 1 if broken else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    raise SystemExit(main(parser.parse_args().rounds))
