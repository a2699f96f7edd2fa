"""The server's collector: cycles go, while it is busy and when it is not."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tenure.server import collector
from tenure.server.collector import collecting

PATIENCE_S = 10.0


class Knot:
    """Two of them hold each other."""

    def __init__(self) -> None:
        self.other: Knot | None = None


def tie() -> tuple[Knot, "weakref.ref[Knot]"]:
    first, second = Knot(), Knot()
    first.other, second.other = second, first
    return first, weakref.ref(first)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "EVERY_S", 0)
    yield
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


async def gone(knot: "weakref.ref[Knot]") -> None:
    async with asyncio.timeout(PATIENCE_S):
        while knot() is not None:
            await asyncio.sleep(0)


async def test_a_cycle_that_a_request_leaves_goes_while_requests_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "IDLE_TURNS", -1)
    monkeypatch.setattr(collector, "FULL_TURNS", 1 << 60)
    requests = iter(range(1 << 30))
    async with collecting(lambda: next(requests)):
        assert not gc.isenabled()
        knot = tie()[1]
        await gone(knot)


@pytest.mark.parametrize("busy", [False, True])
async def test_a_cycle_that_was_frozen_goes_when_idle_and_now_and_then(
    busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if busy:
        monkeypatch.setattr(collector, "FULL_TURNS", 20)
    requests = iter(range(1 << 30))
    async with collecting((lambda: next(requests)) if busy else (lambda: 0)):
        held, knot = tie()
        gc.freeze()
        del held
        await gone(knot)


async def test_a_cycle_that_was_left_when_nobody_was_served_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the look that follows the last request: connections come and go without any."""
    monkeypatch.setattr(collector, "FULL_TURNS", 1 << 60)
    looks = 0

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal looks
        looks += phase == "start" and info["generation"] == 2

    gc.callbacks.append(count)
    try:
        async with collecting(lambda: 0):
            async with asyncio.timeout(PATIENCE_S):
                while looks < 2:  # that of the start, and the one when idle
                    await asyncio.sleep(0)
            knots = [tie()[1] for _ in range(collector.MADE_LEAST)]
            await gone(knots[-1])
    finally:
        gc.callbacks.remove(count)
