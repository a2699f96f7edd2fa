"""The stream reader without Spark: offsets, limits and what a checkpoint may find."""

import json
import signal

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tenure.core.error import EventsLost, InvalidRequest
from tests.spark.rig import Make, Shop, batches_of, seqs_of
from tests.spark.test_read_batches import overtaken

ALL = ReadAllAvailable()
BATCHES_MAX = 200


def stream(shop: Shop, table: str = "events", **more: str) -> DataSourceStreamReader:
    source = shop.source(table=table, **more)
    return source.streamReader(source.schema())


def rows(reader: DataSourceStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """Of a micro-batch, as Spark would plan and read it."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    return seqs_of(batches_of(reader, reader.partitions(start, end)))


def drain(reader: DataSourceStreamReader, limit: ReadLimit | None = None) -> list[list[int]]:
    """Batch after batch until there is no more, as a query that reads what is there and ends."""
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    found: list[list[int]] = []
    for _ in range(BATCHES_MAX):
        end = reader.latestOffset(at, limit or reader.getDefaultReadLimit())
        if end == at:
            return found
        found.append(rows(reader, at, end))
        at = end
    raise AssertionError("the batches have no end")


def test_all_rows_are_read_in_one_batch_without_a_limit(shop: Shop) -> None:
    shop.enqueue(25)
    assert drain(stream(shop))[0] == shop.events()


def test_all_rows_are_read_in_bounded_batches_with_one(serve: Make) -> None:
    shop = Shop(serve().url, "default")
    shop.enqueue(25)
    found = drain(stream(shop, maxOffsetsPerTrigger="4"))
    assert [seq for batch in found for seq in batch] == shop.events()
    assert max(len(batch) for batch in found) == 4


@pytest.mark.slow
def test_numbers_that_crashes_skipped_take_no_batches(serve: Make) -> None:
    served = serve()
    shop = Shop(served.url, "default")
    for _ in range(3):
        shop.enqueue(25)
        Shop(served.url, "other").enqueue(3)
        served.stop(signal.SIGKILL)
        served.start()
    events = shop.events()
    assert events[-1] - events[0] > 10_000
    found = drain(stream(shop, maxOffsetsPerTrigger="10"))
    assert [seq for batch in found for seq in batch] == events
    sizes = [len(batch) for batch in found if batch]
    assert sizes == [10] * (len(events) // 10) + [len(events) % 10] * (len(events) % 10 > 0)
    assert len(found) <= len(sizes) + 1  # the numbers after the last event


def test_batches_of_attempts_are_as_large_as_was_asked(serve: Make) -> None:
    shop = Shop(serve().url, "default")
    shop.enqueue(9)
    shop.work(complete=9)
    assert [len(batch) for batch in drain(stream(shop, "attempts", maxOffsetsPerTrigger="4")) if batch] == [4, 4, 1]


def test_query_that_ends_does_not_run_after_new_events(shop: Shop) -> None:
    shop.enqueue(3)
    before = shop.events()
    reader = stream(shop, maxOffsetsPerTrigger="1000000")
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    shop.enqueue(3)
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end) == before
    assert reader.latestOffset(end, ALL) == end


def test_limit_of_spark_goes_before_the_option(shop: Shop) -> None:
    shop.enqueue(10)
    reader = stream(shop, maxOffsetsPerTrigger="2")
    assert reader.getDefaultReadLimit() == ReadMaxRows(2)
    start = reader.initialOffset()
    assert rows(reader, start, reader.latestOffset(start, ALL)) == shop.events()
    assert stream(shop).getDefaultReadLimit() == ALL


def test_batch_is_the_same_when_it_is_read_again(shop: Shop) -> None:
    shop.enqueue(10)
    reader = stream(shop)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first = rows(reader, start, end)
    reader.commit(end)
    shop.enqueue(10)
    assert rows(stream(shop), start, end) == first


def test_latest_begins_with_what_comes(serve: Make) -> None:
    shop = Shop(serve().url, "default")  # of its own: where tests share a server, leases of others run out meanwhile
    shop.enqueue(5)
    reader = stream(shop, startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    assert rows(reader, start, start) == []
    shop.enqueue(2)
    assert rows(reader, start, reader.latestOffset(start, ALL)) == shop.events()[5:]
    assert reader.reportLatestOffset() == {"seq": shop.events()[-1]}


def test_stream_begins_with_a_time(serve: Make) -> None:
    shop = Shop(serve().url, "default")
    for _ in range(10):
        shop.enqueue(3)
    seqs, times = shop.events(), shop.times()
    for at_ms in sorted(set(times)):
        found = drain(stream(shop, startingTimestamp=str(at_ms)))
        assert [seq for batch in found for seq in batch] == [
            seq for seq, at in zip(seqs, times, strict=True) if at >= at_ms
        ]
    reader = stream(shop, startingTimestamp=str(times[-1] + 3_600_000))
    assert reader.initialOffset() == {"seq": seqs[-1]}


def test_batches_are_bounded_in_bytes(serve: Make) -> None:
    shop = Shop(serve().url, "default")
    shop.enqueue(3_000)
    reader = stream(shop, maxBytesPerTrigger="100k")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(102_400)
    at, sizes, found = reader.initialOffset(), [], []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        batches = batches_of(reader, reader.partitions(at, end))
        sizes.append(sum(batch.nbytes for batch in batches))
        found += seqs_of(batches)
        at = end
    assert found == shop.events()
    assert len(sizes) > 3
    assert all(50_000 <= size <= 200_000 for size in sizes[:-1]), sizes
    one = stream(shop, maxBytesPerTrigger="1")  # a batch has an event at least, or the query would stand still
    assert one.latestOffset({"seq": 0}, one.getDefaultReadLimit()) == {"seq": 1}


def test_both_limits_of_a_batch_hold(serve: Make) -> None:
    shop = Shop(serve().url, "default")
    shop.enqueue(500)
    few = stream(shop, maxBytesPerTrigger="1g", maxOffsetsPerTrigger="20")
    assert [len(batch) for batch in drain(few)] == [20] * 25
    small = stream(shop, maxBytesPerTrigger="10k", maxOffsetsPerTrigger="499")
    assert max(len(batch) for batch in drain(small)) < 250


def test_attempts_are_streamed_by_the_seq_of_their_events(shop: Shop) -> None:
    shop.enqueue(6)
    shop.work(complete=4, fail=2)
    reader = stream(shop, "attempts", maxOffsetsPerTrigger="1000")
    assert sum(len(batch) for batch in drain(reader)) == 6


def test_retention_that_overtook_a_query_is_an_error_or_a_gap(serve: Make) -> None:
    shop = overtaken(serve)
    kept = shop.events()
    start = {"seq": 5}
    reader = stream(shop)
    with pytest.raises(EventsLost, match=f"events 6 to {kept[0] - 1} are past retention"):
        reader.partitions(start, reader.latestOffset(start, ALL))
    tolerant = stream(shop, failOnDataLoss="false", maxOffsetsPerTrigger="700")
    end = tolerant.latestOffset(start, tolerant.getDefaultReadLimit())
    assert rows(tolerant, start, end) == kept[:700]
    with pytest.raises(EventsLost):
        stream(shop, startingOffsets="1").initialOffset()


def test_checkpoint_of_another_store_is_refused(shop: Shop, serve: Make) -> None:
    shop.enqueue(100)
    reader = stream(shop)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    other = Shop(serve().url, "default")
    other.enqueue(3)
    for ask in (
        lambda: stream(other).latestOffset(end, ALL),
        lambda: stream(other).partitions({"seq": 0}, end),
    ):
        with pytest.raises(InvalidRequest, match="another store"):
            ask()


def test_server_that_is_started_again_is_waited_for(serve: Make) -> None:
    served = serve()
    shop = Shop(served.url, "default")
    shop.enqueue(10)
    reader = stream(shop, maxOffsetsPerTrigger="4")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    first = rows(reader, start, end)
    served.stop(signal.SIGKILL)
    served.start()
    later = reader.latestOffset(end, ALL)
    assert first + rows(reader, end, later) == shop.events()
