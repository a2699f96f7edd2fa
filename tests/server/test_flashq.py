"""flashQ's clients, as the frames that they send: JSON lines and MessagePack, no HELLO, no lease tokens."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tenure.store.embedded.sqlite import SqliteStore
from tenure.wire.command import UNSUPPORTED
from tests.server.house import House, serving, token
from tests.server.process import start
from tests.server.talk import FRAMES, LINES, Manner, Message, Talk, talking

BOTH: Final = [LINES, FRAMES]
LEASE_MS: Final = 30_000
HOUR_MS: Final = 3_600_000


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as made:
        yield made


@pytest.fixture(params=BOTH, ids=lambda manner: manner.name)
def manner(request: pytest.FixtureRequest) -> Manner:
    found: Manner = request.param
    return found


async def client(house: House, manner: Manner, token: str = "") -> Talk:
    return await house.talk(manner, token, hello=False)


async def lease(talk: Talk, **fields: Any) -> int:
    """A job that is leased to this connection."""
    await talk.do("PUSH", **{"queue": "mail", "data": {"n": 1}, **fields})
    return int((await talk.do("PULL", queue=fields.get("queue", "mail")))["job"]["id"])


async def state(talk: Talk, id: int) -> str:
    return str((await talk.do("GETSTATE", id=id))["state"])


# Settling without a token.


async def test_handler_that_succeeds_at_its_second_run_completes_its_job(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    id = await lease(talk, backoff=1_000)
    assert (await talk.do("FAIL", id=id, error="not yet"))["state"] == "delayed"
    await house.advance(1_000)
    assert (await talk.do("PULL", queue="mail"))["job"]["id"] == id
    assert (await talk.do("ACK", id=id, result={"sent": True}))["state"] == "completed"
    assert (await talk.do("GETRESULT", id=id))["result"] == {"sent": True}


@pytest.mark.parametrize("last", ["ACK", "FAIL", "RELEASE", "SNOOZE", "ACKB", "FAILB"])
async def test_pool_settles_on_another_connection(last: str, house: House, manner: Manner) -> None:
    one, two = await client(house, manner), await client(house, manner)
    id = await lease(one)
    assert (await two.do("HEARTBEAT", id=id))["lease_until"] > house.clock.wall_ms
    await two.do("PROGRESS", id=id, progress=50)
    await two.do("LOG", id=id, message="half way", level="info")
    await two.do("PARTIAL", id=id, data={"token": "a"})
    await two.do(last, **({"items": [{"id": id}]} if last[-1] == "B" else {"id": id}))
    assert await state(one, id) != "active"


async def test_pool_settles_over_a_restart_of_the_server(manner: Manner, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with serving(SqliteStore(path)) as house:
        talk = await client(house, manner)
        first, second = await lease(talk), await lease(talk)
        lost = await lease(talk, backoff=1, queue="slow")
        for id in (first, second):
            await talk.do("HEARTBEAT", id=id, lease=HOUR_MS)
        await house.advance(LEASE_MS)
        await house.advance(1_000)
        assert (await talk.do("PULL", queue="slow", lease=HOUR_MS))["job"]["id"] == lost
    async with serving(SqliteStore(path)) as house:
        talk = await client(house, manner)
        assert await state(talk, first) == "active"
        await talk.do("ACK", id=first)
        await talk.do("ACKB", ids=[second])
        assert await talk.refused("ACK", id=lost) == "LeaseLost"


@pytest.mark.parametrize("how", ["expired", "timed out"])
async def test_late_word_of_a_lost_lease_settles_nothing(how: str, house: House, manner: Manner) -> None:
    one, two = await client(house, manner), await client(house, manner)
    id = await lease(one, backoff=1, timeout=20_000 if how == "timed out" else 0)
    await house.advance(LEASE_MS)
    assert await one.refused("ACK", id=id) == "LeaseLost"
    await house.advance(1_000)
    job = (await two.do("PULL", queue="mail"))["job"]
    assert job["id"] == id
    for talk in (one, two):
        for command in ("ACK", "FAIL", "RELEASE", "HEARTBEAT", "PROGRESS"):
            assert await talk.refused(command, id=id) == "LeaseLost"
    assert await state(one, id) == "active"
    await one.do("ACK", id=id, token=job["token"])


async def test_late_word_of_a_cancelled_job_is_refused(house: House, manner: Manner) -> None:
    one, two = await client(house, manner), await client(house, manner)
    id = await lease(one)
    await two.do("CANCEL", id=id)
    assert (await one.do("HEARTBEAT", id=id))["cancelled"] is True  # and nothing was pushed in between
    assert await two.refused("ACK", id=id) == "JobCancelled"


async def test_job_that_nobody_claimed_is_not_settled(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    id = (await talk.do("PUSH", queue="mail", data=1))["id"]
    assert await talk.refused("ACK", id=id) == "LeaseLost"
    assert await talk.refused("ACK", id=99) == "JobNotFound"
    assert await state(talk, id) == "waiting"


async def test_only_the_principal_and_the_tenant_of_the_claim_may_leave_out_the_token(manner: Manner) -> None:
    tokens = {
        "shop": token("s", tenants=["acme", "globex"]),
        "mill": token("m", tenants=["acme", "globex"]),
        "bound": token("b", ("worker",), tenants=["acme"], queues=["other"]),
    }
    async with serving(tokens=tokens) as house:
        shop, again, mill, bound = [await client(house, manner, text) for text in ("s", "s", "m", "b")]
        id = await lease(shop)
        assert await mill.refused("ACK", id=id) == "LeaseLost"
        assert await again.refused("ACK", id=id, tenant="globex") == "JobNotFound"
        unknown = await bound.ask("ACK", id=99)
        hidden = await bound.ask("ACK", id=id)
        assert {**hidden, "error": "", "detail": ""} == {**unknown, "error": "", "detail": ""}
        assert hidden["error"].replace(str(id), "99") == unknown["error"]
        await again.do("ACK", id=id)


async def test_after_hello_only_the_connection_that_claimed_may_leave_out_the_token(
    house: House, manner: Manner
) -> None:
    one, two = await house.talk(manner), await house.talk(manner)
    id = await lease(one)
    assert await two.refused("ACK", id=id) == "InvalidRequest"
    await one.do("ACK", id=id)


# Batches.


@pytest.mark.parametrize("form", ["ids", "items"])
async def test_refused_item_of_a_batch_is_seen(form: str, house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    ids = [await lease(talk) for _ in range(3)]
    await talk.do("CANCEL", id=ids[1])
    given: Message = {"ids": [*ids, 99]} if form == "ids" else {"items": [{"id": id} for id in (*ids, 99)]}
    answer = await talk.ask("ACKB", **given)
    assert answer["ok"] is False
    assert answer["code"] == "JobCancelled"
    assert "2 of 4" in answer["error"]
    assert (answer["count"], answer["ids"]) == (2, [*ids, 99])
    assert [item["ok"] for item in answer["results"]] == [True, False, True, False]
    assert [(item["index"], item["code"]) for item in answer["errors"]] == [(1, "JobCancelled"), (3, "JobNotFound")]
    assert all(item["error"] for item in answer["errors"])
    assert [await state(talk, id) for id in ids] == ["completed", "failed", "completed"]


async def test_refused_item_of_a_batch_of_failures_is_seen(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    id = await lease(talk)
    answer = await talk.ask("FAILB", items=[{"id": id, "error": None}, {"id": 99, "error": "x"}])
    assert (answer["ok"], answer["code"], answer["count"]) == (False, "JobNotFound", 1)
    assert [item["index"] for item in answer["errors"]] == [1]
    assert await state(talk, id) == "delayed"


@pytest.mark.parametrize("form", ["ids", "items"])
async def test_batch_of_which_nothing_is_refused_is_ok(form: str, house: House, manner: Manner) -> None:
    talk, other = await client(house, manner), await client(house, manner)
    ids = [await lease(talk) for _ in range(3)]
    given: Message = {"ids": ids} if form == "ids" else {"items": [{"id": id} for id in ids]}
    answer = await other.do("ACKB", **given)
    assert (answer["count"], answer["ids"]) == (3, ids)
    assert "errors" not in answer
    assert [await state(talk, id) for id in ids] == ["completed"] * 3


async def test_refused_job_of_a_pushed_batch_is_named(house: House, manner: Manner) -> None:
    """The others are stored, so the answer is not an error: a client would push them again."""
    talk = await client(house, manner)
    answer = await talk.do("PUSHB", queue="mail", jobs=[{"data": 1}, {"data": 2, "priority": "x"}])
    assert answer["ids"] == [1, 0]
    assert [(item["index"], item["code"]) for item in answer["errors"]] == [(1, "InvalidRequest")]


def keys_of(value: object) -> set[type]:
    if isinstance(value, dict):
        return {type(key) for key in value}.union(*(keys_of(item) for item in value.values()))
    return set().union(*(keys_of(item) for item in value)) if isinstance(value, list) else set()


async def test_keys_of_maps_are_text_in_messagepack(house: House) -> None:
    talk = await client(house, FRAMES)
    id = await lease(talk)
    for command, fields in (
        ("ACKB", {"ids": [id, 99]}),
        ("ACKB", {"items": [{"id": 98}, {"id": 99}]}),
        ("FAILB", {"items": [{"id": 98}, {"id": 99}]}),
        ("PUSHB", {"queue": "mail", "jobs": [{"data": 1, "priority": "x"}]}),
        ("HEARTBEATB", {"items": [{"id": 99}]}),
    ):
        assert keys_of(await talk.ask(command, **fields)) == {str}


# Queues.


async def test_refused_obliterate_changes_nothing(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    id = await lease(talk)
    waiting = (await talk.do("PUSH", queue="mail", data=2))["id"]
    before = (await talk.do("EVENTS"))["cursor"]
    assert await talk.refused("OBLITERATE", queue="mail") == "InvalidRequest"
    assert (await talk.do("ISPAUSED", queue="mail"))["paused"] is False
    assert (await talk.do("EVENTS", after=before))["events"] == []
    assert [await state(talk, each) for each in (id, waiting)] == ["active", "waiting"]
    assert (await talk.do("PULL", queue="mail"))["job"]["id"] == waiting
    assert (await talk.do("OBLITERATE", queue="mail", force=True))["count"] == 2


async def test_refused_obliterate_leaves_a_paused_queue_paused(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    await lease(talk)
    await talk.do("PAUSE", queue="mail")
    assert await talk.refused("OBLITERATE", queue="mail") == "InvalidRequest"
    assert (await talk.do("ISPAUSED", queue="mail"))["paused"] is True


async def test_pages_of_jobs_by_offset(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    for n in range(7):
        await talk.do("PUSH", queue="mail" if n % 2 else "other", data=n)
    all_ids = [job["id"] for job in (await talk.do("GETJOBS"))["jobs"]]
    assert len(all_ids) == 7
    for offset in range(9):
        page = await talk.do("GETJOBS", limit=3, offset=offset)
        assert [job["id"] for job in page["jobs"]] == all_ids[offset : offset + 3]
    mail = await talk.do("GETJOBS", queue="mail", state="waiting", limit=2, offset=1)
    assert [job["data"] for job in mail["jobs"]] == [3, 5]
    rest = await talk.do("GETJOBS", limit=2, offset=3)
    following = await talk.do("GETJOBS", limit=9, cursor=rest["cursor"])
    assert [job["id"] for job in following["jobs"]] == all_ids[5:]
    for wrong in ({"offset": -1}, {"offset": 1, "cursor": "2"}, {"offset": 2**40}):
        assert await talk.refused("GETJOBS", **wrong) == "InvalidRequest"


async def test_clean_removes_waiting_and_delayed_jobs_older_than_the_grace(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    old = [(await talk.do("PUSH", queue="mail", data=1))["id"] for _ in range(3)]
    later = (await talk.do("PUSH", queue="mail", data=1, delay=HOUR_MS))["id"]
    await house.advance(60_000)
    new = (await talk.do("PUSH", queue="mail", data=1))["id"]
    other = (await talk.do("PUSH", queue="other", data=1))["id"]
    assert (await talk.do("CLEAN", queue="mail", grace=60_001, state="waiting"))["count"] == 0
    assert (await talk.do("CLEAN", queue="mail", grace=30_000, state="waiting", limit=2))["count"] == 2
    assert (await talk.do("CLEAN", queue="mail", grace=30_000, state="waiting"))["count"] == 1
    assert (await talk.do("CLEAN", queue="mail", grace=30_000, state="delayed"))["count"] == 1
    for id in (*old, later):
        assert await talk.refused("GETSTATE", id=id) == "JobNotFound"
    assert [await state(talk, id) for id in (new, other)] == ["waiting", "waiting"]
    assert (await talk.do("CLEAN", queue="mail", grace=0, state="waiting"))["count"] == 1


async def test_clean_removes_completed_and_failed_jobs_by_their_end(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    done = await lease(talk)
    await house.advance(20_000)
    await talk.do("ACK", id=done)
    assert (await talk.do("CLEAN", queue="mail", grace=10_000, state="completed"))["count"] == 0
    await house.advance(10_000)
    assert (await talk.do("CLEAN", queue="mail", grace=10_000, state="completed"))["count"] == 1


async def test_clean_of_running_jobs_is_refused(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    id = await lease(talk)
    answer = await talk.ask("CLEAN", queue="mail", grace=0, state="active")
    assert (answer["code"], answer["detail"]["field"]) == ("InvalidRequest", "state")
    assert await state(talk, id) == "active"


# The connection.


async def test_auth_is_accepted_where_no_tokens_are_configured(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    await talk.do("AUTH", token="whatever")
    await lease(talk)


async def test_auth_needs_a_token_where_some_are_configured(manner: Manner) -> None:
    async with serving(tokens={"shop": token("s")}) as house:
        talk = await client(house, manner)
        assert await talk.refused("AUTH", token="whatever") == "Unauthenticated"
        await talk.do("AUTH", token="s")


async def test_zeros_mean_none(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    zeros = dict.fromkeys(("ttl", "timeout", "stall_timeout", "max_attempts", "delay", "priority"), 0)
    kept = {"keep_completed_age": 0, "keep_completed_count": 0}
    plain = (await talk.do("PUSH", queue="mail", data=1))["id"]
    zeroed = (await talk.do("PUSH", queue="mail", data=1, **zeros, **kept))["id"]
    [batched] = (await talk.do("PUSHB", queue="mail", jobs=[{"data": 1, **zeros, **kept}]))["ids"]
    jobs = [{**(await talk.do("GETJOB", id=id))["job"], "id": 0} for id in (plain, zeroed, batched)]
    assert jobs[0] == jobs[1] == jobs[2]
    for id in (plain, zeroed, batched):
        job = (await talk.do("PULL", queue="mail"))["job"]
        assert (job["id"], job["lease_until"]) == (id, house.clock.wall_ms + LEASE_MS)
        await talk.do("ACK", id=id, result="kept")
        assert (await talk.do("GETRESULT", id=id))["result"] == "kept"


async def test_after_hello_zeros_are_values(house: House, manner: Manner) -> None:
    talk = await house.talk(manner)
    for field in ("ttl", "timeout", "lease", "max_attempts"):
        answer = await talk.ask("PUSH", queue="mail", data=1, **{field: 0})
        assert (answer["code"], answer["detail"]["field"]) == ("InvalidRequest", field)


async def test_what_is_not_built_is_unsupported(house: House, manner: Manner) -> None:
    old, new = await client(house, manner), await house.talk(manner)
    for name in sorted(UNSUPPORTED):
        for talk in (old, new):
            answer = await talk.ask(name, queue="mail", data=None)
            assert (answer["ok"], answer["code"]) == (False, "Unsupported"), name


def test_every_command_of_the_protocol_is_built_or_unsupported() -> None:
    flows = ("FLOW", "GETCHILDREN", "FLOWGET", "FLOWCANCEL", "FLOWREPLAY", "SIGNAL")
    schedules = ("CRON", "CRONDELETE", "CRONLIST", "CRONPAUSE", "CRONRUN", "CRONNEXT")
    others = ("METRICS", "CLUSTER", "TOKEN", "WEBHOOK", "BLOB")
    keys = ("KVSET", "KVGET", "KVDEL", "KVMGET", "KVMSET", "KVEXISTS", "KVEXPIRE", "KVTTL", "KVKEYS", "KVINCR")
    channels = ("PUB", "SUB", "PSUB", "UNSUB", "PUNSUB", "PUBSUBCHANNELS", "PUBSUBNUMSUB")
    assert {*flows, *schedules, *others, *keys, *channels} == UNSUPPORTED


async def test_update_is_updatejob(house: House, manner: Manner) -> None:
    talk = await client(house, manner)
    id = (await talk.do("PUSH", queue="mail", data=1))["id"]
    await talk.do("UPDATE", id=id, data=2)
    assert (await talk.do("GETJOB", id=id))["job"]["data"] == 2


@pytest.mark.slow
async def test_clients_of_a_server_in_a_process_of_its_own(manner: Manner, tmp_path: Path) -> None:
    """A worker with a pool of two connections: claims on one, settles on the other; the server is killed between."""
    server = await start("--tcp-port", "0", folder=tmp_path)
    try:
        await server.until_listening()
        async with talking(server.address, manner) as one, talking(server.address, manner) as two:
            nothing: Message = dict.fromkeys(("ttl", "timeout", "stall_timeout", "unique_key", "tags", "depends_on"))
            jobs = [{"data": n, "backoff": 1, **nothing} for n in range(3)]
            ids = (await one.do("PUSHB", queue="mail", jobs=jobs))["ids"]
            pulled = (await one.do("PULLB", queue="mail", count=3, timeout=None))["jobs"]
            assert [job["id"] for job in pulled] == ids
            await two.do("ACK", id=ids[0], result=None)
            await two.do("FAIL", id=ids[1], error=None)
            assert (await one.do("PULL", queue="mail"))["job"]["id"] == ids[1]
            await two.do("ACK", id=ids[1], result={"ok": True})
    finally:
        server.process.kill()
        await server.ended()
    server = await start("--tcp-port", "0", folder=tmp_path)
    try:
        await server.until_listening()
        async with talking(server.address, manner) as talk:
            await talk.do("ACKB", ids=[ids[2]])
            states = [(await talk.do("GETSTATE", id=id))["state"] for id in ids]
            assert states == ["completed"] * 3
            assert msgspec.json.encode((await talk.do("GETRESULT", id=ids[1]))["result"]) == b'{"ok":true}'
    finally:
        await server.stop()
