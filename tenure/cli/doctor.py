"""`tenure doctor [URL]`: what is configured, whether it works, and what to do if it does not."""

import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from tenure.cli.field import fields_of, show_instant
from tenure.cli.screen import show_count, show_json, show_line, show_size, show_table
from tenure.cli.session import Place, Session, choose_place, connected
from tenure.cli.table import make_table
from tenure.client.clock import read_clock
from tenure.client.sync import SyncClient
from tenure.core.error import Error, Forbidden, Unauthenticated

OK, NOTE, WRONG = "ok", "note", "wrong"
MARKS = {OK: ("✓", "green"), NOTE: ("•", "yellow"), WRONG: ("✗", "bold red")}
WITNESS = "tenure.engine.engine"
DISK_BYTES_MIN = 256 * 1024 * 1024
CLOCK_AHEAD_MS = 60_000
DURABILITIES = {"fsync": "power loss", "write": "the end of a process", "relaxed": "a clean stop"}


class Check(NamedTuple):
    name: str
    status: str
    text: str
    fix: str = ""


@connected
def doctor(
    session: Session,
    place: Annotated[str | None, typer.Argument(metavar="[URL]", help="The store or server, as with --url.")] = None,
) -> None:
    """Say what is configured and whether the store or server answers; exits with 1 when something is wrong."""
    if place:
        session.url = place
    checks = [*_program(), *_place(session)]
    is_well = all(check.status != WRONG for check in checks)
    if session.as_json:
        found: dict[str, object] = {"is_well": is_well, "checks": [check._asdict() for check in checks]}
        show_json({**found, "capabilities": _capabilities(session) if is_well else None})
    else:
        _show(checks)
        if is_well:
            show_line("all is well", "green")
    if not is_well:
        sys.exit(1)


def _show(checks: list[Check]) -> None:
    table = make_table("", "check", "~found")
    for check in checks:
        mark, style = MARKS[check.status]
        text = Text(check.text)
        if check.fix:
            text.append(f"\n{check.fix}", style)
        table.add_row(Text(mark, style), check.name, text)
    show_table(table)


def _capabilities(session: Session) -> dict[str, object]:
    return fields_of(session.client.capabilities)


def _program() -> Iterator[Check]:
    import platform
    from importlib import metadata

    try:
        version = metadata.version("tenure")
    except metadata.PackageNotFoundError:
        version = "a source tree, not installed"
    yield Check("tenure", OK, version)
    yield Check("python", OK, f"{platform.python_version()} ({platform.machine()}, {platform.system()})")
    if build_of() == "compiled":
        yield Check("build", OK, "compiled")
    else:
        yield Check("build", NOTE, "interpreted", "slower than the compiled one: install a wheel, or run make compile")
    wall_ms = read_clock().wall_ms
    yield Check("clock", OK, show_instant(wall_ms) or "")


def build_of() -> str:
    found = find_spec(WITNESS)
    is_compiled = found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))
    return "compiled" if is_compiled else "interpreted"


def _place(session: Session) -> Iterator[Check]:
    """Each needs the one before it."""
    try:
        place = choose_place(session.url)
    except Error as error:
        yield Check("settings", WRONG, str(error), "put it right in tenure.toml or the environment")
        return
    yield Check("settings", OK, "tenure.toml" if Path("tenure.toml").exists() else "no tenure.toml here: defaults")
    yield Check("server" if place.is_server else "store", OK, f"{place.url} ({place.source})")
    if place.url.startswith("sqlite:"):
        yield from _file(place)  # before it is opened, which writes to it
    try:
        client = session.client
        before_ms = read_clock().elapsed_ms
        counts = client.count()
        took_ms = read_clock().elapsed_ms - before_ms
    except Error as error:
        yield Check("answers", WRONG, str(error), _fix(error))
        return
    jobs = sum(sum(states.values()) for states in counts.values())
    held = f"{show_count(len(counts), 'queue')}, {show_count(jobs, 'job')}"
    yield Check("answers", OK, f"in {took_ms} ms: {held} (tenant {session.tenant})")
    yield _durability(session)
    yield from _clock_of(client)
    lacks = [name for name, has in _capabilities(session).items() if has is False and name != "shared"]
    yield Check("capabilities", OK, f"{client.capabilities.name}: all" + (f" but {', '.join(lacks)}" if lacks else ""))


def _clock_of(client: SyncClient) -> Iterator[Check]:
    """The clock of the machine that owns the store."""
    try:
        stepped = client.configure("store", "").get("clock")
    except Error:
        return  # the token may not read the store's settings
    if stepped:
        fix = "run_at and expires_at follow the wall clock; let a time service keep it"
        yield Check("store's clock", NOTE, str(stepped), fix)


def _fix(error: Error) -> str:
    if isinstance(error, Unauthenticated):
        return "give a token: --token, TENURE_TOKEN or TENURE_TOKEN_FILE; tenure tokens make makes one"
    if isinstance(error, Forbidden):
        return "the token does not reach this: name a tenant it reaches with --tenant, or use another token"
    return ""


def _durability(session: Session) -> Check:
    modes = session.client.capabilities.durability
    if not modes:
        return Check(
            "durability", NOTE, "none", "what is stored is gone when the process ends; serve a sqlite:/// file"
        )
    return Check("durability", OK, f"{', '.join(modes)}; the last survives {DURABILITIES[modes[-1]]}")


def _file(place: Place) -> Iterator[Check]:
    import shutil

    from tenure.store.url import read_sqlite

    try:
        path = read_sqlite(place.url).path
        found = path.stat()
    except (Error, OSError):
        return  # opening it says why
    free = shutil.disk_usage(path.absolute().parent).free
    text = f"{show_size(found.st_size)} in {path}, {show_size(free)} free beside it"
    if free < DISK_BYTES_MIN:
        yield Check("disk", WRONG, text, "make room: a store that cannot write refuses what is enqueued")
    else:
        yield Check("disk", OK, text)
    if int(found.st_mtime * 1_000) > read_clock().wall_ms + CLOCK_AHEAD_MS:
        ahead = show_instant(int(found.st_mtime * 1_000))
        yield Check("time of the file", WRONG, f"{ahead} is ahead", "the clock has gone back: set it right")
