"""`tenure verify TARGET`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.argument import AsJson, Scratch, store_of
from tenure.cli.screen import bars, show_count, show_json, show_line, show_size

ADVICE = {
    True: "is damaged: restore it from a backup (tenure restore)",
    False: "is not damaged: it is as it was written, and a bug or a newer Tenure wrote it so; report this",
}

if TYPE_CHECKING:
    from tenure.ops.verify import Checked


def verify(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A store (jobs.db, sqlite:///jobs.db), or the place of backups.")
    ],
    scratch: Scratch = None,
    as_json: AsJson = False,
) -> None:
    """Look for damage in a store, also while it is at work, or in every backup of a place.

    Exits with 1 when there is any.
    """
    from tenure.ops.place import open_place
    from tenure.ops.verify import verify_file, verify_place

    is_file = target.startswith("sqlite:") or Path(target).is_file()
    with bars() as progress:
        if is_file:
            checked = verify_file(store_of(target).path, scratch, progress)
        else:
            checked = verify_place(open_place(target), progress)
    _show(target, checked, is_file, as_json)
    if checked.findings:
        sys.exit(1)


def _show(target: str, checked: "Checked", is_file: bool, as_json: bool) -> None:
    if as_json:
        found: dict[str, object] = {"target": target, "is_sound": not checked.findings, "findings": checked.findings}
        counts = {} if is_file else {"backups": checked.backups, "chunks": checked.chunks, "blobs": checked.blobs}
        if is_file:
            found["is_damaged"] = checked.is_damaged
        show_json(found | counts | {"size_bytes": checked.size_bytes})
        return
    for finding in checked.findings:
        show_line(finding, "red")
    what = show_size(checked.size_bytes)
    if not is_file:
        blobs = f"{show_count(checked.blobs, 'blob')}, " if checked.blobs else ""
        what = f"{show_count(checked.backups, 'backup')}, {show_count(checked.chunks, 'chunk')}, {blobs}{what}"
    if checked.findings:
        show_line(f"{target}: {show_count(len(checked.findings), 'finding')} ({what})", "bold red")
        if is_file:
            show_line(f"{target} {ADVICE[checked.is_damaged]}", "bold red")
    else:
        show_line(f"{target} is sound ({what})", "green")
