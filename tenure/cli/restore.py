"""`tenure restore DEST FILE`"""

from typing import Annotated

import typer

from tenure.cli.argument import AsJson, Place, store_of, time_of
from tenure.cli.screen import bars, show_count, show_duration, show_json, show_line, show_size
from tenure.client.clock import read_clock

STORE = "Where the store goes: jobs.db or sqlite:///jobs.db, with ?blobs= if the backup has blobs."


def restore(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help=STORE)],
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="The newest backup not after this time; UTC if it has no zone.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a store of a backup, checked through and through before it is there.

    Jobs that ran when the backup was made are tried again; workers of the old store are refused.
    """
    from tenure.ops import restore as restoring
    from tenure.ops.manifest import show_time
    from tenure.ops.place import open_place

    path, _, blobs = store_of(file)
    at_ms = time_of(at)
    with bars() as progress:
        restored = restoring.restore(open_place(place), path, read_clock, at_ms, force, progress, blobs)
    manifest = restored.manifest
    if as_json:
        show_json(
            {
                "backup": manifest.name,
                "at": manifest.at,
                "file": str(path),
                "size_bytes": manifest.size_bytes,
                "blobs": len(manifest.blobs),
                "blob_bytes": manifest.blob_bytes,
                "blobs_in": restored.blobs_in,
                "lost": manifest.lost,
                "took_ms": restored.took_ms,
            }
        )
        return
    show_line(
        f"restored {path} as of {show_time(manifest.at)}: {show_size(manifest.size_bytes)}, checked,"
        f" in {show_duration(restored.took_ms)}",
        "green",
    )
    if restored.blobs_in:
        blobs_text = f"{show_count(len(manifest.blobs), 'blob')}, {show_size(manifest.blob_bytes)}"
        show_line(f"its blobs are in {restored.blobs_in}: {blobs_text}", "green")
    if manifest.lost:
        show_line(f"the store had lost {show_count(len(manifest.lost), 'blob')} when it was backed up", "yellow")
