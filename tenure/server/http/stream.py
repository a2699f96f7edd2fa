"""Server-sent events: the event log as it grows, one page at a time.

Every event has its `seq` as its id, so a client that connects again with `Last-Event-ID` misses nothing and gets
nothing twice. A page is asked for when the one before is written: a slow reader holds back its own stream only.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Receive, Send

from tenure.core.error import Error
from tenure.core.record import EventPage
from tenure.server.caller import Caller
from tenure.wire import command as c
from tenure.wire.format import JSON_FORMAT
from tenure.wire.query import wanted
from tenure.wire.speech import Call, Speech, error_fields
from tenure.wire.translate import TRANSLATORS

PAGE = 500
KEEP_ALIVE_MS = 15_000
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
BEGIN = b": events\n\n"
KEEP_ALIVE = b": \n\n"

Ask = Callable[[Caller, Any, dict[bytes, bytes], Call, Receive], Awaitable[Any]]


class Follower:
    def __init__(self, speech: Speech, ask: Ask) -> None:
        self._speech = speech
        self._ask = ask

    async def follow(
        self, caller: Caller, message: Any, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        """Until the client or the server goes. What is wrong with the first page is an answer like any other."""
        after = first_of(message.after, headers.get(b"last-event-id", b""))
        page = await self._page(caller, message, headers, receive, after, 0)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await _write(send, BEGIN)
        try:
            while True:
                text = b"".join(
                    event_text(event) for event in page.events if wanted(event, message.queue, message.events)
                )
                if text:
                    await _write(send, text)
                page = await self._page(caller, message, headers, receive, page.cursor, KEEP_ALIVE_MS)
                if not page.events:
                    await _write(send, KEEP_ALIVE)
        except Error as error:
            await _write(send, b"event: ended\ndata: %b\n\n" % JSON_FORMAT.encode(error_fields(error)))
        await _write(send, b"", more=False)

    async def _page(
        self,
        caller: Caller,
        message: Any,
        headers: dict[bytes, bytes],
        receive: Receive,
        after: int | str,
        timeout: int,
    ) -> EventPage:
        asked = c.ReadEvents(after=after, limit=PAGE, timeout=timeout)
        call = TRANSLATORS[c.ReadEvents](self._speech, asked)
        found: EventPage = await self._ask(caller, message, headers, call, receive)
        return found


def first_of(after: int | str, last: bytes) -> int | str:
    """Where to begin: after what was seen last, else where it was asked to, else now."""
    if last:
        text = last.decode("latin-1")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
    return "end" if after == "" else after


def event_text(event: Any) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, event.type.encode(), JSON_FORMAT.encode(event))


async def _write(send: Send, text: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": more})
