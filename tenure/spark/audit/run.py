"""One audit: the checks that can be made, all of them in one query, and the verdict."""

import time
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from tenure.core.error import InvalidRequest
from tenure.lake.schema import EVENTS
from tenure.spark.audit import dependency, group, ledger, limit, path, sequence
from tenure.spark.audit.check import Check, Family
from tenure.spark.audit.history import RULES, History, find_broken, read_history
from tenure.spark.audit.step import with_store
from tenure.spark.audit.verdict import EXAMPLES_MAX, Checked, Example, Verdict

NEEDED: Final = (
    "seq",
    "job_seq",
    "at",
    "type",
    "tenant",
    "queue",
    "task",
    "job",
    "state",
    "attempt",
    "delivery",
    "worker",
    "cause",
    "run_at",
    "expires_at",
    "max_attempts",
    "group",
    "limit_keys",
    "depends_on",
    "unique_hash",
    "enqueued_at",
    "ready_at",
    "started_at",
    "wait_ms",
    "run_ms",
    "reason",
    "error_type",
    "message",
    "fingerprint",
    "detail",
)


STEPS: Final = Family((*[rule.check for rule in RULES], path.ONE_ID), find_broken)
EVERY: Final = (
    STEPS,
    limit.FAMILY,
    group.FAMILY,
    dependency.FAMILY,
    sequence.FAMILY,
    ledger.LEFT,
    ledger.LEDGER,
    ledger.STORE,
)


def every_check() -> list[Check]:
    """All there are, by invariant."""
    return _sorted([check for family in EVERY for check in family.checks])


def violations(
    events: DataFrame,
    *,
    ledger: DataFrame | None = None,
    jobs: DataFrame | None = None,
    dense: bool = True,
    whole: bool | None = None,
    drained: bool = False,
) -> DataFrame:
    """Every violation as a row: store, check, job, job_seq, seq, what. The arguments are those of `audit`.

    With a column `store` in all tables, many histories are audited at once. What Spark holds for it stays until
    `spark.catalog.clearCache()`; `audit` lets it go by itself.
    """
    return _find(_read(events, ledger, jobs, dense, whole, drained))


def audit(
    events: DataFrame,
    *,
    ledger: DataFrame | None = None,
    jobs: DataFrame | None = None,
    dense: bool = True,
    whole: bool | None = None,
    drained: bool = False,
) -> Verdict:
    """Look for everything that the events can show. `ledger` has the ids that were answered as accepted (`job`), `jobs`
    is the store's table of that name, read when it was at rest.

    `dense` says that the events are all of an owned store's, so that a missing seq is missed; events of one tenant are
    not. `whole` says that no older ones were dropped; if it is left out, that is so when they begin with seq 1.
    `drained` says that all was worked off when the events were read, so that a job that has not ended was left behind.
    """
    began = time.monotonic()
    history = _read(events, ledger, jobs, dense, whole, drained)
    try:
        return _judge(history, began)
    finally:
        history.close()


def _read(
    events: DataFrame,
    ledger: DataFrame | None,
    jobs: DataFrame | None,
    dense: bool,
    whole: bool | None,
    drained: bool,
) -> History:
    missing = [name for name in NEEDED if name not in events.columns]
    if missing:
        rule = f"it must be the table events, with the columns {', '.join(EVENTS.names)}; missing: {', '.join(missing)}"
        raise InvalidRequest("events", len(events.columns), rule)
    kept = [name for name in (*NEEDED, "store") if name in events.columns]
    for name, table in (("ledger", ledger), ("jobs", jobs)):
        if table is not None and ("store" in table.columns) != ("store" in events.columns):
            raise InvalidRequest(name, table.columns, "a column store must be in all tables or in none")
    ledger = None if ledger is None else with_store(ledger)
    jobs = None if jobs is None else with_store(jobs)
    return read_history(events.select(*kept), ledger, jobs, dense, whole, drained)


def _families(history: History) -> list[Family]:
    found = [STEPS, limit.FAMILY, group.FAMILY, dependency.FAMILY]
    if history.numbers.suspects or history.numbers.gaps:
        found.append(sequence.FAMILY)
    if history.is_drained:
        found.append(ledger.LEFT)
    if history.ledger is not None:
        found.append(ledger.LEDGER)
    if history.jobs is not None:
        found.append(ledger.STORE)
    return found


def _checks(history: History) -> list[Check]:
    """Those that were made."""
    made = [check for family in {*_families(history), sequence.FAMILY} for check in family.checks]
    return _sorted([check for check in made if history.is_dense or check is not sequence.SEQ_DENSE])


def _find(history: History) -> DataFrame:
    return reduce(DataFrame.unionByName, [family.violations(history) for family in _families(history)])


def _sorted(checks: list[Check]) -> list[Check]:
    return sorted(checks, key=lambda check: (int(check.invariant[1:]), check.name))


def _judge(history: History, began: float) -> Verdict:
    by_check = Window.partitionBy("check")
    first = by_check.orderBy(fn.col("seq").asc_nulls_last(), "job")
    counted = _find(history).select(
        "*", fn.count(fn.lit(1)).over(by_check).alias("violations"), fn.row_number().over(first).alias("place")
    )
    rows = counted.where(fn.col("place") <= EXAMPLES_MAX).orderBy("check", "place").collect()
    told = _tell(history, rows)
    checks: list[Checked] = []
    for check in _checks(history):
        own = [(row, example) for row, example in zip(rows, told, strict=True) if row["check"] == check.name]
        number = own[0][0]["violations"] if own else 0
        examples = tuple(example for _, example in own)
        checks.append(Checked(check.invariant, check.name, check.sentence, number, examples))
    numbers = history.numbers
    return Verdict(
        ok=not rows and numbers.events > 0,  # an audit of nothing proves nothing
        events=numbers.events,
        jobs=history.count_jobs(),
        first_seq=min(numbers.first.values(), default=0),
        last_seq=max(numbers.last.values(), default=0),
        is_whole=len(history.whole) == len(numbers.first),
        skipped=sum(gap.missing for gap in numbers.skipped) if history.is_dense else 0,
        crashes=len(numbers.skipped) if history.is_dense else 0,
        took_ms=int((time.monotonic() - began) * 1000),
        checks=tuple(checks),
    )


def _tell(history: History, rows: list[Row]) -> list[Example]:
    """The violations with what their events say, read once more for these few."""
    seqs = sorted({row["seq"] for row in rows if row["seq"] is not None})
    said: dict[tuple[int, int], Row] = {}
    if seqs:
        names = ("store", "seq", "job", "tenant", "queue", "task", "type", "worker")
        events = history.events.where(fn.col("seq").isin(seqs)).select(*names, fn.unix_millis("at").alias("at"))
        said = {(row["store"], row["seq"]): row for row in events.collect()}
    found: list[Example] = []
    for row in rows:
        event = said.get((row["store"], row["seq"]))
        words = (
            {} if event is None else {name: event[name] or "" for name in ("tenant", "queue", "task", "type", "worker")}
        )
        at_ms = 0 if event is None else event["at"]
        found.append(Example(row["what"], row["job"] or 0, row["job_seq"] or 0, row["seq"] or 0, at_ms, **words))
    return found
