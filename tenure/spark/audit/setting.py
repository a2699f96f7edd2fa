"""The limits in force, read from the events that changed them.

There are few of these beside the events of jobs, and what a change means depends on those before it (a shared key's
settings may become a tenant's own), so they are followed here, one after the other, and go back to Spark as a table:
from which seq on a queue, a tenant or a prefix of keys has which limits.
"""

import json
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_type

from tenure.core.error import InvalidRequest
from tenure.core.event import EVENT_NAMES, LIMITS_CHANGED, PAUSED, RESUMED

CHANGES_MAX: Final = 500_000
SCHEMA: Final = pa.schema(
    [
        ("seq", pa.int64()),
        ("kind", pa.string()),
        ("tenant", pa.string()),
        ("name", pa.string()),
        ("is_set", pa.bool_()),
        ("shared", pa.bool_()),
        ("running_max", pa.int64()),
        ("tokens", pa.int64()),
        ("period_ms", pa.int64()),
        ("burst", pa.int64()),
        ("since", pa.int64()),  # from which seq on there is this rate
        ("width", pa.int32()),
        ("paused", pa.bool_()),
    ]
)
QUEUE: Final = "queue"
TENANT: Final = "tenant"
KEY: Final = "key"

Place = tuple[int, str, str, str]  # store, kind, tenant ("" for a shared key), name


@dataclass(frozen=True)
class Setting:
    """What one place has from `seq` on."""

    is_set: bool = False
    shared: bool = False
    running_max: int | None = None
    rate: tuple[int, int, int] | None = None  # tokens, period_ms, burst
    width: int = 1  # of groups
    paused: bool = False


@dataclass
class Settings:
    """All that was ever in force."""

    store_type: pa.DataType = field(default_factory=pa.int32)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    _now: dict[Place, Setting] = field(default_factory=dict)
    _rate_since: dict[Place, int] = field(default_factory=dict)
    _filed: set[Place] = field(default_factory=set)  # keys that have any settings, if only a pause

    def take(self, row: Row) -> None:
        store, seq, tenant, queue = row["store"], row["seq"], row["tenant"] or "", row["queue"] or ""
        detail: dict[str, object] = json.loads(row["detail"]) if row["detail"] else {}
        if row["type"] in (EVENT_NAMES[PAUSED], EVENT_NAMES[RESUMED]):
            place = (store, QUEUE, tenant, queue)
            was = self._now.get(place, Setting())
            paused = row["type"] == EVENT_NAMES[PAUSED]
            self._put(place, seq, Setting(was.is_set, False, was.running_max, was.rate, was.width, paused))
        elif "key" in detail:
            self._take_key(store, seq, tenant, detail)
        elif "tenant" in detail:
            place = (store, TENANT, str(detail["tenant"]), "")
            self._put(place, seq, Setting(True, False, _number(detail.get("running_max")), _rate(detail)))
        else:
            place = (store, QUEUE, tenant, queue)
            was = self._now.get(place, Setting())
            width = _number(detail.get("group_concurrency")) or 1
            most = _number(detail.get("concurrency"))
            self._put(place, seq, Setting(True, False, most, _rate(detail), width, was.paused))

    def _take_key(self, store: int, seq: int, tenant: str, detail: dict[str, object]) -> None:
        """As the store files it: a tenant's own settings are changed if there are any, else the shared ones."""
        prefix = str(detail["key"])
        own, common = (store, KEY, tenant, prefix), (store, KEY, "", prefix)
        was = own if own in self._filed or common not in self._filed else common
        becomes = common if detail.get("shared") else own
        if was != becomes:
            self._filed.discard(was)
            self._put(was, seq, Setting())
        if len(detail) == 1:  # nothing but the key: nothing is set
            self._filed.discard(becomes)
            self._put(becomes, seq, Setting())
            return
        self._filed.add(becomes)
        new = Setting()
        if detail.keys() - {"key", "paused_ms"}:  # those that only pause say nothing about the limit
            new = Setting(True, becomes == common, _number(detail.get("concurrency")), _rate(detail))
        self._put(becomes, seq, new)

    def _put(self, place: Place, seq: int, new: Setting) -> None:
        was = self._now.get(place, Setting())
        if was == new:
            return
        self._now[place] = new
        if was.rate != new.rate:
            self._rate_since[place] = seq
        store, kind, tenant, name = place
        tokens, period_ms, burst = new.rate or (None, None, None)
        since = self._rate_since.get(place)
        said = (new.is_set, new.shared, new.running_max, tokens, period_ms, burst, since, new.width, new.paused)
        self.rows.append((store, seq, kind, tenant, name, *said))

    def has(self, kind: str) -> bool:
        return any(row[2] == kind for row in self.rows)

    def key_lengths(self) -> list[int]:
        """How long the prefixes of keys are that ever had settings, longest first."""
        return sorted({len(str(row[4])) for row in self.rows if row[2] == KEY}, reverse=True)

    def frame(self, session: SparkSession) -> DataFrame:
        schema = SCHEMA.insert(0, pa.field("store", self.store_type))
        return session.createDataFrame(
            pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in self.rows], schema)
        )


def read_settings(events: DataFrame) -> Settings:
    """Follow every change of limits and every pause."""
    types = [EVENT_NAMES[type] for type in (LIMITS_CHANGED, PAUSED, RESUMED)]
    changes = events.where(fn.col("type").isin(*types)).select("store", "seq", "type", "tenant", "queue", "detail")
    rows = changes.limit(CHANGES_MAX + 1).collect()
    if len(rows) > CHANGES_MAX:
        rule = f"there are more than {CHANGES_MAX:,} changes of limits in it; audit fewer events at a time"
        raise InvalidRequest("events", len(rows), rule)
    settings = Settings(to_arrow_type(events.schema["store"].dataType))
    seen: set[tuple[int, int]] = set()
    for row in sorted(rows, key=lambda row: (row["store"], row["seq"])):
        if (row["store"], row["seq"]) not in seen:
            seen.add((row["store"], row["seq"]))
            settings.take(row)
    return settings


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _rate(detail: dict[str, object]) -> tuple[int, int, int] | None:
    value = detail.get("rate")
    if not isinstance(value, list) or len(value) != 3:
        return None
    tokens, period_ms, burst = (int(part) for part in value)
    return (tokens, period_ms, burst)
