"""Whether two stores agree, job by job, as a join of tables: every difference is a row of the answer."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from tenure.core.request import READ, Load
from tenure.spark.parts import map_numbers, plan_parts
from tenure.spark.side import Side
from tenure.transfer.copy import bounds_of
from tenure.transfer.difference import (
    DIFFERENT,
    EXTRA,
    MISSING,
    REFUSED,
    Difference,
    Tally,
    View,
    compare_rows,
    shown,
)
from tenure.transfer.read import as_reader, read_jobs
from tenure.transfer.row import Row
from tenure.transfer.since import Since
from tenure.transfer.verify import NAMED_MAX, Counted

# A job: what it is found by, what is summed up, and all of it, with sizes and hashes in the place of bytes.
JOBS: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("queue", pa.string()),
        ("id", pa.int64()),
        ("needs", pa.list_(pa.int64())),  # ids of other jobs that it names
        ("hash", pa.decimal128(38, 0)),
        ("row", pa.binary()),
    ]
)
IDS: Final = pa.schema(
    [("source", pa.int64()), ("target", pa.int64()), ("duplicate", pa.bool_()), ("refusal", pa.string())]
)
DIFFERENCES: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("tenant", pa.string()),
        ("queue", pa.string()),
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("field", pa.string()),
        ("expected", pa.string()),  # JSON
        ("found", pa.string()),
        ("note", pa.string()),
    ]
)
HASH_BITS: Final = 100  # of each job's 128, so that sums of millions of them stay exact

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


class Mapping(msgspec.Struct, frozen=True):
    """Chunks of a published load, whose rows say what became of whom."""

    tenant: str
    part: int
    writing: str
    chunks: int


class Found(msgspec.Struct, frozen=True):
    count: int
    named: list[Difference]


class Agreement:
    def __init__(
        self,
        spark: SparkSession,
        source: Side,
        target: Side,
        tenant: str,
        load_id: str,
        mapping: list[Mapping],
        began_ms: int,
        since: Since,
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._tenant = tenant
        self._load_id = load_id
        self._mapping = mapping
        self._began_ms = began_ms
        self._since = since

    def compare(self, bound: int, parts: int, folder: str) -> tuple[Found, int, list[Counted]]:
        """The differences, of how many jobs, and the counts and hashes of the queues."""
        ids = self._ids().persist()
        ours = self._ours(ids, parts).persist()
        theirs = self._theirs(ids, parts).persist()
        if self._since.is_repeated:  # what the first run read is known by what it copied
            bound = ids.agg(sf.max("source")).collect()[0][0] or 0
        found = self._differences(ours, theirs, bound).persist()
        try:
            queues = _queues(ours, theirs)
            rows = sum(count for _, count in queues)
            if folder:
                found.write.mode("overwrite").parquet(folder)
            named = [_difference(row.asDict()) for row in found.orderBy("source", "field").limit(NAMED_MAX).collect()]
            count = len(named) if len(named) < NAMED_MAX else found.count()
            return Found(count, named), rows, [queue for queue, _ in queues if queue.source_rows or queue.target_rows]
        finally:
            for frame in (found, theirs, ours, ids):
                frame.unpersist()

    def _ids(self) -> DataFrame:
        mapping, side, load_id = self._mapping, self._target, self._load_id
        if not mapping:
            return self._spark.createDataFrame([], from_arrow_schema(IDS))
        return map_numbers(self._spark, len(mapping), lambda at: _read_ids(side, load_id, mapping[at]), IDS)

    def _jobs(self, side: Side, asked: int) -> DataFrame:
        tenant = self._tenant
        first, last = asyncio.run(_bounds(side, tenant))
        parts = plan_parts(first, last, asked)
        return map_numbers(self._spark, parts.count, lambda part: _read_part(side, tenant, *parts.bounds(part)), JOBS)

    def _ours(self, ids: DataFrame, parts: int) -> DataFrame:
        """The jobs of the old store, with what they and those that they name are called in the new one."""
        source = self._jobs(self._source, parts)
        named = source.select("id", sf.explode("needs").alias("old")).join(ids, sf.col("old") == ids.source, "left")
        translated = named.groupBy("id").agg(
            sf.collect_list(sf.struct("old", sf.coalesce("target", sf.lit(0)).alias("new"))).alias("translated")
        )
        return (
            source.join(translated, "id", "left")
            .join(ids, sf.col("id") == ids.source, "left")
            .withColumnRenamed("id", "key")
            .select("key", "tenant", "queue", "hash", "row", "translated", "target", "duplicate", "refusal")
        )

    def _theirs(self, ids: DataFrame, parts: int) -> DataFrame:
        """Their copies, by the old ids."""
        target = self._jobs(self._target, parts)
        return target.join(ids.where("target > 0"), target.id == ids.target).select(
            sf.col("source").alias("key"),
            sf.col("id").alias("found"),
            sf.col("tenant").alias("found_tenant"),
            sf.col("queue").alias("found_queue"),
            sf.col("hash").alias("found_hash"),
            sf.col("row").alias("found_row"),
        )

    def _differences(self, ours: DataFrame, theirs: DataFrame, bound: int) -> DataFrame:
        """Full outer by the old id: a job may be on one side only, or refused."""
        began_ms, since = self._began_ms, self._since

        def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                found = [each for pair in batch.to_pylist() for each in _compare(pair, bound, began_ms, since)]
                yield pa.RecordBatch.from_pylist(found, schema=DIFFERENCES)

        return ours.join(theirs, "key", "full").mapInArrow(compare, from_arrow_schema(DIFFERENCES))


async def _bounds(side: Side, tenant: str) -> tuple[int, int]:
    async with side.opened() as client:
        reader = as_reader(client, tenant)
        return (await reader.scan_bounds("jobs")).first, (await bounds_of(reader)).job


async def _read_ids(side: Side, load_id: str, mapping: Mapping) -> AsyncGenerator[pa.RecordBatch, None]:
    async with side.opened() as client:
        own = client.as_tenant(mapping.tenant)
        for chunk in range(mapping.chunks):
            rows = (await own.load(Load(READ, load_id, mapping.part, mapping.writing, chunk))).outcomes
            columns = [
                [row.source for row in rows],
                [row.id for row in rows],
                [row.duplicate for row in rows],
                [None if row.id else f"{row.code}: {row.message}" for row in rows],
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, IDS, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=IDS)


async def _read_part(side: Side, tenant: str, after: int, upto: int) -> AsyncGenerator[pa.RecordBatch, None]:
    async with side.opened() as client:
        async for _, rows in read_jobs(as_reader(client, tenant), after, upto):
            if rows:
                yield pa.RecordBatch.from_pylist([_job(row) for row in rows], schema=JOBS)


def _job(row: Row) -> dict[str, object]:
    tally = Tally()
    tally.add(row)
    needs = [*(row["depends_on"] or ()), *([row["parent"]] if row["parent"] else [])]
    light = {**row, "payload": shown(row["payload"]), "result": shown(row["result"])}
    return {
        "tenant": row["tenant"],
        "queue": row["queue"],
        "id": row["id"],
        "needs": needs,
        "hash": Decimal(int(tally.hash, 16) >> (128 - HASH_BITS)),
        "row": _pack(light),
    }


def _queues(ours: DataFrame, theirs: DataFrame) -> list[tuple[Counted, int]]:
    """Each queue on both sides, as far as it was copied, and how many jobs it has in the old store in all."""
    is_copied = sf.col("target") > 0
    here = ours.groupBy("tenant", "queue").agg(
        sf.count("*").alias("all"),
        sf.count_if(is_copied).alias("rows"),
        sf.sum(sf.when(is_copied, sf.col("hash"))).alias("hash"),
    )
    there = theirs.groupBy(sf.col("found_tenant").alias("tenant"), sf.col("found_queue").alias("queue")).agg(
        sf.count("*").alias("found_rows"), sf.sum("found_hash").alias("found_hash")
    )
    return [
        (
            Counted(row.tenant, row.queue, row.rows or 0, row.found_rows or 0, _hex(row.hash), _hex(row.found_hash)),
            row.all or 0,
        )
        for row in here.join(there, ["tenant", "queue"], "full").orderBy("tenant", "queue").collect()
    ]


def _hex(total: Decimal | None) -> str:
    return f"{int(total or 0):032x}"


def _compare(pair: dict[str, Any], bound: int, began_ms: int, since: Since) -> Iterator[dict[str, object]]:
    source, target = pair["key"], pair["target"] or pair["found"] or 0
    if pair["row"] is None:
        note = "it is not in the old store any more"
        yield _said(EXTRA, pair["found_tenant"], pair["found_queue"], source, target, note=note)
        return
    where = (pair["tenant"], pair["queue"], source, target)
    if pair["refusal"]:
        yield _said(REFUSED, *where, note=pair["refusal"])
        return
    ours: Row = _unpack(pair["row"])
    if pair["found_row"] is None:
        note = "it came after the copy had read the store" if source > bound else ""
        if target and ours["ended_at"]:
            note = "it had ended: retention may have taken it"
        yield _said(MISSING, *where, note=note)
        return
    theirs: Row = _unpack(pair["found_row"])
    names = {each["old"]: each["new"] for each in pair["translated"] or ()} | {source: target}
    note = since.explain(source, target, pair["duplicate"])
    for field, rule in compare_rows(ours, theirs, View(lambda id: names.get(id, 0), began_ms)):
        if not rule:
            yield _said(DIFFERENT, *where, field, ours[field], theirs[field], note)


def _said(
    kind: str,
    tenant: str,
    queue: str,
    source: int,
    target: int,
    field: str = "",
    expected: object = None,
    found: object = None,
    note: str = "",
) -> dict[str, object]:
    values = [None if value is None else msgspec.json.encode(value).decode() for value in (expected, found)]
    return dict(zip(DIFFERENCES.names, (kind, tenant, queue, source, target, field, *values, note), strict=True))


def _difference(row: dict[str, Any]) -> Difference:
    values = {name: None if row[name] is None else msgspec.json.decode(row[name]) for name in ("expected", "found")}
    return Difference(**{**row, **values})
