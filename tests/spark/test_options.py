"""The options: what is not known, not meant here or not sound is refused by name, and no secret is ever repeated."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from tenure.core.error import InvalidRequest
from tenure.lake.schema import TABLES
from tenure.spark.connect import token_of
from tenure.spark.option import KNOWN, Place, read_columns, read_reading, read_writing
from tenure.spark.payload import check_columns
from tests.docs.page import CODE, ROOT

URL = {"url": "tenure://127.0.0.1:6789"}
READ = {**URL, "table": "events"}
WRITE = {**URL, "queue": "orders", "task": "pay", "key": "order_id"}
SECRET = "tok-5ecret"


def test_defaults_of_a_reader() -> None:
    found = read_reading(READ, is_stream=False)
    assert (found.place.tenant, found.starting, found.ending) == ("default", "earliest", "latest")
    assert (found.fail_on_data_loss, found.pushdown, found.max_offsets) == (True, "auto", 0)


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20.123+01:00", 1_700_000_000_123),
        ("2023-11-14 22:13:20Z", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_times_are_milliseconds_or_have_a_zone(text: str, at_ms: int) -> None:
    assert read_reading({**READ, "startingTimestamp": text}, is_stream=True).starting_at_ms == at_ms
    assert read_reading({**READ, "endingTimestamp": text}, is_stream=False).ending_at_ms == at_ms


@pytest.mark.parametrize(("text", "size"), [("4096", 4_096), ("100k", 102_400), ("8m", 2**23), ("1g", 2**30)])
def test_bytes_may_have_a_unit(text: str, size: int) -> None:
    assert read_reading({**READ, "maxBytesPerTrigger": text}, is_stream=True).max_bytes == size


def test_names_come_in_lower_case() -> None:
    given = {**READ, "startingoffsets": "7", "maxoffsetspertrigger": "10", "failondataloss": "false"}
    found = read_reading(given, is_stream=True)
    assert (found.starting, found.max_offsets, found.fail_on_data_loss) == (7, 10, False)


def test_keys_are_held_as_long_as_a_load_is_remembered() -> None:
    assert read_writing(WRITE, is_stream=False).job_options().idempotency_ttl_ms == 7 * 86_400_000


READ_WRONG = [
    ({"startingOffset": "1"}, "did you mean startingOffsets?"),
    ({"startingOffsets": "yesterday"}, "earliest, latest, or the seq"),
    ({"startingOffsets": "-1"}, "earliest, latest, or the seq"),
    ({"table": "workers"}, "it must be one of events, jobs"),
    ({"columns": "seq,nothing"}, "events has no such column"),
    ({"columns": "seq,,at"}, "commas"),
    ({"columns": "seq,seq"}, "each once"),
    ({"minPartitions": "0"}, "whole number from 1"),
    ({"minPartitions": "many"}, "whole number"),
    ({"failOnDataLoss": "perhaps"}, "true or false"),
    ({"queue": "orders"}, "it is for writing and streaming into it"),
    ({"path": "events"}, "name the server as url"),
    ({"table": "jobs", "startingOffsets": "1"}, "only events and attempts have offsets"),
    ({"maxOffsetsPerTrigger": "5"}, "it is for streaming from it"),
    ({"tenant": "a b"}, "tenant"),
    ({"startingTimestamp": "2023-11-14T22:13:20"}, "with a zone"),
    ({"startingTimestamp": "yesterday"}, "2026-01-31T07:00:00Z"),
    ({"startingTimestamp": "0", "startingOffsets": "1"}, "either it or startingOffsets"),
    ({"endingTimestamp": "0", "endingOffsets": "1"}, "either it or endingOffsets"),
    ({"table": "jobs", "startingTimestamp": "0"}, "only events and attempts"),
    ({"pushdown": "perhaps"}, "auto, true, false"),
]


@pytest.mark.parametrize(("change", "words"), READ_WRONG)
def test_wrong_option_of_a_reader_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words.replace("?", r"\?")):
        read_reading({**READ, **change}, is_stream=False)


WRITE_WRONG = [
    ({"key": ""}, "key: .* must be given"),
    ({"queue": ""}, "queue: .* must be given"),
    ({"tenant": "*"}, "belongs to one tenant"),
    ({"startingOffsets": "1"}, "it is for reading and streaming from it"),
    ({"payload": "a", "payloadColumns": "a,b"}, "either it or payload"),
    ({"delay": "5s", "runAtColumn": "at"}, "either it or runAtColumn"),
    ({"codec": "pickle"}, "json, msgpack"),
    ({"priority": "urgent"}, "priority"),
    ({"maxAttempts": "0"}, "whole number from 1"),
    ({"delay": "soon"}, "30s"),
    ({"queue": "no spaces"}, "queue"),
    ({"priorities": "x"}, "did you mean priority?"),
    ({"tags": "a,b", "tagsColumn": "t"}, "either it or tagsColumn"),
    ({"tags": ",".join(f"t{at}" for at in range(33))}, "tags"),
    ({"queue": "", "task": "", "queueColumn": "q"}, "task: .* must be given"),
    ({"nan": "maybe"}, "error, null"),
]


@pytest.mark.parametrize(("change", "words"), WRITE_WRONG)
def test_wrong_option_of_a_writer_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words.replace("?", r"\?")):
        read_writing({**WRITE, **change}, is_stream=False)


def test_what_spark_adds_to_a_stream_is_let_pass() -> None:
    read_writing({**WRITE, "checkpointlocation": "/there", "queryname": "q"}, is_stream=True)


def test_only_histories_are_streamed() -> None:
    with pytest.raises(InvalidRequest, match="events and attempts can be streamed"):
        read_reading({**URL, "table": "jobs"}, is_stream=True)


URLS_WRONG = ["", "sqlite:///jobs.db", "memory://", "tenure://", "tenure://h:nine", "tenure://[::1"]


@pytest.mark.parametrize("url", URLS_WRONG)
def test_url_must_be_a_server(url: str) -> None:
    with pytest.raises(InvalidRequest, match="url"):
        read_reading({**READ, "url": url}, is_stream=False)


# Secrets.


@pytest.mark.parametrize(
    "change",
    [
        {"token": SECRET},
        {"url": f"tenure://user:{SECRET}@127.0.0.1:6789"},
        {"url": f"tenure://{SECRET}@127.0.0.1:6789"},
        {"url": f"tenure://127.0.0.1:6789?token={SECRET}"},
        {"tokenVariable": f"{SECRET}"},
    ],
)
def test_secret_among_the_options_is_refused_and_not_repeated(change: dict[str, str]) -> None:
    for read in (read_reading, read_writing):
        with pytest.raises(InvalidRequest, match=r"tokenFile|environment variable") as raised:
            read({**(READ if read is read_reading else WRITE), **change}, is_stream=False)
        assert SECRET not in str(raised.value)
        assert SECRET not in repr(raised.value.fields)


def test_token_is_read_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_TOKEN", raising=False)
    monkeypatch.delenv("TENURE_TOKEN_FILE", raising=False)
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    assert token_of(Place("tenure://h")) == ""
    assert token_of(Place("tenure://h", token_file=str(file))) == SECRET
    monkeypatch.setenv("TENURE_TOKEN_FILE", str(file))
    assert token_of(Place("tenure://h")) == SECRET
    monkeypatch.setenv("TENURE_TOKEN", "of the environment")
    assert token_of(Place("tenure://h")) == "of the environment"
    monkeypatch.setenv("OTHER", "of another")
    assert token_of(Place("tenure://h", token_variable="OTHER")) == "of another"
    with pytest.raises(InvalidRequest, match="not set"):
        token_of(Place("tenure://h", token_variable="NOBODY"))
    with pytest.raises(InvalidRequest, match="No such file"):
        token_of(Place("tenure://h", token_file=str(tmp_path / "nothing")))


def test_what_is_pickled_names_the_file_and_holds_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    monkeypatch.setenv("TENURE_TOKEN", SECRET)
    reading = read_reading({**READ, "tokenFile": str(file)}, is_stream=False)
    assert token_of(reading.place) == SECRET
    assert SECRET.encode() not in pickle.dumps(reading)
    assert SECRET not in repr(reading)


# Columns.


def test_schema_depends_on_table_and_columns() -> None:
    assert read_columns({**READ, "columns": "job, type"}) == ("events", ("job", "type"))
    with pytest.raises(InvalidRequest, match=r"table: .* must be given"):
        read_columns(URL)


COLUMNS_WRONG = [
    ({"key": "order"}, "did you mean order_id?"),
    ({"key": "amount"}, "must be text, a whole number"),
    ({"payload": "amount"}, "must be text or binary"),
    ({"runAtColumn": "order_id"}, "must be a timestamp"),
    ({"priorityColumn": "order_id"}, "must be a whole number"),
    ({"payloadColumns": "amount,order"}, "no such column"),
]


@pytest.mark.parametrize(("change", "words"), COLUMNS_WRONG)
def test_column_that_does_not_serve_is_refused(change: dict[str, str], words: str) -> None:
    schema = StructType().add("order_id", "string").add("amount", "double").add("at", "timestamp")
    with pytest.raises(InvalidRequest, match=words.replace("?", r"\?")):
        check_columns(read_writing({**WRITE, **change}, is_stream=False), schema)


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    named = {code for row in page.splitlines() if row.startswith("|") for code in CODE.findall(row.split("|")[1])}
    assert {known.name for known in KNOWN.values()} <= named
    assert set(TABLES) <= named
