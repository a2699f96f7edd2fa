"""The tables as a reader of Spark sees them, each made of pages of events or of jobs.

`attempts` are the events that ended one, `results` the completed jobs, `dead_letters` the failed ones. `queues` is not
made of pages: it is small, and read whole.
"""

from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tenure.client.client import Client
from tenure.core.state import STATE_NAMES
from tenure.core.tenant import ANY_TENANT
from tenure.lake.schema import QUEUES, TABLES
from tenure.spark.scan import Wanted

# Of a column that is called otherwise where it comes from, or is a member of another: where that is.
ATTEMPT_SOURCES: Final = {"outcome": "type", "ended_at": "at"}
ERROR_MEMBERS: Final = {"error_type": "type", "message": "message", "trace": "trace", "fingerprint": "fingerprint"}
ENDED: Final = ("completed", "retrying", "failed", "cancelled", "released")


class Table(NamedTuple):
    kind: str  # of the pages it is made of: events or jobs
    wanted: Wanted
    sources: dict[str, str]  # own column -> column of the page, where they differ
    needs: tuple[str, ...] = ()  # columns of the page that are looked at besides


MADE_OF: Final = {
    "events": Table("events", Wanted(), {}),
    "attempts": Table("events", Wanted(types=ENDED), ATTEMPT_SOURCES, ("started_at",)),
    "jobs": Table("jobs", Wanted(), {}),
    "results": Table("jobs", Wanted(states=("completed",)), {}),
    "dead_letters": Table("jobs", Wanted(states=("failed",)), dict.fromkeys(ERROR_MEMBERS, "error")),
}


def schema_of(table: str, columns: tuple[str, ...], loose: tuple[str, ...] = ()) -> pa.Schema:
    """The columns in the order in which they were named. Those that are loose may be null in it."""
    whole = TABLES[table]
    fields = [whole.field(name) for name in columns or whole.names]
    return pa.schema([field.with_nullable(True) if field.name in loose else field for field in fields])


def page_columns(table: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """What has to be asked of a page so that these columns can be made; none means all."""
    made = MADE_OF[table]
    if not columns:
        return () if table in ("events", "jobs") else page_columns(table, tuple(TABLES[table].names))
    return tuple(dict.fromkeys([*(made.sources.get(name, name) for name in columns), *made.needs]))


def derive(table: str, page: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of the table that a page has."""
    made = MADE_OF[table]
    if table == "attempts":
        page = page.filter(pc.is_valid(page.column("started_at")))  # a job may fail or be cancelled while it waits
    arrays = []
    for name in schema.names:
        array = page.column(made.sources.get(name, name))
        if table == "dead_letters" and name in ERROR_MEMBERS:
            array = pc.struct_field(array, ERROR_MEMBERS[name])
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


async def read_queues(client: Client, tenant: str) -> pa.RecordBatch:
    """A row for each queue of the tenant, or of all tenants."""
    rows: list[dict[str, object]] = []
    tenants = sorted(await client.configure("tenant", ANY_TENANT)) if tenant == ANY_TENANT else [tenant]
    for name in tenants:
        of_tenant = client.as_tenant(name)
        counts = await of_tenant.count()
        for queue in sorted(counts):
            settings = await of_tenant.configure("queue", queue)
            row: dict[str, object] = {"tenant": name, "queue": queue, "paused": bool(settings.get("paused"))}
            row.update({state: counts[queue].get(state, 0) for state in STATE_NAMES})
            row["settings"] = msgspec.json.encode(settings).decode()
            rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=QUEUES)
