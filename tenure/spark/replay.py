"""Dead letters as a table: grouped, selected, started again at a rate, each once.

What is to be started again is written down first: the job, and how often it had been replayed when it was selected. A
job is started only while it is failed and that number is still the same. So a task that is tried again, or a whole run
with the same selection, passes over what was started before, also when it has failed again since. Between the look at
a job and its replay there is the time of one call; who replays the same job by hand in that moment may have it started
twice, if it also fails in it.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from tenure.client.client import Client
from tenure.core.error import InvalidRequest
from tenure.core.request import REPLAY, Change
from tenure.core.tenant import ANY_TENANT
from tenure.lake.arrow import batch_of_jobs
from tenure.lake.schema import ERROR, JOBS
from tenure.spark.loop import each_of
from tenure.spark.parts import map_numbers, plan_parts
from tenure.spark.side import Side
from tenure.spark.token import TOKEN_VARIABLE
from tenure.transfer.read import as_reader

COLUMNS: Final = ("id", "tenant", "queue", "task", "created_at", "ended_at", "attempt", "replays", "reason", "error")
DEAD: Final = pa.schema([*(JOBS.field(name) for name in COLUMNS if name != "error"), *ERROR])
SELECTION: Final = ("tenant", "id", "replays")
SELECTED_MAX: Final = 1_000_000  # that the driver holds when no folder is given for them
RATE_MAX: Final = 1_000_000
BATCH_MAX: Final = 1_000
REFUSED_MAX: Final = 1_000
REASONS: Final = pa.list_(pa.struct([("tenant", pa.string()), ("id", pa.int64()), ("why", pa.string())]))
# What a task tells when it is done.
OUTCOMES: Final = pa.schema(
    [("replayed", pa.int64()), ("passed_over", pa.int64()), ("refused", pa.int64()), ("reasons", REASONS)]
)


class Replayed(msgspec.Struct, frozen=True):
    """`passed_over` were started since they were selected, by an earlier attempt of the task too, or are not failed any
    more, or gone. `reasons` names the first that a key or a dependency does not let start."""

    selected: int
    replayed: int
    passed_over: int
    refused: int
    reasons: list[tuple[str, int, str]]


def dead_letters(
    spark: SparkSession,
    url: str,
    *,
    tenant: str = ANY_TENANT,
    queue: str = "",
    parts: int = 0,
    token_file: str = "",
    token_variable: str = TOKEN_VARIABLE,
) -> DataFrame:
    """Jobs that are failed now: one row each, without their payloads."""
    side = Side(url, token_file, token_variable)
    side.check("url")
    planned = plan_parts(*asyncio.run(_bounds(side, tenant)), parts)

    async def read(part: int) -> AsyncGenerator[pa.RecordBatch, None]:
        after, upto = planned.bounds(part)
        async with side.opened() as client:
            reader = as_reader(client, tenant)
            while after < upto:
                page = await reader.scan_page(
                    "jobs", after=after, upto=upto, queue=queue, states=("failed",), columns=COLUMNS
                )
                if page.rows:
                    yield _flat(batch_of_jobs(page, COLUMNS))
                after = max(page.next, after + 1)
                if page.next >= page.last:
                    return

    return map_numbers(spark, planned.count, read, DEAD)


async def _bounds(side: Side, tenant: str) -> tuple[int, int]:
    async with side.opened() as client:
        found = await as_reader(client, tenant).scan_bounds("jobs")
        return found.first, found.last


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The parts of the error as columns of their own; a job without one has none of them."""
    error = batch.column("error")
    columns = [
        batch.column(field.name) if field.name in COLUMNS else pa.compute.struct_field(error, field.name)
        for field in DEAD
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD)


def groups(letters: DataFrame) -> DataFrame:
    """One row for each failure that is the same: how many, since when, in which queues and tasks, and an example."""
    by_age = sf.struct("ended_at", "id")
    return (
        letters.groupBy("fingerprint", "reason")
        .agg(
            sf.count("*").alias("jobs"),
            sf.min("ended_at").alias("first_at"),
            sf.max("ended_at").alias("last_at"),
            sf.sort_array(sf.collect_set("tenant")).alias("tenants"),
            sf.sort_array(sf.collect_set("queue")).alias("queues"),
            sf.sort_array(sf.collect_set("task")).alias("tasks"),
            sf.max_by("id", by_age).alias("example"),
            sf.max_by("type", by_age).alias("type"),
            sf.max_by("message", by_age).alias("message"),
        )
        .orderBy(sf.desc("jobs"), "fingerprint", "reason")
    )


def replay(
    selected: DataFrame,
    url: str,
    *,
    rate: int,
    selection: str = "",
    tasks: int = 2,
    token_file: str = "",
    token_variable: str = TOKEN_VARIABLE,
) -> Replayed:
    """Starts the selected dead letters again, at most `rate` a second, divided among so many tasks.

    `selection` is a folder that keeps what was selected. A run that finds one there goes on with that, whatever is
    given: so the same run again starts nothing twice. Without it the selection is held here, for this run alone.
    """
    side = Side(url, token_file, token_variable)
    side.check("url")
    if not 1 <= rate <= RATE_MAX:
        raise InvalidRequest("rate", rate, f"it must be from 1 to {RATE_MAX} jobs a second")
    if not 1 <= tasks <= rate:
        raise InvalidRequest("tasks", tasks, "it must be at least 1, and not more than the rate")
    fixed = _fix(selected, selection)
    share = rate / tasks

    def start(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from each_of(_start_all(side, share, batches))

    told = fixed.repartition(tasks, "id").mapInArrow(start, from_arrow_schema(OUTCOMES)).collect()
    replayed, passed, refused = (sum(row[name] for row in told) for name in OUTCOMES.names[:3])
    reasons = [(each.tenant, each.id, each.why) for row in told for each in row.reasons][:REFUSED_MAX]
    return Replayed(replayed + passed + refused, replayed, passed, refused, reasons)


def _fix(selected: DataFrame, folder: str) -> DataFrame:
    """The selection as it is now, and stays: a table that is read from a store would be another one when a task is
    tried again."""
    spark = selected.sparkSession
    if folder:
        try:
            return spark.read.parquet(folder)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                rule = "it holds no whole selection; remove it, and select again"
                raise InvalidRequest("selection", folder, rule) from error
        selected.select(*SELECTION).dropDuplicates(["tenant", "id"]).write.parquet(folder)
        return spark.read.parquet(folder)
    rows = selected.select(*SELECTION).dropDuplicates(["tenant", "id"]).limit(SELECTED_MAX + 1).collect()
    if len(rows) > SELECTED_MAX:
        raise InvalidRequest("selection", folder, f"over {SELECTED_MAX} jobs are selected; name a folder to keep them")
    return spark.createDataFrame(rows, selected.select(*SELECTION).schema)


async def _start_all(
    side: Side, share: float, batches: Iterable[pa.RecordBatch]
) -> AsyncGenerator[pa.RecordBatch, None]:
    loop = asyncio.get_running_loop()
    size = max(1, min(int(share / 4), BATCH_MAX))  # about four times a second
    due = loop.time()
    total = Outcome()
    async with side.opened() as client:
        for batch in batches:
            rows = batch.to_pylist()
            for at in range(0, len(rows), size):
                if (wait_s := due - loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                before = total.replayed
                await _start(client, rows[at : at + size], total)
                due = max(due, loop.time() - 1.0) + (total.replayed - before) / share
    yield pa.RecordBatch.from_pylist([msgspec.to_builtins(total)], schema=OUTCOMES)


class Reason(msgspec.Struct, frozen=True):
    tenant: str
    id: int
    why: str


class Outcome(msgspec.Struct):
    replayed: int = 0
    passed_over: int = 0
    refused: int = 0
    reasons: list[Reason] = []


async def _start(client: Client, rows: list[dict[str, Any]], total: Outcome) -> None:
    tenants: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        tenants.setdefault(row["tenant"], []).append(row)
    for tenant, own in tenants.items():
        acting = client.as_tenant(tenant)
        wanted = [row["id"] for row in own if await _is_as_selected(acting, row)]
        total.passed_over += len(own) - len(wanted)
        answers = await acting.change_batch(Change(REPLAY, wanted)) if wanted else None
        for at, id in enumerate(wanted):
            error = None if answers is None else answers.item(at).error
            if error is None:
                total.replayed += 1
                continue
            total.refused += 1
            if len(total.reasons) < REFUSED_MAX:
                total.reasons.append(Reason(tenant, id, str(error)))


async def _is_as_selected(client: Client, row: dict[str, Any]) -> bool:
    id = row["id"]
    page = await client.scan_page("jobs", after=id - 1, upto=id, limit=1, columns=("state", "replays"))
    return bool(page.rows and page.columns["state"][0] == "failed" and page.columns["replays"][0] == row["replays"])
