"""`tenure restore DEST FILE`"""

from typing import Annotated

import typer

from tenure.cli.argument import AsJson, Place, path_of, time_of
from tenure.cli.screen import bars, show_duration, show_json, show_line, show_size
from tenure.client.clock import read_clock
from tenure.ops import restore as restoring
from tenure.ops.manifest import show_time
from tenure.ops.place import open_place


def restore(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the store goes: jobs.db or sqlite:///jobs.db.")],
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="The newest backup not after this time; UTC if it has no zone.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a store of a backup, checked through and through before it is there.

    Jobs that ran when the backup was made are tried again; workers of the old store are refused.
    """
    path = path_of(file)
    at_ms = time_of(at)
    with bars() as progress:
        restored = restoring.restore(open_place(place), path, read_clock, at_ms, force, progress)
    manifest = restored.manifest
    if as_json:
        show_json(
            {
                "backup": manifest.name,
                "at": manifest.at,
                "file": str(path),
                "size_bytes": manifest.size_bytes,
                "took_ms": restored.took_ms,
            }
        )
        return
    show_line(
        f"restored {path} as of {show_time(manifest.at)}: {show_size(manifest.size_bytes)}, checked,"
        f" in {show_duration(restored.took_ms)}",
        "green",
    )
