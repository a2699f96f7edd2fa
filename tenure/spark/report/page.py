"""The report as one page that needs nothing else: pictures and tables, light or dark as the reader's system is."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Final

from tenure.spark.report.chart import CHARTS, DARK, LIGHT, png_of, shorten, show_ms, show_number, svg_of
from tenure.spark.report.summary import Summary

ROWS_MAX: Final = 15
MESSAGE_CHARS: Final = 110

# Each picture's title, what it shows, and what is said when there is nothing to show.
SECTIONS: Final = {
    "throughput": ("Throughput", "Jobs a minute.", "Nothing happened."),
    "waits": ("Wait", "From ready to started: half, 95 and 99 of 100 waited no longer.", "No job was started."),
    "runs": ("Run", "From started to the end of the attempt.", "No attempt ended."),
    "heat": ("Hours of the week", "Jobs started in an hour on average; times are UTC.", "No job was started."),
    "failures": ("Failures", "Attempts that failed, by what they failed of.", "No attempt failed. Enjoy it."),
    "tenants": ("Tenants", "Share of the time that handlers ran.", "No tenant ran anything."),
    "capacity": (
        "Capacity",
        "Slots each queue needs to keep up: arrivals a second times mean run.",
        "No queue had arrivals and ends in the same hour, so there is nothing to work it out from.",
    ),
    "workers": (
        "Workers",
        "Slots in use, of the most that the worker had at once; by the hour in which attempts ended.",
        "No worker ended an attempt.",
    ),
}

STYLE: Final = """
:root { color-scheme: light dark; --page: #f4f6f9; --card: #fff; --text: #1d2733; --faint: #5d6b7a; --line: #e3e8ee;
  --blue: #2f6fde; --green: #1f9d6b; --red: #d1423f; --bar: #dbe6fb; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1318; --card: #171c23; --text: #dfe6ee; --faint: #93a1b1;
  --line: #2a323c; --blue: #6ea2ff; --green: #4cc795; --red: #f0716d; --bar: #24344f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0; }
p { margin: 0; color: var(--faint); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 12px; margin: 28px 0 16px; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 14px 16px; }
.tile b { display: block; font-size: 25px; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--faint); font-size: 13px; }
.tile.good b { color: var(--green); } .tile.bad b { color: var(--red); }
section { padding: 20px 22px; margin-top: 16px; }
section > p { margin: 2px 0 12px; }
picture, img { display: block; width: 100%; height: auto; }
.none { padding: 28px 0; text-align: center; color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-top: 14px; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: 12.5px; white-space: nowrap; }
th, td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.w { min-width: 260px; overflow-wrap: anywhere; }
code { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; color: var(--faint); }
footer { margin-top: 28px; color: var(--faint); font-size: 13px; }
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""


def make_page(summary: Summary | None, made_at: datetime) -> str:
    """The same values make the same page."""
    if summary is None:
        title, body = "No history yet", _nothing()
    else:
        title, body = "What the queue did", _body(summary)
    stamp = f"{made_at:%Y-%m-%d %H:%M} UTC"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Tenure: {escape(title.lower())}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(title)}</h1>{_range(summary)}</header>\n{body}"
        f"<footer>Made {stamp} by <code>tenure spark report</code> from the gold tables.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def _range(summary: Summary | None) -> str:
    if summary is None:
        return ""
    if summary.first == summary.last:
        text = f"{summary.first:%A, %-d %B %Y}"
    else:
        text = f"{summary.first:%-d %B %Y} to {summary.last:%-d %B %Y}"
    return f"<p>{text} · times are UTC</p>"


def _nothing() -> str:
    return (
        '<section><div class="none">The gold tables have nothing for these dates. Export events with a lake, run '
        "<code>tenure spark run --once</code>, and make the report again.</div></section>\n"
    )


def _body(summary: Summary) -> str:
    tables = {
        "failures": _failures(summary),
        "tenants": _tenants(summary),
        "capacity": _queues(summary),
        "workers": _workers(summary),
    }
    return _tiles(summary) + "".join(_section(name, summary, tables.get(name, "")) for name in SECTIONS)


def _section(name: str, summary: Summary, table: str) -> str:
    title, text, nothing = SECTIONS[name]
    light, dark = (svg_of(CHARTS[name], summary, theme) for theme in (LIGHT, DARK))
    if light is None or dark is None:
        return f'<section id="{name}"><h2>{title}</h2><div class="none">{nothing}</div></section>\n'
    picture = (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{_data(dark)}">'
        f'<img alt="{escape(title)}: {escape(text)}" src="{_data(light)}"></picture>'
    )
    return f'<section id="{name}"><h2>{title}</h2><p>{text}</p>{picture}{table}</section>\n'


def _data(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _tiles(summary: Summary) -> str:
    totals = summary.totals
    ended = totals["completed"] + totals["failed"]
    success = totals["completed"] / ended if ended else None
    one_day = summary.first == summary.last
    day = "" if one_day else ", on a typical day"
    tiles = [
        (show_number(totals["enqueued"]), "jobs enqueued", ""),
        (show_number(totals["completed"]), "completed", ""),
        (_share(success), "of ended jobs completed", "good" if success is None or success >= 0.99 else "bad"),
        (show_number(totals["failed"]), "dead letters", "bad" if totals["failed"] else "good"),
        (_ms(summary.wait_p95), f"waited at most, 95 of 100{day}", ""),
        (_ms(summary.run_p95), f"ran at most, 95 of 100{day}", ""),
        (show_ms(totals["run_ms_sum"]), "of compute", ""),
    ]
    if summary.slo_kept is not None:
        kind = "good" if summary.slo_kept >= 0.99 else "bad"
        tiles.append((_share(summary.slo_kept), "started within the promised wait", kind))
    shown = "".join(
        f'<div class="tile {kind}"><b>{escape(value)}</b><span>{escape(text)}</span></div>'
        for value, text, kind in tiles
    )
    return f'<div class="tiles">{shown}</div>\n'


def _share(value: float | None) -> str:
    """Never rounded up to all."""
    if value is None:
        return "none"
    return "100%" if value == 1 else f"{min(value, 0.9999):.2%}"


def _ms(value: float | None) -> str:
    return "none" if value is None else show_ms(value)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], more: int, what: str) -> str:
    """A column whose name begins with > has numbers; with ~, long texts. Cells are HTML."""
    kinds = [{">": ' class="n"', "~": ' class="w"'}.get(name[0], "") for name in columns]
    head = "".join(f"<th{kind}>{name.lstrip('>~')}</th>" for kind, name in zip(kinds, columns, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    note = f"<p>and {more:,} more {what}</p>" if more > 0 else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}'


def _failures(summary: Summary) -> str:
    rows = [
        (
            f"{each.count:,}",
            f"{each.dead:,}",
            f"{escape(shorten(each.title, MESSAGE_CHARS))}<br><code>{escape(each.fingerprint)}</code>",
            f"{escape(each.queue)} / {escape(each.task)}",
            f"{each.first_at:%-d %b %H:%M}",
            f"{each.last_at:%-d %b %H:%M}",
            f"{each.example_job}",
        )
        for each in summary.failures[:ROWS_MAX]
    ]
    columns = (">attempts", ">dead", "~error", "queue / task", "first", "last", ">example job")
    return _table(columns, rows, len(summary.failures) - ROWS_MAX, "failures")


def _tenants(summary: Summary) -> str:
    rows = [
        (
            escape(each.name),
            f"{each.jobs:,}",
            f"{each.failed:,}",
            show_ms(each.compute_s * 1000),
            f"{show_number(each.sent_bytes)}B",
        )
        for each in summary.tenants[:ROWS_MAX]
    ]
    columns = ("tenant", ">jobs", ">dead letters", ">compute", ">payloads and results")
    return _table(columns, rows, len(summary.tenants) - ROWS_MAX, "tenants")


def _queues(summary: Summary) -> str:
    rows = [
        (
            escape(each.name),
            f"{each.arrived:,}",
            show_ms(each.mean_run_ms),
            f"{each.used:,.1f}",
            f"{each.needed:,.1f}",
            f"{each.needed_peak:,.1f}",
        )
        for each in summary.queues[:ROWS_MAX]
    ]
    columns = ("queue", ">arrivals", ">mean run", ">in use, on average", ">needed, busiest hour", ">busiest minute")
    return _table(columns, rows, len(summary.queues) - ROWS_MAX, "queues")


def _workers(summary: Summary) -> str:
    rows = [
        (
            escape(each.name),
            f"{each.attempts:,}",
            f"{each.failed / each.attempts:.1%}" if each.attempts else "none",
            show_ms(each.busy_s * 1000),
            f"{each.slots:,}",
        )
        for each in summary.workers[:ROWS_MAX]
    ]
    columns = ("worker", ">attempts", ">failed", ">busy", ">most at once")
    return _table(columns, rows, len(summary.workers) - ROWS_MAX, "workers")


def write_pictures(summary: Summary, folder: Path) -> list[Path]:
    """As PNG files, those that there is something to draw for."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in CHARTS.items():
        data = png_of(draw, summary, LIGHT)
        if data is not None:
            path = folder / f"{name}.png"
            path.write_bytes(data)
            written.append(path)
    return written
