"""The writers without Spark: what becomes of rows, of tasks that run twice and of loads that are written again."""

import json
import math
import pickle
import signal
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from tenure.client.remote import size_of
from tenure.core.error import Conflict, InvalidRequest, Overloaded, PayloadTooLarge
from tenure.core.record import LoadReport
from tenure.core.request import PUBLISH, Load
from tenure.spark import load_report
from tenure.spark.load import Written, publish, stage_rows
from tenure.spark.option import read_writing
from tenure.spark.payload import CHUNK_BYTES, RowEncoder, chunks_of, packed_texts
from tenure.spark.sink import name_load
from tenure.spark.write import TenureWriter
from tests.spark.rig import ORDERS, Shop, orders, write_all


def writer_of(shop: Shop, batch: pa.RecordBatch, **options: str) -> TenureWriter:
    made = shop.source(**options).writer(from_arrow_schema(batch.schema), False)
    assert isinstance(made, TenureWriter)
    return made


def report_of(shop: Shop, load_id: str) -> LoadReport:
    return load_report(shop.url, load_id, tenant=shop.tenant)


def counts(report: LoadReport) -> tuple[int, int, int]:
    return report.rows, report.new, report.duplicates


# What a row becomes.


def test_row_is_a_job_whose_payload_has_its_columns(shop: Shop) -> None:
    write_all(shop, [[orders(0, 3)]], **ORDERS, maxAttempts="5", priority="high")
    with shop.client() as client:
        jobs = client.find().jobs
    assert [json.loads(job.payload) for job in jobs] == orders(0, 3).to_pylist()
    assert {(job.queue, job.task, job.codec, job.max_attempts, job.priority) for job in jobs} == {
        ("orders", "pay", "json", 5, 10)
    }


def test_payload_of_chosen_columns_and_of_one_column(shop: Shop) -> None:
    write_all(shop, [[orders(0, 1)]], **ORDERS, payloadColumns="n,amount")
    raw = pa.record_batch({"id": [1], "body": [b"\x00raw"]})
    write_all(shop, [[raw]], queue="raw", task="t", key="id", payload="body", codec="binary")
    assert shop.payloads() == [b'{"n":0,"amount":0.0}']
    assert shop.payloads("raw") == [b"\x00raw"]


def test_types_are_said_as_tasks_read_them(shop: Shop) -> None:
    at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    row: dict[str, Any] = {
        "id": 7,
        "text": 'quotes " and \\ and \n and ü',
        "nothing": None,
        "flag": True,
        "at": at,
        "day": date(2026, 3, 4),
        "money": Decimal("12.50"),
        "bytes": b"\x00\xff",
        "list": [1, None, 3],
        "struct": {"a": 1, "b": ["x"]},
        "map": {"k": 1.5},
    }
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("text", pa.string()),
            ("nothing", pa.string()),
            ("flag", pa.bool_()),
            ("at", pa.timestamp("us", "Europe/Berlin")),
            ("day", pa.date32()),
            ("money", pa.decimal128(10, 2)),
            ("bytes", pa.binary()),
            ("list", pa.list_(pa.int32())),
            ("struct", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
            ("map", pa.map_(pa.string(), pa.float64())),
        ]
    )
    batch = pa.RecordBatch.from_pylist([{**row, "map": list(row["map"].items())}], schema)
    options = {"queue": "typed", "task": "t", "key": "id"}
    write_all(shop, [[batch]], **options)
    [payload] = shop.payloads("typed")
    assert json.loads(payload) == {
        **row,
        "at": "2026-03-04T05:06:07Z",
        "day": "2026-03-04",
        "money": "12.50",
        "bytes": "AP8=",
    }
    write_all(shop, [[batch]], **options, codec="msgpack", tenant=f"{shop.tenant}-m")
    [packed] = Shop(shop.url, f"{shop.tenant}-m").payloads("typed")
    assert msgspec.msgpack.decode(packed)["at"] == at


def nested(value: Any, kind: pa.DataType) -> dict[str, Any]:
    """A value at the top, in an array, in a struct, in a map, and in an array of structs of maps."""
    deep = pa.list_(pa.struct([("m", pa.map_(pa.string(), kind))]))
    return {
        "top": pa.array([value], kind),
        "array": pa.array([[value, None]], pa.list_(kind)),
        "struct": pa.array([{"s": value}], pa.struct([("s", kind)])),
        "map": pa.array([[("k", value)]], pa.map_(pa.string(), kind)),
        "deep": pa.array([[{"m": [("k", value)]}, None]], deep),
    }


def encoded(columns: dict[str, Any], **options: str) -> Any:
    """The payload of the one row, read again."""
    writing = read_writing({"url": "tenure://h", "queue": "q", "task": "t", "key": "id", **options}, is_stream=False)
    [payload] = RowEncoder(writing).read(pa.record_batch({"id": ["row-1"], **columns})).payloads
    return msgspec.msgpack.decode(payload) if writing.codec == "msgpack" else json.loads(payload)


def in_all_places(text: Any) -> dict[str, Any]:
    return {
        "id": "row-1",
        "top": text,
        "array": [text, None],
        "struct": {"s": text},
        "map": {"k": text},
        "deep": [{"m": {"k": text}}, None],
    }


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_times_are_in_utc_wherever_they_stand(zone: str) -> None:
    at = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
    kind = pa.timestamp("us", zone)
    assert encoded(nested(at, kind)) == in_all_places("2026-03-04T05:06:07.890000Z")
    assert encoded(nested(at, kind), codec="msgpack") == in_all_places(at)
    keys = pa.array([[(at, 1)]], pa.map_(kind, pa.int64()))
    assert encoded({"map": keys})["map"] == {"2026-03-04T05:06:07.890000Z": 1}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    "text",
    [
        "0.000000000000000000",
        "0.000000000000000001",
        "-0.000000100000000000",
        "12345678901234567890.500000000000000000",
    ],
)
def test_decimals_are_in_plain_notation_with_the_scale_of_their_column(text: str, codec: str) -> None:
    assert encoded(nested(Decimal(text), pa.decimal128(38, 18)), codec=codec) == in_all_places(text)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_number_that_json_does_not_have_is_refused_and_named(number: float, kind: pa.DataType) -> None:
    for name, column in nested(number, kind).items():
        with pytest.raises(InvalidRequest, match=f"{name}: .*row-1.*nan=null") as caught:
            encoded({name: column})
        assert str(number) in caught.value.message
    assert encoded(nested(number, kind), nan="null") == in_all_places(None)
    kept = encoded(nested(number, kind), codec="msgpack")
    assert str(kept["top"]) == str(kept["deep"][0]["m"]["k"]) == str(number)
    with pytest.raises(InvalidRequest, match=r"top: .*row-1"):
        encoded(nested(number, kind), codec="msgpack", nan="error")


def test_row_with_a_number_that_json_does_not_have_is_found_among_others(shop: Shop) -> None:
    batch = orders(0, 5).set_column(1, "amount", pa.array([1.0, None, 2.0, math.nan, math.inf]))
    writer = writer_of(shop, batch, **ORDERS, loadId="nan")
    with pytest.raises(InvalidRequest, match="order-3"):
        writer.write(iter([batch]))
    writer.abort([None])
    write_all(shop, [[batch]], **ORDERS, nan="null", loadId="nan")
    assert [json.loads(payload)["amount"] for payload in shop.payloads()] == [1.0, None, 2.0, None, None]


def test_columns_say_priority_time_and_group_of_a_row(shop: Shop) -> None:
    at = datetime(2035, 1, 1, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "id": ["a", "b"],
            "prio": pa.array([20, None], pa.int32()),
            "due": pa.array([at, None], pa.timestamp("us", "UTC")),
            "who": ["g1", None],
        }
    )
    write_all(
        shop,
        [[batch]],
        queue="orders",
        task="pay",
        key="id",
        priority="5",
        priorityColumn="prio",
        runAtColumn="due",
        groupColumn="who",
    )
    with shop.client() as client:
        one, two = client.find().jobs
    assert (one.priority, one.group, one.run_at, one.state) == (20, "g1", int(at.timestamp() * 1_000), "scheduled")
    assert (two.priority, two.group, two.state) == (5, "", "ready")
    assert json.loads(one.payload) == {"id": "a"}


def test_columns_say_queue_task_tags_and_unique_key_of_a_row(shop: Shop) -> None:
    batch = pa.record_batch(
        {
            "id": ["a", "b", "c"],
            "where": ["mail", "push", None],
            "what": ["send", None, "send"],
            "labels": [["eu", "vip"], [], None],
            "one": ["u-1", None, "u-3"],
            "prio": pa.array([1, 2, None], pa.int32()),
        }
    )
    columns = {"queueColumn": "where", "taskColumn": "what", "tagsColumn": "labels", "uniqueKeyColumn": "one"}
    write_all(shop, [[batch]], queue="rest", task="other", key="id", priorityColumn="prio", **columns)
    with shop.client() as client:
        found = {job.queue: job for job in client.find().jobs}
        again = client.enqueue(b"{}", queue="mail", task="send", unique_key="u-1")
    assert {job.queue: (job.task, job.tags, job.priority) for job in found.values()} == {
        "mail": ("send", ("eu", "vip"), 1),
        "push": ("other", (), 2),
        "rest": ("send", (), 0),
    }
    assert json.loads(found["mail"].payload) == {"id": "a"}
    assert (again.id, again.duplicate) == (found["mail"].id, True)


def test_tags_may_be_of_all_rows_or_a_column_of_text(shop: Shop) -> None:
    write_all(shop, [[orders(0, 2)]], **ORDERS, tags="nightly, eu")
    batch = pa.record_batch({"order_id": ["x", "y"], "tag": ["one", None]})
    write_all(shop, [[batch]], **ORDERS, tagsColumn="tag")
    with shop.client() as client:
        assert sorted(job.tags for job in client.find().jobs) == [(), ("nightly", "eu"), ("nightly", "eu"), ("one",)]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"q": ["a b"]}, {"queueColumn": "q"}, "queue: 'a b'"),
        ({"q": pa.array([None], pa.string())}, {"queueColumn": "q", "queue": ""}, "q is null in 1 of 1 rows"),
        ({"t": [["x" * 129]]}, {"tagsColumn": "t"}, "tags"),
        ({"u": [""]}, {"uniqueKeyColumn": "u"}, "1 to 512 bytes"),
    ],
)
def test_wrong_value_of_such_a_column_fails_the_task(
    shop: Shop, columns: dict[str, Any], options: dict[str, str], words: str
) -> None:
    batch = pa.record_batch({"order_id": ["row-1"], **columns})
    with pytest.raises(InvalidRequest, match=words):
        writer_of(shop, batch, **{**ORDERS, **options}).write(iter([batch]))


def test_type_of_such_a_column_is_checked_before_a_row_is_read(shop: Shop) -> None:
    for option, column, words in (
        ("queueColumn", pa.array([1]), "it must be text, not bigint"),
        ("taskColumn", pa.array([1]), "it must be text, not bigint"),
        ("tagsColumn", pa.array([[1]]), "it must be text or an array of text"),
        ("uniqueKeyColumn", pa.array([1.5]), "it must be text, a whole number"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            writer_of(shop, pa.record_batch({"order_id": ["a"], "c": column}), **ORDERS, **{option: "c"})


# Keys.


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (pa.array(["a", None, "b", None]), "order_id is null in 2 of 4 rows"),
        (pa.array(["a", ""]), "1 to 512 bytes"),
        (pa.array(["a", "x" * 513]), "1 to 512 bytes"),
    ],
)
def test_row_without_a_sound_key_fails_the_task_and_leaves_nothing(shop: Shop, keys: pa.Array, words: str) -> None:
    batch = pa.record_batch({"order_id": keys})
    writer = writer_of(shop, batch, **ORDERS, loadId="bad")
    with pytest.raises(InvalidRequest, match=words):
        writer.write(iter([orders(0, 5).select(["order_id"]), batch]))
    writer.abort([None])
    assert shop.count() == {}
    with pytest.raises(InvalidRequest, match="nothing is known of it"):
        report_of(shop, "bad")


@pytest.mark.parametrize(
    "keys", [pa.array([1, 2]), pa.array([Decimal("1.0"), Decimal("2.0")]), pa.array([date.min, date.max])]
)
def test_keys_may_be_numbers_and_dates(shop: Shop, keys: pa.Array) -> None:
    write_all(shop, [[pa.record_batch({"k": keys})]], queue="orders", task="pay", key="k")
    write_all(shop, [[pa.record_batch({"k": keys})]], queue="orders", task="pay", key="k")
    assert shop.count() == {"ready": 2}


def test_rows_that_share_a_key_make_one_job_and_are_named(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    batch = pa.record_batch({"order_id": ["a", "b", "a"]})
    write_all(shop, [[batch]], **ORDERS, loadId="twins")
    assert counts(report_of(shop, "twins")) == (3, 2, 1)
    assert "rows share a key and make one job: a" in caplog.text


# Loads.


def test_load_is_out_of_sight_until_the_commit(shop: Shop) -> None:
    writer = writer_of(shop, orders(0, 1), **ORDERS, loadId="l1")
    messages = [stage_rows(writer.writing, "l1", part, [orders(part * 10, 10)]) for part in range(3)]
    assert shop.count() == {}
    writer.commit([*messages])
    assert shop.count() == {"ready": 30}
    assert counts(report_of(shop, "l1")) == (30, 30, 0)


def test_task_that_runs_twice_counts_once(shop: Shop) -> None:
    """The first attempt dies after it staged a part, or is slow while another one runs beside it."""
    writer = writer_of(shop, orders(0, 1), **ORDERS, loadId="l2")

    def dying() -> Any:
        yield orders(0, 10)
        raise RuntimeError("executor lost")

    with pytest.raises(RuntimeError, match="executor lost"):
        writer.write(dying())
    beside = writer.write(iter([orders(0, 10), orders(10, 10)]))
    winner = pickle.loads(pickle.dumps(writer)).write(iter([orders(0, 10), orders(10, 10)]))
    assert beside.writing != winner.writing  # type: ignore[attr-defined]
    writer.commit([winner])
    assert counts(report_of(shop, "l2")) == (20, 20, 0)
    assert len(set(shop.payloads())) == 20


def test_load_written_again_adds_nothing_and_reports_the_same(shop: Shop) -> None:
    write_all(shop, [[orders(0, 20)]], **ORDERS, loadId="l3", idempotencyTtl="1s")
    first = report_of(shop, "l3")
    with shop.client() as client:
        for job in client.claim("orders", n=20):
            client.complete(job)
    again = writer_of(shop, orders(0, 1), **ORDERS, loadId="l3")
    message = again.write(iter([orders(0, 20)]))
    assert isinstance(message, Written)
    assert message.is_published
    again.commit([message])
    assert report_of(shop, "l3") == first
    assert shop.count() == {"completed": 20}


def test_load_published_by_another_run_meanwhile_is_not_doubled(shop: Shop) -> None:
    one = writer_of(shop, orders(0, 1), **ORDERS, loadId="l4")
    two = writer_of(shop, orders(0, 1), **ORDERS, loadId="l4")
    messages = one.write(iter([orders(0, 5)])), two.write(iter([orders(0, 5)]))
    one.commit([messages[0]])
    two.commit([messages[1]])
    two.abort([messages[1]])  # and an abort that comes too late takes nothing away
    assert shop.count() == {"ready": 5}


def test_load_written_again_with_other_rows_is_an_error(shop: Shop) -> None:
    """Whichever writer learns of the first one late or early: while it stages, or when it publishes."""
    write_all(shop, [[orders(0, 20)]], **ORDERS, loadId="l6")
    early = writer_of(shop, orders(0, 1), **ORDERS, loadId="l6")
    for rows, words in ((orders(0, 19), "20 rows, now 19"), (orders(1, 20), "other keys"), (orders(0, 0), "now 0")):
        with pytest.raises(Conflict, match=words) as caught:
            early.commit([early.write(iter([rows]))])
        assert "under another loadId" in caught.value.message
    assert counts(report_of(shop, "l6")) == (20, 20, 0)


def test_load_published_by_another_run_with_other_rows_meanwhile_is_an_error(shop: Shop) -> None:
    one = writer_of(shop, orders(0, 1), **ORDERS, loadId="l7")
    two = writer_of(shop, orders(0, 1), **ORDERS, loadId="l7")
    messages = one.write(iter([orders(0, 5)])), two.write(iter([orders(5, 5)]))
    one.commit([messages[0]])
    with pytest.raises(Conflict, match="other keys"):
        two.commit([messages[1]])
    assert shop.count() == {"ready": 5}


def test_load_written_again_with_other_content_of_the_same_keys_is_an_error(shop: Shop) -> None:
    write_all(shop, [[orders(0, 3)]], **ORDERS, loadId="l8")
    other = orders(0, 3).set_column(1, "amount", pa.array([9.0, 9.0, 9.0]))
    with pytest.raises(Conflict, match="the same keys with other content"):
        write_all(shop, [[other]], **ORDERS, loadId="l8")
    with pytest.raises(Conflict, match="the same keys with other content"):
        write_all(shop, [[orders(0, 3)]], **{**ORDERS, "queue": "elsewhere"}, loadId="l8")
    write_all(shop, [[orders(0, 3)]], **ORDERS, loadId="l8")


def test_load_is_the_same_however_its_rows_are_ordered_and_divided(shop: Shop) -> None:
    batch = orders(0, 100)
    columns = {"priorityColumn": "n", "groupColumn": "order_id"}
    write_all(shop, [[batch]], **ORDERS, **columns, loadId="l9")
    shuffled = batch.take(pa.array([at * 37 % 100 for at in range(100)]))
    pieces = [[shuffled.slice(0, 30), shuffled.slice(30, 1)], [shuffled.slice(0, 0)], [shuffled.slice(31)]]
    write_all(shop, pieces, **ORDERS, **columns, loadId="l9")
    assert counts(report_of(shop, "l9")) == (100, 100, 0)
    swapped = batch.set_column(2, "n", batch.column("n").take(pa.array([1, 0, *range(2, 100)])))
    with pytest.raises(Conflict, match="other content"):
        write_all(shop, [[swapped]], **ORDERS, **columns, loadId="l9")


def test_load_of_a_build_that_kept_no_digest_is_told_by_its_number_of_rows(shop: Shop) -> None:
    writing = read_writing(shop.options(**ORDERS), is_stream=False)
    message = stage_rows(writing, "l10", 0, [orders(0, 10)])
    with shop.client() as client:
        client.load(Load(PUBLISH, "l10", parts={0: message.writing}))
    write_all(shop, [[orders(5, 10)]], **ORDERS, loadId="l10")
    with pytest.raises(Conflict, match="10 rows, now 9"):
        write_all(shop, [[orders(0, 9)]], **ORDERS, loadId="l10")


def test_digest_of_a_load_outlives_a_restart(serve: Any) -> None:
    served = serve()
    shop = Shop(served.url, "default")
    write_all(shop, [[orders(0, 10)]], **ORDERS, loadId="l11")
    served.stop(signal.SIGKILL)
    served.start()
    write_all(shop, [[orders(0, 10)]], **ORDERS, loadId="l11")
    with pytest.raises(Conflict, match="other keys"):
        write_all(shop, [[orders(1, 10)]], **ORDERS, loadId="l11")


def test_rows_of_another_load_are_duplicates_by_their_keys(shop: Shop) -> None:
    write_all(shop, [[orders(0, 10)]], **ORDERS, loadId="a")
    write_all(shop, [[orders(5, 10)]], **ORDERS, loadId="b")
    assert counts(report_of(shop, "b")) == (10, 5, 5)
    write_all(shop, [[orders(0, 15)]], **ORDERS)  # without an id the keys alone protect it
    assert shop.count() == {"ready": 15}


def test_aborted_load_leaves_nothing(shop: Shop) -> None:
    writer = writer_of(shop, orders(0, 1), **ORDERS, loadId="l5")
    message = writer.write(iter([orders(0, 10)]))
    writer.abort([message, None])
    assert shop.count() == {}
    write_all(shop, [[orders(0, 10)]], **ORDERS, loadId="l5")
    assert counts(report_of(shop, "l5")) == (10, 10, 0)


def test_empty_frame_is_no_load(shop: Shop) -> None:
    write_all(shop, [[orders(0, 0)], [orders(0, 0)]], **ORDERS, loadId="none")
    assert shop.count() == {}


def test_overwriting_is_refused(shop: Shop) -> None:
    schema = from_arrow_schema(orders(0, 1).schema)
    for make in (shop.source(**ORDERS).writer, shop.source(**ORDERS).streamWriter):
        with pytest.raises(InvalidRequest, match="none is replaced"):
            make(schema, True)


# Size and pressure.


def test_chunks_are_bounded_in_rows_and_bytes() -> None:
    writing = read_writing({"url": "tenure://h", **ORDERS}, is_stream=False)
    encoder = RowEncoder(writing)
    many = chunks_of(encoder.read(orders(0, 25_000)), encoder.options)
    assert [len(chunk.payloads) for chunk in many] == [10_000, 10_000, 5_000]
    large = pa.record_batch({"order_id": [str(at) for at in range(20)], "body": ["x" * (CHUNK_BYTES // 8)] * 20})
    chunks = chunks_of(encoder_of(large), encoder.options)
    assert sum(len(chunk.payloads) for chunk in chunks) == 20
    assert all(size_of(chunk) <= CHUNK_BYTES for chunk in chunks)
    assert chunks_of(encoder_of(large.slice(0, 0)), encoder.options) == []


def encoder_of(batch: pa.RecordBatch) -> Any:
    return RowEncoder(read_writing({"url": "tenure://h", **ORDERS}, is_stream=False)).read(batch)


def test_large_rows_are_split_among_messages(shop: Shop) -> None:
    large = pa.record_batch({"order_id": [str(at) for at in range(60)], "body": ["x" * 900_000] * 60})
    write_all(shop, [[large]], **ORDERS, loadId="large")
    assert counts(report_of(shop, "large")) == (60, 60, 0)


def test_row_that_is_too_large_fails_the_task(shop: Shop) -> None:
    writer = writer_of(shop, orders(0, 1), **ORDERS, loadId="huge")
    with pytest.raises((InvalidRequest, PayloadTooLarge)):
        writer.write(iter([pa.record_batch({"order_id": ["a"], "body": ["x" * 20_000_000]})]))


def test_full_store_is_waited_for(serve: Any) -> None:
    shop = Shop(serve(store="memory://").url, "default")
    shop.enqueue(100)
    with shop.client() as client:
        client.configure("store", "", jobs_max=105)
    writer = writer_of(shop, orders(0, 1), **ORDERS, loadId="pressed")
    done: list[Any] = []
    task = threading.Thread(target=lambda: done.append(writer.write(iter([orders(0, 10)]))))
    task.start()
    with shop.client() as client:
        for job in client.claim("orders", n=100):
            client.complete(job)
            client.remove(job.id)
    task.join(30)
    writer.commit(done)
    assert shop.count() == {"ready": 10}


def test_wait_for_room_is_bounded(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(serve(store="memory://").url, "default")
    with shop.client() as client:
        client.configure("store", "", jobs_max=5)
    monkeypatch.setattr("tenure.spark.load.OVERLOADED_S", 0.5)
    with pytest.raises(Overloaded):
        writer_of(shop, orders(0, 1), **ORDERS).write(iter([orders(0, 10)]))


def test_refused_rows_are_not_silent(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """A queue beyond the number that a tenant may have is refused when the rows come in, not when they are staged."""
    shop.enqueue(1, queue="first")
    with shop.client() as client:
        client.configure("tenant", shop.tenant, queues_max=1)
    with pytest.raises(InvalidRequest, match="0 of 3 rows of load full are in"):
        write_all(shop, [[orders(0, 3)]], **ORDERS, loadId="full")
    assert "load full: 3 rows were refused: row 0 of chunk 0 of part 0" in caplog.text


# Micro-batches.


def test_batch_that_is_written_again_adds_nothing(shop: Shop) -> None:
    """What the sink does in a task and at the commit, with the id that Spark gives it."""
    writing = read_writing(shop.options(**ORDERS, idempotencyTtl="1s"), is_stream=True)
    for _ in range(2):
        publish(writing.place, [stage_rows(writing, name_load("query", 7), 0, [orders(0, 10)])])
    assert shop.count() == {"ready": 10}
    assert counts(report_of(shop, "query-7")) == (10, 10, 0)


def test_batch_with_other_rows_stops_the_query_and_other_content_is_told(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that is computed again may have other content (a time of day): an error would stop the query for ever."""
    writing = read_writing(shop.options(**ORDERS), is_stream=True)

    def write(rows: pa.RecordBatch) -> None:
        publish(writing.place, [stage_rows(writing, name_load("q", 0), 0, [rows])], is_stream=True)

    write(orders(0, 10))
    write(orders(0, 10).set_column(1, "amount", pa.array([1.0] * 10)))
    assert "the same keys with other content" in caplog.text
    with pytest.raises(Conflict, match="other keys"):
        write(orders(10, 10))
    assert shop.count() == {"ready": 10}


def test_stream_writer_outside_of_spark_says_what_it_misses(shop: Shop) -> None:
    writer = shop.source(**ORDERS).streamWriter(from_arrow_schema(orders(0, 1).schema), False)
    with pytest.raises(Exception, match="told its query"):
        writer.write(iter([orders(0, 1)]))


@pytest.mark.parametrize(("first", "count"), [(0, 20), (0, 3), (3, 7), (19, 1), (4, 0)])
def test_keys_are_those_of_the_part_of_the_column(first: int, count: int) -> None:
    column = pa.array(["a", "bé", "", "ccc", "😀"] * 4)
    part = column.slice(first, count)
    assert list(packed_texts(part)) == column.to_pylist()[first : first + count]
    again = pa.concat_arrays([part])  # begins anew
    assert list(packed_texts(again)) == part.to_pylist()
