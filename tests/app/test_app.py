"""An app: tasks by name, options, enqueueing from wherever one is."""

import asyncio
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.app.address import find_address
from tenure.client.published import Published, find_published, options_as_given, options_as_written, publish
from tenure.core.error import Conflict, InvalidRequest, Overloaded, Timeout, Unavailable, Unsupported
from tenure.core.job import Options
from tenure.task.option import read_options

WAIT = 20


def shop(url: str = "memory://") -> tuple[tenure.App, "tenure.Task[[str], str]"]:
    app = tenure.App(url)

    @app.task(queue="email", max_attempts=5)
    async def send(to: str) -> str:
        return f"sent to {to}"

    return app, send


async def test_plain_call_runs_the_function_and_enqueues_nothing() -> None:
    app, send = shop()
    async with app:
        assert await send("a") == "sent to a"
        client = app.home.here
        assert client is not None
        assert await client.count() == {}


def test_clash_of_names_is_an_error_when_it_is_defined() -> None:
    app = tenure.App("memory://")

    @app.task(name="same")
    def one() -> None: ...

    with pytest.raises(InvalidRequest, match="has that name"):

        @app.task(name="same")
        def two() -> None: ...

    with pytest.raises(InvalidRequest, match="has that name"):

        @app.task(aliases=["same"])
        def three() -> None: ...


@pytest.mark.parametrize(
    "options",
    [{"max_attempts": 0}, {"maxattempts": 3}, {"timeout": "soon"}, {"run": "fiber"}, {"queue": "a b"}, {"name": "a b"}],
)
def test_wrong_option_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        tenure.App("memory://").add_task(lambda: None, {"name": "task", **options})


async def test_options_of_a_call_go_over_those_of_its_task() -> None:
    app, send = shop()
    at = datetime.now(UTC) + timedelta(hours=1)
    async with app:
        job = await send.options(
            queue="other", priority="high", run_at=at, custom_id="mine", tags=["x"], metadata={"k": "v"}
        ).enqueue("a")
        found = await job.info()
        assert (found.queue, found.priority, found.max_attempts, found.state) == ("other", 10, 5, "scheduled")
        assert (found.custom_id, found.tags, found.metadata) == ("mine", ("x",), {"k": "v"})
        assert found.run_at == int(at.timestamp() * 1000)
        after = await send.options(depends_on=[job]).enqueue("b")
        assert (await after.info()).depends_on == (job.id,)


async def test_time_without_a_zone_is_refused() -> None:
    _, send = shop()
    with pytest.raises(InvalidRequest, match="time zone"):
        send.options(run_at=datetime(2026, 1, 1))


async def test_keys_may_depend_on_the_arguments() -> None:
    app = tenure.App("memory://")

    @app.task(
        unique_key=lambda to, **_: f"to:{to}",
        group=lambda to, **_: to,
        tags=lambda to, **_: [to],
        limit_keys=lambda to, **_: [f"api:{to}"],
        search=("to", "n"),
    )
    async def send(to: str, n: int = 1) -> None: ...

    async with app:
        job = await send.enqueue("ada", n=2)
        again = await send.enqueue("ada", n=2)
        assert again.duplicate
        assert again.id == job.id
        found = await job.info()
        assert (found.group, found.tags, found.metadata) == ("ada", ("ada",), {"to": "ada", "n": "2"})
        one, other = send.bind("x"), send.bind("x")
        assert one.options is other.options
        assert one.options.limit_keys == ("api:x",)


async def test_tenants_do_not_meet() -> None:
    app, send = shop()
    async with app:
        job = await send.options(tenant="acme", custom_id="one").enqueue("a")
        assert job.tenant == "acme"
        assert (await job.info()).tenant == "acme"
        assert not (await send.options(custom_id="one").enqueue("a")).duplicate
        async with app.worker(tenants=["*"]):
            assert await job.result(WAIT) == "sent to a"


async def test_conflict_is_raised() -> None:
    app, send = shop()
    async with app:
        await send.options(custom_id="one").enqueue("a")
        with pytest.raises(Conflict):
            await send.options(custom_id="one", on_conflict="error").enqueue("a")


async def test_enqueue_by_name_checks_what_the_app_knows() -> None:
    app, _ = shop()
    async with app:
        job = await app.enqueue("send", {"to": "a"}, priority=3)
        found = await job.info()
        assert (found.queue, found.max_attempts, found.priority) == ("email", 5, 3)
        with pytest.raises(InvalidRequest):
            await app.enqueue("send", {"to": 5})
        with pytest.raises(TypeError):
            await app.enqueue("send", {"unknown": 5})
        other = await app.enqueue("elsewhere", {"x": 1}, queue="far")
        assert (await other.info()).task == "elsewhere"


async def test_many_are_stored_in_order_from_any_iterable() -> None:
    app, send = shop()

    async def people() -> AsyncIterator[tenure.Bound[str]]:
        for number in range(2_500):
            yield send.bind(str(number))

    async with app:
        jobs = [job async for job in app.enqueue_many(send.bind(str(number)) for number in range(2_500))]
        assert [job.id for job in jobs] == sorted(job.id for job in jobs)
        more = [job async for job in app.enqueue_many(people())]
        assert len({job.id for job in [*jobs, *more]}) == 5_000
        mixed = [send.bind("a"), send.options(queue="x").bind("b"), send.options(tenant="acme").bind("c")]
        found = [job async for job in app.enqueue_many(mixed)]
        assert [(await job.info()).queue for job in found] == ["email", "x", "email"]
        assert [job.tenant for job in found] == ["default", "default", "acme"]


async def test_many_wait_when_the_store_is_full() -> None:
    app, send = shop()
    async with app:
        client = app.home.here
        assert client is not None
        await client.configure("queue", "email", jobs_max=5)
        for _ in range(5):
            await send.enqueue("a")
        with pytest.raises(Overloaded):
            await send.enqueue("a")
        async with app.worker():
            jobs = [job async for job in app.enqueue_many(send.bind("a") for _ in range(20))]
            assert [await job.result(WAIT) for job in jobs] == ["sent to a"] * 20


async def test_result_that_does_not_come_in_time_cancels_nothing() -> None:
    app, send = shop()
    async with app:
        job = await send.enqueue("a")
        with pytest.raises(Timeout):
            await job.result(0.01)
        assert await job.state() == "ready"
        assert (await job.explain()).state == "ready"
        assert await job.cancel() == "cancelled"


# Where the app's connection lives.


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_without_a_loop_there_are_sync_twins(kind: str, tmp_path: Path) -> None:
    app, send = shop("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    job = send.enqueue_sync("a")
    assert job.state_sync() == "ready"
    assert job.info_sync().queue == "email"
    assert job.explain_sync().state == "ready"
    assert [found.duplicate for found in app.enqueue_each_sync(send.bind(str(n)) for n in range(3))] == [False] * 3

    async def work() -> None:
        async with app.worker() as worker:
            await worker.until_idle()

    if kind == "sqlite":
        asyncio.run(work())
        assert job.result_sync(WAIT) == "sent to a"
        assert job.logs_sync() == []
        assert list(job.stream_sync()) == []
    app.close_sync()


async def test_sync_twin_inside_a_loop_raises_instead_of_blocking() -> None:
    _, send = shop()
    with pytest.raises(Unavailable, match="a loop runs in this thread"):
        send.enqueue_sync("a")


def test_app_that_nobody_opened_serves_one_loop_after_another(tmp_path: Path) -> None:
    app, send = shop(f"sqlite:///{tmp_path}/jobs.db")

    async def once() -> int:
        return (await send.enqueue("a")).id

    assert [asyncio.run(once()) for _ in range(3)] == [1, 2, 3]
    app.close_sync()


@pytest.mark.parametrize("durability", ["fsync", "relaxed"])
def test_script_that_ends_without_closing_leaves_nothing_behind(tmp_path: Path, durability: str) -> None:
    script = f"""
import tenure
app = tenure.App("sqlite:///jobs.db?durability={durability}")
@app.task
def send(to: str) -> None: ...
print(send.enqueue_sync("a").id)
"""
    for id in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{id}\n", "")


def test_many_threads_share_one_connection(tmp_path: Path) -> None:
    app, send = shop(f"sqlite:///{tmp_path}/jobs.db")
    ids: list[int] = []
    threads = [threading.Thread(target=lambda: ids.append(send.enqueue_sync("a").id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids) == list(range(1, 9))
    app.close_sync()


def test_forked_process_makes_its_own_connection(tmp_path: Path) -> None:
    app, send = shop(f"sqlite:///{tmp_path}/jobs.db")
    send.enqueue_sync("parent")
    child = os.fork()
    if child == 0:
        try:
            send.enqueue_sync("child")
            app.close_sync()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert send.enqueue_sync("parent").info_sync().state == "ready"
    app.close_sync()

    async def count() -> dict[str, dict[str, int]]:
        async with app:
            client = app.home.here
            assert client is not None
            return await client.count()

    assert asyncio.run(count())["email"]["ready"] == 3


async def test_app_in_use_takes_no_other_store() -> None:
    app, _ = shop()
    async with app:
        with pytest.raises(Unavailable):
            app.use("memory://")


def test_lifespan_opens_while_a_program_serves() -> None:
    app, send = shop()

    async def serve() -> bool:
        async with app.lifespan():
            await send.enqueue("a")
            return app.home.here is not None

    assert asyncio.run(serve())


async def test_client_is_there_while_the_app_is_open_in_this_loop() -> None:
    app, send = shop()
    with pytest.raises(Unavailable, match="async with app"):
        _ = app.client
    async with app:
        await send.enqueue("a")
        assert (await app.client.count())["email"]["ready"] == 1


async def test_worker_that_is_told_no_queues_takes_those_of_the_app() -> None:
    app, send = shop()
    app.queues = ("other",)
    async with app.worker():
        job = await send.options(queue="other").enqueue("a")
        assert await job.result(WAIT) == "sent to a"


# Which store.


def test_address_is_found_in_the_order_that_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_URL", raising=False)
    inner = tmp_path / "package" / "deep"
    inner.mkdir(parents=True)
    assert find_address(None, inner) == (f"sqlite:///{inner}/tenure.db", "beside the module of the app")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_address(None, inner) == (f"sqlite:///{tmp_path}/tenure.db", "beside pyproject.toml")
    (tmp_path / "pyproject.toml").write_text("[tool.tenure]\nurl = 'tenure://there:1'\n")
    assert find_address(None, inner).url == "tenure://there:1"
    (tmp_path / "tenure.toml").write_text("url = 'tenure://nearer:1'\n")
    assert find_address(None, inner).url == "tenure://nearer:1"
    monkeypatch.setenv("TENURE_URL", "memory://")
    assert find_address(None, inner) == ("memory://", "TENURE_URL")
    assert find_address("tenure://given:1", inner).url == "tenure://given:1"
    monkeypatch.delenv("TENURE_URL")
    with pytest.raises(InvalidRequest, match="give the App a URL"):
        find_address(None, None)
    (tmp_path / "tenure.toml").write_text("url = [\n")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        find_address(None, inner)
    (tmp_path / "tenure.toml").write_text("url = 5\n")
    with pytest.raises(InvalidRequest, match="must be text"):
        find_address(None, inner)


def test_options_are_shared_by_the_jobs_of_a_task() -> None:
    _, send = shop()
    assert isinstance(send.bind("a").options, Options)
    assert send.bind("a").options is send.bind("b").options


async def test_enqueue_by_name_uses_what_workers_have_published(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    knows, asks = tenure.App(url), tenure.App(url)

    @knows.task(
        queue="email",
        max_attempts=7,
        timeout="30s",
        codec="msgpack",
        priority="high",
        backoff=tenure.Backoff.listed("1s", "2s"),
        on_conflict="error",
        limit_keys=["api"],
    )
    async def send(to: str) -> str:
        return f"sent to {to}"

    async with asks:
        early = await asks.enqueue("send", {"to": "a"})
        assert (await early.info()).queue == "default"
        async with knows.worker():
            job = await asks.enqueue("send", {"to": "b"}, max_attempts=2)
            assert await job.result(WAIT) == "sent to b"
            found = await job.info()
            assert (found.queue, found.codec, found.priority, found.max_attempts) == ("email", "msgpack", 10, 2)
            client = asks.home.here
            assert client is not None
            published = await client.published("send")
            assert published is not None
            assert published.options["timeout"] == "30000ms"
            assert published.schema["$defs"]["send_arguments"]["required"] == ["to"]
            assert await client.published("unknown") is None


def test_options_are_given_as_they_were_written() -> None:
    app = tenure.App("memory://")
    every = {
        "queue": "q",
        "priority": -3,
        "delay": "5s",
        "ttl": "1h",
        "max_attempts": None,
        "backoff": tenure.Backoff.exponential("2s", cap="1m", factor=3),
        "timeout": "7s",
        "lease": "8s",
        "idempotency_ttl": "9s",
        "debounce": "10s",
        "debounce_mode": "trailing",
        "debounce_max_wait": "11s",
        "on_conflict": "replace",
        "dependency_policy": "all_done",
        "lifo": True,
        "limit_keys": ("a", "b"),
        "keep_completed": "12s",
        "keep_completed_count": 13,
        "keep_failed": "14s",
        "keep_failed_count": 15,
    }
    task = app.add_task(lambda: None, {"name": "task", "schema_version": 4, **every})
    written = json.loads(json.dumps(options_as_written(task.shared[0])))
    options, _ = read_options({**options_as_given(written), "task": "task"})
    assert options.key() == task.shared[0].key()


@pytest.mark.parametrize("text", ["{", "[]", '{"send": 5}', '{"other": {"options": {}}}', ""])
def test_what_a_strange_worker_publishes_is_passed_over(text: str) -> None:
    found = find_published({"published": [text, '{"send": {"options": {"queue": "q"}}}']}, "send")
    assert found is not None
    assert found.options == {"queue": "q"}


def test_schemas_are_left_out_where_there_are_too_many() -> None:
    large = {"x": "y" * 1_000}
    assert '"schema":{"x"' in publish({"task": Published({"queue": "q"}, large)})
    many = {f"task{number}": Published({"queue": "q"}, large) for number in range(500)}
    assert '"schema":{}' in publish(many)
    assert publish({"x" * 200 + str(number): Published({"queue": "q" * 200}) for number in range(2_000)}) == ""


async def test_options_of_a_call_stay_where_limit_keys_depend_on_the_arguments() -> None:
    app = tenure.App("memory://")

    @app.task(limit_keys=lambda to, **_: [f"api:{to}"])
    async def send(to: str) -> None: ...

    one = send.options(queue="other", delay="5m", priority=7, max_attempts=9).bind("a").options
    assert (one.queue, one.delay_ms, one.priority, one.max_attempts) == ("other", 300_000, 7, 9)
    assert one.limit_keys == ("api:a",)
    assert send.options(limit_keys=["mine"]).bind("a").options.limit_keys == ("mine",)


async def test_many_large_ones_go_in_several_requests() -> None:
    app = tenure.App("memory://")

    @app.task
    async def keep(text: str) -> None: ...

    async with app:
        jobs = [job async for job in app.enqueue_many(keep.bind("x" * 20_000) for _ in range(2_000))]
        assert [job.error for job in jobs] == [None] * 2_000


async def test_unknown_durability_is_refused() -> None:
    app, send = shop()
    async with app:
        with pytest.raises(Unsupported):
            await send.options(durability="banana").enqueue("a")


@pytest.mark.parametrize("run", ["async"])
def test_mode_that_does_not_fit_the_function_is_refused(run: str) -> None:
    with pytest.raises(InvalidRequest, match="no coroutine function"):
        tenure.App("memory://").add_task(lambda: None, {"name": "task", "run": run})


async def test_keys_see_the_arguments_that_were_left_out() -> None:
    app = tenure.App("memory://")

    @app.task(unique_key=lambda to, subject: f"{to}:{subject}", tags=(tag for tag in ("a", "b")))
    async def send(to: str, subject: str = "hello") -> None: ...

    async with app:
        job = await send.enqueue("ada")
        assert (await send.enqueue("ada", subject="hello")).duplicate
        assert not (await send.enqueue("ada", subject="other")).duplicate
        assert (await job.info()).tags == ("a", "b")


async def test_app_that_is_opened_twice_at_once_has_one_connection(tmp_path: Path) -> None:
    app, send = shop(f"sqlite:///{tmp_path}/jobs.db")

    async def use() -> int:
        async with app:
            return (await send.enqueue("a")).id

    assert sorted(await asyncio.gather(*(use() for _ in range(5)))) == [1, 2, 3, 4, 5]
    assert app.home.here is None


def test_every_call_of_a_handle_has_a_twin_without_await() -> None:
    calls = {
        name
        for name, found in vars(tenure.Job).items()
        if not name.startswith("_") and (inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found))
    }
    assert calls == {"cancel", "explain", "info", "logs", "replay", "result", "state", "stream"}
    assert {f"{name}_sync" for name in calls} <= vars(tenure.Job).keys()


def test_jobs_are_cancelled_and_replayed_without_a_loop() -> None:
    app, send = shop()
    assert send.enqueue_sync("a").cancel_sync() == "cancelled"
    with pytest.raises(Conflict):
        send.enqueue_sync("a").replay_sync()
    app.close_sync()
