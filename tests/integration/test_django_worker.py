"""A worker of Django's tasks, outside of any test mode."""

from tenure.integration import django
from tests.integration import shop_tasks


async def test_worker_serves_the_queues_of_the_settings() -> None:
    app = django.app_of("default")
    async with app.worker() as worker:
        first = await shop_tasks.add.aenqueue(1)
        second = await shop_tasks.send.aenqueue("ada")
        assert await app.job(int(first.id)).result(20) == 2
        await app.job(int(second.id)).result(20)
        assert worker.ended == 2
        await first.arefresh()
        assert first.return_value == 2
