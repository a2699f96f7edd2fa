"""`tenure events`: what happens, as it happens."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from tenure.cli.argument import Queue
from tenure.cli.completion import complete_event
from tenure.cli.field import event_fields, show_instant
from tenure.cli.screen import Screen, show_json, show_note
from tenure.cli.session import Session, connected
from tenure.cli.stop import Stop
from tenure.cli.table import STYLES, shorten
from tenure.core.bound import nearest
from tenure.core.error import InvalidRequest
from tenure.core.event import EVENT_NAMES
from tenure.core.record import Event, EventPage

WAIT_S = 60  # for one page; another is asked for then
END = "end"
TYPE_CHARS = max(len(name) for name in EVENT_NAMES)


@connected
def events(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")] = False,
    cursor: Annotated[
        str,
        typer.Option("--from", metavar="CURSOR", help="Go on from there; 'end' is from now on.", show_default=False),
    ] = "",
    queue: Queue = "",
    type: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Only of this type; repeat it for several.", autocompletion=complete_event),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="End after so many; all if left out.")] = None,
) -> None:
    """Show events: all that are kept, or from a cursor on.

    At the end the cursor to go on from is written to standard error.
    """
    for name in type or ():
        if name not in EVENT_NAMES:
            raise InvalidRequest("type", name, nearest(name, EVENT_NAMES))
    wanted = frozenset(type or EVENT_NAMES)
    left = limit
    console = Screen()
    for page in _pages(session, cursor, follow):
        for event in page.events:
            if event.type in wanted and (not queue or event.queue == queue):
                _show(session, console, event)
                left = None if left is None else left - 1
                if left == 0:
                    return
        cursor = page.cursor
    show_note(f"go on with: --from {cursor}")


def _pages(session: Session, cursor: str, follow: bool) -> Iterator[EventPage]:
    """Until Ctrl-C. A page may be empty and not be the last: it looks at a bounded number of events."""
    with Stop() as stop:
        while True:
            try:
                with stop.interruptible():
                    page = session.client.event_page(cursor, wait=WAIT_S if follow and cursor else 0)
            except KeyboardInterrupt:
                return
            yield page
            is_last = cursor == END or (not page.events and page.cursor == cursor)
            if is_last and not follow:
                return
            cursor = page.cursor


def _show(session: Session, console: Screen, event: Event) -> None:
    if session.as_json:
        show_json(event_fields(event))
        return
    text = Text(f"{show_instant(event.at)}  ", "bright_black")
    text.append(f"{event.type:<{TYPE_CHARS}}", STYLES.get(event.state or event.type, "bold"))
    if event.job:
        text.append(f"  {event.job}", "default")
    where = " ".join(word for word in (event.queue, event.task) if word)
    text.append(f"  {where}" if where else "", "default")
    text.append("".join(f"  {word}" for word in _details(session, event)), "bright_black")
    console.print(text, soft_wrap=True)


def _details(session: Session, event: Event) -> list[str]:
    words = [event.tenant] if session.tenant != event.tenant and event.tenant else []
    words += [f"attempt {event.attempt}"] if event.attempt else []
    words += [event.worker] if event.worker else []
    words += [f"ran {event.run_ms:,} ms"] if event.run_ms else []
    words += [event.reason] if event.reason else []
    words += [shorten(f"{event.error_type}: {event.message}", 100)] if event.error_type or event.message else []
    words += [f"{key} {value}" for key, value in event.detail.items()]
    return words
