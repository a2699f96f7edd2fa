"""`tenure workers`."""

import asyncio
import threading
from pathlib import Path

import pytest

import tenure
from tests.cli.rig import Place


def test_workers_are_listed(place: Place) -> None:
    place.enqueue()
    with place.client() as client:
        client.claim("none", worker=f"{place.tenant}-w")
        client.configure("worker", f"{place.tenant}-w", version="1.2", tasks=["send", "resize"])
        lines = place.run("workers", "list", "--json").lines
        text = place.run("workers", "list").out
    [found] = [line for line in lines if line["name"] == f"{place.tenant}-w"]
    assert (found["version"], found["tasks"]) == ("1.2", ["send", "resize"])
    assert found["seen_at"].endswith("Z")
    assert f"{place.tenant}-w" in text
    assert "send, resize" in text


def test_workers_of_other_tenants_are_shown_when_all_are_asked_for(place: Place) -> None:
    with place.client() as client:
        client.configure("worker", f"{place.tenant}-w", version="1.2")
        assert Place(place.url, f"{place.tenant}-other").run("workers", "list", "--json").lines == []
        everywhere = Place(place.url, "*")
        found = everywhere.run("workers", "list", "--json").lines
        text = everywhere.run("workers", "list").out
        refused = everywhere.run("workers", "stop", f"{place.tenant}-w", code=2)
    assert (place.tenant, f"{place.tenant}-w") in {(worker["tenant"], worker["name"]) for worker in found}
    assert text.split()[:2] == ["tenant", "worker"]
    assert "one tenant" in refused.err


def test_store_without_workers_says_so(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'jobs.db'}", "acme")
    place.enqueue()
    said = "no worker of the tenant acme has shown a sign of life in the last minute\n"
    assert place.run("workers", "list").out == said
    assert "no worker has shown" in Place(place.url, "*").run("workers", "list").out


def test_worker_that_is_asked_to_stop_ends_its_job_and_leaves(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.ORDERS_S", 0.05)
    name = f"{place.tenant}-stopped"
    app = tenure.App(place.url, tenant=place.tenant)
    begun, goes_on = threading.Event(), threading.Event()

    @app.task(queue=name)
    def work() -> int:
        begun.set()
        assert goes_on.wait(20)
        return 7

    async def run() -> int:
        async with app.worker(name=name, queues=[name]) as worker:
            job = await work.enqueue()
            await asyncio.to_thread(begun.wait, 20)
            told = await asyncio.to_thread(place.run, "workers", "stop", name, "--wait", "0s", "--json")
            assert told.lines == [{"name": name, "left": False}]
            await asyncio.wait_for(worker.asked_to_stop.wait(), 20)
            goes_on.set()
            result = await job.result(20)
            await worker.stop()
            assert result == 7
        return worker.ended

    assert asyncio.run(run()) == 1
    refused = place.run("workers", "stop", name, code=2)
    assert "no such worker" in refused.err
