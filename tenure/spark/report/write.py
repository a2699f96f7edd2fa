"""From a gold folder to a file with the report, and pictures beside it if they are asked for."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from tenure.core.error import InvalidRequest
from tenure.spark.report.page import make_page, write_pictures
from tenure.spark.report.summary import Summary, summarize


class Report(NamedTuple):
    """`summary` is None when there was nothing to report."""

    page: Path
    pictures: list[Path]
    summary: Summary | None


def write_report(
    gold: Path,
    page: Path,
    pictures: Path | None = None,
    first: date | None = None,
    last: date | None = None,
    *,
    now_ms: int,
) -> Report:
    if not gold.is_dir():
        raise InvalidRequest("gold", str(gold), "there is no such folder; tenure spark run makes it")
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    summary = summarize(gold, first, last, now)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(make_page(summary, now), encoding="utf-8")
    written = [] if pictures is None or summary is None else write_pictures(summary, pictures)
    return Report(page, written, summary)
