"""Gold: from events to the figures that people look at. Plain functions from DataFrame to DataFrame.

Each is a function of its rows alone, so that the tables of an hour follow from the events of that hour, and may be made
again at any time. Counts and sums add up; waits and runs are kept as sketches, which merge; rates and quantiles are
worked out from these last, at every level.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from tenure.lake.gold import CAPACITY, COUNTS, ERRORS, HOUR_S, METRICS, MOST, SKETCHES, SUMS, TOTALS, USAGE, WORKERS
from tenure.spark.sketch import merged, quantiles, sketch

MINUTE_S: Final = 60
DAY_S: Final = 86_400
KEY: Final = ("tenant", "queue", "task")
# Becoming ready is an arrival; the other events of a ready job (updated, progress) are none.
ARRIVALS: Final = ("enqueued", "ready", "retrying", "released", "replayed")
BAD: Final = ("retrying", "failed")
FOREVER: Final = "9999-12-31 00:00:00"


def begin(unit_s: int, at: str = "at") -> Column:
    """The beginning of the minute, hour or day, in UTC whatever the zone of the session."""
    return sf.timestamp_seconds(sf.floor(sf.unix_seconds(sf.col(at)) / unit_s) * unit_s)


# Promises.


def limits(events: DataFrame) -> DataFrame:
    """What queues promised, one row for each change of a queue's settings (schema LIMITS)."""
    # Changes of a limit key or a tenant have no queue.
    of_queues = events.where((sf.col("type") == "limits_changed") & sf.col("queue").isNotNull())
    promised = sf.get_json_object("detail", "$.slo_wait_ms").cast("bigint").alias("slo_wait_ms")
    return of_queues.select("seq", "at", "tenant", "queue", promised)


def with_slo(events: DataFrame, changes: DataFrame | None = None, default_ms: int | None = None) -> DataFrame:
    """Events with what their queue promised at that time, in `slo_wait_ms`."""
    fallback = sf.lit(default_ms).cast("bigint")
    if changes is None:
        return events.withColumn("slo_wait_ms", fallback)
    following = sf.lead("at").over(Window.partitionBy("tenant", "queue").orderBy("seq"))
    spans = changes.select(
        sf.col("tenant").alias("_tenant"),
        sf.col("queue").alias("_queue"),
        sf.col("slo_wait_ms").alias("_slo"),
        sf.col("at").alias("_from"),
        sf.coalesce(following, sf.lit(FOREVER).cast("timestamp")).alias("_until"),
    )
    spans = spans.where(sf.col("_slo").isNotNull() & (sf.col("_from") < sf.col("_until")))
    same = (sf.col("tenant") == sf.col("_tenant")) & (sf.col("queue") == sf.col("_queue"))
    during = (sf.col("at") >= sf.col("_from")) & (sf.col("at") < sf.col("_until"))
    joined = events.join(sf.broadcast(spans), same & during, "left")
    joined = joined.withColumn("slo_wait_ms", sf.coalesce(sf.col("_slo"), fallback))
    return joined.drop("_tenant", "_queue", "_slo", "_from", "_until")


# Metrics by minute, hour and day.


def minutes(events: DataFrame) -> DataFrame:
    """By minute, tenant, queue, task (schema METRICS). Waits count where they end, at the start; runs where they end.

    One pass: every column is an aggregate with a condition, nothing is exploded or joined.
    """
    kind, wait, run = sf.col("type"), sf.col("wait_ms"), sf.col("run_ms")
    waited = sf.when(kind == "started", wait)
    slo = sf.col("slo_wait_ms") if "slo_wait_ms" in events.columns else sf.lit(None).cast("bigint")
    counted = {
        "events": sf.count("*"),
        "enqueued": sf.count_if(kind == "enqueued"),
        "arrived": sf.count_if((sf.col("state") == "ready") & kind.isin(*ARRIVALS)),
        "started": sf.count_if(kind == "started"),
        "completed": sf.count_if(kind == "completed"),
        "failed": sf.count_if(kind == "failed"),
        "retried": sf.count_if(kind == "retrying"),
        "cancelled": sf.count_if(kind == "cancelled"),
        "released": sf.count_if(kind == "released"),
        "replayed": sf.count_if(kind == "replayed"),
        "attempts": sf.count(run),
        "attempts_failed": sf.count_if(run.isNotNull() & kind.isin(*BAD)),
        "breaches": sf.count_if(waited > slo),
        "wait_ms_sum": sf.sum(waited),
        "run_ms_sum": sf.sum(run),
        "payload_bytes": sf.sum("payload_bytes"),
        "result_bytes": sf.sum("result_bytes"),
        "wait_ms_max": sf.max(waited),
        "run_ms_max": sf.max(run),
        "slo_wait_ms": sf.max(slo),
        "wait_sketch": sketch(waited),
        "run_sketch": sketch(run),
    }
    of_jobs = events.where(sf.col("job").isNotNull())
    grouped = of_jobs.groupBy(begin(MINUTE_S).alias("at"), *KEY)
    return _finish(grouped.agg(*(column.alias(name) for name, column in counted.items())), METRICS.names)


def roll_up(metrics: DataFrame, unit_s: int) -> DataFrame:
    """Metrics of a longer unit from those of a shorter one (schema METRICS)."""
    return _finish(metrics.groupBy(begin(unit_s).alias("at"), *KEY).agg(*_added()), METRICS.names)


def totals(metrics: DataFrame) -> DataFrame:
    """All tasks together: by tenant and queue, by tenant, by queue, and of all (schema TOTALS). Null stands for all."""
    sets = [["at", "tenant", "queue"], ["at", "tenant"], ["at", "queue"], ["at"]]
    keys = [sf.col(name) for name in ("at", "tenant", "queue")]
    grouped = metrics.groupingSets([[sf.col(name) for name in each] for each in sets], *keys)
    return _finish(grouped.agg(*_added()), TOTALS.names)


def _added() -> list[Column]:
    return [
        *(sf.sum(name).alias(name) for name in (*COUNTS, *SUMS)),
        *(sf.max(name).alias(name) for name in MOST),
        *(merged(name).alias(name) for name in SKETCHES),
    ]


def _finish(counted: DataFrame, names: Sequence[str]) -> DataFrame:
    """With rates and quantiles, in the order of the schema."""
    ended = sf.when(sf.col("attempts") > 0, sf.col("attempts"))
    rates = [
        (sf.col("attempts_failed") / ended).alias("failure_rate"),
        (sf.col("retried") / ended).alias("retry_rate"),
    ]
    return counted.select("*", *rates, *quantiles("wait"), *quantiles("run")).select(*names)


# What follows from metrics.


def usage(days: DataFrame) -> DataFrame:
    """What each tenant used, by day (schema USAGE)."""
    sums = {
        "jobs": sf.sum("enqueued"),
        **{name: sf.sum(name) for name in ("completed", "failed", "attempts")},
        "compute_s": sf.sum("run_ms_sum") / 1000.0,
        **{name: sf.sum(name) for name in ("payload_bytes", "result_bytes")},
    }
    found = days.groupBy(begin(DAY_S).alias("at"), "tenant").agg(*(sums[name].alias(name) for name in USAGE.names[2:]))
    return found.fillna(0, ["compute_s", "payload_bytes", "result_bytes"]).select(*USAGE.names)


def capacity(minute_totals: DataFrame) -> DataFrame:
    """How many slots each queue needs, by hour (schema CAPACITY).

    Little's law: what runs at once is what arrives in a second times how long it runs. Fewer slots, and the line grows.
    """
    of_queues = minute_totals.where(sf.col("queue").isNotNull())
    found = of_queues.groupBy(begin(HOUR_S).alias("at"), "tenant", "queue").agg(
        sf.sum("arrived").alias("arrived"),
        sf.sum("attempts").alias("attempts"),
        sf.max("arrived").alias("_busiest"),
        sf.coalesce(sf.sum("run_ms_sum"), sf.lit(0)).alias("_run_ms"),
    )
    mean_run_ms = sf.when(sf.col("attempts") > 0, sf.col("_run_ms") / sf.col("attempts"))
    found = found.withColumn("mean_run_ms", mean_run_ms).withColumn("arrival_per_s", sf.col("arrived") / HOUR_S)
    found = found.withColumn("needed", sf.col("arrival_per_s") * sf.col("mean_run_ms") / 1000)
    found = found.withColumn("needed_peak", sf.col("_busiest") / MINUTE_S * sf.col("mean_run_ms") / 1000)
    return found.withColumn("used", sf.col("_run_ms") / (HOUR_S * 1000)).select(*CAPACITY.names)


# Failures.


def errors(events: DataFrame) -> DataFrame:
    """The different failures of each hour, by tenant, queue, task (schema ERRORS)."""
    kind, order = sf.col("type"), sf.col("seq")
    found = events.where(kind.isin(*BAD) & sf.col("fingerprint").isNotNull())
    told = {
        "error_type": sf.max_by("error_type", order),
        "message": sf.max_by("message", order),
        "count": sf.count("*"),
        "dead": sf.count_if(kind == "failed"),
        "retried": sf.count_if(kind == "retrying"),
        "first_at": sf.min("at"),
        "last_at": sf.max("at"),
        "example_job": sf.max_by("job", order),
    }
    grouped = found.groupBy(begin(HOUR_S).alias("hour"), *KEY, "fingerprint")
    told_of = grouped.agg(*(column.alias(name) for name, column in told.items()))
    return told_of.withColumnRenamed("hour", "at").select(*ERRORS.names)


def fingerprints(errors: DataFrame) -> DataFrame:
    """Each different failure once for each queue and task, over all the hours given; most frequent first."""
    last = sf.col("last_at")
    merged_errors = {
        **{name: sf.max_by(name, last) for name in ("error_type", "message")},
        **{name: sf.sum(name) for name in ("count", "dead", "retried")},
        "first_at": sf.min("first_at"),
        "last_at": sf.max("last_at"),
        "example_job": sf.max_by("example_job", last),
    }
    found = errors.groupBy(*KEY, "fingerprint").agg(*(column.alias(name) for name, column in merged_errors.items()))
    return found.orderBy(sf.desc("count"), "fingerprint", *KEY)


# Workers.


def workers(attempts: DataFrame) -> DataFrame:
    """What each worker did, by the hour in which its attempts ended (schema WORKERS)."""
    ran = attempts.where(sf.col("worker").isNotNull()).withColumn("hour", begin(HOUR_S, "ended_at"))
    keys = ("hour", "tenant", "worker")
    done = ran.groupBy(*keys).agg(
        sf.count("*").alias("attempts"),
        sf.count_if(sf.col("outcome").isin(*BAD)).alias("attempts_failed"),
        sf.sum("run_ms").alias("run_ms_sum"),
        sf.min("started_at").alias("first_at"),
        sf.max("ended_at").alias("last_at"),
    )
    found = done.join(_slots(ran, keys), [*keys], "left").withColumnRenamed("hour", "at")
    return found.withColumn("busy", sf.col("run_ms_sum") / (HOUR_S * 1000)).select(*WORKERS.names)


def _slots(ran: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The most attempts at once: a start adds one, an end takes one away, ends first where both are at one instant."""
    begun = ran.select(*keys, sf.col("started_at").alias("_at"), sf.lit(1).alias("_step"))
    ended = ran.select(*keys, sf.col("ended_at").alias("_at"), sf.lit(-1).alias("_step"))
    so_far = sf.sum("_step").over(
        Window.partitionBy(*keys).orderBy("_at", "_step").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at_once = begun.unionAll(ended).select(*keys, so_far.alias("_slots"))
    return at_once.groupBy(*keys).agg(sf.greatest(sf.max("_slots"), sf.lit(1)).cast("bigint").alias("slots"))
