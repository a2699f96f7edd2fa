"""Where the events of an audit come from: a lake, a folder of Parquet files, or a server that is asked for them."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tenure.lake.rows import batch_of
from tenure.lake.schema import EVENTS

if TYPE_CHECKING:
    from tenure.client.sync import SyncClient

PAGE: Final = 10_000


def read_lake(session: SparkSession, url: str) -> DataFrame:
    """The segments of a lake, below whatever folders of dates they are in."""
    return session.read.option("recursiveFileLookup", "true").parquet(url)


def fetch_events(client: "SyncClient", file: Path) -> int:
    """Write every event that a store still has to a file, page by page; answers how many there were."""
    count = 0
    cursor = ""
    with pq.ParquetWriter(file, EVENTS, compression="zstd") as writer:
        while True:
            page = client.event_page(cursor, PAGE)
            if page.events:
                writer.write_batch(batch_of(page.events))
                count += len(page.events)
            elif page.cursor == cursor:
                return count
            cursor = page.cursor
