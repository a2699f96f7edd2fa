"""Health is asked of the store, and what is counted is bounded."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure.client.clock import read_clock
from tenure.core.error import Unavailable
from tenure.server import health
from tenure.server.config import Token
from tenure.server.handler import Handler
from tenure.server.http.metric import OTHER, QUEUES_SHOWN, Metrics, shown
from tenure.store.embedded.memory import MemoryStore
from tests.http.conftest import Served, serving


class Ill(MemoryStore):
    """A store that can be made to refuse, and counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        self.asked: list[str] = []

    def _note(self, verb: str) -> None:
        self.asked.append(verb)
        if verb in self.refuses:
            raise Unavailable("the disk is full")

    async def enqueue(self, *arguments: Any) -> Any:
        self._note("enqueue")
        return await super().enqueue(*arguments)

    async def claim(self, *arguments: Any) -> Any:
        self._note("claim")
        return await super().claim(*arguments)


async def status(served: Served, path: str) -> int:
    return (await served.client.get(path)).status_code


async def test_well_server_says_so(served: Served) -> None:
    for path in ("/livez", "/healthz", "/readyz"):
        assert await served.say("GET", path) == (200, {"status": "ok"})


async def test_store_that_cannot_claim_is_not_healthy() -> None:
    store = Ill()
    store.refuses = {"claim"}
    async with serving(store) as served:
        assert [await status(served, path) for path in ("/livez", "/healthz")] == [200, 503]


async def test_store_that_cannot_write_is_not_ready_but_healthy() -> None:
    store = Ill()
    store.refuses = {"enqueue"}
    async with serving(store) as served:
        assert [await status(served, path) for path in ("/livez", "/healthz", "/readyz")] == [200, 200, 503]
        answer = await served.client.get("/readyz")
    assert answer.json()["code"] == "Unavailable"
    assert "retry-after" in answer.headers


async def test_many_who_ask_cost_one_look() -> None:
    store = Ill()
    async with serving(store) as served:
        await asyncio.gather(*(status(served, "/readyz") for _ in range(50)))
    assert store.asked.count("enqueue") <= 2


async def test_nobody_sees_a_worker_that_only_looks(served: Served) -> None:
    for path in ("/healthz", "/readyz"):
        await served.say("GET", path)
    assert (await served.say("GET", "/v1/workers"))[1]["settings"] == {}


async def test_job_of_the_check_is_gone_afterwards(served: Served) -> None:
    await served.say("GET", "/readyz")
    found = (await served.say("GET", f"/v1/counts?tenant={health.TENANT}"))[1]["queues"]
    assert sum(sum(states.values()) for states in found.values()) == 0
    assert (await served.say("GET", "/v1/counts"))[1]["queues"] == {}


async def test_metrics_count_requests_and_jobs(served: Served) -> None:
    await served.push("mail", data=1)
    await served.say("GET", "/v1/jobs/99")
    answer = await served.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["tenure_requests_total", "PUSH", "http", "ok"] == 1
    assert samples["tenure_requests_total", "404", "GETJOB", "http"] == 1
    assert samples["tenure_request_seconds_count", "PUSH"] == 1
    assert samples["tenure_jobs", "mail", "ready"] == 1


async def test_metrics_are_of_the_tenants_that_are_reached() -> None:
    tokens = {"acme": Token("", tenants=("acme",)), "globex": Token("", tenants=("globex",))}
    async with serving(tokens=tokens) as served:
        await served.ask("POST", "/v1/queues/secret/jobs", {"data": 1}, "globex")
        await served.ask("POST", "/v1/queues/mine/jobs", {"data": 1}, "acme")
        text = (await served.ask("GET", "/metrics", None, "acme")).text
    assert 'queue="mine"' in text
    assert "secret" not in text


@pytest.mark.parametrize("scope", [{"tenants": ("acme",)}, {"queues": ("mail",)}])
async def test_metrics_tell_who_reaches_a_part_nothing_of_the_others(scope: dict[str, Any]) -> None:
    """How many requests there were, and how long they took, is of all tenants and queues."""
    tokens = {"some": Token("", **scope), "all": Token("")}
    async with serving(tokens=tokens) as served:
        before = (await served.ask("GET", "/metrics", None, "some")).text
        for _ in range(3):
            await served.ask("POST", "/v1/queues/secret/jobs?tenant=globex", {"data": 1}, "all")
        after = (await served.ask("GET", "/metrics", None, "some")).text
        everything = (await served.ask("GET", "/metrics", None, "all")).text
    assert after == before
    assert "PUSH" in everything


def test_queues_beyond_the_largest_are_added_up() -> None:
    counts = {f"q{n}": {"ready": n} for n in range(1_000)}
    found = shown(counts)
    assert len(found) == QUEUES_SHOWN + 1
    assert found[OTHER]["ready"] == sum(range(1_000 - QUEUES_SHOWN))
    assert sum(states["ready"] for states in found.values()) == sum(range(1_000))


def test_paths_that_do_not_exist_make_no_labels() -> None:
    metrics = Metrics(Handler(MemoryStore(), read_clock, lambda: None))
    for _ in range(3):
        metrics.note("none", "404", 0.1)
    assert metrics.show({}, of_all=True).decode().count("tenure_requests_total{") == 1
