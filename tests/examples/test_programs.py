"""The examples run as they say, and do what they are examples of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

import tenure
from examples import customers, embeddings, hello, thumbnails, web
from tenure.core.error import JobFailed
from tenure.testing import advance, assert_enqueued, clock_of, inline, manual, run_all, run_all_sync

ROOT = Path(__file__).parents[2]
HERE = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(program: str, *arguments: str) -> list[str]:
    """What the program prints; as people start it, from the root of the repository."""
    command = [sys.executable, f"examples/{program}.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, env=HERE)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_hello_says_hello() -> None:
    assert run("hello") == ["Hello, world!"]
    with inline(hello.app):
        assert hello.greet.enqueue_sync("Ada").result_sync() == "Hello, Ada!"


def test_django_runs_its_task() -> None:
    assert run("django_app") == ["SUCCESSFUL invoice 7 went to ada@example.com"]


# The web app.


def test_report_is_ordered_and_looked_at() -> None:
    with manual(web.jobs), TestClient(web.web) as browser:
        ordered = browser.post("/reports", json={"title": "sales", "rows": 4})
        assert ordered.status_code == 202
        id = ordered.json()["id"]
        assert browser.post("/reports", json={"title": "sales", "rows": 4}).json() == {"id": id}
        assert browser.get(f"/reports/{id}").json() == {"state": "ready", "percent": 0, "report": None}
        assert browser.get("/queues").json()["reports"]["ready"] == 1
        assert_enqueued(web.build_report, title="sales", rows=4)
        assert run_all_sync(web.jobs) == 1
        found = browser.get(f"/reports/{id}").json()
        assert found == {"state": "completed", "percent": 100, "report": {"title": "sales", "rows": 4}}


def test_web_app_runs_its_own_jobs(tmp_path: Path) -> None:
    web.jobs.use(f"sqlite:///{tmp_path}/jobs.db")
    with TestClient(web.web) as browser:
        id = browser.post("/reports", json={"title": "sales", "rows": 4}).json()["id"]
        job: tenure.Job[web.Report] = web.jobs.job(id, returns=web.Report)
        assert job.result_sync("20s") == web.Report(title="sales", rows=4)


# Thumbnails.


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    Image.new("RGB", (400, 300), "red").save(tmp_path / "wide.png")
    Image.new("RGB", (300, 600), "blue").save(tmp_path / "tall.jpg")
    (tmp_path / "broken.png").write_text("no picture")
    return tmp_path


@pytest.mark.slow
def test_pictures_of_a_folder_get_thumbnails(pictures: Path) -> None:
    said = run("thumbnails", str(pictures))
    assert said[0].startswith("broken.png: PIL.UnidentifiedImageError")
    assert said[1:] == ["tall.jpg -> tall.thumbnail.png", "wide.png -> wide.thumbnail.png"]
    with Image.open(pictures / "tall.thumbnail.png") as image:
        assert image.size == (64, 128)


@pytest.mark.slow
def test_thumbnail_is_made_in_another_process_and_a_broken_picture_is_tried_once(pictures: Path) -> None:
    with inline(thumbnails.app):
        job = thumbnails.make_thumbnail.enqueue_sync(pictures / "wide.png", side=40)
        assert job.result_sync() == pictures / "wide.thumbnail.png"
        assert job.logs_sync() == ["wide.png: 40 x 30"]
        broken = thumbnails.make_thumbnail.enqueue_sync(pictures / "broken.png")
        with pytest.raises(JobFailed, match="cannot identify"):
            broken.result_sync()
        assert broken.info_sync().attempt == 1


# Limits per customer.


async def test_each_customer_has_its_own_rate() -> None:
    app, calls = customers.app, customers.api.calls
    calls.clear()
    async with manual(app), app:
        await customers.set_rates(app.client, {"acme": 2, "globex": 100})
        for order in range(5):
            await customers.sync_order.enqueue("acme", order)
            await customers.sync_order.enqueue("globex", order)
        await run_all(app)
        assert calls == {"acme": 2, "globex": 5}
        await advance(app, "1s")
        await run_all(app)
        assert calls == {"acme": 4, "globex": 5}


async def test_time_passes_inline_until_the_rate_has_room() -> None:
    app = customers.app
    async with inline(app), app:
        await customers.set_rates(app.client, {"acme": 2})
        started = clock_of(app)().elapsed_ms
        for order in range(5):
            job = await customers.sync_order.enqueue("acme", order)
            assert await job.result() == f"acme has order {order}"
        assert clock_of(app)().elapsed_ms - started == 1_500


@pytest.mark.slow
def test_customers_are_all_served() -> None:
    assert len(run("customers")) == 10


# Embeddings.


async def test_texts_share_calls_of_the_model() -> None:
    embeddings.model.calls.clear()
    async with manual(embeddings.app):
        texts = [*(f"text {number}" for number in range(40)), ""]
        jobs = [job async for job in embeddings.app.enqueue_many(embeddings.embed.bind(text) for text in texts)]
        assert await run_all(embeddings.app) == 41
        assert embeddings.model.calls == [32, 8]
        vectors = [await job.result() for job in jobs[:-1]]
        assert all(isinstance(vector, list) and len(vector) == embeddings.WIDTH for vector in vectors)
        with pytest.raises(JobFailed, match="no meaning"):
            await jobs[-1].result()


def test_embeddings_are_made_in_few_calls() -> None:
    assert run("embeddings") == ["100 vectors in 4 calls of the model"]
