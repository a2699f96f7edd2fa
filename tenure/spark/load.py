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
from tenure.spark.digest import SAME_KEYS, Digest
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
        self.chunks = 0
        self.is_published = False
        self.repeated: list[str] = []
        self.digest = Digest()

    @property
    def rows(self) -> int:
        return self.digest.rows


def own_part() -> int:
    """The number of the task among those that write; the same for every attempt of it."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def stage_rows(writing: Writing, load_id: str, part: int, batches: Iterable[pa.RecordBatch]) -> Written:
    """What a task does: its rows in chunks, two of them on their way while the next one is encoded.

    The writing is new each time, so that a second attempt of the task, or one that runs beside it, stages apart from
    the first; the driver publishes the one whose task was the one that counted. Rows of a load that was published
    before are not sent, but read to their end: the driver compares them with those that were published.
    """
    written = Written(load_id, part, secrets.token_hex(8))
    encoder = RowEncoder(writing)
    with Session(writing.place, PATIENCE_S) as session:
        flying: deque[Future[None]] = deque()
        room = Room(OVERLOADED_S)
        try:
            for chunk in _chunks(encoder, batches, written):
                _wait(flying, IN_FLIGHT - 1, written)
                if not written.is_published:
                    load = Load(STAGE, load_id, part, written.writing, written.chunks, chunk)
                    flying.append(session.begin(room.stage(session.client, load)))
                    written.chunks += 1
            _wait(flying, 0, written)
        finally:
            for each in flying:
                each.cancel()
    return written


def _wait(flying: deque[Future[None]], most: int, written: Written) -> None:
    """Until no more than so many are on their way."""
    while len(flying) > most:
        try:
            flying.popleft().result()
        except Published:
            written.is_published = True


def _chunks(encoder: RowEncoder, batches: Iterable[pa.RecordBatch], written: Written) -> Iterator[Batch]:
    for batch in batches:
        if batch.num_rows:
            rows = encoder.read(batch)
            if rows.repeated and not written.repeated:
                written.repeated = rows.repeated
            written.digest.add_rows(rows.keys, rows.payloads, encoder.options, rows.each, rows.extras)
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


def publish(place: Place, messages: Iterable[Written | None], is_stream: bool = False) -> LoadReport:
    """What the driver does when all tasks have staged: of each part the writing that its task named, all at once."""
    found = [message for message in messages if message is not None]
    if not found:
        return LoadReport(0, published=True, done=True)
    load_id = found[0].load_id
    digest = Digest()
    for message in found:
        digest.add(message.digest)
    with Session(place, PATIENCE_S) as session:
        is_new = _publish_new(session, found, digest)
        if not is_new and not digest.rows and not _is_published(session, load_id):
            return LoadReport(0, published=True, done=True)
        report = wait_until_done(session, load_id)
        if not is_new:
            check_same(load_id, report, digest, is_stream)
        tell(load_id, report, is_new, [key for message in found for key in message.repeated])
        if report.refused and is_new:
            reasons = _reasons(session, [message for message in found if message.rows])
            log.error("load %s: %d rows were refused: %s", load_id, report.refused, "; ".join(reasons))
    return report


def _publish_new(session: Session, messages: list[Written], digest: Digest) -> bool:
    """False when there is nothing to publish, or another run published the load before."""
    parts = {message.part: message.writing for message in messages if message.rows}
    if not parts or any(message.is_published for message in messages):
        return False
    try:
        session.run(session.client.load(Load(PUBLISH, messages[0].load_id, parts=parts, digest=digest.to_text())))
    except Conflict:  # by another run, since the tasks staged
        return False
    return True


def _is_published(session: Session, load_id: str) -> bool:
    try:
        return session.run(session.client.load(Load(READ, load_id))).published
    except InvalidRequest:
        return False


def check_same(load_id: str, report: LoadReport, digest: Digest, is_stream: bool) -> None:
    """Raises when the rows are not those that were published under this id. Of a stream, other content of the same keys
    is only told: a batch that is computed again may say another time of day, and raising would stop the query for
    ever."""
    difference = digest.differs(report.rows, report.digest)
    if not difference:
        return
    text = (
        f"load {load_id} was published with {difference}; what was published stays and nothing was added. "
        "Write these rows under another loadId, or under this one again those that it had"
    )
    if difference == SAME_KEYS:
        text += "; leave out what differs from run to run (payloadColumns)"
    if difference != SAME_KEYS or not is_stream:
        raise Conflict(text, 0)
    log.warning("%s", text)


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
            try:
                outcomes = session.run(session.client.load(load)).outcomes
            except InvalidRequest:  # another run published the same rows, and said why
                return found
            for at, row in enumerate(outcomes):
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
