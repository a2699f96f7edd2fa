"""The description of the API is valid, is the API's own, and what is made after it is never an error of the server."""

import asyncio
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from openapi_spec_validator import validate
from schemathesis.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tenure.server.http.openapi import describe
from tenure.server.http.route import ENDPOINTS
from tenure.wire.format import JSON_FORMAT
from tests.http.conftest import Served, serving

DESCRIPTION: dict[str, Any] = msgspec.json.decode(JSON_FORMAT.encode(describe()))
EXAMPLES = 8 * int(os.environ.get("TENURE_FUZZ", "1"))  # of each endpoint; make fuzz asks for more
SHORT = 10


def test_description_is_valid() -> None:
    validate(DESCRIPTION)


def test_every_endpoint_is_described() -> None:
    described = {(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods}
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} <= described


def test_operations_have_names_of_their_own() -> None:
    names = [one["operationId"] for methods in DESCRIPTION["paths"].values() for one in methods.values()]
    assert len(names) == len(set(names))


async def test_description_is_served(served: Served) -> None:
    assert (await served.say("GET", "/openapi.json")) == (200, DESCRIPTION)


async def test_page_needs_nothing_from_elsewhere(served: Served) -> None:
    answer = await served.client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert re.findall(r"""(?:https?:)?//[a-z]|src=|@import|url\(""", answer.text) == []
    assert set(re.findall(r'(?:href=|fetch\()"([^"]*)"', answer.text)) == {"/openapi.json"}
    assert "default-src 'none'" in answer.headers["content-security-policy"]


# Requests made after the description.


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    """A server in a thread of its own."""
    ready = threading.Event()
    found: dict[str, Any] = {}

    async def main() -> None:
        stop = asyncio.Event()
        async with serving() as served:
            found.update(url=served.url, stop=stop, loop=asyncio.get_running_loop())
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(10)
    with httpx.Client(base_url=found["url"], trust_env=False) as client:
        for n in range(20):
            client.post("/v1/queues/mail/jobs", json={"data": n})
        client.post("/v1/claims", json={"queue": "mail", "count": 5})
    yield found["url"]
    found["loop"].call_soon_threadsafe(found["stop"].set)
    thread.join()


def hurry(case: Any) -> None:
    """Nobody waits here."""
    if case.operation.path == "/v1/claims":
        case.body = {**(case.body if isinstance(case.body, dict) else {}), "timeout": 0}
        case.media_type = "application/json"
    elif case.operation.path.endswith(("/wait", "/events", "/logs", "/items")) and case.operation.method == "get":
        case.query = {**(case.query or {}), "timeout": 0}


def in_json(found: Any) -> Any:
    """The description without the other format, which the generator cannot write."""
    if isinstance(found, dict):
        return {name: in_json(part) for name, part in found.items() if name != "application/msgpack"}
    return found


def in_bounds(found: Any, inside: bool = False) -> Any:
    """With short lists inside of lists: 10,000 lists of 10,000 are refused for the size of the body alone, and take the
    generator minutes."""
    if isinstance(found, dict):
        listed = found.get("type") == "array"
        parts = {name: in_bounds(part, inside or (listed and name == "items")) for name, part in found.items()}
        return parts | {"maxItems": min(found["maxItems"], SHORT)} if inside and "maxItems" in found else parts
    if isinstance(found, list):
        return [in_bounds(part, inside) for part in found]
    return found


schema = schemathesis.openapi.from_dict(in_bounds(in_json(DESCRIPTION)))


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_generated_request_is_answered_as_described(case: Any, running: str) -> None:
    hurry(case)
    answer = case.call(base_url=running, timeout=60)
    assert answer.status_code < 500 or answer.json()["code"] == "Timeout"
    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    case.validate_response(answer, checks=checks)
