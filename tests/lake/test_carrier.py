"""The export beside a server: over trouble, until the stop, in everybody's sight, in nobody's way."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.core.error import Error
from tenure.lake import carrier as carrier_module
from tenure.lake.carrier import Carrier
from tenure.lake.error import LakeNotInstalled, LakeTaken, OtherStore, check_installed
from tenure.lake.place import open_place
from tenure.server.config import Settings, choose
from tenure.server.server import make_carrier
from tests.lake.rig import SMALL, Rig, assert_holds, lake_of

OFTEN = replace(SMALL, every_ms=1)
WAIT_S = 30.0


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.002)


def figures_of(carrier: Carrier) -> dict[str, float]:
    return {figure.name.removeprefix("tenure_lake_"): figure.value for figure in carrier.figures()}


async def test_events_are_carried_as_they_come_and_the_rest_at_the_stop(tmp_path: Path) -> None:
    url = str(tmp_path / "lake")
    rig = await Rig().open()
    carrier = Carrier(url, OFTEN, rig.store, rig.clock)
    carrier.start()
    await rig.work(5)
    await until(lambda: figures_of(carrier)["exported_events"] >= 15)
    slow = Carrier(str(tmp_path / "other"), replace(SMALL, every_ms=3_600_000), rig.store, rig.clock)
    slow.start()
    await until(lambda: figures_of(slow)["segments"] > 0)
    await rig.work(5)
    for each in (carrier, slow):
        await each.stop(WAIT_S)
    for name in ("lake", "other"):
        assert_holds(open_place(str(tmp_path / name)), await rig.events())
    assert figures_of(slow)["lag_events"] == figures_of(slow)["lag_seconds"] == 0


async def test_lake_that_is_away_is_tried_again_and_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(carrier_module, "BACKOFF_FIRST_S", 0.001)
    monkeypatch.setattr(carrier_module, "BACKOFF_MOST_S", 0.002)
    (tmp_path / "lake").write_text("this is no folder")
    rig = await Rig().open()
    await rig.work(5)
    carrier = Carrier(str(tmp_path / "lake"), OFTEN, rig.store, rig.clock)
    carrier.start()
    await until(lambda: carrier.failures >= 3)
    rig.clock.passed_ms += 5_000
    figures = figures_of(carrier)
    assert (figures["exporting"], figures["lag_seconds"]) == (0, 5)
    assert "the lake was not brought up to date (3 times in a row)" in caplog.text
    (tmp_path / "lake").unlink()
    await until(lambda: figures_of(carrier)["exported_events"] >= 15)
    await carrier.stop(WAIT_S)
    assert_holds(open_place(str(tmp_path / "lake")), await rig.events())
    assert (figures_of(carrier)["exporting"], carrier.failures) == (1, 0)
    assert figures_of(carrier)["failures"] >= 3


async def test_another_stores_lake_ends_the_export_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = str(tmp_path / "lake")
    rig, stranger = await Rig().open(), await Rig().open()
    await rig.work(5)
    await (await rig.exporter(open_place(url, create=True))).cycle()
    carrier = Carrier(url, OFTEN, stranger.store, stranger.clock)
    carrier.start()
    await until(lambda: carrier.is_over)
    await carrier.stop(WAIT_S)
    assert isinstance(carrier.error, OtherStore)
    assert "nothing is exported to the lake any more" in caplog.text
    assert_holds(open_place(url), await rig.events())


async def test_second_exporter_stands_by_and_takes_over_when_the_first_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier_module, "STANDBY_LEAST_S", 0.01)
    url = str(tmp_path / "lake")
    rig = await Rig().open()
    first = await rig.exporter(open_place(url, create=True))
    second = Carrier(url, OFTEN, rig.store, rig.clock)
    second.start()
    await until(lambda: second._exporter is not None)
    seen: list[Error] = []
    while not seen:  # until both want the same commit and the second one loses
        await rig.work(1)
        try:
            await first.cycle()
        except LakeTaken:
            await first.reload()
        seen += [second.error] if isinstance(second.error, LakeTaken) else []
        await asyncio.sleep(0)
    number = lake_of(open_place(url)).state.number
    await rig.work(5)
    for _ in range(20):
        await asyncio.sleep(0.005)
        assert lake_of(open_place(url)).state.number == number, "the other one was at work a moment ago"
    rig.clock.passed_ms += 60_000
    await until(lambda: lake_of(open_place(url)).state.number > number)
    await second.stop(WAIT_S)
    assert second.error is None
    assert_holds(open_place(url), await rig.events())


async def test_stop_does_not_wait_for_a_lake_that_hangs(tmp_path: Path) -> None:
    rig = await Rig().open()
    carrier = Carrier(str(tmp_path / "lake"), OFTEN, rig.store, rig.clock)
    carrier.start()
    await until(lambda: carrier._exporter is not None)
    hangs = asyncio.Event()

    async def hang() -> int:
        await hangs.wait()
        return 0

    assert carrier._exporter is not None
    carrier._exporter.cycle = hang  # type: ignore[method-assign]
    await carrier.stop(0.02)
    assert carrier._task is not None
    assert carrier._task.cancelled()


def test_without_pyarrow_the_error_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LakeNotInstalled, match=r"pip install tenure\[lake\]"):
        make_carrier(Settings(lake="x"), Rig().store, Rig().clock)


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({"lake_every": "often"}, "lake_every"),
        ({"lake_every": "1ms"}, "lake_every"),
        ({"lake_grace": "x"}, "lake_grace"),
        ({"lake_retention": "old"}, "lake_retention"),
        ({"lake_rows": 1}, "lake_rows"),
    ],
)
def test_wrong_settings_are_refused_at_the_start(flags: dict[str, object], field: str, tmp_path: Path) -> None:
    with pytest.raises(Error, match=field):
        choose(flags, {})
    with pytest.raises(Error, match="lake"):
        make_carrier(Settings(lake="ftp://x"), Rig().store, Rig().clock)
    chosen = choose({"lake_rows": 1_000}, {"TENURE_LAKE": "s3://b/x", "TENURE_LAKE_RETENTION": "90d"})
    assert (chosen.settings.lake, chosen.sources["lake"]) == ("s3://b/x", "environment")
