"""`tenure backups DEST`"""

import sys
from typing import TYPE_CHECKING

from rich.table import Table

from tenure.cli.argument import AsJson, Place
from tenure.cli.screen import show_duration, show_error, show_json, show_line, show_size, show_table
from tenure.client.clock import read_clock

if TYPE_CHECKING:
    from tenure.ops.manifest import Manifest


def backups(place: Place, as_json: AsJson = False) -> None:
    """List the backups in a folder or bucket, oldest first."""
    from tenure.ops.catalog import list_backups, read_all
    from tenure.ops.manifest import Manifest
    from tenure.ops.place import open_place

    opened = open_place(place)
    entries = list_backups(opened)
    rows: list[Manifest] = []
    damaged: list[str] = []
    for found in read_all(opened, entries):
        if isinstance(found, Manifest):
            rows.append(found)
        else:
            damaged.append(str(found))
    if as_json:
        show_json({"backups": [_fields(row) for row in rows], "damaged": damaged})
    elif rows:
        show_table(_table(rows))
    elif not damaged:
        show_line(f"{opened.title} holds no backup; make one with: tenure backup jobs.db {place}")
    for text in damaged:
        show_error(text)
    if damaged:
        sys.exit(1)


def _fields(manifest: "Manifest") -> dict[str, object]:
    return {
        "backup": manifest.name,
        "at": manifest.at,
        "size_bytes": manifest.size_bytes,
        "chunks": len(manifest.chunks),
        "blobs": len(manifest.blobs),
        "stored_bytes": _stored_bytes(manifest),
        "store": manifest.store,
        "epoch": manifest.epoch,
        "position": manifest.position,
    }


def _stored_bytes(manifest: "Manifest") -> int:
    return sum(dict(manifest.objects()).values())


def _table(rows: "list[Manifest]") -> Table:
    from tenure.ops.manifest import show_time

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("as of (UTC)")
    for name in ("age", "size", "stored", "chunks", "blobs", "epoch", "record"):
        table.add_column(name, justify="right")
    now_ms = read_clock().wall_ms
    for row in rows:
        table.add_row(
            show_time(row.at),
            show_duration(max(now_ms - row.at, 0)),
            show_size(row.size_bytes),
            show_size(_stored_bytes(row)),
            f"{len(row.chunks):,}",
            f"{len(row.blobs):,}",
            str(row.epoch),
            f"{row.position:,}",
        )
    return table
