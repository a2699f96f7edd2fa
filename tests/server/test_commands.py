"""Every command of the protocol, in every manner of speaking."""

from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tenure.wire.command import COMMANDS, UNSUPPORTED
from tests.server.house import House, serving
from tests.server.talk import MANNERS, Manner, Message, Talk

Scene = Callable[["Stage"], Awaitable[None]]
SCENES: dict[str, Scene] = {}
HOUR_MS = 3_600_000


class Stage:
    """A server and a connection to it, with the steps that scenes share."""

    def __init__(self, house: House, talk: Talk) -> None:
        self.house = house
        self.talk = talk
        self.do = talk.do
        self.refused = talk.refused

    async def push(self, **fields: Any) -> int:
        return int((await self.do("PUSH", **{"queue": "mail", "data": {"n": 1}, **fields}))["id"])

    async def lease(self, **fields: Any) -> Message:
        """A job that this connection works on."""
        await self.push(**fields)
        job: Message = (await self.do("PULL", queue="mail", timeout=0))["job"]
        return job

    async def dead(self) -> int:
        job = await self.lease(max_attempts=1)
        await self.do("FAIL", id=job["id"], token=job["token"], error="broken", type="Oops")
        return int(job["id"])

    async def state(self, id: int) -> str:
        return str((await self.do("GETSTATE", id=id))["state"])

    async def job(self, id: int) -> Message:
        found: Message = (await self.do("GETJOB", id=id))["job"]
        return found


def scene(*names: str) -> Callable[[Scene], Scene]:
    def note(made: Scene) -> Scene:
        SCENES.update(dict.fromkeys(names, made))
        return made

    return note


@pytest.fixture(params=MANNERS, ids=lambda manner: manner.name)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    manner: Manner = request.param
    async with serving() as house:
        yield Stage(house, await house.talk(manner))


@scene("HELLO")
async def _hello(s: Stage) -> None:
    found = await s.do("HELLO", version=1, client="mine", tenant="acme")
    assert found["version"] == 1
    assert found["server"] == "tenure"
    assert found["formats"] == ["json", "msgpack"]
    assert found["limits"]["message"] == 16 * 2**20
    assert found["capabilities"]["name"] == "memory"
    id = await s.push()
    assert (await s.job(id))["tenant"] == "acme"
    assert await s.refused("HELLO", version=2) == "InvalidRequest"


@scene("AUTH")
async def _auth(s: Stage) -> None:
    assert await s.refused("AUTH", token="guess") == "Unauthenticated"


@scene("PING")
async def _ping(s: Stage) -> None:
    assert await s.do("PING", reqId="p") == {"ok": True, "reqId": "p"}


@scene("ABORT")
async def _abort(s: Stage) -> None:
    s.talk.send("PULL", queue="mail", reqId=1)
    assert (await s.do("ABORT", id=2, reqId=3))["ended"] is False
    s.talk.send("ABORT", id=1, reqId=4)
    answers = {answer["reqId"]: answer for answer in (await s.talk.receive(), await s.talk.receive())}
    assert answers[4]["ended"] is True
    assert answers[1]["code"] == "Timeout"


@scene("PUSH")
async def _push(s: Stage) -> None:
    found = await s.do("PUSH", queue="mail", data={"n": 1}, task="send", priority=3, custom_id="one", tags=["a"])
    assert (found["state"], found["duplicate"]) == ("ready", False)
    again = await s.do("PUSH", queue="mail", data={"n": 1}, custom_id="one")
    assert (again["id"], again["duplicate"]) == (found["id"], True)
    job = await s.job(found["id"])
    assert (job["data"], job["task"], job["priority"], job["tags"]) == ({"n": 1}, "send", 3, ["a"])
    later = await s.do("PUSH", queue="mail", data=1, delay=HOUR_MS)
    assert later["state"] == "scheduled"
    assert (await s.job(later["id"]))["run_at"] == s.house.clock.wall_ms + HOUR_MS
    assert await s.refused("PUSH", data=1) == "InvalidRequest"
    assert await s.refused("PUSH", queue="no spaces", data=1) == "InvalidRequest"


@scene("PUSHB")
async def _push_many(s: Stage) -> None:
    jobs: list[Message] = [{"data": 1}, {"data": 2, "delay": 5_000}, {"data": 3, "priority": "x"}, {"data": 4}]
    found = await s.do("PUSHB", queue="mail", task="send", jobs=jobs)
    assert [result["ok"] for result in found["results"]] == [True, True, False, True]
    assert [result.get("state") for result in found["results"]] == ["ready", "scheduled", None, "ready"]
    assert found["results"][2]["code"] == "InvalidRequest"
    assert found["ids"][2] == 0
    assert (await s.job(found["ids"][3]))["data"] == 4
    assert await s.refused("PUSHB", queue="mail", jobs=jobs, atomic=True) == "InvalidRequest"
    plain = await s.do("PUSHB", queue="mail", jobs=[{"data": n} for n in range(50)])
    assert len(set(plain["ids"])) == 50


@scene("LOAD")
async def _load(s: Stage) -> None:
    rows = [{"data": 1}, {"data": 2}]
    staged = {"load_id": "night", "part": 0, "writing": "w"}
    await s.do("LOAD", step="stage", queue="mail", jobs=rows, chunk=0, **staged)
    assert (await s.do("COUNT", queue="mail"))["count"] == 0
    found = await s.do("LOAD", step="publish", load_id="night", parts={"0": "w"} if s.talk.manner.is_json else {0: "w"})
    assert found["load"]["rows"] == 2
    await s.house.advance(0)
    assert (await s.do("COUNT", queue="mail"))["count"] == 2
    assert await s.refused("LOAD", step="jump", load_id="night") == "InvalidRequest"


@scene("PULL")
async def _pull(s: Stage) -> None:
    job = await s.lease(custom_id="one", schema_version=2, timeout=HOUR_MS)
    assert job["data"] == {"n": 1}
    assert (job["attempt"], job["queue"], job["custom_id"], job["schema_version"]) == (1, "mail", "one", 2)
    assert job["lease_until"] > s.house.clock.wall_ms
    assert job["token"]
    assert (await s.do("PULL", queue="mail", timeout=0))["job"] is None
    await s.push(task="known")
    assert (await s.do("PULL", queues=["mail"], tasks=["other"], timeout=0))["job"] is None
    assert (await s.do("PULL", queues=[["mail", 2]], order="strict", timeout=0))["job"]["task"] == "known"
    assert await s.refused("PULL", queue="mail", order="upside") == "InvalidRequest"


@scene("PULLB")
async def _pull_many(s: Stage) -> None:
    ids = [await s.push() for _ in range(5)]
    found = await s.do("PULLB", queue="ma*", count=3, timeout=0, worker="w")
    assert [job["id"] for job in found["jobs"]] == ids[:3]
    assert (await s.do("PULLB", queue="mail", count=9, timeout=0, lease=90_000))["jobs"][0]["id"] == ids[3]
    assert (await s.do("PULLB", queue="mail", count=9, timeout=0))["jobs"] == []


@scene("ACK")
async def _ack(s: Stage) -> None:
    job = await s.lease()
    followups = {"queue": "next", "jobs": [{"data": "then"}]}
    found = await s.do("ACK", id=job["id"], token=job["token"], result={"sent": True}, followups=followups)
    assert found["state"] == "completed"
    assert (await s.do("GETRESULT", id=job["id"]))["result"] == {"sent": True}
    assert (await s.do("PULL", queue="next", timeout=0))["job"]["data"] == "then"
    other = await s.lease()
    wrong = other["token"][:-4] + ("AAAA" if s.talk.manner.is_json else b"AAAA")
    assert await s.refused("ACK", id=other["id"], token=wrong) == "LeaseLost"
    assert await s.refused("ACK", id=404, token=wrong) == "JobNotFound"


@scene("ACKB")
async def _ack_many(s: Stage) -> None:
    one, two, three = [await s.lease() for _ in range(3)]
    items = [{"id": one["id"], "token": one["token"], "result": 1}, {"id": 404, "token": one["token"]}]
    found = await s.do("ACKB", items=items)
    assert [result["ok"] for result in found["results"]] == [True, False]
    await s.do("ACKB", ids=[two["id"], three["id"]], tokens=[two["token"], three["token"]])
    assert await s.state(three["id"]) == "completed"


@scene("FAIL")
async def _fail(s: Stage) -> None:
    job = await s.lease(max_attempts=3, backoff={"kind": "fixed", "base": 5_000})
    found = await s.do("FAIL", id=job["id"], token=job["token"], error="broken", type="Oops", trace="line 1")
    assert (found["state"], found["run_at"]) == ("retrying", s.house.clock.wall_ms + 5_000)
    await s.house.advance(5_000)
    again = (await s.do("PULL", queue="mail", timeout=0))["job"]
    found = await s.do("FAIL", id=job["id"], token=again["token"], error="x", retry_after=9_000)
    assert found["run_at"] == s.house.clock.wall_ms + 9_000
    await s.house.advance(9_000)
    again = (await s.do("PULL", queue="mail", timeout=0))["job"]
    assert again["attempt"] == 3
    assert (await s.do("FAIL", id=job["id"], token=again["token"], error="x", retryable=False))["state"] == "failed"


@scene("FAILB")
async def _fail_many(s: Stage) -> None:
    one, two = [await s.lease(max_attempts=n) for n in (1, 2)]
    items = [{"id": job["id"], "token": job["token"], "error": "e"} for job in (one, two)]
    found = await s.do("FAILB", items=items)
    assert [result["state"] for result in found["results"]] == ["failed", "retrying"]


@scene("RELEASE")
async def _release(s: Stage) -> None:
    job = await s.lease()
    assert (await s.do("RELEASE", id=job["id"], token=job["token"]))["state"] == "ready"
    assert (await s.do("PULL", queue="mail", timeout=0))["job"]["id"] == job["id"]


@scene("SNOOZE")
async def _snooze(s: Stage) -> None:
    job = await s.lease()
    found = await s.do("SNOOZE", id=job["id"], token=job["token"], delay=7_000)
    assert (found["state"], found["run_at"]) == ("scheduled", s.house.clock.wall_ms + 7_000)


@scene("SETTLE")
async def _settle(s: Stage) -> None:
    job = await s.lease()
    await s.do("SETTLE", verb="complete", ids=[job["id"]], tokens=[job["token"]])
    assert await s.state(job["id"]) == "completed"
    assert await s.refused("SETTLE", verb="vanish", ids=[1]) == "InvalidRequest"


@scene("HEARTBEAT")
async def _heartbeat(s: Stage) -> None:
    job = await s.lease()
    await s.house.advance(10_000)
    found = await s.do("HEARTBEAT", id=job["id"], token=job["token"])
    assert found["lease_until"] == job["lease_until"] + 10_000
    assert found["cancelled"] is False
    s.talk.send("CANCEL", id=job["id"])
    told, answer = await s.talk.receive(), await s.talk.receive()
    assert (told["event"], answer["ok"]) == ("cancelled", True)
    assert (await s.do("HEARTBEAT", id=job["id"], token=job["token"]))["cancelled"] is True
    assert await s.refused("HEARTBEAT", id=404, token=job["token"]) == "AlreadySettled"


@scene("HEARTBEATB")
async def _heartbeat_many(s: Stage) -> None:
    job = await s.lease()
    items = [{"id": job["id"], "token": job["token"]}, {"id": 404, "token": job["token"]}]
    found = (await s.do("HEARTBEATB", items=items, lease=60_000))["results"]
    assert [result["ok"] for result in found] == [True, False]
    assert found[0]["lease_until"] == s.house.clock.wall_ms + 60_000


@scene("GETJOB", "GETSTATE", "GETRESULT", "GETPROGRESS")
async def _get(s: Stage) -> None:
    id = await s.push(data=[1, 2.5, "ü", None], metadata={"k": "v"})
    job = await s.job(id)
    assert job["data"] == [1, 2.5, "ü", None]
    assert (job["metadata"], job["state"], job["queue"]) == ({"k": "v"}, "ready", "mail")
    assert await s.state(id) == "ready"
    found = await s.do("GETRESULT", id=id)
    assert (found["result"], found["state"]) == (None, "ready")
    found = await s.do("GETPROGRESS", id=id)
    assert (found["progress"], found["message"]) == (0, "")
    for command in ("GETJOB", "GETSTATE", "GETRESULT", "GETPROGRESS"):
        assert await s.refused(command, id=404) == "JobNotFound"


@scene("GETJOBBYCUSTOMID")
async def _get_by_name(s: Stage) -> None:
    id = await s.push(custom_id="order-1")
    assert (await s.do("GETJOBBYCUSTOMID", custom_id="order-1"))["job"]["id"] == id
    assert await s.refused("GETJOBBYCUSTOMID", custom_id="order-2") == "JobNotFound"


@scene("GETJOBSBATCH")
async def _get_many(s: Stage) -> None:
    id = await s.push(custom_id="named")
    found = (await s.do("GETJOBSBATCH", ids=[id, 404], custom_ids=["named"]))["jobs"]
    assert [job and job["id"] for job in found] == [id, None, id]


@scene("WAITJOB")
async def _wait(s: Stage) -> None:
    job = await s.lease()
    s.talk.send("WAITJOB", id=job["id"], reqId="wait")
    s.talk.send("ACK", id=job["id"], token=job["token"], result="done", reqId="ack")
    answers = {answer["reqId"]: answer for answer in (await s.talk.receive(), await s.talk.receive())}
    assert (answers["wait"]["result"], answers["wait"]["state"]) == ("done", "completed")
    assert await s.refused("WAITJOB", id=await s.dead()) == "JobFailed"
    assert await s.refused("WAITJOB", id=await s.push(), timeout=0) == "Timeout"
    assert await s.refused("WAITJOB", id=404) == "JobNotFound"


@scene("EXPLAIN")
async def _explain(s: Stage) -> None:
    id = await s.push(delay=5_000)
    assert "scheduled" in str((await s.do("EXPLAIN", id=id))["explanation"])


@scene("GETJOBS")
async def _find(s: Stage) -> None:
    ids = [await s.push(task=task, tags=["t"]) for task in ("a", "b", "a")]
    found = await s.do("GETJOBS", queue="mail", task="a", tag="t", state=["ready"])
    assert sorted(job["id"] for job in found["jobs"]) == [ids[0], ids[2]]
    page = await s.do("GETJOBS", queue="mail", limit=2)
    rest = await s.do("GETJOBS", queue="mail", limit=2, cursor=page["cursor"])
    assert {job["id"] for job in (*page["jobs"], *rest["jobs"])} == set(ids)
    assert await s.refused("GETJOBS", state="sleepy") == "InvalidRequest"


@scene("GETJOBCOUNTS", "COUNT", "LISTQUEUES", "STATS")
async def _counts(s: Stage) -> None:
    await s.push()
    await s.push(delay=1_000)
    await s.push(queue="image")
    counts = (await s.do("GETJOBCOUNTS", queue="mail"))["counts"]
    assert (counts["ready"], counts["scheduled"]) == (1, 1)
    assert set((await s.do("GETJOBCOUNTS"))["queues"]) == {"mail", "image"}
    assert (await s.do("COUNT", queue="mail"))["count"] == 2
    assert (await s.do("LISTQUEUES"))["queues"] == ["image", "mail"]
    found = await s.do("STATS")
    assert (found["queues"], found["stats"]["ready"]) == (2, 2)


@scene("CANCEL")
async def _cancel(s: Stage) -> None:
    id, other, third = [await s.push(tags=[tag]) for tag in "abb"]
    await s.do("CANCEL", id=id, reason="not needed")
    assert await s.state(id) == "cancelled"
    assert (await s.do("CANCEL", filter={"queue": "mail", "tag": "b"}))["count"] == 2
    assert await s.state(third) == await s.state(other) == "cancelled"
    found = await s.do("CANCEL", ids=[id, 404])
    assert found["results"][1]["code"] == "JobNotFound"
    own = await s.lease()
    assert (await s.do("CANCEL", id=own["id"], token=own["token"]))["state"] == "cancelled"
    assert await s.refused("CANCEL") == "InvalidRequest"
    assert await s.refused("CANCEL", id=1, ids=[2]) == "InvalidRequest"


@scene("DISCARD", "PROMOTE", "CHANGEPRIORITY", "UPDATEJOB", "MOVETODELAYED", "CLONE", "REMOVE")
async def _change(s: Stage) -> None:
    id = await s.push(delay=HOUR_MS)
    assert (await s.do("PROMOTE", id=id))["state"] == "ready"
    await s.do("CHANGEPRIORITY", id=id, priority=7)
    await s.do("UPDATEJOB", id=id, data={"n": 2}, tags=["new"], metadata={"a": "b"})
    job = await s.job(id)
    assert (job["priority"], job["data"], job["tags"], job["metadata"]) == (7, {"n": 2}, ["new"], {"a": "b"})
    await s.do("MOVETODELAYED", id=id, delay=5_000)
    assert (await s.job(id))["run_at"] == s.house.clock.wall_ms + 5_000
    await s.do("MOVETODELAYED", id=id, run_at=s.house.clock.wall_ms + 6_000)
    assert await s.refused("MOVETODELAYED", id=id) == "InvalidRequest"
    copy = (await s.do("CLONE", id=id, data="other"))["id"]
    assert (await s.job(copy))["data"] == "other"
    await s.do("DISCARD", id=id)
    assert await s.state(id) == "failed"
    await s.do("REMOVE", id=id)
    assert await s.refused("GETJOB", id=id) == "JobNotFound"


@scene("DLQ", "DLQGROUPS", "RETRYDLQ", "PURGEDLQ")
async def _dead(s: Stage) -> None:
    one, two, three = [await s.dead() for _ in range(3)]
    found = (await s.do("DLQ", queue="mail"))["jobs"]
    assert {job["id"] for job in found} == {one, two, three}
    [group] = (await s.do("DLQGROUPS", queue="mail"))["groups"]
    assert group["count"] == 3
    await s.do("RETRYDLQ", id=one)
    assert await s.state(one) == "ready"
    assert (await s.do("PURGEDLQ", queue="mail", count=1))["count"] == 1
    assert (await s.do("RETRYDLQ", queue="mail", fingerprint=group["fingerprint"]))["count"] == 1
    assert (await s.do("DLQ", queue="mail"))["jobs"] == []


@scene("DRAIN", "CLEAN")
async def _drain(s: Stage) -> None:
    job = await s.lease()
    waiting = [await s.push(), await s.push(delay=HOUR_MS)]
    assert (await s.do("DRAIN", queue="mail"))["count"] == 2
    for id in waiting:
        assert await s.refused("GETJOB", id=id) == "JobNotFound"
    assert (await s.do("DLQ", queue="mail"))["jobs"] == []
    await s.do("ACK", id=job["id"], token=job["token"])
    assert (await s.do("CLEAN", queue="mail", grace=60_000))["count"] == 0
    await s.house.advance(60_000)
    assert (await s.do("CLEAN", queue="mail", grace=60_000))["count"] == 1
    assert await s.refused("GETJOB", id=job["id"]) == "JobNotFound"


@scene("OBLITERATE")
async def _obliterate(s: Stage) -> None:
    kept = await s.push(queue="other")
    running = await s.lease()
    waiting = [await s.push(), await s.push(delay=HOUR_MS)]
    assert await s.refused("OBLITERATE", queue="mail") == "InvalidRequest"
    assert await s.state(running["id"]) == "running"
    assert (await s.do("ISPAUSED", queue="mail"))["paused"] is False
    s.talk.send("OBLITERATE", queue="mail", force=True, opId="s:1")
    told, answer = await s.talk.receive(), await s.talk.receive()
    assert (told["event"], told["id"]) == ("cancelled", running["id"])
    assert answer["count"] == 3
    for id in (running["id"], *waiting):
        assert await s.refused("GETJOB", id=id) == "JobNotFound"
    assert await s.state(kept) == "ready"
    assert (await s.do("ISPAUSED", queue="mail"))["paused"] is False


@scene("PROGRESS", "LOG", "PARTIAL", "GETLOGS", "STREAM")
async def _output(s: Stage) -> None:
    job = await s.lease()
    own = {"id": job["id"], "token": job["token"]}
    assert (await s.do("PROGRESS", progress=40, message="half", **own))["progress"] == 40
    found = await s.do("GETPROGRESS", id=job["id"])
    assert (found["progress"], found["message"]) == (40, "half")
    await s.do("LOG", message="one", **own)
    await s.do("LOG", message="two", **own)
    assert [line["message"] for line in (await s.do("GETLOGS", id=job["id"]))["logs"]] == ["one", "two"]
    s.talk.send("STREAM", id=job["id"], timeout=60_000, reqId="live")
    s.talk.send("PARTIAL", data={"word": "a"}, reqId="part", **own)
    answers = {answer["reqId"]: answer for answer in (await s.talk.receive(), await s.talk.receive())}
    assert [item["data"] for item in answers["live"]["items"]] == [{"word": "a"}]
    offset = answers["live"]["items"][0]["offset"]
    assert (await s.do("STREAM", id=job["id"], offset=offset + 1))["items"] == []


@scene("PAUSE", "RESUME", "ISPAUSED")
async def _pause(s: Stage) -> None:
    await s.push()
    await s.do("PAUSE", queue="mail")
    assert (await s.do("ISPAUSED", queue="mail"))["paused"] is True
    assert (await s.do("PULL", queue="mail", timeout=0))["job"] is None
    await s.do("RESUME", queue="mail")
    assert (await s.do("ISPAUSED", queue="mail"))["paused"] is False
    assert (await s.do("PULL", queue="mail", timeout=0))["job"] is not None


@scene("RATELIMIT", "RATELIMITCLEAR", "SETCONCURRENCY", "CLEARCONCURRENCY")
async def _limits(s: Stage) -> None:
    for _ in range(4):
        await s.push()
    await s.do("RATELIMIT", queue="mail", limit=1, period=60_000)
    assert len((await s.do("PULLB", queue="mail", count=9, timeout=0))["jobs"]) == 1
    await s.do("RATELIMITCLEAR", queue="mail")
    await s.do("SETCONCURRENCY", queue="mail", limit=2)
    assert len((await s.do("PULLB", queue="mail", count=9, timeout=0))["jobs"]) == 1
    await s.do("CLEARCONCURRENCY", queue="mail")
    assert len((await s.do("PULLB", queue="mail", count=9, timeout=0))["jobs"]) == 2


@scene("QUEUE", "LIMIT", "TENANT", "SETTINGS", "WORKERS")
async def _settings(s: Stage) -> None:
    rate = {"tokens": 5, "period": 1_000, "burst": 9}
    await s.do("QUEUE", queue="mail", changes={"concurrency": 3, "rate": rate})
    assert (await s.do("QUEUE", queue="mail"))["settings"]["concurrency"] == 3
    await s.do("LIMIT", key="api:", changes={"concurrency": 2})
    assert (await s.do("LIMIT", key="api:"))["settings"]["concurrency"] == 2
    await s.do("TENANT", changes={"weight": 4})
    assert (await s.do("TENANT", name="default"))["settings"]["weight"] == 4
    assert (await s.do("SETTINGS"))["settings"] == {}
    await s.do("WORKERS", name="w1", changes={"version": "2"})
    assert (await s.do("WORKERS"))["settings"]["w1"]["version"] == "2"
    assert await s.refused("QUEUE", queue="mail", changes={"concurency": 3}) == "InvalidRequest"
    assert await s.refused("QUEUE", queue="mail", changes={"rate": {"tokens": "x"}}) == "InvalidRequest"


@scene("EVENTS")
async def _events(s: Stage) -> None:
    id = await s.push()
    await s.push(queue="image")
    page = await s.do("EVENTS", queue="mail")
    assert [(event["type"], event["job"]) for event in page["events"]] == [("enqueued", id)]
    assert (await s.do("EVENTS", after=page["cursor"]))["events"] == []


@scene("SCAN")
async def _scan(s: Stage) -> None:
    ids = [await s.push() for _ in range(4)]
    await s.push(queue="image")
    told = await s.do("SCAN", table="jobs", parts=2)
    assert (told["scan"]["first"], told["scan"]["last"]) == (ids[0], ids[-1] + 1)
    assert told["parts"][0][0] == ids[0] - 1
    assert told["parts"][-1][1] == ids[-1] + 1
    found: list[int] = []
    for after, upto in told["parts"]:
        page = await s.do("SCAN", table="jobs", after=after, upto=upto, limit=10, queue="mail", columns=["id"])
        assert page["scan"]["next"] == upto
        found += page["scan"]["columns"]["id"] if page["scan"]["rows"] else []
    assert found == ids
    page = await s.do("SCAN", table="events", after=0, upto=99, limit=2, types=["enqueued"])
    assert (page["scan"]["rows"], page["scan"]["next"]) == (2, 2)
    assert page["scan"]["columns"]["type"][0] == ["enqueued"]
    assert await s.refused("SCAN", table="secrets") == "InvalidRequest"
    assert await s.refused("SCAN", table="jobs", columns=["password"]) == "InvalidRequest"
    assert await s.refused("SCAN", table="jobs", parts=10_001) == "InvalidRequest"


@scene("SUBSCRIBE", "UNSUBSCRIBE")
async def _subscribe(s: Stage) -> None:
    await s.do("SUBSCRIBE", queue="mail", events=["enqueued", "leased"], reqId="sub")
    id = await s.push()
    told = await s.talk.receive()
    assert (told["reqId"], told["event"]["type"], told["event"]["job"]) == ("sub", "enqueued", id)
    await s.push(queue="image")
    assert (await s.do("UNSUBSCRIBE", id="sub"))["ended"] is True
    assert (await s.do("UNSUBSCRIBE", id="sub"))["ended"] is False
    await s.push()
    assert await s.do("PING") == {"ok": True}


def test_every_command_has_a_scene() -> None:
    assert set(SCENES) == set(COMMANDS)


@pytest.mark.parametrize("played", list(dict.fromkeys(SCENES.values())))
async def test_command(played: Scene, stage: Stage) -> None:
    await played(stage)


async def test_commands_of_features_that_do_not_exist_are_unsupported(stage: Stage) -> None:
    for name in sorted(UNSUPPORTED):
        assert await stage.refused(name, reqId=name, anything=1) == "Unsupported"
    assert await stage.refused("PUSHH") == "InvalidRequest"
    assert await stage.do("PING", reqId=1) == {"ok": True, "reqId": 1}


async def test_token_is_base64_in_json_and_binary_in_messagepack(stage: Stage) -> None:
    token = (await stage.lease())["token"]
    assert len(b64decode(token, validate=True) if stage.talk.manner.is_json else token) >= 16
