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
from pyspark.sql import functions as sf

from tenure.spark.audit import audit, violations
from tenure.spark.audit.ledger import ALL_ENDED
from tenure.spark.audit.run import every_check
from tests.spark.histories import simulate, table_of, write
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
    planted = {check for plant in PLANTS for check, _ in plant.expected}
    assert planted | {ALL_ENDED.name} == {check.name for check in every_check()}  # that one has a test of its own


def test_job_that_never_ended_is_found_in_a_history_that_drained(spark: SparkSession, tmp_path: Path) -> None:
    """Of many histories, each for itself: what is alive in the eventful one, and nothing where every job is gone."""
    sound_one, drained_one = case_of(eventful()), Case({}, simulate(1, JOBS), [])
    tables = [table_of(sound_one.events, 1), table_of(drained_one.events, 2)]
    frame = spark.read.parquet(str(write(tables, tmp_path / "events.parquet")))
    alive = {id for id, state in sound_one.stored.items() if state not in ("completed", "failed", "cancelled")}
    assert alive
    rows = violations(frame, drained=True).collect()
    assert {(row["store"], row["check"], row["job"]) for row in rows} == {(1, "all_ended", id) for id in alive}
    assert not audit(frame, drained=True).ok
    assert audit(frame).ok


def test_histories_may_be_told_apart_by_names(spark: SparkSession, tmp_path: Path) -> None:
    """A column `store` of any type: also where numbers are missing, where limits are, and in the other tables."""
    case = deepcopy(sound())
    next(each for each in PLANTS if each.name == "queue_too_full").spoil(case)
    next(each for each in PLANTS if each.name == "notice_is_missing").spoil(case)
    jobs, names = sound().jobs, {1: "berlin", 2: "oslo"}
    tables = [table_of(sound().events, 1), table_of(case.events, 2)]
    frame = spark.read.parquet(str(write(tables, tmp_path / "events.parquet")))
    named = frame.withColumn("store", sf.when(frame["store"] == 1, names[1]).otherwise(names[2]))
    there = spark.createDataFrame([(name, id, state) for name in names.values() for id, state in case.stored.items()])
    rows = violations(named, jobs=there.toDF("store", "id", "state")).collect()
    assert {(row["store"], row["check"], row["job"]) for row in rows} == {
        ("oslo", "queue_concurrency", jobs["narrow-2"]),
        ("oslo", "queue_concurrency", jobs["narrow-3"]),
        ("oslo", "seq_dense", jobs["simple"]),
    }


def test_history_without_its_beginning_has_no_violation(found: dict[int, Found]) -> None:
    cut = {store: each for store, each in found.items() if CUTS <= store < CRASHED}
    assert len(cut) > 20
    assert {store: each for store, each in cut.items() if each} == {}


def test_numbers_that_crashes_skipped_are_no_violation(found: dict[int, Found]) -> None:
    assert found[CRASHED] == set()


def test_random_histories_have_no_violation(found: dict[int, Found]) -> None:
    assert {store: each for store, each in found.items() if store >= RANDOM and each} == {}
