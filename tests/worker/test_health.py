"""A worker that is alive and does not work says so."""

import asyncio
import time
import urllib.error
import urllib.request

import pytest

import tenure
from tenure.worker import worker as module
from tenure.worker.health import Health


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()


def test_trouble_is_a_503() -> None:
    trouble = ""
    health = Health("127.0.0.1", 0, lambda: trouble)
    health.start()
    try:
        assert get(health.port, "/livez") == (200, "ok")
        assert get(health.port, "/healthz") == (200, "ok")
        trouble = "no claim for an hour"
        assert get(health.port, "/healthz") == (503, "no claim for an hour")
        assert get(health.port, "/livez") == (200, "ok")
        assert get(health.port, "/other")[0] == 404
    finally:
        health.stop()


async def test_worker_is_well_while_it_claims_and_ill_when_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    app = tenure.App("memory://")
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await go_on.wait()

    async with app.worker(concurrency=1) as worker:
        assert worker.health == ""
        monkeypatch.setattr(module, "SILENT_S", -1.0)
        assert "answered no claim" in worker.health
        await work.enqueue()
        await started.wait()
        assert worker.health == ""  # it has no room: there is nothing to claim
        go_on.set()


async def test_blocked_loop_is_seen_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    app = tenure.App("memory://")

    @app.task
    async def work() -> None: ...

    monkeypatch.setattr(module, "BLOCKED_S", 0.1)
    async with app.worker() as worker:
        health = Health("127.0.0.1", 0, lambda: worker.health)
        health.start()
        try:
            asking = asyncio.get_running_loop().run_in_executor(None, _until_ill, health.port)
            time.sleep(0.5)  # what a handler does that blocks the loop
            assert "a handler blocks it" in await asking
        finally:
            health.stop()


def _until_ill(port: int) -> str:
    while True:
        status, text = get(port, "/healthz")
        if status == 503:
            return text
