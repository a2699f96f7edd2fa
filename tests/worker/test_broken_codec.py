"""Codecs that are missing, that break their word, and results that are not what was promised: one job is harmed."""

from typing import Any

import pytest

import tenure
from tenure.core.error import JobFailed

WAIT = 60


async def reason_of(job: "tenure.Job[Any]") -> tuple[str, str]:
    with pytest.raises(JobFailed) as raised:
        await job.result(WAIT)
    return (await job.info()).reason, str(raised.value)


class Broken:
    """Breaks the word of a codec: raises whatever it likes."""

    name = "broken"

    def encode(self, value: object) -> bytes:
        if value == "unwritable":
            raise ZeroDivisionError
        return b"ok"

    def decoder(self, type: Any) -> Any:
        def read(data: bytes) -> Any:
            if data != b"ok":
                raise ZeroDivisionError("broken")
            return type(item="unwritable") if type is not Any else None

        return read


@pytest.mark.parametrize(("codec", "said"), [("broken", "broken"), ("never-heard-of", "never-heard-of")])
async def test_codec_that_is_missing_or_broken_parks_the_job_and_harms_nobody(codec: str, said: str) -> None:
    app = tenure.App("memory://")
    app.codecs.add(Broken())
    told: list[str] = []

    @app.task(on_failure=lambda ctx, error: told.append(ctx.job.task))
    async def hooked(item: str) -> str:
        return item

    @app.batch(2)
    async def batch(items: list[str]) -> list[str]:
        return items

    async with app.worker(concurrency=1):
        for task in (hooked, batch):
            client = app.home.here
            assert client is not None
            stored = await client.enqueue(b"{}", task=task.name, codec=codec)
            reason, message = await reason_of(app.job(stored.id))
            assert reason == "undecodable"
            assert said in message
        assert await (await hooked.enqueue("a")).result(WAIT) == "a"
        assert await (await batch.enqueue("b")).result(WAIT) == "b"
    assert told == ["hooked"]


@pytest.mark.parametrize("is_batch", [False, True])
async def test_result_that_a_broken_codec_cannot_write_fails_and_harms_nobody(is_batch: bool) -> None:
    app = tenure.App("memory://")
    app.codecs.add(Broken())

    async def one(item: str) -> str:
        return item

    async def many(items: list[str]) -> list[str]:
        return items

    task = app.add_task(many if is_batch else one, {"name": "task", "batch": 2 if is_batch else 0})
    async with app.worker(concurrency=1):
        client = app.home.here
        assert client is not None
        stored = await client.enqueue(b"ok", task="task", codec="broken")
        with pytest.raises(JobFailed, match="cannot be written as broken"):
            await app.job(stored.id).result(WAIT)
        assert await (await task.enqueue("a")).result(WAIT) == "a"


async def test_result_that_is_not_what_was_promised_does_not_keep_a_hooked_job_running() -> None:
    app = tenure.App("memory://")

    @app.task(on_success=lambda ctx, value: None)
    async def promises() -> int:
        return "text"  # type: ignore[return-value]

    async with app.worker(concurrency=1):
        job = await promises.enqueue()
        with pytest.raises(tenure.Error, match="promised"):
            await job.result(WAIT)
        assert await job.state() == "completed"
