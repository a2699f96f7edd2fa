"""`tenure lake`: what an event lake holds, whether it is sound, and tidying it by hand."""

import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.argument import AsJson, duration_of
from tenure.cli.screen import show_count, show_json, show_line, show_size
from tenure.cli.table import show_ago
from tenure.client.clock import read_clock
from tenure.core.duration import milliseconds
from tenure.core.error import Unavailable

if TYPE_CHECKING:
    from tenure.lake.entry import State
    from tenure.lake.lake import Lake
    from tenure.lake.tidy import Keeper

TRIES = 5

app = typer.Typer(help="Look at an event lake, verify it, tidy it.", no_args_is_help=True)

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The lake: a folder, file:///folder, or s3://bucket/prefix (keys and endpoint from AWS_* variables).",
    ),
]
Grace = Annotated[str, typer.Option(metavar="1h", help="Files that were dropped longer ago are deleted.")]


def _open(url: str) -> "Lake":
    from tenure.lake.error import check_installed

    check_installed()
    from tenure.lake.lake import Lake

    return Lake.open(url)


@app.command()
def status(url: Url, as_json: AsJson = False) -> None:
    """Say what the lake holds, and how far it has come."""
    lake = _open(url)
    state = lake.state
    first = min((segment.min_at for segment in state.segments), default=0)
    last = max((segment.max_at for segment in state.segments), default=0)
    if as_json:
        show_json(
            {
                "lake": lake.place.title,
                "store": state.store,
                "format": state.format,
                "schema": sorted({segment.schema for segment in state.segments}),
                "commits": state.number,
                "committed_at": state.at,
                "segments": len(state.segments),
                "rows": state.rows,
                "size_bytes": state.bytes,
                "began": state.began,
                "upto": state.upto,
                "first_at": first,
                "last_at": last,
                "lives": state.lives,
                "gaps": state.gaps,
                "dropped": len(state.dropped),
            }
        )
        return
    if not state.number:
        show_line(f"{lake.place.title} holds no event; a server fills it with: tenure serve --lake {url}")
        return
    now_ms = read_clock().wall_ms
    show_line(f"{show_count(state.rows, 'event')}, {show_count(len(state.segments), 'file')}, {show_size(state.bytes)}")
    show_line(f"of store {state.store}, seq {state.began + 1:,} to {state.upto:,}")
    if state.segments:
        show_line(f"the newest event {show_ago(last, now_ms)}, the last commit {show_ago(state.at, now_ms)}")
    for gap in state.gaps:
        lost = show_count(gap.upto - gap.after, "event")
        show_line(f"up to {lost} (seq {gap.after + 1:,} to {gap.upto:,}) were past retention and are missing", "red")


@app.command()
def files(
    url: Url,
    first: Annotated[str, typer.Option(metavar="2026-01-31", help="From this UTC date on.", show_default=False)] = "",
    last: Annotated[str, typer.Option(metavar="2026-01-31", help="Up to this UTC date.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """List the files that belong to the lake, for other programs to read."""
    lake = _open(url)
    if as_json:
        for segment in lake.segments(first, last):
            show_json({"file": lake.place.address(segment.path), "segment": segment})
        return
    for file in lake.files(first, last):
        show_line(str(file))


@app.command()
def verify(url: Url, as_json: AsJson = False) -> None:
    """Read every file and hold it against the log. Exits with 1 when something is wrong."""
    lake = _open(url)
    from tenure.lake.verify import verify as look

    found = look(lake)
    if as_json:
        show_json(
            {
                "lake": lake.place.title,
                "is_sound": not found.findings,
                "findings": found.findings,
                "segments": found.segments,
                "rows": found.rows,
                "size_bytes": found.bytes,
                "skipped": found.skipped,
                "lost": found.lost,
                "orphans": found.orphans,
            }
        )
    else:
        for finding in found.findings:
            show_line(finding, "red")
        what = f"{show_count(found.rows, 'event')}, {show_count(found.segments, 'file')}, {show_size(found.bytes)}"
        if found.findings:
            show_line(f"{lake.place.title}: {show_count(len(found.findings), 'finding')} ({what})", "bold red")
        else:
            show_line(f"{lake.place.title} is sound ({what})", "green")
    if found.findings:
        sys.exit(1)


@app.command()
def compact(
    url: Url,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Events in a merged file, at most.")] = 2_000_000,
    grace: Grace = "1h",
    as_json: AsJson = False,
) -> None:
    """Merge small files into larger ones, also while a server exports; then delete what was dropped long enough ago."""
    lake = _open(url)
    from tenure.lake.tidy import Rules, compact_once

    rules = Rules(target_rows=rows, grace_ms=milliseconds("grace", grace))
    before = len(lake.state.segments)
    while True:
        number = lake.state.number
        _commit(lake, lambda keeper, state: compact_once(keeper, state, rules, all_sizes=True))
        if lake.state.number == number:
            break
    deleted = _sweep(lake, rules.grace_ms)
    after = len(lake.state.segments)
    if as_json:
        show_json({"lake": lake.place.title, "segments_before": before, "segments": after, "deleted": deleted})
    else:
        show_line(f"{show_count(before, 'file')} became {after:,}; {show_count(deleted, 'file')} deleted", "green")


@app.command()
def prune(
    url: Url,
    older: Annotated[
        str | None, typer.Option(metavar="90d", help="Drop files whose newest event is older; none if left out.")
    ] = None,
    grace: Grace = "1h",
    as_json: AsJson = False,
) -> None:
    """Drop old events, and delete files that were dropped long enough ago or that no commit names."""
    lake = _open(url)
    from tenure.lake.tidy import retain

    age_ms = duration_of("older", older) or 0
    rows, segments = lake.state.rows, len(lake.state.segments)
    _commit(lake, lambda keeper, state: retain(keeper, state, age_ms))
    deleted = _sweep(lake, milliseconds("grace", grace))
    rows -= lake.state.rows
    segments -= len(lake.state.segments)
    if as_json:
        show_json({"lake": lake.place.title, "rows": rows, "segments": segments, "deleted": deleted})
    else:
        dropped = f"dropped {show_count(rows, 'event')} in {show_count(segments, 'file')}"
        show_line(f"{dropped}; {show_count(deleted, 'file')} deleted", "green")


def _sweep(lake: "Lake", grace_ms: int) -> int:
    """How many files it deleted."""
    from tenure.lake.tidy import DATA, sweep

    before = sum(1 for name in lake.place.names("") if name.startswith(DATA))
    _commit(lake, lambda keeper, state: sweep(keeper, state, grace_ms))
    return before - sum(1 for name in lake.place.names("") if name.startswith(DATA))


def _commit(lake: "Lake", work: "Callable[[Keeper, State], State]") -> None:
    """Again on what the lake is by then, when a server has committed meanwhile."""
    from tenure.lake.log import Moved
    from tenure.lake.tidy import Keeper

    keeper = Keeper(lake.place, lake.log, f"hand-{secrets.token_hex(4)}", lambda: read_clock().wall_ms)
    for _ in range(TRIES):
        if not lake.state.number:
            return
        try:
            lake.state = work(keeper, lake.state)
            return
        except Moved:
            lake.reload()
    raise Unavailable(f"{lake.place.title} is being changed all the time; try again later")
