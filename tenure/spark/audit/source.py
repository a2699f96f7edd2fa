"""Where the events of an audit come from: a lake, a folder of Parquet files, or a server that is asked for them."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tenure.lake.arrow import batch_of_events
from tenure.lake.schema import EVENTS

if TYPE_CHECKING:
    from tenure.client.sync import SyncClient

PAGE: Final = 20_000


def read_files(session: SparkSession, path: str) -> DataFrame:
    """A file of events, or all that are in a folder. A lake is not read like this: its log says which files count."""
    return session.read.option("recursiveFileLookup", "true").parquet(path)


def fetch_events(client: "SyncClient", file: Path) -> int:
    """Write every event that a store still has to a file, page by page; answers how many there were."""
    count = 0
    bounds = client.scan_bounds("events")
    after = bounds.first - 1
    with pq.ParquetWriter(file, EVENTS, compression="zstd") as writer:
        while after < bounds.last:
            page = client.scan_page("events", after=after, upto=bounds.last, limit=PAGE)
            writer.write_batch(batch_of_events(page))
            count += page.rows
            after = page.next
    return count
