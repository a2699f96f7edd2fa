"""Limits: how many run at once, how fast they start, and what only one job may hold.

A start takes a slot of every limit that holds for its job, and the end of the attempt gives it back. Slots that a
cancelled or timed out attempt keeps until its worker confirms cannot be seen in events; they only make a store
stricter, so what is counted here is the least that was taken, and no finding is made up.

Two sorts: by where the limit is set, to know what was in force when a job started; then by what is counted.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.check import Check, Family, told
from tenure.spark.audit.code import is_state, is_type
from tenure.spark.audit.history import History
from tenure.spark.audit.setting import KEY, QUEUE, TENANT

GROUP: Final = "group"
UNIQUE: Final = "unique"

QUEUE_SLOTS: Final = Check("I7", "queue_concurrency", "No more jobs of a queue run than its concurrency.")
TENANT_SLOTS: Final = Check("I7", "tenant_running_max", "No more jobs of a tenant run than its running_max.")
KEY_SLOTS: Final = Check("I7", "key_concurrency", "No more jobs with a limit key run than the key allows.")
PAUSED: Final = Check("I7", "paused_queue", "No job starts while its queue is paused.")
QUEUE_RATE: Final = Check("I8", "queue_rate", "In any window a queue starts at most rate x window + burst jobs.")
TENANT_RATE: Final = Check("I8", "tenant_rate", "In any window a tenant starts at most rate x window + burst jobs.")
KEY_RATE: Final = Check("I8", "key_rate", "In any window a limit key lets at most rate x window + burst jobs start.")
GROUP_SLOTS: Final = Check("I9", "group_concurrency", "No more jobs of a group run than group_concurrency.")
UNIQUE_KEY: Final = Check("I10", "unique_key", "Of the jobs with one unique key at most one is live.")

SLOTS: Final = {QUEUE: QUEUE_SLOTS, TENANT: TENANT_SLOTS, KEY: KEY_SLOTS, GROUP: GROUP_SLOTS, UNIQUE: UNIQUE_KEY}
RATES: Final = {QUEUE: QUEUE_RATE, TENANT: TENANT_RATE, KEY: KEY_RATE}

WIDE: Final = "decimal(18,0)"  # a product of two of them stays within the 38 digits that are exact
_MOVE: Final = ("store", "job", "job_seq", "seq", "at", "tenant")
_FORCE: Final = ("running_max", "tokens", "period_ms", "burst", "since", "width", "paused", "shared")


def find(history: History) -> DataFrame:
    return _judge(_with_limits(history, _asks(history)))


# Who asks for what.


def _asks(history: History) -> DataFrame:
    """A row for every slot that is taken or given back: of which limit, and since when it is held."""
    since = fn.when(fn.col("is_start"), fn.col("seq")).otherwise(fn.col("start.seq"))
    is_move = fn.col("is_start") | fn.col("is_leave")
    queue, tenant, group, unique = (fn.col(f"first.{name}") for name in ("queue", "tenant", "group", "unique"))
    takes = is_type(event.ENQUEUED, event.REPLAYED) & is_state("state", *state.LIVE)
    frees = is_state("state_before", *state.LIVE) & is_state("state", *state.TERMINAL, state.GONE)
    asks = fn.array(
        fn.when(is_move & fn.col("first.is_queue_limited"), _ask(QUEUE, fn.col("is_start"), since, queue, queue)),
        fn.when(is_move & fn.col("first.is_tenant_limited"), _ask(TENANT, fn.col("is_start"), since, tenant, tenant)),
        fn.when(is_move & group.isNotNull(), _ask(GROUP, fn.col("is_start"), since, queue, group)),
        fn.when(unique.isNotNull() & (takes | frees), _ask(UNIQUE, takes, fn.col("seq"), unique, unique)),
    )
    steps = history.steps.where("is_sound").withColumn("tenant", fn.col("first.tenant"))
    moves = steps.withColumn("ask", fn.explode(asks)).where(fn.col("ask").isNotNull())
    moves = moves.select(*_MOVE, "ask.*")
    if not history.settings.has(KEY):
        return moves
    keyed = steps.where(is_move & fn.col("first.limit_keys").isNotNull())
    keyed = keyed.withColumn("key", fn.explode("first.limit_keys"))
    own = fn.xxhash64("first.tenant", "key")
    ask = _ask(KEY, fn.col("is_start"), since, own, own, fn.col("key"))
    keyed = keyed.withColumn("ask", ask).select(*_MOVE, "ask.*")
    return moves.unionByName(keyed)


def _ask(kind: str, is_start: Column, since: Column, place: Column, scope: Column, key: Column | None = None) -> Column:
    """`place` is where the limit is set, `scope` what it counts."""
    return fn.struct(
        fn.lit(kind).alias("kind"),
        is_start.alias("is_start"),
        since.alias("as_of"),
        place.alias("place"),
        scope.alias("scope"),
        (fn.lit(None).cast("string") if key is None else key).alias("key"),
    )


# What was in force.


def _with_limits(history: History, asks: DataFrame) -> DataFrame:
    """Each with what was in force when the attempt was started."""
    changes = _changes(history)
    if history.settings.has(KEY):
        changes = changes.unionByName(_key_changes(history, asks))
    in_force = _upto("store", "kind", "place", by="as_of")
    every = asks.unionByName(changes, allowMissingColumns=True)
    known = every.withColumn("force", fn.last("force", True).over(in_force)).where(fn.col("seq").isNotNull())
    width = fn.coalesce(fn.col("force.width"), fn.when(history.is_whole(), fn.lit(1)))
    most = (
        fn.when(fn.col("kind") == UNIQUE, fn.lit(1))
        .when(fn.col("kind") == GROUP, width)
        .otherwise(fn.col("force.running_max"))
    )
    shared = fn.when(fn.coalesce(fn.col("force.shared"), fn.lit(False)), fn.xxhash64("key"))
    return known.withColumn("most", most).withColumn("scope", fn.coalesce(shared, fn.col("scope")))


def _changes(history: History) -> DataFrame:
    """Settings of queues and tenants. Those of a queue count for its groups as well."""
    rows = history.settings.frame(history.events.sparkSession).where(fn.col("kind") != KEY)
    is_tenant = fn.col("kind") == TENANT
    place = fn.when(is_tenant, fn.xxhash64("tenant")).otherwise(fn.xxhash64("tenant", "name"))
    kinds = fn.when(is_tenant, fn.array(fn.lit(TENANT))).otherwise(fn.array(fn.lit(QUEUE), fn.lit(GROUP)))
    named = (place.alias("place"), fn.col("seq").alias("as_of"), fn.struct(*_FORCE).alias("force"))
    return rows.select("store", fn.explode(kinds).alias("kind"), *named)


def _key_changes(history: History, asks: DataFrame) -> DataFrame:
    """What holds for each key that jobs have: the settings of its longest prefix, a tenant's own before shared ones."""
    lengths = history.settings.key_lengths()
    prefixes = fn.array(*[fn.when(fn.length("key") >= size, fn.substring("key", 1, size)) for size in lengths])
    keys = asks.where(fn.col("kind") == KEY).select("store", "tenant", "key", "place").distinct()
    keys = keys.select("store", "tenant", "place", fn.posexplode(prefixes).alias("level", "prefix"))
    rows = history.settings.frame(history.events.sparkSession).where(fn.col("kind") == KEY)
    rows = rows.select(
        "store",
        fn.col("name").alias("prefix"),
        fn.when(fn.col("tenant") != "", fn.xxhash64("tenant")).alias("owner"),
        fn.col("seq").alias("as_of"),
        fn.when(fn.col("is_set"), fn.struct(*_FORCE)).alias("force"),
    )
    is_common = fn.col("owner").isNull()
    held = keys.join(fn.broadcast(rows), ["store", "prefix"]).where(is_common | (fn.col("owner") == fn.col("tenant")))
    rank = fn.col("level") * 2 + is_common.cast("int")
    said = fn.struct(fn.col("force").alias("now"))  # null inside: nothing is set there any more
    by_key = Window.partitionBy("store", "place").orderBy("as_of")  # what changes at one seq counts together
    levels = [fn.last(fn.when(rank == at, said), True).over(by_key)["now"] for at in range(2 * len(lengths))]
    none = fn.from_json(fn.lit("{}"), held.schema["force"].dataType.simpleString())
    force = fn.coalesce(*levels, none)
    return held.select("store", fn.lit(KEY).alias("kind"), "place", "as_of", force.alias("force"))


# What was taken.


def _judge(moves: DataFrame) -> DataFrame:
    by_scope = _upto("store", "kind", "scope")
    moves = moves.withColumn("taken", fn.sum(fn.when(fn.col("is_start"), 1).otherwise(-1)).over(by_scope))
    moves = _with_rise(moves)
    burst, period = (fn.col(f"force.{name}").cast(WIDE) for name in ("burst", "period_ms"))
    too_many = fn.col("is_start") & (fn.col("taken") > fn.col("most"))
    too_fast = fn.col("rise") > (burst - 1) * period
    paused = fn.col("is_start") & (fn.col("kind") == QUEUE) & fn.col("force.paused")
    rate = (fn.col("force.tokens"), " in ", fn.col("force.period_ms"), " ms, burst ", fn.col("force.burst"))
    count = ("it is number ", fn.col("taken"), " where ", fn.col("most"), " may be")
    findings = (
        told(_of_kind(SLOTS), too_many, *count),
        told(_of_kind(RATES), too_fast, "it starts faster than ", *rate),
        told(PAUSED, paused, "its queue is paused"),
    )
    # First the few that are wrong, then words for them.
    return moves.where(too_many | too_fast | paused).withColumn("findings", fn.array(*findings))


def _of_kind(checks: dict[str, Check]) -> Column:
    names = fn.create_map(*[fn.lit(word) for kind, check in checks.items() for word in (kind, check.name)])
    return fn.element_at(names, fn.col("kind"))


def _with_rise(moves: DataFrame) -> DataFrame:
    """How far each start is ahead of a token bucket that was full at the first one.

    With the n-th start at t, v = n*period - tokens*t. Since the start at which v was least, more than `burst` starts
    were made beyond what came in when v has risen by more than (burst - 1)*period.
    """
    by_rate = _upto("store", "kind", "scope", "since")
    rated_at = fn.when(fn.col("is_start") & fn.col("force.tokens").isNotNull(), fn.col("at"))
    moves = moves.withColumn("since", fn.col("force.since")).withColumn("rated_at", rated_at)
    number = fn.count("rated_at").over(by_rate).cast(WIDE)
    passed = (fn.col("rated_at") - fn.first("rated_at", True).over(by_rate)).cast(WIDE)
    v = number * fn.col("force.period_ms").cast(WIDE) - passed * fn.col("force.tokens").cast(WIDE)
    moves = moves.withColumn("v", v)
    return moves.withColumn("rise", fn.col("v") - fn.min("v").over(by_rate))


def _upto(*scope: str, by: str = "seq") -> WindowSpec:
    return Window.partitionBy(*scope).orderBy(by).rowsBetween(Window.unboundedPreceding, Window.currentRow)


FAMILY: Final = Family((*SLOTS.values(), PAUSED, *RATES.values()), find)
