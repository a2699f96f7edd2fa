"""Django's tasks on Tenure, in one file: settings, a task, and a worker that runs it.

    python examples/django_app.py

In a project, the settings are in settings.py and the worker is a process of its own:
`DJANGO_SETTINGS_MODULE=shop.settings tenure worker tenure.integration.django:app`.
"""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings

BACKEND = {"BACKEND": "tenure.integration.django.TenureBackend", "OPTIONS": {"url": "memory://", "max_attempts": 3}}

if not settings.configured:
    settings.configure(INSTALLED_APPS=[], TASKS={"default": BACKEND})
    django.setup()

if TYPE_CHECKING or find_spec("django.tasks") is None:  # before Django 6
    from django_tasks import task
else:
    from django.tasks import task


@task(priority=10)
def send_invoice(number: int, to: str) -> str:
    return f"invoice {number} went to {to}"


async def main() -> None:
    from tenure.integration.django import app_of

    app = app_of("default")
    async with app.worker():
        result: Any = await send_invoice.aenqueue(7, to="ada@example.com")
        await app.job(int(result.id)).result(timeout="10s")
        await result.arefresh()
        print(result.status, result.return_value)


if __name__ == "__main__":
    asyncio.run(main())
