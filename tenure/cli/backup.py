"""`tenure backup SOURCE DEST`"""

import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.argument import AsJson, Place, Scratch, duration_of, store_of
from tenure.cli.screen import bars, show_count, show_duration, show_error, show_json, show_line, show_size
from tenure.client.clock import read_clock
from tenure.core.duration import milliseconds

if TYPE_CHECKING:
    from tenure.ops.backup import Made
    from tenure.ops.prune import Pruned

SIGNALLED = 128  # and the number of the signal


def backup(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="The store: jobs.db or sqlite:///jobs.db, with ?blobs= if it has blobs."),
    ],
    place: Place,
    every: Annotated[str | None, typer.Option(metavar="10m", help="Go on, and make one so often.")] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", help="Prune: keep the N newest.")] = None,
    keep_for: Annotated[str | None, typer.Option(metavar="7d", help="Prune: keep those not older.")] = None,
    grace: Annotated[
        str, typer.Option(metavar="24h", help="What pruning leaves behind goes after so long; a run may take half.")
    ] = "24h",
    scratch: Scratch = None,
    as_json: AsJson = False,
) -> None:
    """Make a backup of a store while it is at work.

    Only what has changed is sent. A backup is pruned when no rule keeps it; the newest always stays.
    """
    from tenure.ops.backup import Run, back_up
    from tenure.ops.error import BlobsLost, Stopped
    from tenure.ops.place import open_place
    from tenure.ops.prune import prune
    from tenure.ops.retention import Rules
    from tenure.ops.schedule import repeat

    path, _, blobs = store_of(source)
    rules = Rules(keep, duration_of("keep_for", keep_for), milliseconds("grace", grace))
    every_ms = duration_of("every", every)
    target = open_place(place, create=True)
    stop = _Stop()

    def make() -> None:
        with bars() as progress:
            run = Run(path, target, read_clock, scratch, rules.grace_ms, progress, stop.is_asked, blobs)
            made = back_up(run)
            pruned = prune(target, rules, read_clock().wall_ms) if rules.keep or rules.keep_for_ms else None
        _show(made, pruned, as_json)
        if lost := made.manifest.lost:
            raise BlobsLost(
                f"the store has lost {show_count(len(lost), 'blob')}, {lost[0]} for one, and the backup lacks what it"
                " lacks; put back what you have, or remove the jobs"
            )

    if every_ms is None:
        try:
            make()
        except Stopped as stopped:
            show_error(str(stopped))
            sys.exit(SIGNALLED + stop.signal)
    elif not repeat(make, every_ms, read_clock, stop.wait, lambda error: show_error(f"{error} (going on)")):
        sys.exit(1)


class _Stop:
    """SIGINT and SIGTERM end the work when no object is half sent; the second one at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        self._asked.set()
        signal.signal(number, signal.SIG_DFL)

    def is_asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, ms: int) -> bool:
        return self._asked.wait(ms / 1000)


def _show(made: "Made", pruned: "Pruned | None", as_json: bool) -> None:
    from tenure.ops.manifest import show_time

    manifest = made.manifest
    if as_json:
        show_json(
            {
                "backup": manifest.name,
                "at": manifest.at,
                "size_bytes": manifest.size_bytes,
                "chunks": len(manifest.chunks),
                "new_chunks": made.new_chunks,
                "blobs": len(manifest.blobs),
                "blob_bytes": manifest.blob_bytes,
                "new_blobs": made.new_blobs,
                "lost": manifest.lost,
                "sent_bytes": made.sent_bytes,
                "took_ms": made.took_ms,
                "pruned": [] if pruned is None else pruned.backups,
                "removed_objects": 0 if pruned is None else pruned.objects,
                "unreadable": [] if pruned is None else pruned.unreadable,
            }
        )
        return
    new = f"{made.new_chunks:,} new, "
    if manifest.blobs:
        new += f"{show_count(len(manifest.blobs), 'blob')}, {made.new_blobs:,} new, "
    show_line(
        f"backed up {show_size(manifest.size_bytes)} as of {show_time(manifest.at)} in {show_duration(made.took_ms)}:"
        f" {show_count(len(manifest.chunks), 'chunk')}, {new}{show_size(made.sent_bytes)} sent",
        "green",
    )
    if pruned is not None and (pruned.backups or pruned.objects):
        show_line(f"pruned {show_count(len(pruned.backups), 'backup')} and {show_count(pruned.objects, 'old object')}")
    for text in [] if pruned is None else pruned.unreadable:
        show_error(f"{text} (until then no chunk or blob is removed)")
