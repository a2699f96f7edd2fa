"""Every endpoint does what it says: one walk through all of them, and what they share."""

from typing import Any

import msgspec
import pytest

from tenure.server.http.route import ENDPOINTS
from tests.http.conftest import Served, serving

MSGPACK = "application/msgpack"


class Walk:
    """Says requests and remembers which endpoints they went to."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.seen: set[tuple[str, str]] = set()

    async def say(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        found_status, found = await self.served.say(method, path, body)
        assert found_status == status, (method, path, found)
        self.seen.add((method, template_of(method, path.partition("?")[0])))
        return found


def template_of(method: str, path: str) -> str:
    parts = path.split("/")
    for exact in (True, False):
        for endpoint in ENDPOINTS:
            own = endpoint.path.split("/")
            fits = len(own) == len(parts) and all(
                a == b or (not exact and a[0] == "{") for a, b in zip(own[1:], parts[1:], strict=True)
            )
            if endpoint.method == method and fits:
                return endpoint.path
    raise AssertionError(path)


async def enqueue_and_read(walk: Walk) -> None:
    say = walk.say
    first = await say("POST", "/v1/queues/mail/jobs", {"data": {"to": "a"}, "custom_id": "a/b", "tags": ["x"]}, 201)
    assert first == {"ok": True, "id": 1, "state": "ready", "duplicate": False}
    again = await say("POST", "/v1/queues/mail/jobs", {"data": 1, "custom_id": "a/b"}, 200)
    assert again["duplicate"] is True
    assert again["id"] == 1
    many = await say("POST", "/v1/jobs/batch", {"queue": "mail", "jobs": [{"data": 1}, {"data": 2}]})
    assert many["ids"] == [2, 3]
    assert (await say("GET", "/v1/jobs/1"))["job"]["data"] == {"to": "a"}
    assert (await say("GET", "/v1/custom-ids/a%2Fb"))["job"]["id"] == 1
    found = await say("POST", "/v1/jobs/get", {"ids": [3, 99], "custom_ids": ["a/b"]})
    assert [job and job["id"] for job in found["jobs"]] == [3, None, 1]
    assert (await say("GET", "/v1/jobs/1/state")) == {"state": "ready"}
    assert (await say("GET", "/v1/jobs/1/explanation"))["explanation"]["id"] == 1
    page = await say("GET", "/v1/jobs?queue=mail&state=ready&state=running&limit=2")
    assert len(page["jobs"]) == 2
    rest = await say("GET", f"/v1/jobs?queue=mail&limit=2&cursor={page['cursor']}")
    assert len(rest["jobs"]) == 1
    assert (await say("GET", "/v1/queues"))["queues"] == ["mail"]
    assert (await say("GET", "/v1/queues/mail/counts"))["counts"]["ready"] == 3
    assert (await say("GET", "/v1/counts"))["queues"]["mail"]["ready"] == 3
    assert (await say("GET", "/v1/stats"))["stats"]["ready"] == 3


async def work(walk: Walk) -> None:
    say = walk.say
    claimed = (await say("POST", "/v1/claims", {"queue": "mail", "count": 3, "worker": "w"}))["jobs"]
    one, two, three = claimed
    of = {"token": one["token"]}
    assert [job["id"] for job in claimed] == [1, 2, 3]
    assert (await say("POST", "/v1/jobs/1/heartbeat", {**of, "lease": 60_000}))["cancelled"] is False
    beats = await say("POST", "/v1/jobs/heartbeat", {"items": [{"id": 2, **of}, {"id": 3, **of}]})
    assert all(beat["ok"] for beat in beats["results"])
    assert (await say("PUT", "/v1/jobs/1/progress", {**of, "progress": 40, "message": "so far"})) == {"progress": 40}
    assert (await say("GET", "/v1/jobs/1/progress")) == {"progress": 40, "message": "so far"}
    await say("POST", "/v1/jobs/1/logs", {**of, "message": "a line"})
    assert (await say("GET", "/v1/jobs/1/logs"))["logs"][0]["message"] == "a line"
    await say("POST", "/v1/jobs/1/items", {**of, "data": [1, 2]})
    assert (await say("GET", "/v1/jobs/1/items"))["items"][0]["data"] == [1, 2]
    done = await say("POST", "/v1/jobs/1/complete", {**of, "result": {"sent": True}})
    assert done["state"] == "completed"
    assert (await say("GET", "/v1/jobs/1/result"))["result"] == {"sent": True}
    assert (await say("GET", "/v1/jobs/1/wait?timeout=0"))["result"] == {"sent": True}
    await say("POST", "/v1/jobs/2/release", of)
    await say("POST", "/v1/jobs/3/snooze", {**of, "delay": 60_000})
    await say("POST", "/v1/jobs/promote", {"ids": [3]}, 200)
    assert {two["id"], three["id"]} == {2, 3}
    claimed = (await say("POST", "/v1/claims", {"queue": "mail", "count": 3}))["jobs"]
    of = {"token": claimed[0]["token"]}
    assert (await say("POST", "/v1/jobs/2/fail", {**of, "error": "no", "retryable": False}))["state"] == "failed"
    items = [{"id": 3, **of, "error": "no", "retryable": False}]
    assert (await say("POST", "/v1/jobs/fail", {"items": items}))["ids"] == [3]
    for verb, path in (("complete", "complete"), ("settle", "settle")):
        id = await walk.served.push(verb, data=verb)
        job = await walk.served.claim(verb)
        body: dict[str, Any] = {"items": [{"id": id, "token": job["token"]}]}
        if verb == "settle":
            body = {"verb": "complete", "ids": [id], "tokens": [job["token"]]}
        await say("POST", f"/v1/jobs/{path}", body)
        assert (await say("GET", f"/v1/jobs/{id}/state"))["state"] == "completed"


async def dead_letters(walk: Walk) -> None:
    say = walk.say
    assert len((await say("GET", "/v1/dead?queue=mail"))["jobs"]) == 2
    [group] = (await say("GET", "/v1/dead/groups?queue=mail"))["groups"]
    assert group["count"] == 2
    assert (await say("POST", "/v1/jobs/2/replay", {}))["state"] == "ready"
    assert (await say("POST", "/v1/dead/replay", {"queue": "mail"}))["count"] == 1
    await say("POST", "/v1/jobs/discard", {"filter": {"queue": "mail", "state": "ready"}})
    assert (await say("POST", "/v1/jobs/replay", {"ids": [2]}))["results"][0]["ok"]
    assert (await say("POST", "/v1/jobs/2/discard", {}))["state"] == "failed"
    assert (await say("POST", "/v1/dead/purge", {"queue": "mail"}))["count"] == 2


async def change(walk: Walk) -> None:
    say = walk.say
    ids = [await walk.served.push("other", data=n, delay=60_000) for n in range(12)]
    assert (await say("POST", f"/v1/jobs/{ids[0]}/cancel", {}))["state"] == "cancelled"
    assert (await say("POST", "/v1/jobs/cancel", {"filter": {"queue": "other"}, "limit": 1}))["count"] == 1
    assert (await say("POST", f"/v1/jobs/{ids[2]}/promote", {}))["state"] == "ready"
    await say("POST", f"/v1/jobs/{ids[2]}/priority", {"priority": "high"})
    await say("POST", "/v1/jobs/priority", {"ids": ids[2:4], "priority": 3})
    await say("POST", f"/v1/jobs/{ids[2]}/delay", {"delay": 5_000})
    await say("POST", "/v1/jobs/delay", {"ids": ids[2:4], "delay": 5_000})
    await say("POST", f"/v1/jobs/{ids[2]}/update", {"data": "new", "tags": ["t"]})
    await say("POST", "/v1/jobs/update", {"ids": ids[3:4], "metadata": {"a": "b"}})
    assert (await say("GET", "/v1/jobs?metadata[a]=b"))["jobs"][0]["id"] == ids[3]
    job = (await say("GET", f"/v1/jobs/{ids[2]}"))["job"]
    assert (job["data"], job["priority"], job["tags"], job["state"]) == ("new", 3, ["t"], "scheduled")
    assert (await say("POST", f"/v1/jobs/{ids[2]}/clone", {}))["id"] > ids[-1]
    await say("POST", "/v1/jobs/clone", {"ids": ids[3:4]})
    await say("POST", f"/v1/jobs/{ids[0]}/remove", {})
    await say("POST", "/v1/jobs/remove", {"filter": {"queue": "other", "state": "cancelled"}})
    await say("DELETE", f"/v1/jobs/{ids[2]}")
    await say("GET", f"/v1/jobs/{ids[2]}", status=404)


async def settings(walk: Walk) -> None:
    say = walk.say
    await say("PATCH", "/v1/queues/other", {"changes": {"concurrency": 7, "rate": {"tokens": 5}}})
    read = (await say("GET", "/v1/queues/other"))["settings"]
    assert read["concurrency"] == 7
    assert read["rate"] == {"tokens": 5, "period": 1_000, "burst": 5}
    await say("PUT", "/v1/queues/other/rate", {"limit": 9})
    await say("DELETE", "/v1/queues/other/rate")
    await say("PUT", "/v1/queues/other/concurrency", {"limit": 9})
    await say("DELETE", "/v1/queues/other/concurrency")
    assert (await say("GET", "/v1/queues/other"))["settings"].get("concurrency") is None
    await say("POST", "/v1/queues/other/pause")
    assert (await say("GET", "/v1/queues/other/paused")) == {"paused": True}
    await say("POST", "/v1/queues/other/resume", {})
    assert (await say("GET", "/v1/queues/other/paused")) == {"paused": False}
    assert (await say("POST", "/v1/queues/other/drain"))["count"] > 0
    await say("POST", "/v1/queues/other/clean", {"state": "failed"})
    await say("PATCH", "/v1/limits/smtp:", {"changes": {"concurrency": 3}})
    assert (await say("GET", "/v1/limits/smtp:"))["settings"]["concurrency"] == 3
    assert "smtp:" in str(await say("GET", "/v1/limits"))
    await say("PATCH", "/v1/tenants/acme", {"changes": {"weight": 3}})
    assert (await say("GET", "/v1/tenants/acme"))["settings"]["weight"] == 3
    assert "acme" in (await say("GET", "/v1/tenants"))["settings"]
    assert (await say("PATCH", "/v1/settings", {"changes": {}})) == await say("GET", "/v1/settings")
    await say("PATCH", "/v1/workers/w9", {"changes": {"version": "1"}})
    assert "w9" in str(await say("GET", "/v1/workers"))
    await say("GET", "/v1/workers/w9")
    await say("GET", "/v1/tasks/resize")


async def loads_and_events(walk: Walk) -> None:
    say = walk.say
    staged = {"part": 0, "writing": "w", "chunk": 0, "queue": "bulk", "jobs": [{"data": 1}, {"data": 2, "priority": 1}]}
    assert (await say("POST", "/v1/loads/l1/stage", staged))["load"]["rows"] == 2
    assert (await say("POST", "/v1/loads/l1/publish", {"parts": {"0": "w"}}))["load"]["published"]
    await say("POST", "/v1/loads/l1/read", {"writing": "w"})
    await say("POST", "/v1/loads/l2/stage", staged)
    await say("POST", "/v1/loads/l2/abort", {})
    page = await say("GET", "/v1/events?limit=3")
    assert [event["seq"] for event in page["events"]] == [1, 2, 3]
    after = await say("GET", "/v1/events?after=3&limit=1")
    assert after["events"][0]["seq"] > 3


async def test_every_endpoint_answers(served: Served) -> None:
    walk = Walk(served)
    for part in (enqueue_and_read, work, dead_letters, change, settings, loads_and_events):
        await part(walk)
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} - walk.seen == set()


# Formats.


async def test_msgpack_is_spoken_both_ways(served: Served) -> None:
    body = msgspec.msgpack.encode({"data": {"raw": b"\x00\xff"}})
    headers = {"content-type": MSGPACK}
    made = await served.client.post("/v1/queues/mail/jobs", content=body, headers=headers)
    assert made.headers["content-type"] == MSGPACK
    assert msgspec.msgpack.decode(made.content)["id"] == 1
    packed = await served.client.get("/v1/jobs/1", headers={"accept": MSGPACK})
    assert msgspec.msgpack.decode(packed.content)["job"]["data"] == {"raw": b"\x00\xff"}
    assert (await served.say("GET", "/v1/jobs/1"))[1]["job"]["data"] == {"raw": {"$bin": "AP8="}}


@pytest.mark.parametrize(("sent", "wanted"), [("json", "msgpack"), ("msgpack", "json")])
async def test_answer_may_be_asked_for_in_the_other_format(served: Served, sent: str, wanted: str) -> None:
    encode = msgspec.json.encode if sent == "json" else msgspec.msgpack.encode
    decode = msgspec.json.decode if wanted == "json" else msgspec.msgpack.decode
    headers = {"content-type": f"application/{sent}", "accept": f"application/{wanted}"}
    await served.client.post("/v1/queues/mail/jobs", content=encode({"data": [1, "a"]}), headers=headers)
    found = await served.client.post("/v1/claims", content=encode({"queue": "mail"}), headers=headers)
    assert found.headers["content-type"] == f"application/{wanted}"
    assert decode(found.content)["jobs"][0]["data"] == [1, "a"]


async def test_names_are_read_in_either_style(served: Served) -> None:
    status, found = await served.say("POST", "/v1/queues/mail/jobs", {"data": 1, "customId": "c", "maxAttempts": 2})
    assert status == 201
    assert (await served.say("GET", f"/v1/jobs/{found['id']}"))[1]["job"]["max_attempts"] == 2
    assert (await served.say("GET", "/v1/jobs?customIdPrefix=c"))[1]["jobs"][0]["id"] == found["id"]


async def test_repeat_with_the_same_operation_id_is_answered_and_not_done_again(served: Served) -> None:
    body = {"data": 1, "opId": "session:1"}
    first = await served.say("POST", "/v1/queues/mail/jobs", body)
    assert await served.say("POST", "/v1/queues/mail/jobs", body) == first
    assert (await served.say("GET", "/v1/queues/mail/counts"))[1]["counts"]["ready"] == 1


async def test_about_says_what_the_server_can() -> None:
    async with serving() as served:
        status, found = await served.say("GET", "/v1")
    assert status == 200
    assert found["capabilities"]["name"] == "memory"
