"""A job as it is read in bulk, and as it is brought into another store.

A row has the columns of the table `jobs` as a scan gives them: times in milliseconds, 0, an empty text or none where
there is nothing. A load wants the same in three parts: what the job was asked to be (`Options`, `Extras`), and what it
has behind it (`Past`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tenure.core import retry
from tenure.core.bound import make_extras, make_options
from tenure.core.error import InvalidRequest
from tenure.core.job import UNSET, Extras, Options
from tenure.core.record import Ended, Failed, Past, Progress, Scanned
from tenure.core.request import Batch
from tenure.core.retry import Backoff

Row = dict[str, Any]
Knows = Callable[[int], bool]

OPTIONS: Final = (
    "queue",
    "task",
    "priority",
    "max_attempts",
    "timeout_ms",
    "lease_ms",
    "on_conflict",
    "idempotency_ttl_ms",
    "dependency_policy",
    "lifo",
    "limit_keys",
    "keep_completed_ms",
    "keep_completed_count",
    "keep_failed_ms",
    "keep_failed_count",
    "codec",
    "schema_version",
)
ABSENT_AT: Final = {"timeout_ms": 0, "lease_ms": 0} | {name: UNSET for name in OPTIONS if name.startswith("keep_")}
EXTRAS: Final = ("custom_id", "unique_key", "idempotency_key", "group", "expires_at", "tags", "metadata", "trace")
PAST: Final = (
    "id",
    "state",
    "attempt",
    "delivery",
    "created_at",
    "run_at",
    "ready_at",
    "started_at",
    "ended_at",
    "lease_until",
    "worker",
    "result",
    "reason",
    "parent",
    "replays",
)
OPTIONS_KEPT: Final = 10_000


def rows_of(scanned: Scanned) -> list[Row]:
    names = tuple(scanned.columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*scanned.columns.values(), strict=True)]


class Loader:
    """Makes rows of a load. Jobs that share their options get one object for them, as they had where they were."""

    def __init__(self) -> None:
        self._options: dict[tuple[object, ...], Options] = {}

    def batch(self, rows: Sequence[Row], knows: Knows) -> Batch:
        """`knows` says whether a job is in the load: a dependency that is gone from the old store is left out."""
        made = [self.load_row(row, knows) for row in rows]
        return Batch(
            made[0][0],
            [row["payload"] for row in rows],
            [extras for _, extras, _ in made],
            [options for options, _, _ in made],
            pasts=[past for _, _, past in made],
        )

    def load_row(self, row: Row, knows: Knows) -> tuple[Options, Extras, Past]:
        try:
            return self._options_of(row), _extras_of(row, knows), _past_of(row)
        except InvalidRequest as error:
            raise InvalidRequest(f"job {row['id']}: {error.field}", error.value, error.rule) from None

    def _options_of(self, row: Row) -> Options:
        backoff = row["backoff"]
        key = (*(_fixed(row[name]) for name in OPTIONS), _key_of(backoff))
        found = self._options.get(key)
        if found is None:
            given = {name: row[name] for name in OPTIONS if row[name] != ABSENT_AT.get(name, ...)}
            found = make_options(**given, backoff=backoff_of(backoff))
            if len(self._options) >= OPTIONS_KEPT:
                self._options.clear()
            self._options[key] = found
        return found


def _fixed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _key_of(backoff: dict[str, Any]) -> tuple[object, ...]:
    return (backoff["kind"], backoff["base"], backoff["factor"], backoff["cap"], *backoff["delays"])


def backoff_of(fields: dict[str, Any]) -> Backoff:
    kind = retry.KIND_NAMES.index(fields["kind"])
    return Backoff(kind, fields["base"], float(fields["factor"]), fields["cap"], tuple(fields["delays"]))


def _extras_of(row: Row, knows: Knows) -> Extras:
    given = {name: row[name] for name in EXTRAS if row[name]}
    if row["depends_on"]:
        given["depends_on"] = [id for id in row["depends_on"] if knows(id)]
    return make_extras(**given)


def _past_of(row: Row) -> Past:
    return Past(
        **{name: row[name] for name in PAST},
        progress=None if row["progress"] is None else msgspec.convert(row["progress"], Progress),
        error=None if row["error"] is None else msgspec.convert(row["error"], Failed),
        history=tuple(msgspec.convert(each, Ended) for each in row["history"] or ()),
    )
