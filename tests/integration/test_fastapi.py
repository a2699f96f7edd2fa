"""FastAPI and Starlette: a lifespan, a worker inside of the web app, a dependency of routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import tenure
from tenure.core.error import Unavailable
from tenure.integration.fastapi import client_of
from tenure.testing import assert_enqueued, inline, manual, run_all_sync


class Shop:
    def __init__(self, url: str) -> None:
        self.jobs = tenure.App(url)

        @self.jobs.task
        async def double(n: int) -> int:
            return 2 * n

        self.double = double

    def web(self, lifespan: object) -> FastAPI:
        web = FastAPI(lifespan=lifespan)  # type: ignore[arg-type]
        store = Depends(client_of(self.jobs))

        @web.post("/double/{n}")
        async def start(n: int) -> int:
            return (await self.double.enqueue(n)).id

        @web.get("/double/{id}")
        async def result(id: int) -> int:
            found: int = await self.jobs.job(id).result("20s")
            return found

        @web.get("/counts")
        async def counts(client: Annotated[tenure.Client, store]) -> dict[str, dict[str, int]]:
            return await client.count()

        return web


def test_worker_inside_the_web_app_runs_what_routes_enqueue(tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/jobs.db")
    with TestClient(shop.web(shop.jobs.lifespan_with_worker(concurrency=2))) as browser:
        id = browser.post("/double/4").json()
        assert browser.get(f"/double/{id}").json() == 8
        assert browser.get("/counts").json()["default"]["completed"] == 1
    assert not shop.jobs.home.is_open


def test_lifespan_of_its_own_may_hold_the_worker(tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/jobs.db")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with shop.jobs.worker(concurrency=1):
            yield

    with TestClient(shop.web(lifespan)) as browser:
        assert browser.get(f"/double/{browser.post('/double/1').json()}").json() == 2


def test_web_app_is_tested_inline_and_by_hand() -> None:
    shop = Shop("tenure://nowhere:1")
    web = shop.web(shop.jobs.lifespan)
    with inline(shop.jobs), TestClient(web) as browser:
        assert browser.get(f"/double/{browser.post('/double/4').json()}").json() == 8
        assert_enqueued(shop.double, n=4)
    with manual(shop.jobs), TestClient(web) as browser:
        id = browser.post("/double/5").json()
        assert browser.get("/counts").json()["default"]["ready"] == 1
        assert run_all_sync(shop.jobs) == 1
        assert browser.get(f"/double/{id}").json() == 10
    with inline(shop.jobs), TestClient(shop.web(shop.jobs.lifespan_with_worker())) as browser:
        assert browser.get(f"/double/{browser.post('/double/4').json()}").json() == 8


def test_starlette_is_served_the_same_way() -> None:
    shop = Shop("memory://")
    client = client_of(shop.jobs, "acme")

    async def counts(_: Request) -> JSONResponse:
        await shop.double.options(tenant="acme").enqueue(1)
        return JSONResponse(await (await client()).count())

    with TestClient(Starlette(routes=[Route("/", counts)], lifespan=shop.jobs.lifespan)) as browser:
        assert browser.get("/").json()["default"]["ready"] == 1


def test_client_of_an_app_that_is_not_open_says_what_to_do() -> None:
    shop = Shop("memory://")
    browser = TestClient(shop.web(None))
    with pytest.raises(Unavailable, match="give a web app its lifespan"):
        browser.get("/counts")
