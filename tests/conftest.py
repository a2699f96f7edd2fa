"""Names the build under test, and refuses to test another one than was asked for."""

import importlib
import os
import signal
from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from hypothesis import settings

# A busy machine is not a failure.
settings.register_profile("tenure", deadline=None)
settings.load_profile("tenure")

# What a shell starts in the background ignores Ctrl-C, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The suite of behaviours lives in the package; pytest is to explain its assertions too.
pytest.register_assert_rewrite("tenure.store.behaviour")

WITNESS = "tenure.engine.engine"


def witness_file() -> str:
    return str(importlib.import_module(WITNESS).__file__)


def build_of(file: str) -> str:
    return "compiled" if file.endswith(tuple(EXTENSION_SUFFIXES)) else "interpreted"


def pytest_configure() -> None:
    asked = os.environ.get("TENURE_BUILD")
    if asked is None:
        return
    if asked not in {"compiled", "interpreted"}:
        raise pytest.UsageError(f"TENURE_BUILD must be compiled, interpreted or unset, not {asked!r}")
    file = witness_file()
    if build_of(file) != asked:
        raise pytest.UsageError(f"TENURE_BUILD={asked}, but {WITNESS} is {build_of(file)}: {file}")


def pytest_report_header() -> str:
    file = witness_file()
    return f"tenure: {build_of(file)} ({file})"
