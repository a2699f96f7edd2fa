"""The pictures of a report, drawn by matplotlib: each from a summary, in the colours of a theme."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final

import matplotlib as mpl
import matplotlib.dates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tenure.spark.report.summary import Summary

WIDE: Final = (11.0, 3.4)
BARS_MAX: Final = 10
WORKERS_MAX: Final = 16
LABEL_CHARS: Final = 46
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PNG_DPI: Final = 150
TICKS: Final = 8  # about so many on an axis of numbers
PEAK_ROOM: Final = 1.4  # that lines of what is usual leave above them


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    surface: str
    text: str
    faint: str  # labels of axes
    line: str  # grid
    blue: str
    green: str
    amber: str
    red: str


LIGHT: Final = Theme("light", "#ffffff", "#1d2733", "#5d6b7a", "#e3e8ee", "#2f6fde", "#1f9d6b", "#c98400", "#d1423f")
DARK: Final = Theme("dark", "#171c23", "#dfe6ee", "#93a1b1", "#2a323c", "#6ea2ff", "#4cc795", "#e8b04a", "#f0716d")

SETTINGS: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "DejaVu Sans"],
    "font.size": 10.5,
    "svg.hashsalt": "tenure",  # the same data, the same file
}

DATES: Final[Any] = matplotlib.dates  # has no types

Draw = Callable[[Summary, Theme], Figure | None]


def svg_of(draw: Draw, summary: Summary, theme: Theme) -> bytes | None:
    """None when there is nothing to draw."""
    with mpl.rc_context(SETTINGS):
        figure = draw(summary, theme)
        if figure is None:
            return None
        out = BytesIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        return out.getvalue()


def png_of(draw: Draw, summary: Summary, theme: Theme) -> bytes | None:
    with mpl.rc_context(SETTINGS):
        figure = draw(summary, theme)
        if figure is None:
            return None
        out = BytesIO()
        figure.savefig(out, format="png", dpi=PNG_DPI, facecolor=theme.surface)
        return out.getvalue()


def _axes(theme: Theme, size: tuple[float, float] = WIDE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(theme.line)
    axes.tick_params(colors=theme.faint, length=0, pad=6)
    axes.grid(axis="y", color=theme.line, linewidth=0.9)
    axes.set_axisbelow(True)
    return figure, axes


def _time_axis(axes: Axes, at: Sequence[float]) -> None:
    locator = DATES.AutoDateLocator(tz=UTC, minticks=7, maxticks=14)
    axes.xaxis.set_major_locator(locator)
    formats = ["%Y", "%b %Y", "%-d %b", "%H:%M", "%H:%M", "%S.%f"]
    plain = DATES.ConciseDateFormatter(locator, tz=UTC, formats=formats, show_offset=False)
    plain.zero_formats = ["", "%Y", "%-d %b", "%-d %b", "%H:%M", "%H:%M"]
    axes.xaxis.set_major_formatter(plain)
    margin = (at[-1] - at[0]) * 0.01 or 1 / 1_440
    axes.set_xlim(at[0] - margin, at[-1] + margin)


def _days(instants: Sequence[datetime]) -> list[float]:
    """As matplotlib counts time: in days from 1970."""
    return [at.timestamp() / 86_400 for at in instants]


def show_number(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def show_ms(value: float) -> str:
    if value < 1_000:
        return f"{value:.0f} ms"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1000:.3g} s"


def _end_labels(axes: Axes, lines: Sequence[tuple[float, str, str]], gap: float) -> None:
    """Names beside the ends of lines, in their colours, pushed apart where they would meet. Heights are of the axes."""
    spots: list[float] = []
    for height, _, _ in sorted(lines):
        spots.append(max(height, spots[-1] + gap) if spots else height)
    too_high = max(spots[-1] - 0.97, 0) if spots else 0
    for spot, (_, text, color) in zip(spots, sorted(lines), strict=True):
        axes.annotate(
            text,
            (1.008, spot - too_high),
            xycoords="axes fraction",
            color=color,
            va="center",
            fontweight="bold",
            fontsize=10,
        )


def _label_lines(axes: Axes, lines: Sequence[tuple[Sequence[float], str, str]]) -> None:
    ends = []
    for values, text, color in lines:
        known = [value for value in values if not np.isnan(value)]
        if known:
            _, height = axes.transAxes.inverted().transform(axes.transData.transform((0, known[-1])))
            ends.append((float(np.clip(height, 0.03, 0.97)), text, color))
    _end_labels(axes, ends, 0.09)


def throughput(summary: Summary, theme: Theme) -> Figure | None:
    series, at = summary.series, _days(summary.series.at)
    figure, axes = _axes(theme)
    done, came, bad = (series.per_minute(name) for name in ("completed", "enqueued", "attempts_failed"))
    axes.fill_between(at, done, color=theme.green, alpha=0.16, linewidth=0)
    lines = ((came, "enqueued", theme.blue), (done, "completed", theme.green), (bad, "failed attempts", theme.red))
    marker = "o" if len(at) < 3 else None
    for values, _, color in lines:
        axes.plot(at, values, color=color, linewidth=1.7, marker=marker)
    top = scale_of(came, done, bad)
    axes.set_ylim(0, top * 1.08)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show_number(value)))
    axes.yaxis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=6))
    _time_axis(axes, at)
    _name_peaks(axes, at, came, top, series.unit, theme)
    _label_lines(axes, lines)
    return figure


def scale_of(came: Sequence[float], done: Sequence[float], bad: Sequence[float]) -> float:
    """The highest value that is drawn. A bulk load comes in at hundreds of times the rate at which it is worked off:
    where peaks of arrivals would flatten all the rest, they leave the picture, and a note tells how high they are."""
    whole = max(*came, *done, *bad, 1e-9)
    usual = max(PEAK_ROOM * max(*done, *bad), PEAK_ROOM * float(np.median(came)))
    return usual if 0 < usual < whole / 2 else whole


def _name_peaks(axes: Axes, at: Sequence[float], came: Sequence[float], top: float, unit: str, theme: Theme) -> None:
    above = [place for place, value in enumerate(came) if value > top * 1.08]
    if not above:
        return
    highest = max(above, key=lambda place: came[place])
    text = f"{show_number(came[highest])} a minute, off the scale"
    if len(above) > 1:
        text = f"{len(above):,} {unit}s off the scale, up to {text.removesuffix(', off the scale')}"
    is_right = at[highest] > (at[0] + at[-1]) / 2
    axes.annotate(
        f"{text} ▲" if is_right else f"▲ {text}",
        (at[highest], top * 1.03),
        xytext=(-4 if is_right else 4, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        color=theme.blue,
        fontsize=10,
        bbox={"facecolor": theme.surface, "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
    )


def waits(summary: Summary, theme: Theme) -> Figure | None:
    return _percentiles(summary, theme, "wait")


def runs(summary: Summary, theme: Theme) -> Figure | None:
    return _percentiles(summary, theme, "run")


def _percentiles(summary: Summary, theme: Theme, what: str) -> Figure | None:
    series, at = summary.series, _days(summary.series.at)
    colors = {"p50": theme.blue, "p95": theme.amber, "p99": theme.red}
    lines = [(series.column(f"{what}_{name}"), name, color) for name, color in colors.items()]
    known = [value for values, _, _ in lines for value in values if not np.isnan(value)]
    if not known:
        return None
    figure, axes = _axes(theme)
    # Waits go from nothing to hours: only a logarithm shows both. Zero is drawn as one millisecond.
    axes.set_yscale("log")
    lines = [([max(value, 1.0) for value in values], name, color) for values, name, color in lines]
    marker = "o" if len(at) < 3 else None
    for values, _, color in lines:
        axes.plot(at, values, color=color, linewidth=1.7, marker=marker)
    axes.set_ylim(max(min(known) * 0.7, 0.8), max(*known, 10.0) * 1.4)
    decades = np.log10(axes.get_ylim()[1] / axes.get_ylim()[0])
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if decades < 3 else (1, 3) if decades < 5 else (1,), numticks=12)
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show_ms(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", length=0)
    _time_axis(axes, at)
    _label_lines(axes, lines)
    return figure


def _shade(theme: Theme, color: str) -> LinearSegmentedColormap:
    return LinearSegmentedColormap.from_list("shade", [theme.line, color])


def heat(summary: Summary, theme: Theme) -> Figure | None:
    days = sorted({day for day, _ in summary.heat})
    grid = np.full((len(days), 24), np.nan)
    for (day, hour), value in summary.heat.items():
        grid[days.index(day), hour] = value
    figure, axes = _axes(theme, (11.0, 0.95 + 0.36 * len(days)))
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    mesh = axes.pcolormesh(grid, cmap=_shade(theme, theme.blue), vmin=0, edgecolors=theme.surface, linewidth=2.5)
    axes.set_yticks(np.arange(len(days)) + 0.5, [WEEKDAYS[day] for day in days])
    axes.set_xticks(np.arange(0, 24, 2) + 0.5, [f"{hour:02}:00" for hour in range(0, 24, 2)])
    axes.invert_yaxis()
    _color_bar(figure, axes, mesh, theme)
    return figure


def _color_bar(figure: Figure, axes: Axes, mesh: mpl.cm.ScalarMappable, theme: Theme) -> None:
    bar = figure.colorbar(mesh, ax=axes, pad=0.012, aspect=12, shrink=0.92)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=theme.faint, length=0)
    bar.ax.yaxis.set_major_locator(MaxNLocator(3))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show_number(value)))


def _bars_axes(theme: Theme, names: Sequence[str]) -> tuple[Figure, Axes]:
    figure, axes = _axes(theme, (11.0, 0.7 + 0.42 * max(len(names), 2)))
    axes.grid(visible=False)
    axes.grid(axis="x", color=theme.line, linewidth=0.9)
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=theme.text)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: show_number(value)))
    return figure, axes


def shorten(text: str, chars: int = LABEL_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def failures(summary: Summary, theme: Theme) -> Figure | None:
    merged: dict[str, tuple[str, int, int]] = {}
    for failure in summary.failures:
        title, dead, count = merged.get(failure.fingerprint, (failure.title, 0, 0))
        merged[failure.fingerprint] = (title, dead + failure.dead, count + failure.count)
    most = sorted(merged.values(), key=lambda each: -each[2])[:BARS_MAX]
    if not most:
        return None
    figure, axes = _bars_axes(theme, [shorten(title) for title, _, _ in most])
    spots, died = range(len(most)), [dead for _, dead, _ in most]
    retried = [count - dead for _, dead, count in most]
    axes.barh(spots, died, color=theme.red, height=0.62, label="became dead letters")
    axes.barh(spots, retried, left=died, color=theme.amber, height=0.62, label="were retried")
    for spot, (_, _, count) in enumerate(most):
        axes.annotate(f" {count:,}", (count, spot), va="center", color=theme.text, fontsize=10)
    axes.set_xlim(0, max(each[2] for each in most) * 1.12)
    axes.legend(loc="lower right", frameon=False, labelcolor=theme.text)
    return figure


def tenants(summary: Summary, theme: Theme) -> Figure | None:
    total = sum(tenant.compute_s for tenant in summary.tenants)
    if not total:
        return None
    shares = [(tenant.name, tenant.compute_s / total) for tenant in summary.tenants[:BARS_MAX]]
    rest = summary.tenants[BARS_MAX:]
    if rest:
        shares.append((f"{len(rest):,} others", sum(tenant.compute_s for tenant in rest) / total))
    figure, axes = _bars_axes(theme, [shorten(name, 28) for name, _ in shares])
    colors = [theme.blue] * min(len(summary.tenants), BARS_MAX) + [theme.faint] * bool(rest)
    axes.barh(range(len(shares)), [share for _, share in shares], color=colors, height=0.62)
    for spot, (_, share) in enumerate(shares):
        axes.annotate(f" {share:.1%}", (share, spot), va="center", color=theme.text, fontsize=10)
    axes.set_xlim(0, max(share for _, share in shares) * 1.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    return figure


def capacity(summary: Summary, theme: Theme) -> Figure | None:
    queues = [queue for queue in summary.queues if queue.needed_peak > 0][:BARS_MAX]
    if not queues:
        return None
    figure, axes = _bars_axes(theme, [shorten(queue.name, 28) for queue in queues])
    spots = range(len(queues))
    axes.barh(spots, [queue.needed_peak for queue in queues], color=theme.line, height=0.62, label="busiest minute")
    axes.barh(spots, [queue.needed for queue in queues], color=theme.blue, height=0.3, label="busiest hour")
    used = [queue.used for queue in queues]
    axes.plot(
        used, spots, "o", color=theme.green, markersize=8, markeredgecolor=theme.surface, label="in use on average"
    )
    for spot, queue in enumerate(queues):
        at = (max(queue.needed_peak, queue.needed), spot)
        axes.annotate(f" {show_number(queue.needed_peak)}", at, va="center", color=theme.text, fontsize=10)
    axes.set_xlim(0, max(max(queue.needed_peak, queue.needed) for queue in queues) * 1.12)
    axes.legend(loc="lower right", frameon=False, labelcolor=theme.text)
    return figure


def _in_order(name: str) -> list[tuple[int, str]]:
    """worker-9 before worker-10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def workers(summary: Summary, theme: Theme) -> Figure | None:
    most = sorted(summary.workers[:WORKERS_MAX], key=lambda worker: _in_order(worker.name))
    if not most:
        return None
    instants = sorted({at for worker in most for at in worker.by_hour})
    first = int(instants[0].timestamp()) // 3_600
    width = int(instants[-1].timestamp()) // 3_600 - first + 1
    grid = np.zeros((len(most), width))
    for row, worker in enumerate(most):
        for at, busy in worker.by_hour.items():
            grid[row, int(at.timestamp()) // 3_600 - first] = busy / worker.slots
    figure, axes = _axes(theme, (11.0, 1.0 + 0.3 * len(most)))
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    edges = [(first + hour) / 24 for hour in range(width + 1)]
    is_long = width > 72  # then cells are narrower than the gaps, and a page of rectangles would be megabytes
    mesh = axes.pcolormesh(
        edges,
        np.arange(len(most) + 1),
        grid,
        cmap=_shade(theme, theme.green),
        vmin=0,
        vmax=max(float(np.max(grid)), 0.01),
        edgecolors="none" if is_long else theme.surface,
        linewidth=0.0 if is_long else 1.5,
        rasterized=is_long,
    )
    axes.set_yticks(np.arange(len(most)) + 0.5, [shorten(worker.name, 24) for worker in most])
    axes.invert_yaxis()
    _time_axis(axes, edges)
    _color_bar(figure, axes, mesh, theme)
    figure.axes[-1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    return figure


CHARTS: Final[dict[str, Draw]] = {
    "throughput": throughput,
    "waits": waits,
    "runs": runs,
    "heat": heat,
    "failures": failures,
    "tenants": tenants,
    "capacity": capacity,
    "workers": workers,
}
