"""The batch reader without Spark: snapshots, partitions and every table, from a real server."""

import json
import pickle
import traceback
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tenure.core.error import Error, EventsLost, InvalidRequest, Unavailable
from tenure.lake.schema import TABLES
from tenure.spark.brief import brief
from tenure.spark.read import PushingReader, TenureReader
from tenure.spark.source import TenureSource
from tenure.spark.span import PARTITIONS_DEFAULT_MAX, ROWS_PER_PARTITION, Span, cut
from tests.spark.rig import Make, Shop, batches_of, read_all, seqs_of


@pytest.fixture
def history(shop: Shop) -> Shop:
    """Ten jobs: six completed, two failed, two waiting."""
    shop.enqueue(10)
    shop.work(complete=6, fail=2)
    return shop


def test_events_are_all_there_in_order(history: Shop) -> None:
    found = read_all(history, "events")
    assert found.column("seq").to_pylist() == history.events()
    assert found.column("type").to_pylist().count("enqueued") == 10
    assert set(found.column("tenant").to_pylist()) == {history.tenant}


@pytest.mark.parametrize("table", TABLES)
def test_batches_have_the_schema_that_spark_was_told(history: Shop, table: str) -> None:
    """Spark compares them, nullability included, and fails a query whose first batch differs."""
    expected = to_arrow_schema(history.source(table=table).schema(), timezone="UTC")
    assert read_all(history, table).schema.equals(expected)


def test_attempts_are_the_events_that_ended_one(history: Shop) -> None:
    found = read_all(history, "attempts").to_pylist()
    assert sorted(row["outcome"] for row in found) == ["completed"] * 6 + ["failed"] * 2
    for row in found:
        assert row["worker"] == "w-1"
        assert row["ended_at"] >= row["started_at"] >= row["ready_at"]
        assert row["run_ms"] is not None


def test_cancelled_before_it_ran_is_no_attempt(shop: Shop) -> None:
    [id] = shop.enqueue(1)
    with shop.client() as client:
        client.cancel(id)
    assert read_all(shop, "attempts").num_rows == 0


def test_jobs_say_what_the_client_says(history: Shop) -> None:
    found = {row["id"]: row for row in read_all(history, "jobs").to_pylist()}
    assert len(found) == 10
    with history.client() as client:
        for id, row in found.items():
            job = client.get(id)
            assert (row["state"], row["payload"], row["result"]) == (job.state, job.payload, job.result)
            assert row["created_at"].timestamp() * 1_000 == job.created_at


def test_results_and_dead_letters_are_jobs_that_ended_so(history: Shop) -> None:
    results = read_all(history, "results").to_pylist()
    assert [json.loads(row["result"]) for row in results] == [{"done": row["id"]} for row in results]
    assert len(results) == 6
    dead = read_all(history, "dead_letters").to_pylist()
    assert [(row["error_type"], row["message"], row["reason"]) for row in dead] == [
        ("ValueError", "no such card", "permanent")
    ] * 2
    assert all(len(row["fingerprint"]) == 16 and row["payload"] for row in dead)


def test_queues_have_counts_and_settings(history: Shop) -> None:
    with history.client() as client:
        client.configure("queue", "orders", paused=True, concurrency=3)
    [row] = read_all(history, "queues").to_pylist()
    assert (row["tenant"], row["queue"], row["paused"]) == (history.tenant, "orders", True)
    assert (row["ready"], row["completed"], row["failed"], row["running"]) == (2, 6, 2, 0)
    assert json.loads(row["settings"])["concurrency"] == 3


def test_all_tenants_are_read_by_a_star(history: Shop) -> None:
    everybody = Shop(history.url, "*")
    assert history.tenant in set(read_all(everybody, "events", columns="tenant").column(0).to_pylist())
    assert history.tenant in set(read_all(everybody, "jobs", columns="tenant").column(0).to_pylist())
    assert history.tenant in set(read_all(everybody, "queues", columns="tenant").column(0).to_pylist())


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("events", "type,seq"),
        ("attempts", "outcome,ended_at"),
        ("dead_letters", "message,id,fingerprint"),
        ("queues", "ready,queue"),
    ],
)
def test_columns_are_those_that_were_named_in_that_order(history: Shop, table: str, columns: str) -> None:
    found = read_all(history, table, columns=columns)
    whole = read_all(history, table)
    assert found.schema.names == columns.split(",")
    assert found.equals(whole.select(columns.split(",")))


# Snapshots and partitions.


def test_what_comes_after_planning_is_not_read(history: Shop) -> None:
    source = history.source(table="events", minPartitions="3")
    reader = source.reader(source.schema())
    before = history.events()
    spans = reader.partitions()
    history.enqueue(50)
    assert seqs_of(batches_of(reader, spans)) == before


@pytest.mark.parametrize("table", ["events", "jobs", "attempts", "dead_letters"])
def test_partitions_have_each_row_once(history: Shop, table: str) -> None:
    one = read_all(history, table)
    source = history.source(table=table, minPartitions="7")
    assert len(source.reader(source.schema()).partitions()) == 7
    assert read_all(history, table, minPartitions="7").equals(one)


def test_reader_and_partitions_are_pickled(history: Shop) -> None:
    source = history.source(table="events")
    reader = source.reader(source.schema())
    [span] = reader.partitions()
    again: TenureReader = pickle.loads(pickle.dumps(reader))
    assert sum(batch.num_rows for batch in again.read(pickle.loads(pickle.dumps(span)))) == len(history.events())


def test_empty_store_is_read_as_nothing(serve: Make) -> None:
    empty = Shop(serve().url, "default")
    for table in TABLES:
        assert read_all(empty, table).num_rows == 0


def test_partition_that_spark_makes_up_is_empty(shop: Shop) -> None:
    from pyspark.sql.datasource import InputPartition

    source = shop.source(table="events")
    assert list(source.reader(source.schema()).read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("keys", "asked", "pieces"),
    [
        (0, 5, 0),
        (3, 5, 3),
        (10, 0, 1),
        (ROWS_PER_PARTITION * 3, 0, 3),
        (10**9, 0, PARTITIONS_DEFAULT_MAX),
        (10**9, 99, 99),
    ],
)
def test_stretch_is_cut_by_rows_and_by_what_was_asked(keys: int, asked: int, pieces: int) -> None:
    spans = cut(100, 100 + keys, asked)
    assert len(spans) == pieces
    if spans:
        assert (spans[0].after, spans[-1].upto) == (100, 100 + keys)
        assert all(one.upto == two.after for one, two in pairwise(spans))


def test_reader_that_stops_early_leaves_nothing_open(history: Shop) -> None:
    source = history.source(table="events", minPartitions="1")
    reader = source.reader(source.schema())
    [span] = reader.partitions()
    rows = reader.read(span)
    next(rows)
    rows.close()  # type: ignore[union-attr]


# Offsets.


def test_offsets_bound_what_is_read(history: Shop) -> None:
    seqs = history.events()
    start, end = str(seqs[2]), str(seqs[5])
    found = read_all(history, "events", startingOffsets=start, endingOffsets=end).column("seq").to_pylist()
    assert found == seqs[2:5]
    assert read_all(history, "events", startingOffsets="latest").num_rows == 0
    assert read_all(history, "events", endingOffsets="earliest").num_rows == 0


def test_offset_that_is_not_there_yet_is_refused(history: Shop) -> None:
    with pytest.raises(InvalidRequest, match="the newest event is"):
        read_all(history, "events", endingOffsets="999999999")
    assert read_all(history, "events", endingOffsets="999999999", failOnDataLoss="false").num_rows > 0
    with pytest.raises(InvalidRequest, match="the newest event is"):
        read_all(history, "events", startingOffsets="999999999")


def overtaken(serve: Make) -> Shop:
    """A store that has forgotten its first events."""
    shop = Shop(serve(store="memory://").url, "default")
    with shop.client() as client:
        client.configure("store", "", events_max=1_000)
    for _ in range(5):
        shop.enqueue(10_000)
    return shop


def test_offset_past_retention_is_refused_or_left_out(serve: Make, caplog: pytest.LogCaptureFixture) -> None:
    shop = overtaken(serve)
    oldest = shop.events()[0]
    assert oldest > 1
    with pytest.raises(EventsLost, match=f"{oldest} is the oldest kept; .*failOnDataLoss=false") as raised:
        read_all(shop, "events", startingOffsets="1")
    assert raised.value.oldest == oldest
    found = read_all(shop, "events", startingOffsets="1", failOnDataLoss="false").column("seq").to_pylist()
    assert found == shop.events()
    assert "are past retention and are left out" in caplog.text


def test_retention_that_goes_on_while_reading_is_noticed(serve: Make) -> None:
    shop = overtaken(serve)
    found = []
    for fails in ("true", "false"):
        source = shop.source(table="events", failOnDataLoss=fails)
        found.append(source.reader(source.schema()))
    gone = Span(0, shop.events()[-1])
    with pytest.raises(EventsLost, match="are past retention"):
        list(found[0].read(gone))
    assert seqs_of(batches_of(found[1], [gone])) == shop.events()
    assert list(found[1].read(Span(0, 10))) == []


# Filters.


def pushed(shop: Shop, table: str, *filters: Filter) -> tuple[PushingReader, int]:
    """The reader, and how many rows it gives to Spark."""
    source = shop.source(table=table, pushdown="true")
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingReader)
    assert list(reader.pushFilters(list(filters))) == list(filters)
    return reader, sum(batch.num_rows for span in reader.partitions() for batch in reader.read(span))


def test_filters_are_looked_at_by_the_server(history: Shop) -> None:
    history.enqueue(5, queue="other")
    first = history.events()[0]
    assert pushed(history, "events", EqualTo(("queue",), "other"))[1] == 5
    assert pushed(history, "events", In(("type",), ("completed", "failed")), IsNotNull(("type",)))[1] == 8
    assert pushed(history, "events", GreaterThan(("seq",), first), LessThanOrEqual(("seq",), first + 2))[1] == 2
    assert pushed(history, "attempts", EqualTo(("outcome",), "failed"))[1] == 2
    assert pushed(history, "jobs", EqualTo(("state",), "ready"), EqualTo(("queue",), "orders"))[1] == 2
    everybody = Shop(history.url, "*")
    assert pushed(everybody, "jobs", EqualTo(("tenant",), history.tenant))[1] == 15


def test_attempts_stay_attempts_whatever_is_asked(history: Shop) -> None:
    assert pushed(history, "attempts", EqualTo(("outcome",), "started"))[1] in (0, 8)  # Spark looks again


def test_reader_takes_filters_where_the_session_allows_it(history: Shop) -> None:
    """Spark refuses a reader that takes filters in a session that does not: it looks whether the method is its own. A
    session that does allow it calls the method."""
    source = history.source(table="jobs")
    reader = pickle.loads(pickle.dumps(source.reader(source.schema())))
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    filters: list[Filter] = [EqualTo(("state",), "failed")]
    assert list(reader.pushFilters(filters)) == filters
    assert sum(batch.num_rows for batch in batches_of(reader, reader.partitions())) == 2
    never = history.source(table="jobs", pushdown="false").reader(source.schema())
    assert list(never.pushFilters(filters)) == filters
    assert sum(batch.num_rows for batch in batches_of(never, never.partitions())) > 2
    always = history.source(table="jobs", pushdown="true").reader(source.schema())
    assert "pushFilters" in vars(type(always))


# Times.


@pytest.fixture
def hours(serve: Make) -> Shop:
    """Events of two tenants, of some moments."""
    shop = Shop(serve(store="memory://").url, "default")
    for queue in range(30):
        shop.enqueue(1 + queue % 3, queue=f"q{queue}")
        Shop(shop.url, "other").enqueue(2)
    return shop


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def test_timestamps_bound_what_is_read(hours: Shop) -> None:
    seqs, times = hours.events(), hours.times()
    for at_ms in (*sorted(set(times)), times[0] - 1, times[-1] + 1, times[7] + 1):
        after = [seq for seq, at in zip(seqs, times, strict=True) if at >= at_ms]
        before = [seq for seq, at in zip(seqs, times, strict=True) if at < at_ms]
        for text in (str(at_ms), iso(at_ms)):
            assert seqs_of(read_all(hours, "events", startingTimestamp=text).to_batches()) == after
        assert seqs_of(read_all(hours, "events", endingTimestamp=iso(at_ms)).to_batches()) == before
    some = read_all(hours, "events", startingTimestamp=str(times[5]), endingTimestamp=str(times[20]))
    assert {at.timestamp() * 1_000 for at in some["at"].to_pylist()} == {
        at for at in times if times[5] <= at < times[20]
    }


def test_filters_on_time_are_looked_at_by_the_server(hours: Shop) -> None:
    seqs, times = hours.events(), hours.times()
    low, high = (datetime.fromtimestamp(times[at] / 1_000, UTC) for at in (5, 20))
    between = [seq for seq, at in zip(seqs, times, strict=True) if times[5] <= at <= times[20]]
    _, rows = pushed(hours, "events", GreaterThanOrEqual(("at",), low), LessThanOrEqual(("at",), high))
    assert rows == len(between)
    _, rows = pushed(hours, "events", GreaterThan(("at",), low), LessThan(("at",), high))
    assert len(between) >= rows >= len([at for at in times if times[5] < at < times[20]])
    _, rows = pushed(hours, "events", EqualTo(("at",), low))
    assert rows == times.count(times[5])
    hours.work(complete=1, queue="q0")
    assert pushed(hours, "attempts", GreaterThan(("ended_at",), high))[1] == 1
    assert pushed(hours, "attempts", LessThan(("ended_at",), high))[1] == 0


# What goes wrong.


def test_schema_by_hand_names_the_columns(history: Shop) -> None:
    source = history.source(table="events")
    asked = StructType([source.schema()["type"], source.schema()["seq"]])
    reader = source.reader(asked)
    [batch] = batches_of(reader, reader.partitions())
    assert batch.schema.names == ["type", "seq"]
    for columns in ("seq", "seq,type"):  # which the option says otherwise
        with pytest.raises(InvalidRequest, match="leave one of them out"):
            history.source(table="events", columns=columns).reader(asked)


def frames(error: BaseException) -> tuple[int, str]:
    """How many a traceback shows, and its last line; what it is chained to counts too."""
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    return sum(line.startswith("  File") for line in lines) - 1, lines[-1]  # one is the test's own


def test_errors_have_a_traceback_of_one_frame_and_a_last_line_that_says_all(
    history: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.spark.span.PATIENCE_S", 0.0)
    monkeypatch.setattr("tenure.client.remote.CONNECT_S", 0.2)
    source = history.source(table="events", startingOffsets="100000000")
    reader = source.reader(source.schema())
    away = TenureSource(CaseInsensitiveDict({"url": "tenure://127.0.0.1:1", "table": "jobs"}))
    for ask, words in (
        (lambda: history.source(table="event").schema(), "it must be one of events, "),
        (lambda: history.source(table="events", maxoffsets="1").reader(source.schema()), "did you mean"),
        (reader.partitions, "the newest event is"),
        (away.reader(away.schema()).partitions, "no server answers at 127.0.0.1:1"),
        (lambda: list(away.reader(away.schema()).read(Span(0, 1))), "no server answers at 127.0.0.1:1"),
    ):
        with pytest.raises(Error) as raised:
            ask()
        count, line = frames(raised.value)
        assert count <= 2, line  # a lambda of this test, and the method that Spark calls
        assert words in line
        assert line.startswith("tenure.core.error.")


def test_error_of_many_lines_becomes_one_and_others_keep_their_frames() -> None:
    @brief
    def say(error: Exception) -> None:
        def inner() -> None:
            raise error

        inner()

    with pytest.raises(InvalidRequest) as raised:
        say(InvalidRequest("rows", 1, "one\n  two\n\tthree"))
    assert frames(raised.value) == (1, "tenure.core.error.InvalidRequest: rows: 1 is not accepted; one two three")
    with pytest.raises(ZeroDivisionError) as fault:
        say(ZeroDivisionError("a bug"))
    assert frames(fault.value)[0] == 3


def test_schema_by_hand_with_other_types_is_refused(shop: Shop) -> None:
    with pytest.raises(InvalidRequest, match="seq is bigint"):
        shop.source(table="events").reader(StructType().add("seq", "string"))
    with pytest.raises(InvalidRequest, match="no such column"):
        shop.source(table="events").reader(StructType().add("sequence", "long"))


def test_server_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.client.remote.CONNECT_S", 0.2)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        read_all(Shop("tenure://127.0.0.1:9", "default"), "events")
