"""A worker renews by how long the store says that a lease is, whatever its own wall clock shows."""

import time
from pathlib import Path

import pytest

import tenure
from tests.server.process import running

WAIT = 60
HOUR_S = 3_600.0


@pytest.mark.slow
@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S], ids=["ahead", "behind"])
async def test_lease_is_kept_though_the_worker_has_another_wall_clock(
    ahead_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue says one second, of which the job's own options know nothing."""
    true_time, true_time_ns = time.time, time.time_ns
    app = tenure.App()

    @app.task(queue="short", max_attempts=1)
    def long() -> str:
        time.sleep(2.5)
        return "done"

    async with running(tmp_path) as server:
        app.use(f"tenure://127.0.0.1:{server.port}")
        monkeypatch.setattr(time, "time", lambda: true_time() + ahead_s)
        monkeypatch.setattr(time, "time_ns", lambda: true_time_ns() + int(ahead_s * 1_000_000_000))
        async with app:
            client = app.home.here
            assert client is not None
            await client.configure("queue", "short", lease_ms=1_000)
            async with app.worker():
                job = await long.enqueue()
                assert await job.result(WAIT) == "done"
                assert (await job.info()).delivery == 1
