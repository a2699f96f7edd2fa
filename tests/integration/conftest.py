"""One Django project for the process: its settings cannot be made twice, and tasks are made when their module is."""

from collections.abc import Iterator
from importlib.util import find_spec

import django
import pytest
from django.conf import settings

BACKEND = "tenure.integration.django.TenureBackend"
PACKAGE = "django_tasks" if find_spec("django.tasks") is None else "django.tasks"

settings.configure(
    USE_TZ=True,
    INSTALLED_APPS=["django_tasks"] if PACKAGE == "django_tasks" else [],
    DATABASES={},
    TASKS={
        "default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"], "OPTIONS": {"url": "memory://"}},
        "again": {"BACKEND": BACKEND, "OPTIONS": {"url": "memory://", "max_attempts": 3, "tags": ["x"]}},
        "dummy": {"BACKEND": f"{PACKAGE}.backends.dummy.DummyBackend"},
    },
)
django.setup()


@pytest.fixture
def both_inline() -> Iterator[None]:
    from tenure.integration.django import app_of
    from tenure.testing import inline
    from tests.integration import shop_tasks

    shop_tasks.ran.clear()
    with inline(app_of("default")), inline(app_of("again")):
        yield
