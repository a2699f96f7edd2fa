"""The report: one file, without a network, without Spark, and with words where there is nothing to draw."""

import os
import re
import subprocess
import sys
from base64 import b64decode
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tenure.core.error import InvalidRequest
from tenure.spark.report.chart import CHARTS, LIGHT, show_ms, show_number, svg_of, throughput, waits
from tenure.spark.report.summary import Series, Summary, summarize
from tenure.spark.report.write import write_report
from tests.cli.rig import run
from tests.lake.gold import BEGIN, write, write_all

NOW_MS = 1_770_000_000_000


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    for hours in (0, 1, 3):
        write_all(tmp_path / "gold", BEGIN + timedelta(hours=hours))
    return tmp_path / "gold"


def test_the_page_has_every_figure_and_needs_nothing_else(gold: Path, tmp_path: Path) -> None:
    made = write_report(gold, tmp_path / "out" / "report.html", tmp_path / "png", now_ms=NOW_MS)
    page = made.page.read_text(encoding="utf-8")
    without_pictures = re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"https?:|src=\"[^\"]|@import|<script|url\(", without_pictures)
    for name in CHARTS:
        assert f'<section id="{name}">' in page
    for text in ("30</b><span>jobs enqueued", "88.89%", "90.00%", "SmtpError: no &lt;answer&gt;", "acme", "w1", "3.2"):
        assert text in without_pictures, text
    assert "31 January 2026 to 1 February 2026" in page
    pictures = re.findall(r"base64,([A-Za-z0-9+/=]+)", page)
    assert len(pictures) == 2 * len(CHARTS)  # light and dark
    for picture in pictures:
        assert ElementTree.fromstring(b64decode(picture)).tag.endswith("svg")
    assert sorted(path.stem for path in made.pictures) == sorted(CHARTS)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made.pictures)


def test_the_same_gold_makes_the_same_page(gold: Path, tmp_path: Path) -> None:
    first, second = (write_report(gold, tmp_path / name, now_ms=NOW_MS).page.read_bytes() for name in ("a", "b"))
    assert first == second


def test_figures_are_those_of_the_dates_asked_for(gold: Path) -> None:
    found = summarize(gold, date(2026, 2, 1))
    assert found is not None
    assert (found.first, found.totals["enqueued"], found.failures[0].count) == (date(2026, 2, 1), 10, 2)
    both = summarize(gold)
    assert both is not None
    assert (both.totals["enqueued"], both.failures[0].count, both.slo_kept) == (30, 6, 0.9)
    assert [(queue.name, queue.needed_peak, queue.arrived) for queue in both.queues] == [("mail", 3.25, 30)]
    assert [(worker.name, worker.slots, worker.attempts) for worker in both.workers] == [("w1", 2, 30)]
    assert summarize(gold, date(2027, 1, 1)) is None


def test_lines_have_gaps_where_nothing_happened_and_end_with_what_is_over(gold: Path) -> None:
    found = summarize(gold, now=BEGIN + timedelta(hours=3, seconds=59))
    assert found is not None
    assert (found.series.unit, len(found.series.at)) == ("minute", 180)
    assert found.series.column("completed")[:2] == [8, 0]
    assert str(found.series.column("wait_p95")[1]) == "nan"


def test_nothing_to_draw_is_said_in_words(tmp_path: Path) -> None:
    gold = tmp_path / "gold"
    gold.mkdir()
    made = write_report(gold, tmp_path / "empty.html", tmp_path / "png", now_ms=NOW_MS)
    assert (made.summary, made.pictures) == (None, [])
    assert "have nothing for these dates" in made.page.read_text(encoding="utf-8")
    write(gold, "minutes", BEGIN, {"tenant": "acme", "events": 1, "enqueued": 1})
    write(gold, "hour_totals", BEGIN, {"events": 1, "enqueued": 1})
    write(gold, "minute_totals", BEGIN, {"events": 1, "enqueued": 1})
    page = write_report(gold, tmp_path / "little.html", now_ms=NOW_MS).page.read_text(encoding="utf-8")
    for text in ("No attempt failed", "No worker ended an attempt", "No attempt ended.", "nothing to work it out from"):
        assert text in page, text
    found = summarize(gold)
    assert found is not None
    assert svg_of(CHARTS["failures"], found, LIGHT) is None
    with pytest.raises(InvalidRequest, match="there is no such folder"):
        write_report(tmp_path / "nowhere", tmp_path / "x.html", now_ms=NOW_MS)


def throughput_of(enqueued: list[int], completed: list[int]) -> Summary:
    """A summary with so many jobs in each minute."""
    at = [BEGIN + timedelta(minutes=minute) for minute in range(len(enqueued))]
    rows = [
        {"enqueued": came, "completed": done, "attempts_failed": 0}
        for came, done in zip(enqueued, completed, strict=True)
    ]
    series = Series("minute", at, rows)
    return Summary(BEGIN.date(), BEGIN.date(), series, {}, {}, None, None, None, [], [], [], [])


def test_completions_are_not_flattened_by_a_bulk_load() -> None:
    loaded = throughput_of([0] * 30 + [500_000] + [0] * 89, [0] * 31 + [4_000] * 89)
    figure = throughput(loaded, LIGHT)
    assert figure is not None
    axes = figure.axes[0]
    assert axes.get_ylim()[1] < 8_000  # completions reach over half of the height
    assert any("500k" in note.get_text() for note in axes.texts)


@pytest.mark.parametrize(
    ("enqueued", "completed"),
    [
        ([900] * 60, [1_000] * 60),  # as many come as go
        ([5_000] * 60, [1_000] * 60),  # more come than go, all the time
        ([0] * 30 + [2_000] + [0] * 29, [1_000] * 60),  # a peak that fits
        ([7_000] * 60, [0] * 60),  # nothing is completed
    ],
)
def test_axis_is_whole_where_nothing_is_flattened(enqueued: list[int], completed: list[int]) -> None:
    figure = throughput(throughput_of(enqueued, completed), LIGHT)
    assert figure is not None
    axes = figure.axes[0]
    assert axes.get_ylim()[1] >= max(enqueued)
    assert not any("off the scale" in note.get_text() for note in axes.texts)


def test_several_peaks_are_counted_and_the_highest_is_named() -> None:
    peaks = [90_000 if minute % 20 == 7 else 0 for minute in range(120)]
    peaks[47] = 123_000
    figure = throughput(throughput_of(peaks, [1_000] * 120), LIGHT)
    assert figure is not None
    [note] = [note.get_text() for note in figure.axes[0].texts if "off the scale" in note.get_text()]
    assert "123k" in note
    assert "6 minutes" in note


def test_axes_have_ticks_enough(gold: Path) -> None:
    for values in ([900, 1_100, 1_000] * 30, [3, 7, 4] * 30, [123_456, 99_000, 140_000] * 30):
        figure = throughput(throughput_of(values, values), LIGHT)
        assert figure is not None
        figure.canvas.draw()
        axes = figure.axes[0]
        low, high = axes.get_ylim()
        assert 5 <= len([tick for tick in axes.get_yticks() if low <= tick <= high]) <= 10
        left, right = axes.get_xlim()
        assert 7 <= len([tick for tick in axes.get_xticks() if left <= tick <= right]) <= 16
    found = summarize(gold)
    assert found is not None
    narrow = waits(found, LIGHT)
    assert narrow is not None
    narrow.canvas.draw()
    low, high = narrow.axes[0].get_ylim()
    assert len([tick for tick in narrow.axes[0].get_yticks() if low <= tick <= high]) >= 5


def test_numbers_are_short() -> None:
    assert [show_number(value) for value in (0, 7, 1234, 5_600_000, 2e9)] == ["0", "7", "1.23k", "5.6M", "2G"]
    assert [show_ms(value) for value in (0, 999, 1_500, 90_000, 5_400_000, 2e8)] == [
        "0 ms",
        "999 ms",
        "1.5 s",
        "1.5 min",
        "1.5 h",
        "2.31 d",
    ]


def test_the_command_writes_page_and_pictures(gold: Path, tmp_path: Path) -> None:
    page, pictures = tmp_path / "r.html", tmp_path / "png"
    ended = run("spark", "report", "--gold", str(gold), "--out", str(page), "--png", str(pictures), "--json")
    assert (ended.code, ended.json["page"], ended.json["empty"]) == (0, str(page), False)
    assert len(ended.json["pictures"]) == len(list(pictures.iterdir())) == len(CHARTS)
    told = run("spark", "report", "--gold", str(gold), "--out", str(page), "--from", "2027-01-01")
    assert (told.code, "there is no gold of these dates" in told.err) == (0, True)
    wrong = run("spark", "report", "--gold", str(gold), "--out", str(page), "--from", "yesterday")
    assert (wrong.code, "it must be a date such as" in wrong.err) == (2, True)


def test_the_report_needs_no_spark_and_its_lack_is_told(gold: Path, tmp_path: Path) -> None:
    """In a process where pyspark cannot be found, as without the extra."""
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pyspark': raise ModuleNotFoundError(name)\n"
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'pyspark' else found(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from tenure.cli.main import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def tenure(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", code, "spark", *arguments, "--gold", str(gold)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert tenure("report", "--out", str(tmp_path / "r.html")).returncode == 0
    refused = tenure("run", "--lake", str(tmp_path), "--once")
    assert (refused.returncode, "pip install tenure[spark]" in refused.stderr) == (1, True)
