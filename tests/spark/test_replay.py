"""Dead letters grouped, selected and started again by Spark: each once, at a rate."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tenure
from tenure.core.error import InvalidRequest
from tenure.spark.replay import dead_letters, groups, replay
from tests.cli.rig import run, serving

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as url:
        yield url


def fail(url: str, tenant: str, queue: str, count: int, kind: str, message: str, **fields: object) -> list[int]:
    with tenure.connect_sync(url, tenant=tenant) as client:
        client.enqueue_many([b"x"] * count, queue=queue, task="send", max_attempts=1, **fields)
        return fail_ready(client, queue, count, kind, message)


def fail_ready(client: tenure.SyncClient, queue: str, count: int, kind: str, message: str) -> list[int]:
    jobs = client.claim(queue, n=count, worker="w")
    for at, job in enumerate(jobs):
        client.fail(job, kind, f"{message} {at}")
    return [job.id for job in jobs]


def test_letters_are_grouped_selected_and_started_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    mail = fail(url, "acme", "mail", 6, "ValueError", "bad number")
    fail(url, "acme", "image", 3, "OSError", "gone")
    fail(url, "other", "mail", 2, "ValueError", "bad number")
    with tenure.connect_sync(url, tenant="acme") as client:
        client.enqueue(b"alive", queue="mail")
        letters = dead_letters(spark, url, parts=2)
        found = groups(letters).collect()
        assert [(row.jobs, row.type, row.tenants, row.queues, row.tasks, row.reason) for row in found] == [
            (8, "ValueError", ["acme", "other"], ["mail"], ["send"], "attempts_exhausted"),
            (3, "OSError", ["acme"], ["image"], ["send"], "attempts_exhausted"),
        ]
        assert client.get(found[1].example).queue == "image"
        chosen = letters.where((letters.fingerprint == found[0].fingerprint) & (letters.tenant == "acme"))
        folder = str(tmp_path / "selection")
        done = replay(chosen, url, rate=1_000, selection=folder)
        assert (done.selected, done.replayed, done.passed_over, done.refused) == (6, 6, 0, 0)
        client.claim("mail")  # the one that was alive
        assert sorted(fail_ready(client, "mail", 6, "ValueError", "bad number")) == mail
        again = replay(chosen, url, rate=1_000, selection=folder)
        assert (again.selected, again.replayed, again.passed_over) == (6, 0, 6)
        assert {client.get(id).replays for id in mail} == {1}


def test_rate_holds_and_what_cannot_start_is_named(spark: SparkSession, url: str) -> None:
    [keyed] = fail(url, "slow", "keyed", 1, "E", "m", unique_key="u")
    fail(url, "slow", "plain", 11, "E", "m")
    with tenure.connect_sync(url, tenant="slow") as client:
        other = client.enqueue(b"has the key now", queue="keyed", unique_key="u")
        began = time.monotonic()
        done = replay(dead_letters(spark, url, tenant="slow", parts=1), url, rate=10, tasks=1)
        took_s = time.monotonic() - began
        assert (done.replayed, done.refused) == (11, 1)
        [(tenant, id, why)] = done.reasons
        where = ("--url", url, "--tenant", "slow")
        [group] = run("spark", "groups", *where, "--json").lines
        assert (group["jobs"], group["queues"], group["example"]) == (1, ["keyed"], keyed)
        said = run("spark", "replay", "--rate", "5", "--fingerprint", group["fingerprint"], *where)
        assert (said.code, "started 0 jobs again of 1 selected; 0 passed over, 1 refused" in said.out) == (0, True)
        assert run("spark", "replay", "--rate", "5", *where).code == 2
        assert (tenant, id, str(other.id) in why) == ("slow", keyed, True)
        assert took_s >= 0.9
        assert client.count("plain")["plain"]["ready"] == 11


@pytest.mark.parametrize(("rate", "tasks", "fault"), [(0, 1, "rate"), (5, 6, "tasks"), (5, 0, "tasks")])
def test_wrong_use_is_refused(spark: SparkSession, rate: int, tasks: int, fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        replay(spark.range(1), "tenure://h", rate=rate, tasks=tasks)
