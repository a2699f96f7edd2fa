"""Durations over HTTP: milliseconds, or text with a unit."""

from typing import Any

import pytest

from tests.http.conftest import Served

MINUTE_MS = 60_000


@pytest.mark.parametrize("minute", [MINUTE_MS, "1m", "60s", "60000ms", "1.0m"])
async def test_duration_of_a_job_may_be_text_with_a_unit(served: Served, minute: Any) -> None:
    fields = {"data": 1, "delay": minute, "ttl": "1h", "timeout": minute, "keep_failed_age": "7d", "lease": minute}
    for path, body in (
        ("/v1/queues/mail/jobs", {**fields, "backoff": {"kind": "fixed", "base": minute, "cap": "2h"}}),
        ("/v1/queues/mail/jobs", {**fields, "backoff": minute}),
    ):
        status, made = await served.say("POST", path, body)
        assert status == 201, made
        _, found = await served.say("GET", f"/v1/jobs/{made['id']}")
        job = found["job"]
        assert job["run_at"] - job["created_at"] == MINUTE_MS
        assert job["expires_at"] - job["created_at"] == 60 * MINUTE_MS


async def test_each_job_of_a_batch_may_have_its_own(served: Served) -> None:
    jobs = [{"data": 1}, {"data": 2, "delay": "5m"}, {"data": 3, "delay": 1_000}, {"data": 4, "delay": "soon"}]
    status, made = await served.say("POST", "/v1/jobs/batch", {"queue": "mail", "delay": "2m", "jobs": jobs})
    assert status == 207
    waits = []
    for id in made["ids"][:3]:
        _, found = await served.say("GET", f"/v1/jobs/{id}")
        waits.append(found["job"]["run_at"] - found["job"]["created_at"])
    assert waits == [2 * MINUTE_MS, 5 * MINUTE_MS, 1_000]
    assert made["results"][3]["code"] == "InvalidRequest"
    assert "250ms, 30s, 5m" in made["results"][3]["error"]


async def test_workers_say_durations_as_text_too(served: Served) -> None:
    await served.say("POST", "/v1/queues/mail/jobs", {"data": 1})
    _, claimed = await served.say("POST", "/v1/claims", {"queue": "mail", "timeout": "1s", "lease": "5m"})
    [job] = claimed["jobs"]
    _, failed = await served.say("POST", f"/v1/jobs/{job['id']}/fail", {"token": job["token"], "retry_after": "1h"})
    assert failed["state"] == "retrying"
    await served.say("POST", f"/v1/jobs/{job['id']}/promote", {})
    _, claimed = await served.say("POST", "/v1/claims", {"queue": "mail", "timeout": "1s"})
    [job] = claimed["jobs"]
    items = [{"id": job["id"], "token": job["token"], "retry_after": "1h"}]
    status, failed = await served.say("POST", "/v1/jobs/fail", {"items": items})
    assert (status, failed["results"][0]["state"]) == (200, "retrying")
    _, found = await served.say("GET", f"/v1/jobs/{job['id']}")
    assert abs(found["job"]["run_at"] - found["job"]["created_at"] - 60 * MINUTE_MS) < MINUTE_MS


async def test_query_takes_them_too(served: Served) -> None:
    _, made = await served.say("POST", "/v1/queues/mail/jobs", {"data": 1})
    status, found = await served.say("GET", f"/v1/jobs/{made['id']}/wait?timeout=50ms")
    assert (status, found["code"]) == (504, "Timeout")
    status, found = await served.say("GET", f"/v1/jobs/{made['id']}/wait?timeout=never")
    assert (status, found["code"]) == (400, "InvalidRequest")
    assert "250ms, 30s, 5m" in found["error"]


@pytest.mark.parametrize("wrong", ["", "5", "5 m", "-5m", "m", "1e3s", "9" * 30 + "d", [5], {"s": 5}, 1.5])
async def test_what_is_no_duration_is_refused_and_named(served: Served, wrong: Any) -> None:
    status, found = await served.say("POST", "/v1/queues/mail/jobs", {"data": 1, "delay": wrong})
    assert (status, found["code"], found["detail"]["field"]) == (400, "InvalidRequest", "delay")


async def test_times_are_milliseconds_and_no_text(served: Served) -> None:
    status, found = await served.say("POST", "/v1/queues/mail/jobs", {"data": 1, "run_at": "5m"})
    assert (status, found["detail"]["field"]) == (400, "run_at")


async def test_description_says_so(served: Served) -> None:
    _, described = await served.say("GET", "/openapi.json")
    schemas = described["components"]["schemas"]
    pushes = [schema for name, schema in schemas.items() if name.startswith("PushAt")]
    assert pushes
    for schema in pushes:
        kinds = {each.get("type") for each in schema["properties"]["delay"]["anyOf"]}
        assert kinds == {"integer", "string"}
