"""Store to store by Spark: parts side by side, dependencies across them, differences as a table."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tenure
from tenure.core.error import InvalidRequest
from tenure.core.request import UPDATE, Change
from tenure.spark.migrate import Migrated, migrate
from tenure.spark.parts import plan_parts
from tenure.spark.side import Side
from tests.cli.rig import run, serving
from tests.transfer.rig import furnish, rows_of, wall_ms

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("target")) as url:
        yield url


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("source")) as url:
        yield url


async def fill(url: str, tenant: str) -> dict[str, int]:
    async with tenure.connect(url, tenant=tenant) as client:
        ids = await furnish(client)
        last = (await client.enqueue(b"0", queue="chain")).id
        for number in range(1, 12):
            last = (await client.enqueue(b"%d" % number, queue="chain", depends_on=[last, ids["scheduled"]])).id
            ids[f"chain {number}"] = last
        return ids


def moved(spark: SparkSession, source: str, target: str, tenant: str, differences: str = "") -> Migrated:
    return migrate(spark, source, target, now_ms=wall_ms, tenant=tenant, parts=3, differences=differences)


async def change_copies(url: str, tenant: str) -> tuple[int, int]:
    """One job is changed and one removed; their new ids."""
    async with tenure.connect(url, tenant=tenant) as client:
        there = {row["payload"]: id for id, row in (await rows_of(client, tenant)).items()}
        await client.change_batch(Change(UPDATE, [there[b"raised"]], payload=b"other", metadata={"a": "b"}))
        await client.remove(there[b"plain"])
        return there[b"raised"], there[b"plain"]


def test_store_is_moved_once_and_what_differs_is_named(
    spark: SparkSession, source: str, target: str, tmp_path: Path
) -> None:
    ids = asyncio.run(fill(source, "acme"))
    asyncio.run(fill(source, "other"))
    asyncio.run(fill(target, "there-before"))
    done = moved(spark, source, target, "acme")
    assert done.verified is not None
    assert (done.copied.new, done.copied.duplicates, done.copied.refused) == (len(ids) + 1, 0, 0)
    assert (done.copied.running, done.copied.is_repeated, done.copied.tenants) == (1, False, ["acme"])
    assert (done.verified.named, done.verified.settings, done.verified.is_same) == ([], [], True)
    assert done.verified.rows == len(ids) + 1

    raised, plain = asyncio.run(change_copies(target, "acme"))
    folder = str(tmp_path / "differences")
    again = moved(spark, source, target, "acme", differences=folder)
    assert again.verified is not None
    assert (again.copied.is_repeated, again.copied.new) == (True, len(ids) + 1)
    assert [(each.kind, each.source, each.target, each.field) for each in again.verified.named] == [
        ("missing", ids["plain"], plain, ""),
        ("different", ids["raised"], raised, "metadata"),
        ("different", ids["raised"], raised, "payload"),
    ]
    assert again.verified.named[1].found == {"a": "b"}
    assert {queue.queue for queue in again.verified.queues if not queue.is_same} == {"default"}
    assert (again.verified.differences, spark.read.parquet(folder).count()) == (3, 3)


def test_all_tenants_are_moved_by_the_command(spark: SparkSession, target: str, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/old.db"
    first, second = asyncio.run(fill(source, "first")), asyncio.run(fill(source, "second"))
    done = run("spark", "migrate", source, target, "--load-id", "all", "--parts", "2", "--json")
    assert done.code == 0, done
    assert done.json["new"] == len(first) + len(second) + 2
    assert {queue["tenant"] for queue in done.json["verified"]["queues"]} == {"first", "second"}


def test_move_that_cannot_be_done_leaves_nothing(spark: SparkSession, tmp_path: Path, target: str) -> None:
    source = f"sqlite:///{tmp_path}/old.db?blobs={tmp_path}/blobs"
    with tenure.connect_sync(source, tenant="large") as client:
        client.enqueue_many([b"x"] * 5)
        client.enqueue(b"x" * 2_000_000, codec="raw")
    with pytest.raises(Exception, match="give it a blob store"):
        moved(spark, source, target, "large")
    with tenure.connect_sync(target, tenant="large") as client:
        assert client.count() == {}


@pytest.mark.parametrize(
    ("urls", "fault"),
    [
        (("memory://", "tenure://h"), "every task would have a store of its own"),
        (("tenure://h", "tenure://h"), "it is the store that is copied from"),
        (("tenure://me:secret@h", "tenure://i"), "it would show in plans"),
    ],
)
def test_wrong_use_is_refused(spark: SparkSession, urls: tuple[str, str], fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        migrate(spark, *urls, now_ms=wall_ms)


@pytest.mark.parametrize(("first", "last", "asked"), [(1, 10, 3), (7, 7, 5), (5, 4, 2), (1, 200_001, 0), (3, 100, 0)])
def test_parts_cover_every_id_once_and_rise(first: int, last: int, asked: int) -> None:
    parts = plan_parts(first, last, asked)
    bounds = [parts.bounds(part) for part in range(parts.count)]
    assert bounds[0][0] == first - 1
    assert bounds[-1][1] == max(last, first)
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert all(after < upto for after, upto in bounds)


def test_token_is_read_where_it_is_used_and_is_in_nothing_that_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from the file\n")
    for name in ("TENURE_TOKEN", "TENURE_SOURCE_TOKEN", "TENURE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    side = Side("tenure://h", token_variable="TENURE_SOURCE_TOKEN")
    assert side.token() == ""
    monkeypatch.setenv("TENURE_TOKEN", "common")
    assert side.token() == "common"
    monkeypatch.setenv("TENURE_SOURCE_TOKEN", "own")
    assert side.token() == "own"
    named = Side("tenure://h", str(file))
    assert named.token() == "from the file"
    assert all(secret not in repr((side, named)) for secret in ("own", "common", "from the file"))
    with pytest.raises(InvalidRequest, match="where Spark's tasks run"):
        Side("tenure://h", str(tmp_path / "none")).token()
