"""Records of the journal: all that changed since the last one, as it is now.

Format, version 1; numbers and texts as in `engine.code`. Everything a record says is absolute, so that the journal can
be read over pages of a checkpoint that are newer than its beginning.

    record   version u8 · wall i64 · elapsed i64 · the numbers given so far, i64 each (NUMBERS) · sections
    section  tag u8 · size u32 · body; a reader passes over tags that it does not know
    ROWS     rows, see engine.facts
    GONE     tenants (count, texts) · runs: count; each first id, signed step from the end of the last, number of ids,
             state, tenant
    OUTPUT   msgpack: [[job, kind, offset, at, data], ...]
    ENTITIES msgpack: [[name, ...], fact or nil], ...; see engine.entity
    BUNDLES  msgpack: [[name of a chunk, first row, count, first id, first ready number, time, end of the time of their
             keys], ...]: jobs that are rows of it. It is read after ENTITIES and before ROWS. A chunk that is gone was
             dropped by a checkpoint that had saved all of its jobs
    BATCHES  count; each its spec (size and msgpack) · first id · count · first ready number, signed · time, signed
             distance from wall · gap · 1 if compressed, else 0 · contents in one piece and where they end, as in
             core.packed (each its size and bytes): jobs that came together and differ in nothing but their payload, as
             they were then. It is read before ROWS
    AT       i64: the time of the last events, when it is not the wall's: that was set back
    LEFT_OUT i64: how much of the elapsed time does not count for leases, when there is any

To change it: a new section for something new that a reader may pass over; else another version, with the reader of
the old one kept.
"""

from typing import Final

import msgspec
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from tenure.engine.bundle import Bundle
from tenure.engine.code import hold, patch, put, put_bytes, put_signed, put_text
from tenure.engine.entity import entity_fact
from tenure.engine.facts import Rows
from tenure.engine.job import Job
from tenure.engine.journal import CLOCK, PAGE_BITS, Journal
from tenure.engine.specs import spec_fact
from tenure.engine.world import World

VERSION: Final = 1

ROWS: Final = 1
GONE: Final = 2
OUTPUT: Final = 3
ENTITIES: Final = 4
BUNDLES: Final = 5
BATCHES: Final = 6
AT: Final = 7
LEFT_OUT: Final = 8

NUMBERS: Final = 8
HEAD_BYTES: Final = 1 + 8 * (2 + NUMBERS)

_pack = msgspec.msgpack.Encoder().encode


def take(w: World) -> bytes:
    """A record of what changed since the last one; empty when nothing did. From now on it counts as written."""
    journal = w.journal
    if journal.is_empty():
        return b""
    if not journal.has_clock:
        journal.has_clock = True
        journal.mark((CLOCK,))
    journal.bytes = 0
    journal.in_rows = 0
    out = BytesWriter()
    _put_head(out, w)
    if journal.bundles:
        size = _begin_section(out, BUNDLES)
        _take_bundles(journal, out)
        _end_section(out, size)
    if journal.touched or journal.ranges:
        size = _begin_section(out, ROWS)
        _take_rows(w, journal, out)
        _end_section(out, size)
    if journal.gone:
        size = _begin_section(out, GONE)
        _take_gone(w, journal, out)
        _end_section(out, size)
    if journal.output:
        items = [[id, kind, item.offset, item.at, item.data] for id, kind, item in journal.output]
        size = _begin_section(out, OUTPUT)
        out.write(_pack(items))
        _end_section(out, size)
        journal.unsaved_output.extend(journal.output)
        journal.output = []
    if not journal.batches and not journal.entities:
        return out.getvalue()
    parts = [out.getvalue()]  # what follows may have megabytes
    if journal.batches:
        _append_section(parts, BATCHES, _take_batches(w, journal))
    if journal.entities:
        entities = journal.entities
        journal.entities = {}
        journal.unsaved_entities.update(entities)
        said = _pack([[list(entity), entity_fact(w, entity)] for entity in entities])
        _append_section(parts, ENTITIES, [said])
    return b"".join(parts)


def _append_section(parts: list[bytes], tag: i64, body: list[bytes]) -> None:
    out = BytesWriter()
    size = _begin_section(out, tag)
    total: i64 = 0
    for part in body:
        total += len(part)
    patch(out, size, total)
    parts.append(out.getvalue())
    parts.extend(body)


def _begin_section(out: BytesWriter, tag: i64) -> i64:
    out.append(u8(tag))
    return hold(out)


def _end_section(out: BytesWriter, size: i64) -> None:
    patch(out, size, len(out) - size - 4)


def head(w: World) -> bytes:
    """A record that says nothing but the time and the numbers given."""
    out = BytesWriter()
    _put_head(out, w)
    return out.getvalue()


def _put_head(out: BytesWriter, w: World) -> None:
    out.append(u8(VERSION))
    write_i64_le(out, w.wall_ms)
    write_i64_le(out, w.elapsed_ms)
    write_i64_le(out, w.last_id)
    write_i64_le(out, w.number_high)
    write_i64_le(out, w.number_low)
    write_i64_le(out, w.last_ended)
    write_i64_le(out, w.last_claim)
    write_i64_le(out, w.last_alarm)
    write_i64_le(out, w.last_ticket)
    write_i64_le(out, w.log.seq)
    if w.at_ms != w.wall_ms:
        _put_time(out, AT, w.at_ms)
    if w.left_out_ms > 0:
        _put_time(out, LEFT_OUT, w.left_out_ms)


def _put_time(out: BytesWriter, tag: i64, ms: i64) -> None:
    size = _begin_section(out, tag)
    write_i64_le(out, ms)
    _end_section(out, size)


def _take_bundles(journal: Journal, out: BytesWriter) -> None:
    bundles = journal.bundles
    journal.bundles = []
    said: list[list[object]] = []
    for chunk, bundle in bundles:
        numbers = (bundle.row, bundle.count, bundle.first, bundle.number, bundle.at_ms, bundle.keys_until)
        said.append([list(chunk), *[int(number) for number in numbers]])
        _note_bundle(journal, bundle)
    out.write(_pack(said))


def _take_batches(w: World, journal: Journal) -> list[bytes]:
    bundles = journal.batches
    journal.batches = []
    out = BytesWriter()
    put(out, len(bundles))
    parts: list[bytes] = []
    for bundle in bundles:
        packed = bundle.pack()
        put_bytes(out, spec_fact(bundle.spec))
        put(out, bundle.first)
        put(out, bundle.count)
        put_signed(out, bundle.number)
        put_signed(out, bundle.at_ms - w.wall_ms)
        put(out, packed.gap)
        put(out, 1 if packed.is_compressed else 0)
        put(out, len(packed.content))
        parts.append(out.getvalue())
        parts.append(packed.content)
        out = BytesWriter()
        put_bytes(out, packed.ends)
        _note_bundle(journal, bundle)
    parts.append(out.getvalue())
    return parts


def _note_bundle(journal: Journal, bundle: Bundle) -> None:
    """Its jobs are in a record now, and not in a checkpoint."""
    page: i64 = bundle.first >> PAGE_BITS
    while page <= bundle.last() >> PAGE_BITS:
        journal.unsaved_pages[page] = 1
        page += 1
    journal.unsaved_queues[int(bundle.spec.queue)] = 1


def _take_rows(w: World, journal: Journal, out: BytesWriter) -> None:
    rows = Rows(out, w.wall_ms)
    ranges = journal.ranges
    journal.ranges = []
    index = w.index
    at: i64 = 0
    while at < len(ranges):
        id: i64 = ranges[at]
        last: i64 = ranges[at + 1]
        while id <= last:
            job = index.get(id)
            if job is not None:
                _take_row(rows, journal, job)
            id += 1
        at += 2
    touched = journal.touched
    journal.touched = []
    for job in touched:
        if not job.gone:
            _take_row(rows, journal, job)
    rows.finish()


def _take_row(rows: Rows, journal: Journal, job: Job) -> None:
    rows.add(job, False)
    job.dirty = False
    job.stored = True
    job.rewritten = False
    page: i64 = job.id >> PAGE_BITS
    if page != journal.last_page:
        journal.last_page = page
        journal.unsaved_pages[page] = 1
    if job.spec.queue != journal.last_queue:
        journal.last_queue = job.spec.queue
        journal.unsaved_queues[int(job.spec.queue)] = 1


def _take_gone(w: World, journal: Journal, out: BytesWriter) -> None:
    gone = journal.gone
    journal.gone = []
    names: dict[int, int] = {}
    runs = BytesWriter()
    end: i64 = 0
    at: i64 = 0
    while at < len(gone):
        first: i64 = gone[at]
        count: i64 = gone[at + 1]
        tenant = gone[at + 2]
        number = names.get(tenant, -1)
        if number < 0:
            number = len(names)
            names[tenant] = number
        put_signed(runs, first - end)
        put(runs, count)
        put(runs, gone[at + 3])
        put(runs, number)
        end = first + count
        page: i64 = first >> PAGE_BITS
        while page <= (end - 1) >> PAGE_BITS:
            journal.unsaved_pages[page] = 1
            journal.unsaved_outcomes[page >> 4] = 1
            page += 1
        at += 4
    put(out, len(names))
    for tenant in names:
        put_text(out, w.tenants[tenant].name)
    put(out, len(gone) // 4)
    out.write(runs.getvalue())


class Sections:
    """A record taken apart: its head, and the body of each section."""

    def __init__(self, data: bytes) -> None:
        if not data or data[0] != VERSION or len(data) < HEAD_BYTES:
            version = data[0] if data else 0
            raise ValueError(f"the journal has a record of version {version}, this Tenure reads version {VERSION}")
        self.wall_ms: i64 = read_i64_le(data, 1)
        self.elapsed_ms: i64 = read_i64_le(data, 9)
        self.numbers: list[int] = [read_i64_le(data, 17 + 8 * at) for at in range(NUMBERS)]
        self.rows = b""
        self.gone = b""
        self.output = b""
        self.entities = b""
        self.bundles = b""
        self.batches = b""
        self.at_ms: i64 = self.wall_ms
        self.left_out_ms: i64 = 0
        at: i64 = HEAD_BYTES
        while at < len(data):
            tag = data[at]
            end: i64 = at + 5 + i64(read_i32_le(data, at + 1))
            body = data[at + 5 : end]
            at = end
            if tag == ROWS:
                self.rows = body
            elif tag == GONE:
                self.gone = body
            elif tag == OUTPUT:
                self.output = body
            elif tag == ENTITIES:
                self.entities = body
            elif tag == BUNDLES:
                self.bundles = body
            elif tag == BATCHES:
                self.batches = body
            elif tag == AT:
                self.at_ms = read_i64_le(body, 0)
            elif tag == LEFT_OUT:
                self.left_out_ms = read_i64_le(body, 0)
