"""A load, step by step, as a writer takes it: staged by tasks, published or aborted by the driver, and asked about.

A load is known for seven days by its id. Whoever writes it again adds nothing, and is told what came of it.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from tenure.client.client import Client
from tenure.core.error import Conflict, Error, InvalidRequest, Overloaded, Timeout
from tenure.core.record import LoadReport
from tenure.core.request import ABORT, PUBLISH, READ, STAGE, Batch, Load
from tenure.core.tenant import DEFAULT_TENANT
from tenure.spark.connect import PATIENCE_S, Session
from tenure.spark.option import Given, Place, Writing, place_of
from tenure.spark.payload import RowEncoder, chunks_of
from tenure.spark.token import TOKEN_VARIABLE

IN_FLIGHT: Final = 2
OVERLOADED_S: Final = 300.0  # that a task waits for room, in all
PAUSE_MOST_S: Final = 5.0
STILL_S: Final = 60.0  # without a row let in, after which a published load is not waited for any more
POLL_LEAST_S: Final = 0.005
POLL_MOST_S: Final = 0.05
REASONS_SHOWN: Final = 3

log: Final = logging.getLogger("tenure.spark")


class Written(WriterCommitMessage):
    """What a task tells the driver. `is_published`: an earlier run published the load, and the task added nothing."""

    def __init__(self, load_id: str, part: int, writing: str) -> None:
        self.load_id = load_id
        self.part = part
        self.writing = writing
        self.rows = 0
        self.chunks = 0
        self.is_published = False
        self.repeated: list[str] = []


def own_part() -> int:
    """The number of the task among those that write; the same for every attempt of it."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def stage_rows(writing: Writing, load_id: str, part: int, batches: Iterable[pa.RecordBatch]) -> Written:
    """What a task does: its rows in chunks, two of them on their way while the next one is encoded.

    The writing is new each time, so that a second attempt of the task, or one that runs beside it, stages apart from
    the first; the driver publishes the one whose task was the one that counted.
    """
    written = Written(load_id, part, secrets.token_hex(8))
    encoder = RowEncoder(writing)
    with Session(writing.place, PATIENCE_S) as session:
        flying: deque[Future[None]] = deque()
        room = Room(OVERLOADED_S)
        try:
            for chunk in _chunks(encoder, batches, written):
                while len(flying) >= IN_FLIGHT:
                    flying.popleft().result()
                load = Load(STAGE, load_id, part, written.writing, written.chunks, chunk)
                flying.append(session.begin(room.stage(session.client, load)))
                written.chunks += 1
                written.rows += len(chunk.payloads)
            while flying:
                flying.popleft().result()
        except Published:
            written.is_published = True
        finally:
            for each in flying:
                each.cancel()
    return written


def _chunks(encoder: RowEncoder, batches: Iterable[pa.RecordBatch], written: Written) -> Iterator[Batch]:
    for batch in batches:
        if batch.num_rows:
            rows = encoder.read(batch)
            if rows.repeated and not written.repeated:
                written.repeated = rows.repeated
            yield from chunks_of(rows, encoder.options)


class Published(Exception):
    """Somebody published the load already."""


class Room:
    """Back-pressure: a store that has no room says when to come again, and is believed, for so long in all."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds

    async def stage(self, client: Client, load: Load) -> None:
        while True:
            try:
                await client.load(load)
                return
            except Overloaded as error:
                pause_s = max(error.retry_after_ms / 1_000, 0.01)
                if pause_s > self._left_s:
                    raise
                self._left_s -= min(pause_s, PAUSE_MOST_S)
                log.warning("load %s waits %.1f s: %s", load.load_id, min(pause_s, PAUSE_MOST_S), error)
                await asyncio.sleep(min(pause_s, PAUSE_MOST_S))
            except Conflict:
                raise Published from None


def publish(place: Place, messages: Iterable[Written | None]) -> LoadReport:
    """What the driver does when all tasks have staged: of each part the writing that its task named, all at once."""
    found = [message for message in messages if message is not None]
    parts = {message.part: message.writing for message in found if message.rows}
    if not any(message.rows or message.is_published for message in found):
        return LoadReport(0, published=True, done=True)
    load_id = found[0].load_id
    with Session(place, PATIENCE_S) as session:
        is_new = not any(message.is_published for message in found)
        if is_new:
            try:
                session.run(session.client.load(Load(PUBLISH, load_id, parts=parts)))
            except Conflict:  # by somebody else, since the tasks staged
                is_new = False
        report = wait_until_done(session, load_id)
        tell(load_id, report, is_new, [key for message in found for key in message.repeated])
        if report.refused and is_new:
            reasons = _reasons(session, [message for message in found if message.rows])
            log.error("load %s: %d rows were refused: %s", load_id, report.refused, "; ".join(reasons))
    return report


def wait_until_done(session: Session, load_id: str) -> LoadReport:
    """Rows are let in by the thousand after the publication, also when nobody waits for it.

    It is asked again when it will be done if it goes on as it went.
    """
    began = moved = time.monotonic()
    last = -1
    while True:
        report = session.run(session.client.load(Load(READ, load_id)))
        if report.done or not report.published:
            return report
        let_in = report.new + report.duplicates + report.refused
        now = time.monotonic()
        if let_in != last:
            last, moved = let_in, now
        elif now >= moved + STILL_S:
            raise Timeout(
                f"load {load_id} is published, but only {let_in} of {report.rows} rows are in; "
                "it goes on by itself: ask tenure.spark.load_report"
            )
        left_s = (now - began) * (report.rows - let_in) / max(let_in, 1)
        time.sleep(min(max(left_s, POLL_LEAST_S), POLL_MOST_S))


def tell(load_id: str, report: LoadReport, is_new: bool, repeated: list[str]) -> None:
    counts = f"{report.rows} rows, {report.new} new, {report.duplicates} duplicates, {report.refused} refused"
    log.info("load %s: %s%s", load_id, counts, "" if is_new else "; it was published before, and nothing was added")
    if repeated and is_new:
        log.warning("load %s: rows share a key and make one job: %s", load_id, ", ".join(repeated[:REASONS_SHOWN]))


def _reasons(session: Session, messages: list[Written]) -> list[str]:
    """Why rows were refused, the first few of them."""
    found: list[str] = []
    for message in messages:
        for chunk in range(message.chunks):
            load = Load(READ, message.load_id, message.part, message.writing, chunk)
            for at, row in enumerate(session.run(session.client.load(load)).outcomes):
                if row.id == 0:
                    found.append(f"row {at} of chunk {chunk} of part {message.part}: {row.message}")
                    if len(found) == REASONS_SHOWN:
                        return found
    return found


def abort(place: Place, load_id: str) -> None:
    """What the driver does when a task failed for good. What cannot be aborted now is removed after a day."""
    try:
        with Session(place) as session:
            session.run(session.client.load(Load(ABORT, load_id)))
    except Conflict:
        log.warning("load %s is published, and stays; what this run staged besides is dropped", load_id)
    except Error as error:
        log.warning("load %s was not aborted (%s); it is out of sight, and removed after 24 h", load_id, error)


def load_report(
    url: str, load_id: str, *, tenant: str = DEFAULT_TENANT, token_file: str = "", token_variable: str = TOKEN_VARIABLE
) -> LoadReport:
    """What came of a load: rows, new, duplicates, refused; known for seven days."""
    options = {"url": url, "tenant": tenant, "tokenFile": token_file, "tokenVariable": token_variable}
    with Session(place_of(Given(options, "writing"))) as session:
        return session.run(session.client.load(Load(READ, load_id)))


def check_refused(load_id: str, report: LoadReport) -> None:
    if report.refused:
        rule = f"{report.new + report.duplicates} of {report.rows} rows of load {load_id} are in; the log says why"
        raise InvalidRequest("rows", f"{report.refused} refused", rule)
