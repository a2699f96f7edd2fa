"""`tenure copy SRC DST`"""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from tenure.cli.argument import AsJson
from tenure.cli.screen import bars, show_count, show_error, show_json, show_line, show_note, show_table
from tenure.cli.session import Place, check_place
from tenure.cli.table import elastic, make_table, shorten
from tenure.client.clock import read_clock
from tenure.core.error import InvalidRequest
from tenure.core.tenant import ANY_TENANT

if TYPE_CHECKING:
    from tenure.client.client import Client
    from tenure.transfer.copy import Copied
    from tenure.transfer.difference import Difference
    from tenure.transfer.verify import Told, Verified

SHOWN = 20
VALUE_CHARS = 60

Source = Annotated[str, typer.Argument(metavar="SRC", help="The store or server to copy from, as for --url.")]
Target = Annotated[str, typer.Argument(metavar="DST", help="The store or server to copy to; a file may be new.")]
CopyTenant = Annotated[
    str, typer.Option(metavar="TENANT", envvar="TENURE_TENANT", help="Only of this tenant; all if not given.")
]
LoadId = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="What the copy is called: one of the same name adds nothing for 7 days. By default from SRC and the"
        " tenant.",
    ),
]
Verify = Annotated[bool, typer.Option(help="Read both stores again and name every difference.")]
AllDifferences = Annotated[
    Path | None, typer.Option("--differences", metavar="FILE", help="Write all of them there, one JSON a line.")
]
SourceToken = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The token for SRC; else TENURE_SOURCE_TOKEN, TENURE_TOKEN, TENURE_TOKEN_FILE."),
]
TargetToken = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The token for DST; else TENURE_TARGET_TOKEN, TENURE_TOKEN, TENURE_TOKEN_FILE."),
]


def copy(
    source: Source,
    target: Target,
    tenant: CopyTenant = ANY_TENANT,
    load_id: LoadId = "",
    verify: Verify = True,
    differences: AllDifferences = None,
    source_token_file: SourceToken = None,
    target_token_file: TargetToken = None,
    as_json: AsJson = False,
) -> None:
    """Copy jobs and settings from one store to another, and compare.

    Everything that a job has is copied: options, keys, attempts, times, result, history. All of it becomes visible at
    once. Pause what works on SRC first: what changes while it is read is told, and what runs will run again.
    """
    check_apart(source, target)
    load_id = load_id or load_id_of("copy", place_name(source), tenant)
    with telling(differences) as tell:
        copied, verified = asyncio.run(
            _copy(
                source,
                target,
                (token_of(source_token_file, "SOURCE"), token_of(target_token_file, "TARGET")),
                tenant,
                load_id,
                tell if verify else None,
            )
        )
    if as_json:
        show_json({**msgspec.to_builtins(copied), "verified": None if verified is None else fields_of(verified)})
    else:
        show_copied(copied, target)
        if verified is not None:
            show_verified(verified, differences)
    if copied.refused or (verified is not None and not verified.is_same):
        sys.exit(1)


async def _copy(
    source: str, target: str, tokens: tuple[str, str], tenant: str, load_id: str, tell: "Told | None"
) -> "tuple[Copied, Verified | None]":
    from tenure.transfer.copy import Copy

    with bars(rows=True) as progress:
        async with opened(source, tokens[0]) as old, opened(target, tokens[1], create=True) as new:
            run = Copy(old, new, load_id, lambda: read_clock().wall_ms, tenant, progress)
            copied = await run.run()
            return copied, None if tell is None else await run.verify(tell)


@asynccontextmanager
async def opened(url: str, token: str, create: bool = False) -> "AsyncIterator[Client]":
    place = Place(url, "given")
    check_place(place, create)
    from tenure.client.client import connect

    async with connect(url, token=token if place.is_server else "") as client:
        yield client


def token_of(path: Path | None, side: str) -> str:
    """From the file, else from the environment: arguments show in a list of processes."""
    if path is None:
        for name in (f"TENURE_{side}_TOKEN", "TENURE_TOKEN"):
            if token := os.environ.get(name):
                return token
        if not (named := os.environ.get("TENURE_TOKEN_FILE")):
            return ""
        path = Path(named)
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("token file", str(path), f"it cannot be read: {error}") from error


def place_name(url: str) -> str:
    """The same for the same store, as far as its URL tells."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        return url
    from tenure.store.url import read_sqlite

    return f"sqlite:///{read_sqlite(url).path.resolve()}"


def check_apart(source: str, target: str) -> None:
    if place_name(source) == place_name(target):
        raise InvalidRequest("DST", target, "it is the store that is copied from; name another")


def load_id_of(kind: str, *names: str) -> str:
    return f"{kind}-{hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:24]}"


@contextmanager
def telling(path: Path | None) -> "Iterator[Told]":
    """Writes each difference to the file, if there is one."""
    if path is None:
        yield _ignore
        return
    with path.open("wb") as file:

        def tell(difference: "Difference") -> None:
            file.write(msgspec.json.encode(difference) + b"\n")

        yield tell


def _ignore(_difference: "Difference") -> None:
    """The first of them are in the answer."""


def fields_of(verified: "Verified") -> dict[str, object]:
    return {"same": verified.is_same, **msgspec.to_builtins(verified)}


def show_copied(copied: "Copied", target: str) -> None:
    counts = f"{copied.new:,} new, {copied.duplicates:,} there already, {copied.refused:,} refused"
    whose = show_count(len(copied.tenants), "tenant")
    if copied.is_repeated:
        show_line(f"load {copied.load_id} was copied before ({show_count(copied.rows, 'job')}); nothing was added")
    else:
        show_line(f"copied {show_count(copied.rows, 'job')} of {whose} to {target}: {counts}", "green")
        show_line(f"put {show_count(copied.settings, 'setting')} of tenants, queues and keys")
    if copied.running:
        show_note(
            f"{show_count(copied.running, 'job')} ran: released in DST, each to be ready when its old lease is over."
            " Stop the workers of SRC, or they will run twice"
        )
    if copied.changed:
        show_note(
            f"{show_count(len(copied.changed), 'job')} changed in SRC while it was read"
            f" ({show_count(copied.events_meanwhile, 'event')}); pause its queues and workers for an exact copy"
        )
    if copied.results_left:
        show_error(
            f"{show_count(len(copied.results_left), 'result')} over the cap of DST came without: raise"
            f" payload_bytes_max of DST, and copy with another --load-id; job {copied.results_left[0]} for one"
        )


def show_verified(verified: "Verified", path: Path | None = None) -> None:
    if verified.is_same:
        same = show_count(len(verified.queues), "queue")
        show_line(
            f"verified {show_count(verified.rows, 'job')} in {same}: counts, hashes and every field agree", "green"
        )
        return
    for queue in verified.queues:
        if not queue.is_same:
            show_line(
                f"{queue.tenant}/{queue.queue}: {queue.source_rows:,} jobs, hash {queue.source_hash[:12]}; in DST"
                f" {queue.target_rows:,}, hash {queue.target_hash[:12]}"
            )
    if verified.named:
        table = make_table("tenant", "queue", ">job", ">in DST", "what", "~expected", "~found", "~note")
        for each in verified.named[:SHOWN]:
            expected, found = (elastic(shorten(str(value), VALUE_CHARS)) for value in (each.expected, each.found))
            target, what = str(each.target or ""), each.field or each.kind
            table.add_row(each.tenant, each.queue, str(each.source), target, what, expected, found, elastic(each.note))
        show_table(table)
    for setting in verified.settings[:SHOWN]:
        show_line(
            f"{setting.tenant}: {setting.setting} of {setting.subject} {setting.name} is {setting.found} in DST, not"
            f" {setting.expected}"
        )
    more = "" if path is None else f"; all are in {path}"
    if verified.differences > SHOWN and path is None:
        more = f"; {SHOWN} are shown, --differences FILE writes all"
    show_error(
        f"{show_count(verified.differences, 'difference')} in {show_count(verified.rows, 'job')},"
        f" {show_count(len(verified.settings), 'setting')} differ{more}"
    )
