"""The audit finds what was planted, exactly that, and nothing in what is sound.

All histories, sound and spoiled, are looked at by one query: `store` tells them apart.
"""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tenure.spark.audit import violations
from tenure.spark.audit.run import every_check
from tests.spark.histories import simulate, table_of
from tests.spark.plants import PLANTS, Case, Found, case_of
from tests.spark.scenario import eventful

pytestmark = pytest.mark.spark

SOUND: Final = 0
CUTS: Final = 1_000  # from here on: the sound history without its beginning
CRASHED: Final = 2_000
RANDOM: Final = 3_000
SEEDS: Final = 40
JOBS: Final = 40


@cache
def sound() -> Case:
    return case_of(eventful())


def cases() -> dict[int, Case]:
    found = {SOUND: sound()}
    for number, each in enumerate(PLANTS, 1):
        found[number] = deepcopy(sound())
        each.spoil(found[number])
    for at in range(1, len(sound().events), 7):
        found[CUTS + at] = Case({}, sound().events[at:], [], sound().stored)
    found[CRASHED] = deepcopy(sound())
    for at in range(100, len(sound().events)):
        event = sound().events[at]
        found[CRASHED].put(at, seq=event.seq + (7_000_000 if at < 150 else 15_000_000))
    for seed in range(SEEDS):
        found[RANDOM + seed] = Case({}, simulate(seed + 1, JOBS), [])  # at its end every job is gone
    return found


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Found]:
    """What the audit says of every history, by its number."""
    folder: Path = tmp_path_factory.mktemp("audit")
    made = cases()
    events = pa.concat_tables(table_of(case.events, store) for store, case in made.items())
    told = [(store, id) for store, case in made.items() for id in case.ledger]
    there = [(store, id, state) for store, case in made.items() for id, state in case.stored.items()]
    pq.write_table(events, folder / "events.parquet")
    ledger = spark.createDataFrame(pa.table({"store": [row[0] for row in told], "job": [row[1] for row in told]}))
    jobs = spark.createDataFrame(
        pa.table({name: [row[at] for row in there] for at, name in enumerate(("store", "id", "state"))})
    )
    frame = spark.read.parquet(str(folder / "events.parquet"))
    results: dict[int, Found] = {store: set() for store in made}
    for row in violations(frame, ledger=ledger, jobs=jobs).collect():
        results[row["store"]].add((row["check"], row["job"] or 0))
    return results


def test_sound_history_has_no_violation(found: dict[int, Found]) -> None:
    assert found[SOUND] == set()


@pytest.mark.parametrize("number", range(1, len(PLANTS) + 1), ids=lambda number: PLANTS[number - 1].name)
def test_planted_violation_is_found(number: int, found: dict[int, Found]) -> None:
    assert found[number] == PLANTS[number - 1].found(sound().jobs)


def test_every_check_has_a_planted_violation() -> None:
    assert {check for plant in PLANTS for check, _ in plant.expected} == {check.name for check in every_check()}


def test_history_without_its_beginning_has_no_violation(found: dict[int, Found]) -> None:
    cut = {store: each for store, each in found.items() if CUTS <= store < CRASHED}
    assert len(cut) > 20
    assert {store: each for store, each in cut.items() if each} == {}


def test_numbers_that_crashes_skipped_are_no_violation(found: dict[int, Found]) -> None:
    assert found[CRASHED] == set()


def test_random_histories_have_no_violation(found: dict[int, Found]) -> None:
    assert {store: each for store, each in found.items() if store >= RANDOM and each} == {}
