"""`tenure tenants export` and `tenure tenants import`: one tenant as files."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tenure.cli.argument import AsJson, Token, Url
from tenure.cli.copy import AllDifferences, Verify, fields_of, opened, show_verified, telling
from tenure.cli.screen import bars, show_count, show_json, show_line, show_size
from tenure.cli.session import choose_place, read_token
from tenure.client.clock import read_clock
from tenure.core.bound import tenant_name

if TYPE_CHECKING:
    from tenure.transfer.archive import Archive, Imported, Manifest
    from tenure.transfer.verify import Told, Verified

Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files are; for export a new or empty one.")]


def _now_ms() -> int:
    return read_clock().wall_ms


def export(name: Name, folder: Folder, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Write a tenant's jobs, with all they have, and settings to files: Parquet, JSON and a manifest.

    Pause what works on them first: every job is as it was when it was read.
    """
    tenant_name("tenant", name)
    manifest = asyncio.run(_export(choose_place(url).url, read_token(token), name, folder))
    size = sum(part.size for part in (manifest.settings, *manifest.segments))
    if as_json:
        show_json(manifest)
        return
    files = show_count(len(manifest.segments), "file")
    show_line(f"exported {show_count(manifest.rows, 'job')} of {name} to {folder}: {files}, {show_size(size)}", "green")


async def _export(url: str, token: str, name: str, folder: Path) -> "Manifest":
    from tenure.transfer.archive import export

    with bars(rows=True) as progress:
        async with opened(url, token) as client:
            return await export(client, name, folder, _now_ms, progress)


def import_tenant(
    name: Name,
    folder: Folder,
    verify: Verify = True,
    differences: AllDifferences = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Bring an exported tenant into a store, under its name or another, and compare.

    All jobs become visible at once. The same files again add nothing for 7 days.
    """
    tenant_name("tenant", name)
    from tenure.transfer.archive import Archive

    archive = Archive(folder)
    with telling(differences) as tell:
        done, verified = asyncio.run(
            _import(choose_place(url).url, read_token(token), name, archive, tell if verify else None)
        )
    if as_json:
        show_json({**msgspec.to_builtins(done), "verified": None if verified is None else fields_of(verified)})
    else:
        report = done.report
        if done.is_repeated:
            show_line(f"these files were imported before ({show_count(report.rows, 'job')}); nothing was added")
        else:
            counts = f"{report.new:,} new, {report.duplicates:,} there already, {report.refused:,} refused"
            show_line(f"imported {show_count(report.rows, 'job')} as {name}: {counts}", "green")
            show_line(f"put {show_count(done.settings, 'setting')} of the tenant, its queues and keys")
        if verified is not None:
            show_verified(verified, differences)
    if done.report.refused or (verified is not None and not verified.is_same):
        sys.exit(1)


async def _import(
    url: str, token: str, name: str, archive: "Archive", tell: "Told | None"
) -> "tuple[Imported, Verified | None]":
    from tenure.transfer.archive import Import

    with bars(rows=True) as progress:
        async with opened(url, token, create=True) as client:
            bring = Import(client, name, archive, _now_ms, progress)
            done = await bring.run()
            return done, None if tell is None else await bring.verify(tell)
