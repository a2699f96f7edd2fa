"""`tenure.spark.process`: a queue worked off by the tasks of one Spark job, each a worker."""

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from tenure.core import bound
from tenure.core.duration import Duration, milliseconds
from tenure.core.error import InvalidRequest, Unavailable
from tenure.core.tenant import DEFAULT_TENANT
from tenure.spark.address import Address, check_address
from tenure.spark.handler import read_handler
from tenure.spark.partition import BOUND, DONE, UNTIL, Part, Work, run_partition
from tenure.spark.token import TOKEN_VARIABLE
from tenure.task.codec import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARALLELISM_MAX: Final = 10_000
WORKER_CHARS_MAX: Final = 200  # with the number of the task it has to stay below the bound of a worker's name
PARTS: Final = pa.schema([(name, pa.string() if name == "worker" else pa.int64()) for name in Part.__struct_fields__])
PARTS_OF_SPARK: Final = ", ".join(
    f"{name} {'string' if name == 'worker' else 'long'}" for name in Part.__struct_fields__
)


class Report(msgspec.Struct, frozen=True):
    """What the tasks did that came to their end. A task that Spark had to try again counts from there: what was settled
    before it died is settled, and is not in these numbers. The queue's own counts have everything."""

    claimed: int
    completed: int
    failed: int
    snoozed: int
    cancelled: int
    released: int
    lost: int
    parts: tuple[Part, ...]


def process(
    queue: str | Sequence[str],
    handler: Any,
    *,
    url: str,
    spark: "SparkSession | None" = None,
    tenant: str = DEFAULT_TENANT,
    token_file: str = "",
    token_variable: str = TOKEN_VARIABLE,
    tasks: Sequence[str] = (),
    form: str = "",
    schema: pa.Schema | None = None,
    codecs: Sequence[Codec] = (),
    parallelism: int | None = None,
    batch: int = 1_000,
    lease: Duration = "60s",
    until: str = DONE,
    jobs: int | None = None,
    duration: Duration | None = None,
    stop: Duration = "30s",
    worker: str = "spark",
) -> Report:
    """Work off a queue on Spark's executors, and come back when it is done (docs/executors.md).

    The handler is a task of an app, or a function of one payload (`rows`), of a list of them (`list`), of a pandas or
    Arrow table (`pandas`, `arrow`), or of the columns that its parameters name (`series`, `arrays`, and pandas UDFs).
    Its first annotation says which, or `form` does. Results go into the store with the lease's token.

    `until` "done" means that no job of the queue is ready, running or to be tried again; "empty" that none could be
    claimed just now; "bound" goes on to `jobs` or `duration`, which bound the others, too. What runs when `duration`
    is over may go on for `stop`, and is given back then.
    """
    work = read_work(
        queue,
        handler,
        Address(url, tenant, token_file, token_variable),
        tasks=tasks,
        form=form,
        schema=schema,
        codecs=codecs,
        batch=batch,
        lease=lease,
        until=until,
        duration=duration,
        stop=stop,
        worker=worker,
    )
    session = spark or active_session()
    count = parallelism_of(session) if parallelism is None else parallelism
    check_whole("parallelism", count, PARALLELISM_MAX)
    if jobs is not None:
        check_whole("jobs", jobs, 2**62)
        count = min(count, jobs)
    if until == BOUND and jobs is None and duration is None:
        raise InvalidRequest("until", until, "say jobs= or duration=, or it would go on for ever")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in batches:
            for partition in part.column(0).to_pylist():
                yield row_of(run_partition(share(work, partition, count, jobs), partition, tried()))

    rows = session.range(0, count, 1, count).mapInArrow(run, PARTS_OF_SPARK).collect()
    return report_of([Part(**row.asDict()) for row in rows])


def read_work(
    queue: str | Sequence[str],
    handler: Any,
    address: Address,
    *,
    tasks: Sequence[str] = (),
    form: str = "",
    schema: pa.Schema | None = None,
    codecs: Sequence[Codec] = (),
    batch: int = 1_000,
    lease: Duration = "60s",
    until: str = DONE,
    duration: Duration | None = None,
    stop: Duration = "30s",
    worker: str = "spark",
) -> Work:
    """What was asked for, checked here: a wrong value is not for a task to find, four times over."""
    check_address(address)
    if until not in UNTIL:
        raise InvalidRequest("until", until, "it must be one of " + ", ".join(UNTIL))
    if not worker or len(worker) > WORKER_CHARS_MAX:
        raise InvalidRequest("worker", worker, f"it must have 1 to {WORKER_CHARS_MAX} characters")
    check_whole("batch", batch, bound.CLAIM_JOBS_MAX)
    queues = (queue,) if isinstance(queue, str) else tuple(queue)
    lease_ms = milliseconds("lease", lease)
    asked = tuple(tasks) if not isinstance(tasks, str) else (tasks,)
    bound.make_claim(queues, batch, 0, worker, asked or None, lease_ms=lease_ms)
    return Work(
        address,
        queues,
        read_handler(handler, form, schema, codecs),
        asked,
        batch,
        lease_ms,
        until,
        deadline=0.0 if duration is None else time.time() + milliseconds("duration", duration) / 1_000,
        stop_s=milliseconds("stop", stop) / 1_000,
        worker=f"{worker}-{secrets.token_hex(2)}",
    )


def share(work: Work, partition: int, parts: int, jobs: int | None) -> Work:
    """What one task may take of the jobs that all of them may."""
    if jobs is None:
        return work
    return msgspec.structs.replace(work, jobs=jobs // parts + (1 if partition < jobs % parts else 0))


def check_whole(field: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidRequest(field, value, f"it must be a whole number from 1 to {most}")


def active_session() -> "SparkSession":
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:
        raise Unavailable("there is no active Spark session; give one as spark=")
    return found


def parallelism_of(session: "SparkSession") -> int:
    """How many tasks run at once, as far as Spark says."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    try:
        return max(int(session.sparkContext.defaultParallelism), 1)
    except PySparkException:  # Spark Connect does not say; into how many parts a range falls, it does
        counted = session.range(PARALLELISM_MAX).select(functions.spark_partition_id()).distinct().count()
        return max(int(counted), 1)


def tried() -> int:
    """How often Spark has tried this task before."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def row_of(part: Part) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([msgspec.structs.asdict(part)], schema=PARTS)


def report_of(parts: Sequence[Part]) -> Report:
    sums = {name: sum(getattr(part, name) for part in parts) for name in Report.__struct_fields__ if name != "parts"}
    return Report(**sums, parts=tuple(sorted(parts, key=lambda part: part.partition)))
