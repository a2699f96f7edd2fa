"""Who may do what to what: every command, every set of roles, own and foreign tenants and queues.

What a token does not reach is answered exactly as what does not exist: whole answers are compared, with only the name
or number that was asked for taken out.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tenure.core.tenant import ROLE_NAMES
from tenure.store.embedded.sqlite import SqliteStore
from tenure.wire.command import COMMANDS
from tests.server.house import House, serving, token
from tests.server.talk import LINES, Message, Talk

FIRST_ID: Final = 5_000  # of the jobs, so that no other number in an answer is taken for one
ABSENT: Final = 987_654_321
P, W, OP, A = ROLE_NAMES.values()
TALK_ONLY: Final = frozenset({"HELLO", "AUTH", "PING", "ABORT", "UNSUBSCRIBE"})
SETTINGS: Final = ("PAUSE", "RESUME", "RATELIMITCLEAR", "CLEARCONCURRENCY")
LEASED: Final = ("ACK", "FAIL", "RELEASE", "SNOOZE", "HEARTBEAT", "PROGRESS")
CHANGES: Final = ("DISCARD", "PROMOTE", "UPDATEJOB", "CLONE", "RETRYDLQ", "REMOVE")

# What each command is asked with, about a job that may or may not be there, and who may ask.
BY_ID: Final[list[tuple[str, Message, int]]] = [
    *((name, {}, W) for name in LEASED),
    ("LOG", {"message": "x"}, W),
    ("PARTIAL", {"data": 1}, W),
    *((name, {}, P | W | OP) for name in ("GETJOB", "GETSTATE", "GETRESULT", "GETPROGRESS", "GETLOGS", "STREAM")),
    ("WAITJOB", {"timeout": 0}, P | OP),
    ("EXPLAIN", {}, OP),
    ("CANCEL", {}, P | OP),
    *((name, {}, OP) for name in CHANGES),
    ("CHANGEPRIORITY", {"priority": 1}, OP),
    ("MOVETODELAYED", {"delay": 5}, OP),
    ("PURGEDLQ", {}, OP),
]
BY_IDS: Final[list[tuple[str, Message]]] = [
    ("GETJOBSBATCH", {}),
    ("CANCEL", {}),
    *((name, {}) for name in CHANGES),
    ("CHANGEPRIORITY", {"priority": 1}),
    ("MOVETODELAYED", {"delay": 5}),
    ("ACKB", {"tokens": ["AAAA"]}),
    ("HEARTBEATB", {"tokens": ["AAAA"]}),
    ("SETTLE", {"verb": "complete", "tokens": ["AAAA"]}),
    ("SETTLE", {"verb": "release"}),
]
BY_QUEUE: Final[list[tuple[str, Message, int]]] = [
    ("PUSH", {"data": 1}, P),
    ("PUSHB", {"jobs": [{"data": 1}]}, P),
    ("LOAD", {"load_id": "l", "step": "stage", "jobs": [{"data": 1}], "writing": "w"}, P | A),
    ("PULL", {"timeout": 0}, W),
    ("PULLB", {"timeout": 0}, W),
    ("GETJOBS", {}, P | OP),
    ("GETJOBCOUNTS", {}, P | OP),
    ("COUNT", {}, P | OP),
    ("DLQ", {}, P | OP),
    ("DLQGROUPS", {}, OP),
    ("RETRYDLQ", {}, OP),
    ("PURGEDLQ", {}, OP),
    ("DRAIN", {}, OP),
    ("CLEAN", {}, OP),
    ("OBLITERATE", {}, OP),
    *((name, {}, OP) for name in SETTINGS),
    ("ISPAUSED", {}, W | OP),
    ("RATELIMIT", {"limit": 5}, OP),
    ("SETCONCURRENCY", {"limit": 5}, OP),
    ("QUEUE", {}, W | OP),
    ("QUEUE", {"changes": {"concurrency": 5}}, OP),
    ("CANCEL", {"filter": {}}, P | OP),
    ("REMOVE", {"filter": {}}, OP),
]
OTHERS: Final[list[tuple[str, Message, int]]] = [
    ("ACKB", {"items": []}, W),
    ("FAILB", {"items": []}, W),
    ("HEARTBEATB", {"items": []}, W),
    ("SETTLE", {"verb": "complete", "ids": []}, W),
    ("CANCEL", {"id": ABSENT, "token": "AAAA"}, W),
    ("GETJOBBYCUSTOMID", {"custom_id": "none"}, P | W | OP),
    ("GETJOBSBATCH", {"ids": [ABSENT]}, P | W | OP),
    ("LISTQUEUES", {}, P | OP),
    ("STATS", {}, P | OP),
    ("LIMIT", {"key": "k"}, OP),
    ("WORKERS", {}, W | OP),
    ("WORKERS", {"task": "t"}, P | W | OP),
    ("EVENTS", {}, OP),
    ("SCAN", {"table": "jobs"}, OP),
    ("TENANT", {}, A),
    ("SETTINGS", {}, A),
    ("LOAD", {"load_id": "l", "step": "abort"}, P | A),
    ("SUBSCRIBE", {"reqId": "s"}, OP),  # the last: what follows would be heard
]


def about(command: str, fields: Message, queue: str) -> Message:
    """A request of BY_QUEUE about that queue."""
    return {"filter": {"queue": queue}} if "filter" in fields else {"queue": queue, **fields}


def named(roles: int) -> tuple[str, ...]:
    return tuple(name for name, role in ROLE_NAMES.items() if role & roles)


REQUESTS: Final[list[tuple[str, Message, int]]] = [
    *((name, {"id": ABSENT, **fields}, roles) for name, fields, roles in BY_ID),
    *((name, about(name, fields, "mail"), roles) for name, fields, roles in BY_QUEUE),
    *OTHERS,
]


def test_every_command_is_in_the_matrix() -> None:
    assert {name for name, _, _ in REQUESTS} == set(COMMANDS) - TALK_ONLY


@pytest.mark.parametrize("roles", range(16), ids=lambda roles: "+".join(named(roles)) or "none")
async def test_roles_allow_what_they_say_and_no_more(roles: int) -> None:
    async with serving(tokens={"t": token("secret", named(roles))}) as house:
        talk = await house.talk(LINES, "secret")
        for name, fields, allowed in REQUESTS:
            answer = await talk.ask(name, **fields)
            while "event" in answer:
                answer = await talk.receive()
            is_refused = answer.get("code") == "Forbidden"
            assert is_refused is not bool(roles & allowed), (name, fields, answer)
            if is_refused:
                assert "role" in answer["error"]


async def test_without_a_token_nothing_but_talk_is_answered() -> None:
    async with serving(tokens={"t": token("secret")}) as house:
        talk = await house.talk(LINES)
        for name, fields, _ in REQUESTS:
            assert await talk.refused(name, **fields) == "Unauthenticated"


# Two tenants.


class World:
    """Two tenants on one server: `mine`, which reaches acme only, and `theirs`, which reaches everything."""

    def __init__(self, house: House, mine: Talk, theirs: Talk) -> None:
        self.house = house
        self.mine = mine
        self.theirs = theirs
        self.jobs: dict[str, int] = {}
        self.tokens: dict[str, str] = {}

    async def fill(self, tenant: str, queue: str) -> None:
        """A job in every state."""
        do = self.theirs.do
        await do("PUSHB", queue="q", tenant="others", jobs=[{"data": 1}] * FIRST_ID)
        more = {"tenant": tenant}

        async def push(**fields: Any) -> int:
            return int((await do("PUSH", queue=queue, data="private", **more, **fields))["id"])

        async def lease() -> Message:
            job: Message = (await do("PULL", queue=queue, timeout=0, worker="w", **more))["job"]
            return job

        for state, settle in (("completed", ("ACK", {"result": 1})), ("failed", ("FAIL", {"error": "x"}))):
            self.jobs[state] = await push(max_attempts=1, metadata={"of": "them"})
            await lease()
            await do(settle[0], id=self.jobs[state], **settle[1], **more)
        self.jobs["cancelled"] = await push()
        await do("CANCEL", id=self.jobs["cancelled"], **more)
        self.jobs["running"] = await push()
        self.tokens["running"] = (await lease())["token"]
        self.jobs["scheduled"] = await push(delay=60_000)
        self.jobs["blocked"] = await push(depends_on=[self.jobs["scheduled"]])
        self.jobs["ready"] = await push(custom_id="theirs", unique_key="theirs", idempotency_key="theirs")

    async def seen(self, tenant: str) -> list[Message]:
        found = await self.theirs.do("GETJOBSBATCH", ids=list(self.jobs.values()), tenant=tenant)
        return list(found["jobs"])


TOKENS: Final = {
    "mine": token("mine", tenants=("acme",)),
    "some": token("some", tenants=("acme",), queues=("mail", "image-*")),
    "theirs": token("theirs"),
}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serving(tokens=TOKENS) as house:
        made = World(house, await house.talk(LINES, "mine"), await house.talk(LINES, "theirs"))
        await made.fill("globex", "secret")
        yield made


def without(answer: Message, *asked_for: object) -> str:
    """The answer as text, without what was asked for."""
    text = msgspec.json.encode(answer, order="sorted").decode()
    for name in asked_for:
        text = re.sub(rf"\b{re.escape(str(name))}\b", "?", text)
    return text


async def compare_ids(talk: Talk, world: World) -> None:
    """Every command about a job out of reach, in every state, with every kind of token."""
    await talk.do("PUSH", queue="mail", data=1)
    own = (await talk.do("PULL", queue="mail", timeout=0))["job"]
    for id in world.jobs.values():
        for name, fields, roles in BY_ID:
            tokens: list[Message] = [{}]
            if roles == W:
                tokens += [{"token": "AAAA"}, {"token": own["token"]}]
            if name == "CANCEL":
                tokens += [{"token": "AAAA"}]
            for more in tokens:
                found = await talk.ask(name, id=id, **fields, **more)
                absent = await talk.ask(name, id=ABSENT, **fields, **more)
                assert without(found, id) == without(absent, ABSENT), (name, fields, more)
                assert found["ok"] is False
        for name, fields in BY_IDS:
            found = await talk.ask(name, ids=[id], **fields)
            absent = await talk.ask(name, ids=[ABSENT], **fields)
            assert without(found, id) == without(absent, ABSENT), (name, fields)
        for name in ("ACKB", "FAILB", "HEARTBEATB"):
            found = await talk.ask(name, items=[{"id": id}])
            absent = await talk.ask(name, items=[{"id": ABSENT}])
            assert without(found, id) == without(absent, ABSENT), name


async def test_job_of_another_tenant_is_answered_as_one_that_does_not_exist(world: World) -> None:
    before = await world.seen("globex")
    await compare_ids(world.mine, world)
    assert await world.seen("globex") == before


async def test_dependency_on_a_job_of_another_tenant_is_one_on_a_job_that_does_not_exist(world: World) -> None:
    for id in world.jobs.values():
        found = await world.mine.ask("PUSH", queue="mail", data=1, depends_on=[id])
        absent = await world.mine.ask("PUSH", queue="mail", data=1, depends_on=[ABSENT])
        assert without(found, id) == without(absent, ABSENT)
        assert found["ok"] is False


async def test_keys_of_another_tenant_are_free(world: World) -> None:
    for key in ("custom_id", "unique_key", "idempotency_key"):
        answer = await world.mine.do("PUSH", queue="secret", data=1, **{key: "theirs"})
        assert answer["duplicate"] is False
    assert (await world.mine.do("GETJOBBYCUSTOMID", custom_id="theirs"))["job"]["tenant"] == "acme"


async def test_queue_of_another_tenant_is_answered_as_one_that_does_not_exist(world: World) -> None:
    before = await world.seen("globex")
    readers = [(name, fields) for name, fields, _ in BY_QUEUE if name not in ("PUSH", "PUSHB", "LOAD")]
    for name, fields in readers:
        found = await world.mine.ask(name, **about(name, fields, "secret"))
        absent = await world.mine.ask(name, **about(name, fields, "nowhere"))
        assert without(found, "secret") == without(absent, "nowhere"), (name, fields)
    assert await world.seen("globex") == before


async def test_what_is_listed_is_ones_own(world: World) -> None:
    mine = world.mine
    assert (await mine.do("LISTQUEUES"))["queues"] == []
    assert (await mine.do("STATS"))["queues"] == 0
    assert (await mine.do("GETJOBS"))["jobs"] == []
    assert (await mine.do("DLQ"))["jobs"] == []
    assert (await mine.do("EVENTS"))["events"] == []
    for table in ("events", "jobs"):
        assert (await mine.do("SCAN", table=table, upto=10_000, limit=100))["scan"]["rows"] == 0
    assert (await mine.do("GETJOBCOUNTS"))["queues"] == {}
    assert (await mine.do("PULL", queue="*", tenants=["*"], timeout=0))["job"] is None


async def test_tenant_out_of_reach_is_refused_alike_whether_it_exists_or_not(world: World) -> None:
    before = await world.seen("globex")
    for name, fields, _ in REQUESTS:
        for field in ("tenant", "tenants"):
            if field == "tenants" and name == "TENANT":
                continue
            answers = []
            for tenant in ("globex", "nobody"):
                asked = tenant if field == "tenant" else [tenant]
                answer = await world.mine.ask(name, **{**fields, field: asked})
                assert answer["code"] == "Forbidden", (name, fields, field)
                answers.append(without(answer, tenant))
            assert answers[0] == answers[1]
    for more in ({}, {"changes": {"weight": 9}}):
        answers = [
            without(await world.mine.ask("TENANT", name=tenant, **more), tenant) for tenant in ("globex", "nobody")
        ]
        assert answers[0] == answers[1]
        assert "Forbidden" in answers[0]
    assert set((await world.mine.do("TENANT", name="*"))["settings"]) <= {"acme"}
    assert await world.seen("globex") == before


async def test_tenant_said_with_hello_is_checked_too(world: World) -> None:
    await world.mine.do("HELLO", version=1, tenant="globex")
    assert await world.mine.refused("PUSH", queue="mail", data=1) == "Forbidden"


async def test_what_belongs_to_all_tenants_is_for_those_who_reach_all(world: World) -> None:
    assert await world.mine.refused("SETTINGS") == "Forbidden"
    assert await world.mine.refused("SETTINGS", changes={"jobs_max": 1}) == "Forbidden"
    assert await world.mine.refused("LIMIT", key="k", changes={"shared": True}) == "Forbidden"
    await world.theirs.do("LIMIT", key="all", changes={"shared": True, "concurrency": 3})
    assert await world.mine.refused("LIMIT", key="all", changes={"concurrency": 1}) == "Forbidden"
    await world.mine.do("LIMIT", key="own", changes={"concurrency": 1})


async def test_worker_of_another_tenant_is_answered_as_one_that_does_not_exist(world: World) -> None:
    """Read, overwritten, stopped or sent away: it is not there, and nothing happens to it."""
    said = {"version": "1", "tasks": ["send"], "published": "{}"}
    await world.theirs.do("WORKERS", name="theirs", changes=said, tenant="globex")
    before = await world.theirs.do("WORKERS", name="theirs", tenant="globex")
    for changes in ({}, {"stop": True}, {"stop": False}, {"leaving": True}):
        found = await world.mine.ask("WORKERS", name="theirs", changes=changes)
        absent = await world.mine.ask("WORKERS", name="nobody", changes=changes)
        assert without(found, "theirs") == without(absent, "nobody"), changes
    assert (await world.mine.do("WORKERS"))["settings"] == {}
    await world.mine.do("WORKERS", name="theirs", changes={"version": "9", "tasks": ["steal"]})
    assert list((await world.mine.do("WORKERS"))["settings"]) == ["theirs"]
    assert await world.theirs.do("WORKERS", name="theirs", tenant="globex") == before
    await world.mine.do("WORKERS", name="theirs", changes={"leaving": True})
    assert await world.theirs.do("WORKERS", name="theirs", tenant="globex") == before


async def test_reading_of_a_worker_makes_none(world: World) -> None:
    for _ in range(2):
        assert (await world.mine.do("WORKERS", name="nobody"))["settings"] == {}
        assert (await world.mine.do("WORKERS"))["settings"] == {}
    assert (await world.mine.do("EVENTS"))["events"] == []


async def test_workers_of_several_tenants_are_told_apart(world: World) -> None:
    await world.mine.do("WORKERS", name="w", changes={"version": "mine"})
    await world.theirs.do("WORKERS", name="w", changes={"version": "theirs"}, tenant="globex")
    found = (await world.theirs.do("WORKERS", tenants=["*"]))["settings"]
    assert {name: (each["tenant"], each["name"], each["version"]) for name, each in found.items()} == {
        "globex/w": ("globex", "w", "theirs"),
        "acme/w": ("acme", "w", "mine"),
    }
    assert list((await world.mine.do("WORKERS", tenants=["*"]))["settings"]) == ["acme/w"]
    for talk, tenant in ((world.mine, "acme"), (world.theirs, "globex")):
        events = (await talk.do("EVENTS", tenant=tenant))["events"]
        assert {event["tenant"] for event in events if event["type"] == "worker_joined"} == {tenant}


async def test_workers_of_a_tenant_are_bounded_and_crowd_out_nobody_elses(world: World) -> None:
    await world.theirs.do("TENANT", name="acme", changes={"workers_max": 3, "worker_bytes_max": 1_000})
    for n in range(3):
        await world.mine.do("WORKERS", name=f"w{n}", changes={"version": "1"})
    answer = await world.mine.ask("WORKERS", name="w3", changes={"version": "1"})
    assert (answer["code"], "workers_max" in answer["error"]) == ("Overloaded", True)
    answer = await world.mine.ask("WORKERS", name="w0", changes={"published": "p" * 1_000})
    assert (answer["code"], "worker_bytes_max" in answer["error"]) == ("Overloaded", True)
    assert len((await world.mine.do("WORKERS"))["settings"]) == 3
    await world.mine.do("PULL", queue="mail", timeout=0, worker="w4")
    await world.theirs.do("WORKERS", name="w3", changes={"published": "p" * 1_000}, tenant="globex")


async def test_published_options_are_those_of_the_workers_that_serve_the_tenant(world: World) -> None:
    mine, theirs = world.mine, world.theirs
    await theirs.do("WORKERS", name="own", tenant="globex", changes={"tasks": ["send"], "published": "globex"})
    assert (await mine.do("WORKERS", task="send"))["settings"] == {"published": []}
    await theirs.do("WORKERS", name="all", tenants=["*"], changes={"tasks": ["send"], "published": "all"})
    assert (await mine.do("WORKERS", task="send"))["settings"] == {"published": ["all"]}
    await mine.do("WORKERS", name="w", changes={"tasks": ["send"], "published": "acme"})
    assert (await mine.do("WORKERS", task="send"))["settings"] == {"published": ["acme"]}
    assert (await mine.do("WORKERS", task="other"))["settings"] == {"published": []}
    await mine.do("WORKERS", name="w", tenants=["*"], changes={"tasks": ["send"], "published": "acme"})
    found = await theirs.do("WORKERS", task="send", tenant="initech")
    assert found["settings"] == {"published": ["all"]}  # a token of one tenant serves that one only


@pytest.mark.parametrize("over_restart", [False, True])
async def test_worker_pauses_a_shared_key_for_the_tenants_that_its_token_reaches(
    tmp_path: Path, over_restart: bool
) -> None:
    """Of one tenant: its own jobs wait, those of others do not. Of all tenants: everybody's wait."""
    file = tmp_path / "jobs.db"
    async with serving(SqliteStore(file), tokens=TOKENS) as house:
        mine, theirs = await house.talk(LINES, "mine"), await house.talk(LINES, "theirs")
        await theirs.do("LIMIT", key="api", changes={"shared": True, "concurrency": 9})
        for tenant in ("acme", "globex"):
            await theirs.do("PUSHB", queue="mail", tenant=tenant, jobs=[{"data": tenant, "limit_keys": ["api"]}] * 2)
        job = (await mine.do("PULL", queue="mail", timeout=0))["job"]
        await mine.do("SNOOZE", id=job["id"], token=job["token"], delay=5_000, pause_key="api")
        assert (await mine.do("PULL", queue="mail", timeout=0))["job"] is None
        if not over_restart:
            await check_shared_pause(house, mine, theirs)
    if over_restart:
        async with serving(SqliteStore(file), tokens=TOKENS) as house:
            await check_shared_pause(house, await house.talk(LINES, "mine"), await house.talk(LINES, "theirs"))


async def check_shared_pause(house: House, mine: Talk, theirs: Talk) -> None:
    taken = (await theirs.do("PULLB", queue="mail", count=9, tenants=["*"], timeout=0))["jobs"]
    assert [job["data"] for job in taken] == ["globex"] * 2
    await house.advance(5_000)
    taken = (await theirs.do("PULLB", queue="mail", count=9, tenants=["*"], timeout=0))["jobs"]
    assert [job["data"] for job in taken] == ["acme"] * 2
    await theirs.do("SNOOZE", id=taken[0]["id"], token=taken[0]["token"], delay=5_000, pause_key="api", tenant="acme")
    for tenant in ("acme", "globex"):
        await theirs.do("PUSH", queue="mail", tenant=tenant, data=tenant, limit_keys=["api"])
    assert (await theirs.do("PULLB", queue="mail", count=9, tenants=["*"], timeout=0))["jobs"] == []
    await house.advance(5_000)
    taken = (await theirs.do("PULLB", queue="mail", count=9, tenants=["*"], timeout=0))["jobs"]
    assert sorted(job["data"] for job in taken) == ["acme", "acme", "globex"]


async def test_subscription_hears_of_ones_own_only(world: World) -> None:
    await world.mine.do("SUBSCRIBE", reqId="s")
    await world.theirs.do("PUSH", queue="mail", data=1, tenant="globex")
    id = (await world.mine.do("PUSH", queue="mail", data=1))["id"]
    assert (await world.mine.receive())["event"]["job"] == id


async def test_worker_of_another_tenant_with_the_same_name_is_not_told(world: World) -> None:
    await world.mine.do("PULL", queue="mail", timeout=0, worker="w")
    world.theirs.send("CANCEL", id=world.jobs["running"], tenant="globex")
    told, answer = await world.theirs.receive(), await world.theirs.receive()
    assert (told, answer["ok"]) == ({"event": "cancelled", "id": world.jobs["running"]}, True)
    assert await world.mine.do("PING") == {"ok": True}


async def test_claim_takes_from_the_tenants_of_the_token() -> None:
    tokens = {**TOKENS, "two": token("two", tenants=("acme", "initech"))}
    async with serving(tokens=tokens) as house:
        admin, both = await house.talk(LINES, "theirs"), await house.talk(LINES, "two")
        for tenant in ("acme", "globex", "initech"):
            await admin.do("PUSH", queue="mail", data=tenant, tenant=tenant)
        found = await both.do("PULLB", queue="mail", count=9, tenants=["*"], timeout=0)
        assert sorted(job["data"] for job in found["jobs"]) == ["acme", "initech"]
        assert await both.refused("PULL", queue="mail", tenants=["acme", "globex"], timeout=0) == "Forbidden"


# Queues.


@pytest.fixture
async def scoped() -> AsyncIterator[World]:
    """Both are of one tenant; `mine` reaches the queues mail and image-*, the jobs are in another."""
    async with serving(tokens=TOKENS) as house:
        made = World(house, await house.talk(LINES, "some"), await house.talk(LINES, "theirs"))
        await made.fill("acme", "secret")
        yield made


async def test_job_of_a_queue_out_of_reach_is_answered_as_one_that_does_not_exist(scoped: World) -> None:
    before = await scoped.seen("acme")
    await compare_ids(scoped.mine, scoped)
    assert await scoped.seen("acme") == before


async def test_queue_out_of_reach_is_refused_alike_whether_it_exists_or_not(scoped: World) -> None:
    before = await scoped.seen("acme")
    for name, fields, _ in BY_QUEUE:
        found = await scoped.mine.ask(name, **about(name, fields, "secret"))
        absent = await scoped.mine.ask(name, **about(name, fields, "nowhere"))
        assert without(found, "secret") == without(absent, "nowhere"), (name, fields)
        if name not in ("COUNT", "GETJOBCOUNTS"):
            assert found["code"] == "Forbidden", name
    assert await scoped.seen("acme") == before


async def test_queues_within_reach_can_be_used(scoped: World) -> None:
    mine = scoped.mine
    for queue in ("mail", "image-small"):
        id = (await mine.do("PUSH", queue=queue, data=1))["id"]
        assert (await mine.do("PULL", queue=queue, timeout=0))["job"]["id"] == id
        assert (await mine.do("HEARTBEAT", id=id))["cancelled"] is False
        await mine.do("PROGRESS", id=id, progress=5)
        assert (await mine.do("ACK", id=id))["state"] == "completed"
        assert (await mine.do("GETJOBS", queue=queue))["jobs"][0]["id"] == id
        await mine.do("SETCONCURRENCY", queue=queue, limit=3)
    assert (await mine.do("PULL", queue="image-*", timeout=0))["job"] is None
    assert (await mine.do("LISTQUEUES"))["queues"] == ["image-small", "mail"]
    assert {event["queue"] for event in (await mine.do("EVENTS"))["events"]} == {"image-small", "mail"}
    for table in ("events", "jobs"):
        asked = {"table": table, "upto": 10_000, "limit": 100}
        assert (await mine.do("SCAN", queue="mail", **asked))["scan"]["rows"] > 0
        assert (await mine.ask("SCAN", **asked))["code"] == "Forbidden"
        assert (await mine.ask("SCAN", queue="secret", **asked))["code"] == "Forbidden"
    assert (await mine.do("STATS"))["queues"] == 2


async def test_pattern_that_reaches_further_than_the_token_is_refused(scoped: World) -> None:
    for queue in ("*", "ima*", "m*", "secret", "image", "*-image-"):
        assert await scoped.mine.refused("PULL", queue=queue, timeout=0) in ("Forbidden", "InvalidRequest")
    assert await scoped.mine.refused("PULL", queues=["mail", "secret"], timeout=0) == "Forbidden"
    jobs = [{"data": 1, "queue": "mail"}, {"data": 1, "queue": "secret"}]
    assert await scoped.mine.refused("PUSHB", jobs=jobs) == "Forbidden"
    await scoped.mine.do("PUSH", queue="mail", data=1)
    job = (await scoped.mine.do("PULL", queue="mail", timeout=0))["job"]
    followups = {"queue": "secret", "jobs": [{"data": 1}]}
    assert await scoped.mine.refused("ACK", id=job["id"], followups=followups) == "Forbidden"


async def test_holder_of_a_custom_id_out_of_reach_is_a_conflict_without_its_id(scoped: World) -> None:
    """Whatever is asked for in a conflict, and however the job comes in; nothing is changed."""
    before = await scoped.seen("acme")
    mine = scoped.mine
    await mine.do("PUSH", queue="mail", data=1)
    leased = (await mine.do("PULL", queue="mail", timeout=0))["job"]
    for on_conflict in ("return", "replace", "error"):
        job = {"queue": "mail", "data": "mine", "custom_id": "theirs", "on_conflict": on_conflict}
        one = await mine.ask("PUSH", **job)
        each = (await mine.do("PUSHB", jobs=[job, {"queue": "mail", "data": 2}]))["results"]
        whole = (await mine.do("PUSHB", jobs=[{"queue": "mail", "data": 2}, job], atomic=True))["results"]
        acked = await mine.ask("ACK", id=leased["id"], token=leased["token"], followups={"jobs": [job]})
        assert each[1]["ok"] is True
        assert whole[0]["ok"] is False
        for answer in (one, each[0], whole[1], acked):
            assert (answer["ok"], answer["code"]) == (False, "Conflict"), answer
            assert not answer.get("existing")
            assert str(scoped.jobs["ready"]) not in without(answer)
    assert await scoped.seen("acme") == before
    assert (await mine.do("GETJOB", id=leased["id"]))["job"]["state"] == "running"


async def test_holder_of_a_custom_id_that_is_gone_is_in_reach_if_its_queue_was(tmp_path: Path) -> None:
    """Also over a restart of the store."""
    file = tmp_path / "jobs.db"
    ids: dict[str, int] = {}
    async with serving(SqliteStore(file), tokens=TOKENS) as house:
        some, all_queues = await house.talk(LINES, "some"), await house.talk(LINES, "mine")
        for queue in ("mail", "secret"):
            job = {"queue": queue, "data": 1, "custom_id": queue, "remove_on_complete": True}
            ids[queue] = (await all_queues.do("PUSH", **job))["id"]
            leased = (await all_queues.do("PULL", queue=queue, timeout=0))["job"]
            await all_queues.do("ACK", id=leased["id"], token=leased["token"])
        await check_gone_holders(some, ids)
    async with serving(SqliteStore(file), tokens=TOKENS) as house:
        await check_gone_holders(await house.talk(LINES, "some"), ids)


async def check_gone_holders(talk: Talk, ids: dict[str, int]) -> None:
    own = await talk.do("PUSH", queue="mail", data=1, custom_id="mail")
    assert (own["id"], own["duplicate"]) == (ids["mail"], True)
    answer = await talk.ask("PUSH", queue="mail", data=1, custom_id="secret")
    assert (answer["code"], answer.get("existing", 0)) == ("Conflict", 0)


async def test_own_custom_id_in_another_queue_within_reach_is_met(scoped: World) -> None:
    id = (await scoped.mine.do("PUSH", queue="mail", data=1, custom_id="own"))["id"]
    again = await scoped.mine.do("PUSH", queue="image-a", data=2, custom_id="own", on_conflict="replace")
    assert (again["id"], again["duplicate"], again["replaced"]) == (id, True, True)


async def test_load_is_for_those_who_reach_all_queues(scoped: World) -> None:
    jobs = [{"data": 1, "custom_id": "theirs", "on_conflict": "replace"}]
    stage = {"load_id": "l", "queue": "mail", "writing": "w", "jobs": jobs}
    assert await scoped.mine.refused("LOAD", step="stage", **stage) == "Forbidden"
    for step in ("publish", "abort", "read"):
        assert await scoped.mine.refused("LOAD", load_id="l", step=step) == "Forbidden"


async def test_cancel_out_of_reach_is_not_told_to_the_worker(scoped: World) -> None:
    assert await scoped.mine.refused("CANCEL", id=scoped.jobs["running"]) == "JobNotFound"
    assert await scoped.theirs.do("PING") == {"ok": True}


async def test_wait_for_events_is_not_ended_by_those_of_another_queue(scoped: World) -> None:
    await wait_for_own_events(scoped, scoped.mine, {"tenant": "acme", "queue": "secret"})


async def test_wait_for_events_is_not_ended_by_those_of_another_tenant(world: World) -> None:
    await wait_for_own_events(world, world.mine, {"tenant": "globex", "queue": "mail"})


async def wait_for_own_events(world: World, mine: Talk, other: Message) -> None:
    mine.send("EVENTS", after="end", timeout=60_000)
    await world.house.until_calls(1)
    for _ in range(3):
        await world.theirs.do("PUSH", data=1, **other)
        await world.house.advance(1_000)
        await world.theirs.do("PING")
        await world.house.until_calls(1)
    id = (await world.theirs.do("PUSH", queue="mail", data=1, tenant="acme"))["id"]
    assert [event["job"] for event in (await mine.receive())["events"]] == [id]
    mine.send("EVENTS", after="end", timeout=5_000)
    await world.house.until_calls(1)
    await world.theirs.do("PUSH", data=1, **other)
    await world.house.advance(5_000)
    assert (await mine.receive())["events"] == []


async def test_repeat_of_a_change_is_answered_as_the_first_time_whatever_is_in_reach_now(scoped: World) -> None:
    mine = scoped.mine
    own = [(await mine.do("PUSH", queue="mail", data=1))["id"] for _ in range(2)]
    asked = {"ids": [own[0], scoped.jobs["ready"], own[1]], "opId": "s:1"}
    first = await mine.do("CANCEL", **asked)
    assert [each["ok"] for each in first["results"]] == [True, False, True]
    await mine.do("REMOVE", id=own[0])
    assert await mine.do("CANCEL", **asked) == first


async def test_last_of_two_equal_keys_is_authorised_and_executed(scoped: World) -> None:
    for first, last, is_allowed in (("secret", "mail", True), ("mail", "secret", False)):
        await scoped.mine.write(f'{{"cmd":"PUSH","queue":"{first}","data":1,"queue":"{last}"}}\n'.encode())
        answer = await scoped.mine.receive()
        assert answer["ok"] is is_allowed
        if is_allowed:
            assert (await scoped.mine.do("GETJOB", id=answer["id"]))["job"]["queue"] == last


# Rates and repeats.


async def test_token_is_held_to_its_rate() -> None:
    tokens = {"slow": token("slow", rate=5), "free": token("free")}
    async with serving(tokens=tokens) as house:
        one, two, other = [await house.talk(LINES, text) for text in ("slow", "slow", "free")]
        for n in range(5):
            await (one if n % 2 else two).do("STATS")
        answer = await one.ask("STATS")
        assert (answer["code"], answer["retryAfter"]) == ("RateLimited", 200)
        assert await two.refused("PUSH", queue="mail", data=1) == "RateLimited"
        await other.do("STATS")
        house.clock.passed_ms += 201
        await one.do("STATS")
        assert await two.refused("STATS") == "RateLimited"


async def test_sessions_of_two_tokens_are_two() -> None:
    async with serving(tokens=TOKENS) as house:
        mine, theirs = await house.talk(LINES, "mine"), await house.talk(LINES, "theirs")
        first = await mine.do("PUSH", queue="mail", data=1, opId="s:1")
        second = await theirs.do("PUSH", queue="mail", data=1, opId="s:1", tenant="acme")
        assert first["id"] != second["id"]


async def test_tokens_are_looked_up_by_their_hash() -> None:
    """Nothing that a token could be compared with, character by character, is kept."""
    async with serving(tokens=TOKENS) as house:
        [*hashes] = house.server.gate._callers
        assert set(hashes) == {each.sha256 for each in TOKENS.values()}
        assert all(len(hashed) == 64 for hashed in hashes)
        talk = await house.talk(LINES)
        for hashed in hashes:
            assert await talk.refused("AUTH", token=hashed) == "Unauthenticated"
