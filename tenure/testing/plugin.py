"""The pytest plugin. What is not asked for is not imported.

The app under test is the fixture `tenure_app`: override it, or name the app in the ini file: `tenure_app = shop:app`.
"""

from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure.app.app import App
    from tenure.testing.clock import Clock
    from tenure.testing.mode import Mode


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tenure_app", "the app that tenure_inline and tenure_manual test, as module:name", default="")


@pytest.fixture
def tenure_app(request: pytest.FixtureRequest) -> "App":
    """The app under test."""
    named = str(request.config.getini("tenure_app"))
    module, _, name = named.partition(":")
    if not (module and name):
        raise pytest.UsageError(
            "say which app is tested: tenure_app = module:app in the ini file, or a fixture tenure_app"
        )
    found: Any = attrgetter(name)(import_module(module))
    app: App = found
    return app


@pytest.fixture
def tenure_clock() -> "Clock":
    """The clock of tenure_inline and tenure_manual."""
    from tenure.testing.clock import Clock

    return Clock()


@pytest.fixture
def tenure_inline(tenure_app: "App", tenure_clock: "Clock") -> "Iterator[Mode]":
    """In this test, jobs of tenure_app run in the call that enqueues them."""
    from tenure.testing.mode import inline

    with inline(tenure_app, clock=tenure_clock) as mode:
        yield mode


@pytest.fixture
def tenure_manual(tenure_app: "App", tenure_clock: "Clock") -> "Iterator[Mode]":
    """In this test, jobs of tenure_app are stored, and run by run_all."""
    from tenure.testing.mode import manual

    with manual(tenure_app, clock=tenure_clock) as mode:
        yield mode
