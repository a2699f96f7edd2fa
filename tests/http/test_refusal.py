"""What is refused, and how: the right status, and always an error with its code."""

import asyncio
from typing import Any

import msgspec
import pytest

from tenure.server.config import Token
from tenure.store.embedded.memory import MemoryStore
from tenure.wire import limit
from tests.http.conftest import Served, serving
from tests.http.raw import exchange, request, status_of

JSON = "content-type: application/json"


def error_in(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])
    assert found.keys() >= {"error", "code", "detail"}
    return found


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "NotFound"),
        ("GET", "/v1/nowhere", None, 404, "NotFound"),
        ("GET", "/v1/jobs/", None, 404, "NotFound"),
        ("GET", "/v1/queues//counts", None, 404, "NotFound"),
        ("GET", "/v1/../v1/jobs", None, 404, "NotFound"),
        ("GET", "/v1/%2e%2e/%2e%2e/etc/passwd", None, 404, "NotFound"),
        ("GET", "/../../etc/passwd", None, 404, "NotFound"),
        ("POST", "/docs", {}, 405, "MethodNotAllowed"),
        ("PUT", "/v1/jobs", {}, 405, "MethodNotAllowed"),
        ("GET", "/v1/jobs/7", None, 404, "JobNotFound"),
        ("GET", "/v1/jobs/9007199254740992", None, 404, "JobNotFound"),
        ("GET", "/v1/jobs/seven", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs/-1", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs/%ff", None, 400, "InvalidRequest"),
        ("GET", "/v1/custom-ids/none", None, 404, "JobNotFound"),
        ("GET", "/v1/queues/none", None, 404, "QueueNotFound"),
        ("GET", "/v1/jobs?limit=many", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs?limit=1&limit=2", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs?colour=red", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs?metadata=x", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs?queue=%ff", None, 400, "InvalidRequest"),
        ("GET", "/v1/jobs?cursor=nonsense", None, 400, "InvalidRequest"),
        ("GET", "/v1/events?after=nonsense", None, 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs?delay=5", {"data": 1}, 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs", {"data": 1, "queue": "other"}, 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs", {"data": 1, "prority": 1}, 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs", {"data": 1, "priority": []}, 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs", {"data": 1, "depends_on": [99]}, 404, "DependencyNotFound"),
        ("POST", "/v1/queues/mail/jobs", {"data": 1, "durability": "fsync"}, 400, "InvalidRequest"),
        ("POST", "/v1/queues/bad%20name/jobs", {"data": 1}, 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs", [1], 400, "InvalidRequest"),
        ("POST", "/v1/queues/mail/jobs", {"data": "x" * (2 << 20)}, 413, "PayloadTooLarge"),
        ("POST", "/v1/jobs/batch", {}, 400, "InvalidRequest"),
        ("POST", "/v1/jobs/5/complete", {"token": "AAAA"}, 404, "JobNotFound"),
        ("POST", "/v1/jobs/cancel", {}, 400, "InvalidRequest"),
        ("POST", "/v1/claims", {"timeout": 700_000}, 400, "InvalidRequest"),
    ],
)
async def test_refused(served: Served, method: str, path: str, body: Any, status: int, code: str) -> None:
    sent = request(method, path)
    if body is not None:
        text = msgspec.json.encode(body)
        sent = request(method, path, JSON, f"content-length: {len(text)}", body=text)
    answer = await exchange(served.port, sent)
    assert (status_of(answer), error_in(answer)["code"]) == (status, code)


async def test_wrong_method_says_which_are_right(served: Served) -> None:
    assert (await served.ask("PUT", "/v1/jobs/1")).headers["allow"] == "DELETE, GET"


async def test_some_refused_items_of_a_batch_are_told_by_the_status(served: Served) -> None:
    good = {"queue": "mail", "jobs": [{"data": 1}]}
    assert (await served.say("POST", "/v1/jobs/batch", good))[0] == 200
    bad = {"queue": "mail", "jobs": [{"data": 1}, {"data": 2, "priority": "silly"}, {"data": 1, "depends_on": [999]}]}
    status, found = await served.say("POST", "/v1/jobs/batch", bad)
    assert status == 207
    assert [item["ok"] for item in found["results"]] == [True, False, False]
    assert (await served.say("POST", "/v1/jobs/batch", {**bad, "packed": True}))[0] == 207
    assert (await served.say("POST", "/v1/jobs/batch", {**bad, "atomic": True}))[0] in (400, 404)
    assert (await served.say("POST", "/v1/jobs/cancel", {"ids": [1, 999]}))[0] == 207
    assert (await served.say("POST", "/v1/jobs/heartbeat", {"items": [{"id": 999, "token": "AAAA"}]}))[0] == 207


async def test_settling_twice_and_late_are_conflicts(served: Served) -> None:
    id = await served.push(data=1)
    job = await served.claim()
    of = {"token": job["token"]}
    assert (await served.say("POST", f"/v1/jobs/{id}/complete", of))[0] == 200
    status, found = await served.say("POST", f"/v1/jobs/{id}/fail", {**of, "error": "x"})
    assert (status, found["code"]) == (409, "AlreadySettled")
    id = await served.push(data=1)
    job = await served.claim()
    await served.say("POST", f"/v1/jobs/{id}/cancel", {})
    status, found = await served.say("POST", f"/v1/jobs/{id}/complete", {"token": job["token"]})
    assert (status, found["code"]) == (409, "JobCancelled")


async def test_failed_job_is_an_error_to_who_waits_for_its_result(served: Served) -> None:
    id = await served.push(data=1)
    job = await served.claim()
    body = {"token": job["token"], "type": "ValueError", "error": "bad", "retryable": False}
    await served.say("POST", f"/v1/jobs/{id}/fail", body)
    status, found = await served.say("GET", f"/v1/jobs/{id}/wait?timeout=0")
    assert (status, found["code"], found["error"]) == (409, "JobFailed", "ValueError: bad")


async def test_wait_that_is_over_is_a_timeout(served: Served) -> None:
    id = await served.push(data=1)
    status, found = await served.say("GET", f"/v1/jobs/{id}/wait?timeout=1")
    assert (status, found["code"]) == (504, "Timeout")


async def test_full_queue_says_when_to_come_again(served: Served) -> None:
    await served.push(data=1)
    await served.say("PATCH", "/v1/queues/mail", {"changes": {"jobs_max": 1}})
    answer = await served.ask("POST", "/v1/queues/mail/jobs", {"data": 2})
    assert (answer.status_code, answer.json()["code"]) == (429, "Overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["retryAfter"] > 0


async def test_token_over_its_rate_says_when_to_come_again() -> None:
    async with serving(tokens={"slow": Token("", rate=1)}) as served:
        assert (await served.ask("GET", "/v1/queues", token="slow")).status_code == 200
        answer = await served.ask("GET", "/v1/queues", token="slow")
    assert (answer.status_code, answer.json()["code"]) == (429, "RateLimited")
    assert answer.headers["retry-after"] == "1"


# Bodies.


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_body_of_another_kind_is_refused(served: Served, kind: str) -> None:
    answer = await served.client.post("/v1/queues/mail/jobs", content=b'{"data":1}', headers={"content-type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "UnsupportedMediaType")


async def test_body_that_says_nothing_of_its_kind_is_refused(served: Served) -> None:
    body = b'{"data":1}'
    answer = await exchange(served.port, request("POST", "/v1/queues/a/jobs", "content-length: 10", body=body))
    assert status_of(answer) == 415


async def test_kind_may_have_parameters(served: Served) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    answer = await served.client.post("/v1/queues/mail/jobs", content=b'{"data":1}', headers=headers)
    assert answer.status_code == 201


async def test_large_body_is_refused_before_it_is_sent(served: Served) -> None:
    length = f"content-length: {limit.MESSAGE_BYTES_MAX + 1}"
    answer = await exchange(served.port, request("POST", "/v1/queues/a/jobs", JSON, length))
    assert (status_of(answer), error_in(answer)["code"]) == (413, "PayloadTooLarge")


async def test_large_body_in_chunks_is_refused_when_it_is_too_large(served: Served) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = request("POST", "/v1/queues/a/jobs", JSON, "transfer-encoding: chunked")
    answer = await exchange(served.port, head, *([chunk] * 17))
    assert (status_of(answer), error_in(answer)["code"]) == (413, "PayloadTooLarge")


async def test_body_in_chunks_is_read(served: Served) -> None:
    head = request("POST", "/v1/queues/a/jobs", JSON, "transfer-encoding: chunked")
    answer = await exchange(served.port, head, b'8\r\n{"data":\r\n', b"2\r\n1}\r\n0\r\n\r\n")
    assert status_of(answer) == 201


async def test_who_goes_on_sending_what_was_refused_is_cut_off(served: Served) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = request("POST", "/v1/queues/a/jobs", JSON, "transfer-encoding: chunked")
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(head)

    async def send_on() -> None:
        for _ in range(200):
            writer.write(chunk)
            await writer.drain()

    with pytest.raises(ConnectionError):
        await send_on()
    writer.close()
    del reader


# What two servers could read in two ways, and heads without end.


@pytest.mark.parametrize(
    "head",
    [
        ("content-length: 5", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked", "content-length: 5"),
        ("content-length: 5", "content-length: 6"),
        ("transfer-encoding: chunked, identity",),
        ("content-length: +5",),
        ("content-length: 5, 5",),
        ("content-length : 5",),
        ("bad header\x00: x",),
    ],
    ids=lambda head: " and ".join(head),
)
async def test_ambiguous_request_is_refused_and_the_connection_ended(served: Served, head: tuple[str, ...]) -> None:
    smuggled = b"0\r\n\r\n" + request("POST", "/v1/queues/smuggled/pause")
    answer = await exchange(
        served.port, request("POST", "/v1/queues/a/jobs", JSON, *head, body=smuggled), until_closed=True
    )
    assert status_of(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1
    assert error_in(answer)["code"] == "InvalidRequest"
    assert (await served.say("GET", "/v1/queues/smuggled"))[0] == 404


@pytest.mark.parametrize("line", [b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"NONSENSE\r\n\r\n"])
async def test_what_is_no_request_is_refused(served: Served, line: bytes) -> None:
    assert status_of(await exchange(served.port, line, until_closed=True)) == 400


async def test_long_address_is_refused(served: Served) -> None:
    answer = await exchange(served.port, request("GET", "/v1/jobs?queue=" + "a" * limit.HTTP_URL_BYTES_MAX))
    assert (status_of(answer), error_in(answer)["code"]) == (414, "RequestUriTooLong")


async def test_large_head_is_refused(served: Served) -> None:
    answer = await exchange(served.port, request("GET", "/livez", "x: " + "a" * limit.HTTP_HEAD_BYTES_MAX))
    assert status_of(answer) == 431
    answer = await exchange(served.port, request("GET", "/livez", *["x: y"] * (limit.HTTP_HEADERS_MAX + 1)))
    assert (status_of(answer), error_in(answer)["code"]) == (431, "RequestHeaderFieldsTooLarge")


async def test_head_without_end_is_refused(served: Served) -> None:
    begun = b"GET /livez HTTP/1.1\r\nx: "
    answer = await exchange(served.port, begun, *[b"a" * 10_000] * 10, until_closed=True)
    assert status_of(answer) == 431


async def test_many_parameters_are_refused(served: Served) -> None:
    assert (await served.say("GET", "/v1/jobs?" + "tenants=a&" * (limit.HTTP_PARAMETERS_MAX + 1)))[0] == 400


# Who asks.


@pytest.fixture
def tokens() -> dict[str, Token]:
    return {
        "admin": Token(""),
        "acme": Token("", tenants=("acme",)),
        "globex": Token("", tenants=("globex",)),
        "producer": Token("", roles=("producer",)),
        "mail": Token("", queues=("mail",)),
    }


@pytest.mark.parametrize(
    "said", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic YTpi"}, {"authorization": "Bearer"}]
)
async def test_without_a_known_token_nothing_is_answered(tokens: dict[str, Token], said: dict[str, str]) -> None:
    async with serving(tokens=tokens) as served:
        for method, path in (("GET", "/v1/queues"), ("POST", "/v1/queues/a/jobs"), ("GET", "/metrics"), ("GET", "/v1")):
            answer = await served.client.request(method, path, headers=said)
            assert (answer.status_code, answer.json()["code"]) == (401, "Unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in ("/livez", "/healthz", "/readyz", "/docs", "/openapi.json"):
            assert (await served.client.get(path)).status_code == 200


async def test_role_that_is_missing_is_forbidden(tokens: dict[str, Token]) -> None:
    async with serving(tokens=tokens) as served:
        assert (await served.ask("POST", "/v1/queues/a/jobs", {"data": 1}, "producer")).status_code == 201
        for method, path in (("POST", "/v1/claims"), ("POST", "/v1/queues/a/pause"), ("GET", "/v1/events")):
            assert (await served.ask(method, path, None, "producer")).status_code == 403
        assert (await served.ask("GET", "/metrics", None, "producer")).status_code == 403


async def test_tenant_out_of_reach_is_forbidden(tokens: dict[str, Token]) -> None:
    async with serving(tokens=tokens) as served:
        body = {"data": 1, "tenant": "globex"}
        assert (await served.ask("POST", "/v1/queues/a/jobs", body, "acme")).status_code == 403
        assert (await served.ask("GET", "/v1/jobs?tenant=globex", None, "acme")).status_code == 403
        assert (await served.ask("POST", "/v1/queues/a/jobs", {"data": 1}, "mail")).status_code == 403


PROBES = [
    ("GET", "/v1/jobs/{id}", None),
    ("GET", "/v1/jobs/{id}/state", None),
    ("GET", "/v1/jobs/{id}/result", None),
    ("GET", "/v1/jobs/{id}/progress", None),
    ("GET", "/v1/jobs/{id}/logs", None),
    ("GET", "/v1/jobs/{id}/items", None),
    ("GET", "/v1/jobs/{id}/explanation", None),
    ("GET", "/v1/jobs/{id}/wait?timeout=0", None),
    ("DELETE", "/v1/jobs/{id}", None),
    ("POST", "/v1/jobs/{id}/cancel", {}),
    ("POST", "/v1/jobs/{id}/discard", {}),
    ("POST", "/v1/jobs/{id}/promote", {}),
    ("POST", "/v1/jobs/{id}/priority", {"priority": 1}),
    ("POST", "/v1/jobs/{id}/delay", {"delay": 1}),
    ("POST", "/v1/jobs/{id}/update", {"data": 1}),
    ("POST", "/v1/jobs/{id}/clone", {}),
    ("POST", "/v1/jobs/{id}/replay", {}),
    ("POST", "/v1/jobs/{id}/complete", {"token": "AAAA"}),
    ("POST", "/v1/jobs/{id}/heartbeat", {"token": "AAAA"}),
    ("POST", "/v1/jobs/{id}/logs", {"token": "AAAA", "message": "x"}),
    ("POST", "/v1/jobs/get", {"ids": ["{id}"]}),
    ("POST", "/v1/jobs/cancel", {"ids": ["{id}"]}),
    ("GET", "/v1/custom-ids/{custom}", None),
    ("GET", "/v1/queues/{queue}", None),
    ("GET", "/v1/queues/{queue}/counts", None),
    ("GET", "/v1/jobs?queue={queue}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PROBES, ids=[f"{method} {path}" for method, path, _ in PROBES])
async def test_job_of_another_tenant_is_answered_exactly_as_none(
    tokens: dict[str, Token], method: str, path: str, body: Any
) -> None:
    async with serving(tokens=tokens) as served:
        made = await served.ask("POST", "/v1/queues/secret/jobs", {"data": 1, "custom_id": "mine"}, "acme")
        theirs, nobodys = made.json()["id"], 77_777

        async def answer(id: int, custom: str, queue: str) -> tuple[int, str]:
            full = path.replace("{id}", str(id)).replace("{custom}", custom).replace("{queue}", queue)
            sent = body
            if body and body.get("ids"):
                sent = {"ids": [id]}
            found = await served.ask(method, full, sent, "globex")
            text = found.text
            for mine in (str(id), custom, queue):
                text = text.replace(mine, "?")
            return found.status_code, text

        assert await answer(theirs, "mine", "secret") == await answer(nobodys, "yours", "nowhere")
        assert (await served.ask("GET", f"/v1/jobs/{theirs}/state", None, "acme")).json()["state"] == "ready"


# Browsers.


async def test_page_of_another_origin_may_not_change_anything(served: Served) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert (await served.ask("POST", "/v1/queues/a/pause", origin=origin)).status_code == 403
    assert (await served.ask("POST", "/v1/queues/a/pause", origin=served.url)).status_code == 200


async def test_without_tokens_only_local_names_are_answered_to(served: Served) -> None:
    for path in ("/v1/queues", "/metrics"):
        assert (await served.ask("GET", path, host="evil.example:6790")).status_code == 403
        assert (await served.ask("GET", path, host=f"localhost:{served.port}")).status_code == 200
        assert (await served.ask("GET", path, host="[::1]:6790")).status_code == 200


async def test_cors_is_off_unless_an_origin_is_named(served: Served) -> None:
    answer = await served.ask("GET", "/v1/queues", origin="https://app.example")
    assert "access-control-allow-origin" not in answer.headers
    asking = {"origin": "https://app.example", "access_control_request_method": "POST"}
    assert (await served.ask("OPTIONS", "/v1/claims", **asking)).status_code == 405


async def test_named_origin_may_call() -> None:
    async with serving(MemoryStore(), cors_origins=("https://app.example",)) as served:
        asking = {"origin": "https://app.example", "access_control_request_method": "POST"}
        answer = await served.ask("OPTIONS", "/v1/claims", **asking)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        answer = await served.ask("POST", "/v1/queues/a/jobs", {"data": 1}, origin="https://app.example")
        assert answer.status_code == 201
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        asking["origin"] = "https://evil.example"
        assert (await served.ask("OPTIONS", "/v1/claims", **asking)).status_code == 400


# Those who do not go on.


async def test_head_that_does_not_end_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "HTTP_HEAD_S", 0.05)
    assert await exchange(served.port, until_closed=True) == b""
    assert await exchange(served.port, b"GET /v1/jobs HTTP/1.1\r\nhost: ", until_closed=True) == b""


@pytest.mark.parametrize(
    "part",
    [
        request("POST", "/v1/queues/mail/jobs", JSON, "content-length: 10"),
        request("POST", "/v1/queues/mail/jobs", JSON, "content-length: 10", body=b'{"data'),
        request("POST", "/v1/queues/mail/jobs", JSON, "transfer-encoding: chunked", body=b'6\r\n{"data\r\n'),
    ],
    ids=["nothing", "half", "chunks"],
)
async def test_body_that_does_not_come_is_given_up(
    part: bytes, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit, "HTTP_BODY_S", 0.05)
    answer = await exchange(served.port, part, until_closed=True)
    assert status_of(answer) == 408
    assert error_in(answer)["code"] == "RequestTimeout"
    assert (await served.say("GET", "/v1/queues/mail/counts"))[1]["counts"].get("ready", 0) == 0


async def test_waiting_for_an_answer_is_not_waiting_for_a_body(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "HTTP_BODY_S", 0.01)
    monkeypatch.setattr(limit, "HTTP_HEAD_S", 0.01)
    waits = await served.ask("POST", "/v1/claims", {"queue": "mail", "timeout": 100})
    assert waits.status_code == 200


HOSTS = {
    "none": (),
    "empty": ("",),
    "two": ("127.0.0.1", "evil.example"),
    "the same twice": ("127.0.0.1", "127.0.0.1"),
    "a user": ("evil.example@127.0.0.1",),
    "a user of localhost": ("localhost@evil.example",),
    "a path": ("127.0.0.1/evil.example",),
    "a query": ("127.0.0.1?evil.example",),
    "a port that is none": ("127.0.0.1:http",),
    "a space": ("127.0.0.1 evil.example",),
    "bytes": ("127.0.0.1\xff",),
}


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize("path", ["/v1/queues", "/livez", "/v1/ws"])
async def test_request_without_one_sound_host_is_refused(hosts: tuple[str, ...], path: str, served: Served) -> None:
    lines = [f"GET {path} HTTP/1.1", *(f"Host: {host}" for host in hosts)]
    if path == "/v1/ws":
        lines += ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"]
        lines += ["sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="]
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    answer = await exchange(served.port, data, until_closed=True)
    assert status_of(answer) == 400
    assert "Host" in error_in(answer)["error"]


async def test_old_request_without_host_gets_past_the_parser_and_not_past_the_guard(served: Served) -> None:
    answer = await exchange(served.port, b"GET /v1/queues HTTP/1.0\r\n\r\n", until_closed=True)
    assert status_of(answer) == 403
    async with serving(tokens={"t": Token("")}) as other:
        answer = await exchange(
            other.port, b"GET /v1/queues HTTP/1.0\r\nauthorization: Bearer t\r\n\r\n", until_closed=True
        )
        assert status_of(answer) == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:6790", "[::1]:6790", "[::1]", "127.0.0.1:"])
async def test_sound_hosts_are_accepted(host: str, served: Served) -> None:
    data = f"GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    assert status_of(await exchange(served.port, data)) == 200


async def test_no_browser_guesses_what_an_answer_is(served: Served) -> None:
    sniff = b"x-content-type-options: nosniff"
    requests = [
        request("GET", path)
        for path in (
            "/livez",
            "/readyz",
            "/metrics",
            "/docs",
            "/openapi.json",
            "/v1",
            "/v1/queues",
            "/nowhere",
            "/v1/x",
        )
    ]
    requests += [
        request("GET", "/v1/events", "accept: text/event-stream"),
        request("GET", "/v1/jobs/seven"),
        request("POST", "/v1/queues/mail/jobs", "origin: https://evil.example"),
        request("GET", "/" + "x" * 20_000),
        b"nonsense\r\n\r\n",
        request("GET", "/v1/other", "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13",
                "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="),
    ]  # fmt: skip
    for data in requests:
        head = (await exchange(served.port, data)).partition(b"\r\n\r\n")[0].lower()
        assert head.count(sniff) == 1, data
