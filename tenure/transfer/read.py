"""All jobs of a store, page by page, in the order of their ids and with the bytes that lie in its blob store."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from tenure.client.client import Client
from tenure.core.error import Conflict, JobNotFound
from tenure.core.tenant import ANY_TENANT, DEFAULT_TENANT
from tenure.transfer.row import Row, rows_of

PAGE_ROWS: Final = 10_000
CHUNK_ROWS: Final = 5_000
CHUNK_BYTES: Final = 6 * 1024 * 1024  # of a message, which is 16 MiB at most and says more than payloads


def as_reader(client: Client, tenant: str) -> Client:
    """The client on behalf of one tenant, or of all of them."""
    return client.as_tenant(DEFAULT_TENANT, (ANY_TENANT,)) if tenant == ANY_TENANT else client.as_tenant(tenant)


async def read_jobs(
    client: Client, after: int, upto: int, columns: Sequence[str] = ()
) -> AsyncIterator[tuple[int, list[Row]]]:
    """Pages of jobs with after < id <= upto, each with the id up to which all were read. What is removed between two
    looks at it is left out."""
    while after < upto:
        scanned = await client.scan_page("jobs", after=after, upto=upto, limit=PAGE_ROWS, columns=columns)
        rows = rows_of(scanned)
        if any(row.get("payload_blob") or row.get("result_blob") for row in rows):
            rows = [row for row in rows if await _fill(client, row)]
        after = max(scanned.next, after)
        yield after, rows
        if scanned.next >= scanned.last:
            return


async def _fill(client: Client, row: Row) -> bool:
    """Puts the bytes of its blobs into the row; answers whether the job is still there."""
    if not row.get("payload_blob") and not row.get("result_blob"):
        return True
    try:
        found = await client.get(row["id"])
    except JobNotFound:
        return False
    for name, blob, content in (
        ("payload", found.payload_blob, found.payload),
        ("result", found.result_blob, found.result),
    ):
        if blob is None or not row.get(f"{name}_blob"):
            continue
        if blob.absent:
            raise Conflict(
                f"the {name} of job {found.id} is {blob.absent} in the blob store ({blob.name}); restore it from a"
                " backup or remove the job, then try again",
                found.id,
            )
        row[name] = content
    return True


def chunks_of(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """In order, each small enough for a chunk of a load unless a single job is not."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        own = size_of(row)
        if chunk and (len(chunk) >= CHUNK_ROWS or size + own > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += own
    if chunk:
        yield chunk


def size_of(row: Row) -> int:
    """About what the job takes in a message."""
    errors = [row["error"], *(each["error"] for each in row["history"] or ())]
    said = sum(len(error["message"]) + len(error["trace"]) for error in errors if error is not None)
    metadata = row["metadata"] or {}
    described = sum(len(key) + len(text) for key, text in metadata.items())
    return 600 + len(row["payload"] or b"") + len(row["result"] or b"") + 2 * said + described
