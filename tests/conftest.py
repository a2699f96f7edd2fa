"""Names the build under test, and refuses to test another one than was asked for."""

import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

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

# httpcore tries this import at every request and searches the whole path for it; now it fails at once.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]

WITNESS = "tenure.engine.engine"
MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_BYTES_MIN = 1 << 30


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


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has room there, for the many tests that are not about the disk."""
    if not MEMORY_DISK.is_dir() or shutil.disk_usage(MEMORY_DISK).free < MEMORY_DISK_BYTES_MIN:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tenure-", dir=MEMORY_DISK) as folder:
        yield Path(folder)
