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


def test_store_without_workers_says_so(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'jobs.db'}", "acme")
    place.enqueue()
    assert place.run("workers", "list").out == "no worker has shown a sign of life in the last minute\n"


def test_worker_that_is_asked_to_stop_ends_its_job_and_leaves(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.ORDERS_S", 0.05)
    name = f"{place.tenant}-stopped"
    app = tenure.App(place.url)
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
