"""A copy of a store: every job with every field, alive; once, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import tenure
from tenure.client.client import Client
from tenure.core.error import Conflict, InvalidRequest
from tenure.core.record import JobRecord
from tenure.core.request import PRIORITY, READ, Change, Load
from tenure.core.table import JOB_COLUMNS
from tenure.transfer.copy import Copy, bounds_of
from tenure.transfer.row import Row
from tests.server.process import running
from tests.transfer.rig import copied, furnish, rows_of, wall_ms

PAIRS = ["memory to file", "file to file", "file to server", "server to file"]
NEVER_USED = {"payload_blob", "result_blob", "flow", "parent"}
ENDED = ("state", "ended_at")


@pytest.fixture(params=PAIRS)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Client, Client]]:
    kinds = str(request.param).split(" to ")
    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for at, kind in enumerate(kinds):
            url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/{at}.db"
            if kind == "server":
                server = await stack.enter_async_context(running(tmp_path, "--tcp-port", "0", store=url))
                url = f"tenure://127.0.0.1:{server.port}"
            clients.append(await stack.enter_async_context(tenure.connect(url)))
        await clients[1].as_tenant("own").enqueue_many([b"there before"] * 3)
        yield clients[0], clients[1]


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Client, Client]]:
    async with tenure.connect("memory://") as source, tenure.connect("memory://") as target:
        await target.as_tenant("own").enqueue_many([b"there before"] * 3)
        yield source, target


async def copy_of(target: Client, payload: bytes) -> JobRecord:
    [id] = [id for id, row in (await rows_of(target)).items() if row["payload"] == payload]
    return await target.as_tenant("default", ("*",)).get(id)


async def test_every_job_is_copied_with_every_field(stores: tuple[Client, Client]) -> None:
    source, target = stores
    ids = await furnish(source)
    await furnish(source.as_tenant("acme"))
    await source.configure("tenant", "acme", weight=3, enqueue_rate=tenure.Rate(10_000, 1_000))
    done, verified = await copied(source, target)
    assert (done.rows, done.new, done.duplicates, done.refused) == (2 * len(ids), 2 * len(ids), 0, 0)
    assert (done.running, done.events_meanwhile, done.results_left) == (2, 0, [])
    assert (verified.named, verified.settings, verified.is_same) == ([], [], True)
    assert verified.rows == 2 * len(ids)
    filled = {name for row in (await rows_of(source)).values() for name, value in row.items() if value}
    assert set(JOB_COLUMNS) - filled == NEVER_USED
    assert await target.configure("tenant", "acme") == {"weight": 3, "enqueue_rate": [10_000, 1_000, 10_000]}


async def test_copy_that_is_repeated_adds_nothing(stores: tuple[Client, Client]) -> None:
    source, target = stores
    ids = await furnish(source)
    first, _ = await copied(source, target)
    before = await rows_of(target)
    await target.configure("queue", "mail", concurrency=51)
    again, verified = await copied(source, target)
    assert (again.is_repeated, again.new, again.rows) == (True, len(ids), first.rows)
    assert await rows_of(target) == before
    assert [(each.setting, each.found) for each in verified.settings] == [("concurrency", 51)]
    assert verified.named == []


async def test_one_tenant_is_copied_alone(pair: tuple[Client, Client]) -> None:
    source, target = pair
    await furnish(source)
    ids = await furnish(source.as_tenant("acme"))
    done, verified = await copied(source, target, tenant="acme")
    assert (done.tenants, done.new, verified.is_same, verified.rows) == (["acme"], len(ids), True, len(ids))
    assert {row["tenant"] for row in (await rows_of(target)).values()} == {"acme", "own"}
    assert await target.configure("key", "*") == {}


async def test_copied_keys_refuse_duplicates(pair: tuple[Client, Client]) -> None:
    source, target = pair
    await furnish(source)
    await copied(source, target)
    for fields in (
        {"custom_id": "custom completed"},
        {"unique_key": "unique ready"},
        {"idempotency_key": "idem failed"},
        {"idempotency_key": "idem retrying"},
    ):
        assert (await target.enqueue(b"x", queue="mail", task="send", **fields)).duplicate, fields
    assert not (await target.enqueue(b"x", queue="mail", task="send", unique_key="unique completed")).duplicate


async def test_copied_jobs_are_alive(pair: tuple[Client, Client]) -> None:
    """A delayed one runs at its time, attempts that were left are left, limits and groups hold, dependents follow."""
    source, target = pair
    soon = wall_ms() + 400
    await source.enqueue(b"soon", queue="soon", run_at=soon / 1_000)
    await source.enqueue_many([b"a", b"b"], queue="tight", limit_keys=("one",))
    await source.configure("key", "one", concurrency=1)
    await source.enqueue_many([b"g1", b"g2"], queue="grouped", group="g")
    needed = await source.enqueue(b"needed", queue="needed", max_attempts=2)
    await source.enqueue(b"dependent", queue="dependent", depends_on=[needed.id])
    [job] = await source.claim("needed", worker="w")
    await source.fail(job, retry_after=0)
    _, verified = await copied(source, target)
    assert verified.named == []

    [first] = await target.claim("tight", n=2)
    await target.complete(first)
    assert [job.payload for job in await target.claim("tight", n=2)] == [b"b"]
    [head] = await target.claim("grouped", n=2)
    assert head.payload == b"g1"
    assert await target.claim("dependent") == []
    [last] = await target.claim("needed")
    assert last.attempt == 2
    await target.complete(last)
    [dependent] = await target.claim("dependent")
    assert dependent.payload == b"dependent"
    [timed] = await target.claim("soon", wait=5)
    assert (timed.payload, wall_ms() >= soon) == (b"soon", True)


async def test_running_job_waits_for_its_old_lease_and_has_its_attempt_back(pair: tuple[Client, Client]) -> None:
    source, target = pair
    await source.enqueue(b"busy", queue="q", max_attempts=1)
    [job] = await source.claim("q", worker="w", lease=30)
    done, verified = await copied(source, target)
    assert (done.running, verified.is_same, set(verified.expected)) == (1, True, {"new ids", "released"})
    found = await copy_of(target, b"busy")
    assert (found.state, found.attempt, found.delivery, found.run_at) == ("scheduled", 0, 1, job.lease_until)


async def test_dependency_that_is_gone_is_left_out(pair: tuple[Client, Client]) -> None:
    source, target = pair
    gone, stays = await source.enqueue(b"gone"), await source.enqueue(b"stays", delay="1h")
    [job] = await source.claim("default")
    await source.complete(job)
    waits = await source.enqueue(b"waits", depends_on=[gone.id, stays.id])
    await source.cancel(waits.id)
    await source.remove(gone.id)
    done, verified = await copied(source, target)
    assert (done.new, done.refused, verified.is_same) == (2, 0, True)
    assert (await copy_of(target, b"waits")).depends_on == ((await copy_of(target, b"stays")).id,)


async def test_dependencies_reach_across_chunks(pair: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.transfer.read.CHUNK_ROWS", 3)
    source, target = pair
    last = (await source.enqueue(b"0", queue="chain")).id
    for number in range(1, 10):
        last = (await source.enqueue(b"%d" % number, queue="chain", depends_on=[last])).id
    done, verified = await copied(source, target)
    assert (done.new, verified.is_same) == (10, True)
    for number in range(10):
        [job] = await target.claim("chain", n=9)
        assert job.payload == b"%d" % number
        await target.complete(job)


async def test_job_whose_key_is_taken_is_a_duplicate_and_its_differences_are_named(pair: tuple[Client, Client]) -> None:
    source, target = pair
    there = await target.enqueue(b"theirs", custom_id="c", priority=1)
    ours = await source.enqueue(b"ours", custom_id="c")
    await source.enqueue(b"after", depends_on=[ours.id])
    done, verified = await copied(source, target)
    assert (done.new, done.duplicates) == (1, 1)
    mine = [each for each in verified.named if each.source == ours.id]
    assert {"payload", "priority"} <= {each.field for each in mine}
    assert {(each.target, each.note) for each in mine} == {(there.id, "another job had its key")}
    assert (await copy_of(target, b"after")).depends_on == (there.id,)


async def test_blobs_are_copied_as_bytes(tmp_path: Path) -> None:
    large = bytes(range(256)) * 8_000
    old = f"sqlite:///{tmp_path}/old.db?blobs={tmp_path}/old.blobs"
    new = f"sqlite:///{tmp_path}/new.db?blobs={tmp_path}/new.blobs"
    async with tenure.connect(old) as source, tenure.connect(new) as target:
        await source.enqueue(b"small", codec="raw")
        for at in range(6):
            await source.enqueue(large + bytes([at]), codec="raw", queue="large")
        done, verified = await copied(source, target)
        assert (done.new, verified.named, verified.is_same) == (7, [], True)
        assert (await source.find()).jobs[1].payload_blob is not None
        assert [job.payload for job in await target.claim("large", n=1)] == [large + b"\0"]


async def test_payload_that_the_new_store_cannot_take_stops_the_copy_and_leaves_nothing(tmp_path: Path) -> None:
    old = f"sqlite:///{tmp_path}/old.db?blobs={tmp_path}/old.blobs"
    async with tenure.connect(old) as source, tenure.connect("memory://") as target:
        await source.enqueue_many([b"x"] * 3)
        await source.enqueue(b"x" * 2_000_000, codec="raw")
        with pytest.raises(InvalidRequest, match="give it a blob store"):
            await copied(source, target)
        assert await rows_of(target) == {}
        with pytest.raises(InvalidRequest, match="nothing is known of it"):
            await target.load(Load(READ, "copy-1"))


async def test_result_that_is_too_large_is_left_behind_and_named(tmp_path: Path) -> None:
    old = f"sqlite:///{tmp_path}/old.db?blobs={tmp_path}/old.blobs"
    async with tenure.connect(old) as source, tenure.connect("memory://") as target:
        made = await source.enqueue(b"x")
        [job] = await source.claim("default")
        await source.complete(job, b"r" * 2_000_000)
        done, verified = await copied(source, target)
        assert (done.results_left, done.new) == ([made.id], 1)
        assert [(each.source, each.field) for each in verified.named] == [(made.id, "result")]
        await target.configure("store", "", payload_bytes_max=10 * 1024 * 1024)
        _, verified = await copied(source, target, load_id="again")
        assert verified.named == []


class Breaking(Copy):
    """Fails when it comes to a certain job."""

    at = 0

    def _fitting(self, row: Row) -> Row:
        if row["id"] == self.at:
            raise RuntimeError("broken")
        return row


async def test_copy_that_fails_leaves_nothing_and_the_next_one_is_whole(
    stores: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.transfer.read.CHUNK_ROWS", 2)
    monkeypatch.setattr("tenure.transfer.read.PAGE_ROWS", 5)
    source, target = stores
    ids = await furnish(source)
    before = await rows_of(target)
    breaking = Breaking(source, target, "copy-1", wall_ms)
    breaking.at = max(ids.values())
    with pytest.raises(RuntimeError):
        await breaking.run()
    assert await rows_of(target) == before
    assert "mail" not in await target.configure("queue", "*")
    done, verified = await copied(source, target)
    assert (done.new, verified.is_same) == (len(ids), True)


async def test_what_an_earlier_run_left_staged_is_not_published(pair: tuple[Client, Client]) -> None:
    """Jobs that are gone since would come back to life."""
    source, target = pair
    made = await source.enqueue_many([b"gone"] * 3)
    early = Copy(source, target, "copy-1", wall_ms)
    early._bounds = await bounds_of(source)
    await early._stage()
    for job in made:
        await source.remove(job.id)
    await source.enqueue(b"new")
    done, verified = await copied(source, target)
    assert (done.rows, verified.is_same) == (1, True)
    assert [row["payload"] for row in (await rows_of(target, "default")).values()] == [b"new"]


async def test_copies_of_one_load_at_once_are_noticed(pair: tuple[Client, Client]) -> None:
    source, target = pair
    await source.enqueue_many([b"x"] * 10)
    copies = [Copy(source, target, "same", wall_ms) for _ in range(2)]
    done = await asyncio.gather(*(copy.run() for copy in copies), return_exceptions=True)
    for each in done:
        assert not isinstance(each, BaseException) or isinstance(each, (Conflict, InvalidRequest)), each
    assert len(await rows_of(target, "default")) == 10


async def test_job_that_became_due_or_expired_meanwhile_is_explained(pair: tuple[Client, Client]) -> None:
    source, target = pair
    soon = wall_ms() + 300
    await source.enqueue(b"due", run_at=soon / 1_000)
    await source.enqueue(b"expires", queue="never", expires_at=soon / 1_000)
    copy = Copy(source, target, "copy", wall_ms)
    await copy.run()
    for client in pair:
        await client.as_tenant("own").enqueue(b"", queue="later", run_at=(soon + 1) / 1_000)
        await client.as_tenant("own").claim("later", wait=5)
    verified = await copy.verify()
    assert [each for each in verified.named if each.tenant != "own"] == []
    assert (await copy_of(target, b"due")).state == "ready"
    assert (await copy_of(target, b"expires")).reason == "expired"


async def test_repeated_copy_explains_its_differences(stores: tuple[Client, Client]) -> None:
    """Which of the two stores moved on since the first copy, and what came after it."""
    source, target = stores
    await source.enqueue_many([b"old", b"new", b"both", b"neither"], queue="mail")
    await copied(source, target)
    ids = {row["payload"]: id for id, row in (await rows_of(source)).items()}
    copies = {row["payload"]: id for id, row in (await rows_of(target)).items()}
    await source.cancel(ids[b"old"])
    await target.cancel(copies[b"new"])
    await source.change_batch(Change(PRIORITY, [ids[b"both"]], priority=4))
    await target.change_batch(Change(PRIORITY, [copies[b"both"]], priority=5))
    await source.enqueue(b"late", queue="mail")
    again, verified = await copied(source, target)
    assert again.is_repeated
    payloads = {id: payload for payload, id in ids.items()}
    assert {(payloads.get(each.source, b"late"), each.kind, each.field, each.note) for each in verified.named} == {
        *((b"old", "different", field, "it changed in the old store after the first copy") for field in ENDED),
        *((b"new", "different", field, "it changed in the new store after it was copied") for field in ENDED),
        (b"both", "different", "priority", "it changed in the new store after it was copied"),
        (b"late", "missing", "", "it came after the copy had read the store"),
    }
