"""Events as they happen: what a connection has asked to follow, a page at a time."""

import asyncio
from collections.abc import Callable

from tenure.core.error import Error, InvalidRequest, Unavailable
from tenure.core.record import EventPage
from tenure.server.caller import Caller
from tenure.server.handler import STOPPING, Asked, Handler
from tenure.wire import limit
from tenure.wire.command import ReadEvents, Subscribe
from tenure.wire.query import cursor_of, wanted
from tenure.wire.speech import Fields, Speech, error_fields
from tenure.wire.translate import TRANSLATORS

PAGE = 1_000
WAIT_MS = 60_000


def _tell_nobody(_speech: Speech, _id: object, _fields: Fields) -> bool:
    return False


class Follows:
    """Each under the id of the request that began it."""

    def __init__(
        self, handler: Handler, answer: Callable[[Speech, object, Fields], bool], has_room: asyncio.Event
    ) -> None:
        """`has_room` is waited for between two pages: the peer reads what it is sent."""
        self._handler = handler
        self._answer = answer
        self._has_room = has_room
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._is_over = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def begin(self, speech: Speech, message: Subscribe, caller: Caller, asked: Asked) -> Fields:
        id = message.req_id
        self._check_free(id)
        if len(self._tasks) >= limit.SUBSCRIPTIONS_MAX:
            raise InvalidRequest("reqId", id, f"a connection follows events {limit.SUBSCRIPTIONS_MAX} times at most")
        page = await self._events(speech, caller, asked, cursor_of(message.after), 0)
        self._check_free(id)
        if self._is_over:
            raise Unavailable(STOPPING)
        task = asyncio.get_running_loop().create_task(self._follow(speech, message, caller, asked, page))
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))
        return {"subscribed": True, "cursor": page.cursor}

    def end(self, id: object) -> bool:
        """None ends all of them. Answers whether there was one."""
        ended = [task for key, task in self._tasks.items() if id is None or key == id]
        for task in ended:
            task.cancel()
        return bool(ended)

    def close(self) -> None:
        self._is_over = True
        self.end(None)
        self._answer = _tell_nobody  # who answered refers to this

    def _check_free(self, id: object) -> None:
        if id in self._tasks:
            raise InvalidRequest("reqId", id, "it follows events already")

    async def _events(self, speech: Speech, caller: Caller, asked: Asked, cursor: str, wait_ms: int) -> EventPage:
        read = ReadEvents(after=cursor, limit=PAGE, timeout=wait_ms)
        page: EventPage = await self._handler.execute(caller, asked, TRANSLATORS[ReadEvents](speech, read))
        return page

    async def _follow(self, speech: Speech, message: Subscribe, caller: Caller, asked: Asked, page: EventPage) -> None:
        while True:
            for event in page.events:
                if wanted(event, message.queue, message.events):
                    self._answer(speech, message.req_id, {"event": event})
            await asyncio.sleep(0)  # others have their turn between two pages
            await self._has_room.wait()
            try:
                page = await self._events(speech, caller, asked, page.cursor, WAIT_MS)
            except Error as error:
                self._answer(speech, message.req_id, {"event": "ended", **error_fields(error)})
                return
