"""A token for one tenant: clients, apps and the command line use that tenant by default, as HTTP does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tests.cli.rig import run

PATIENCE_S = 30.0
TOKENS = {
    "shop": Token(hash_token("of-acme"), tenants=("acme",)),
    "chain": Token(hash_token("of-both"), tenants=("globex", "acme")),
    "all": Token(hash_token("of-all")),
}


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[str]:
    settings = Settings(tcp=False, http=False, grpc=False, unix=str(folder / "socket"), tokens=TOKENS)
    server = Server(settings, MemoryStore())
    await server.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield f"tenure+unix://{folder / 'socket'}"
    finally:
        await server.stop()


@pytest.mark.parametrize("format", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("token", "own"), [("of-acme", "acme"), ("of-both", "globex"), ("of-all", "default")], ids=["one", "two", "all"]
)
async def test_client_uses_the_tenant_of_its_token(token: str, own: str, format: str, tmp_path: Path) -> None:
    async with serving(tmp_path) as url, tenure.connect(url, token=token, format=format) as client:
        assert client.tenant == own
        made = await client.enqueue(b"1")
        assert (await client.get(made.id)).tenant == own
        [job] = await client.claim()
        assert job.tenant == own
        await client.complete(job)
        await client.wait(made.id)


async def test_client_without_a_loop_and_one_that_names_a_tenant(tmp_path: Path) -> None:
    def work(url: str) -> None:
        with tenure.connect_sync(url, token="of-both") as client:
            assert client.tenant == "globex"
            assert client.as_tenant("acme").tenant == "acme"
        with tenure.connect_sync(url, token="of-both", tenant="acme") as client:
            assert client.get(client.enqueue(b"1").id).tenant == "acme"
        with tenure.connect_sync(url, token="of-acme", tenant="default") as client, pytest.raises(tenure.Forbidden):
            client.enqueue(b"1")

    async with serving(tmp_path) as url:
        await asyncio.to_thread(work, url)


async def test_an_embedded_store_has_the_default_tenant() -> None:
    async with tenure.connect("memory://") as client:
        assert client.tenant == "default"
    assert tenure.App("memory://").tenant == "default"
    assert tenure.App("memory://", tenant="acme").tenant == "acme"


async def test_app_and_its_worker_use_the_tenant_of_the_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as url:
        app = tenure.App(url, token="of-acme")

        @app.task
        async def work(ctx: tenure.Context, n: int) -> str:
            ctx.enqueue(after.bind())
            return f"{ctx.tenant} {n}"

        @app.task
        async def after() -> str:
            return "after"

        async with app, app.worker():
            assert app.tenant == "acme"
            job = await work.enqueue(7)
            assert job.tenant == "acme"
            assert await job.result(timeout=20) == "acme 7"
            assert await app.job(job.id).result(timeout=20) == "acme 7"
            assert (await app.enqueue_many(work.bind(n) for n in range(3))).new == 3
            assert (await job.info()).tenant == "acme"


async def test_a_handle_that_was_made_before_the_app_was_opened_works(tmp_path: Path) -> None:
    async with serving(tmp_path) as url:
        app = tenure.App(url, token="of-acme")
        async with tenure.connect(url, token="of-acme") as client:
            id = (await client.enqueue(b"1")).id
        handle: tenure.Job[Any] = app.job(id)
        async with app:
            assert await handle.state() == "ready"


async def test_command_line_uses_the_tenant_of_the_token_and_shows_it_for_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as url:
        acme = {"TENURE_URL": url, "TENURE_TOKEN": "of-acme"}
        everything = {"TENURE_URL": url, "TENURE_TOKEN": "of-all"}

        def command(env: dict[str, str], *arguments: str) -> str:
            ended = run(*arguments, env={**env, "TENURE_TENANT": "", "COLUMNS": "200"})
            assert ended.code == 0, ended
            return ended.out

        def work() -> None:
            command(acme, "enqueue", "send", '{"n": 1}')
            assert "send" in command(acme, "jobs", "list")
            assert "send" not in command(everything, "jobs", "list")
            shown = command(everything, "jobs", "list", "--tenant", "*")
            assert "tenant" in shown.splitlines()[0].lower()
            assert "acme" in shown
            assert "acme" in command(acme, "jobs", "list", "--tenant", "*")
            command(acme, "doctor")

        await asyncio.to_thread(work)
