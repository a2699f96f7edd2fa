"""Loads: jobs staged out of sight and published together."""

from typing import cast

import msgspec
from mypy_extensions import i64

from tenure.core import bound
from tenure.core.error import Conflict, Forbidden, InvalidRequest, Overloaded
from tenure.core.packed import Packed, Texts
from tenure.core.record import LoadedRow, LoadReport
from tenure.core.request import ABORT, PUBLISH, READ, STAGE, Batch, Load
from tenure.core.tenant import ADMIN, Context
from tenure.engine import journal
from tenure.engine.alarm import LOAD, Alarm
from tenure.engine.blob import hold_all, let_go_all, let_go_of_load
from tenure.engine.check import check_content
from tenure.engine.clock import on_elapsed
from tenure.engine.enqueue import enqueue_one
from tenure.engine.past import bring_in, check_pasts
from tenure.engine.room import keep_room, overload_by
from tenure.engine.rows import Rows
from tenure.engine.run import admit_run, spec_of_run
from tenure.engine.staged import Given, Key, Share, Staged, numbers, shares_of
from tenure.engine.world import DAY_MS, HOUR_MS, OWED_PUBLISH, Owed, World

PUBLISHED_MS = 7 * DAY_MS
LOADS_MAX = 100_000
REFUSALS_KEPT = 1_000  # reasons, of a load
NO_CHUNK = (0, "", 0)  # what a reader says who names none: the counts of the load are asked for
UNTOLD = ("", f"refused; only the first {REFUSALS_KEPT} refusals of a load keep their reason")

_pack = msgspec.msgpack.Encoder().encode


def load(w: World, context: Context, request: Load) -> LoadReport:
    tenant = context.tenant
    bound.key_text("load_id", request.load_id)
    if request.step == STAGE:
        if request.batch is not None and request.batch.pasts is not None and not context.roles & ADMIN:
            raise Forbidden("to import whole records takes the role admin; ask for it, or leave the pasts out")
        return _stage(w, tenant, request)
    if request.step == READ:
        return _read(w, tenant, request)
    if request.step == PUBLISH:
        return _publish(w, tenant, request)
    if request.step == ABORT:
        return _abort(w, tenant, request.load_id)
    raise InvalidRequest("step", request.step, "it must be stage, publish, abort or read")


def report(staged: Staged) -> LoadReport:
    return LoadReport(
        int(staged.rows),
        int(staged.new),
        int(staged.duplicates),
        int(staged.refused),
        staged.published,
        staged.done,
        digest=staged.digest,
    )


def _stage(w: World, tenant: str, request: Load) -> LoadReport:
    batch = request.batch
    if batch is None:
        raise InvalidRequest("batch", None, "a chunk to stage needs its jobs")
    size = _check_chunk(w, batch)
    if batch.options.lifo:
        batch = batch.unpacked()  # jobs that do not stand behind the others are made when they are let in, one by one
    staged = w.loads.get((tenant, request.load_id))
    if staged is not None and staged.published:
        raise Conflict(f"load {request.load_id} is published already", 0)
    key = (request.part, request.writing, request.chunk)
    count = len(batch.payloads)
    before = len(staged.chunks[key].payloads) if staged is not None and key in staged.chunks else 0
    if w.jobs + w.staged_jobs + count - before > w.settings.jobs_max:
        raise Overloaded(f"the store ({int(w.settings.jobs_max)} jobs)", 1_000)
    if staged is None and len(w.loads) >= LOADS_MAX:
        raise Overloaded(f"the store ({LOADS_MAX} loads, published ones for 7 days included)", HOUR_MS)
    shares = _take_room(w, tenant, [] if staged is None else staged.kept.get(key, []), batch)
    if staged is None:
        staged = Staged(w.next_alarm_id(), tenant, request.load_id)
        w.loads[(tenant, request.load_id)] = staged
        w.load_names[int(staged.number)] = (tenant, request.load_id)
        staged.alarm = Alarm(w.elapsed_ms + DAY_MS, LOAD, staged.number)
        w.elapsed.add(staged.alarm)
    hold_all(w, batch.payloads)
    if before:
        let_go_all(w, staged.chunks[key].payloads)
    staged.chunks[key] = batch
    staged.kept[key] = shares
    staged.measured[key] = Rows(batch).measure()
    _rest(batch)
    w.journal.mark((journal.LOAD, tenant, request.load_id))
    w.journal.mark((journal.CHUNK, tenant, request.load_id, *key))
    w.journal.bytes += len(batch.payloads.content) if isinstance(batch.payloads, Packed) else size
    w.loaded_ms = w.elapsed_ms
    staged.jobs += count - before
    w.staged_jobs += count - before
    staged.rows = staged.jobs
    return report(staged)


def _take_room(w: World, tenant: str, instead: list[Share], batch: Batch) -> list[Share]:
    """For a chunk, in the place of one that was there."""
    shares = shares_of(batch)
    keep_room(w, tenant, instead, -1)
    overloaded = overload_by(w, tenant, shares)
    if overloaded is not None:
        keep_room(w, tenant, instead, 1)
        raise overloaded
    keep_room(w, tenant, shares, 1)
    return shares


def let_go_of_room(w: World, staged: Staged, key: Key) -> None:
    """The chunk was let in, or will not be."""
    keep_room(w, staged.tenant, staged.kept.pop(key, []), -1)


def let_go_of_all_room(w: World, staged: Staged) -> None:
    for key in list(staged.kept):
        let_go_of_room(w, staged, key)


def _check_chunk(w: World, batch: Batch) -> i64:
    """How many bytes it has."""
    count = len(batch.payloads)
    if not 0 < count <= bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("payloads", count, f"a chunk has 1 to {bound.BATCH_ITEMS_MAX} jobs")
    for name, length in (
        ("extras", count if batch.extras is None else len(batch.extras)),
        ("each", count if batch.each is None else len(batch.each)),
        ("pasts", count if batch.pasts is None else len(batch.pasts)),
        ("keys", count if batch.keys is None else len(batch.keys)),
    ):
        if length != count:
            raise InvalidRequest(name, length, f"it must have one entry per payload ({count})")
    _check_no_gap("payloads", batch.payloads)
    _check_no_gap("keys", batch.keys.packed if isinstance(batch.keys, Texts) else None)
    size = _check_payloads(w, batch)
    if batch.pasts is not None:
        check_pasts(w, batch)
        size += len(_pack(batch.pasts))
    if size > bound.BATCH_BYTES_MAX:
        raise InvalidRequest("batch", int(size), f"a chunk has at most {bound.BATCH_BYTES_MAX} bytes; stage several")
    return size


def _check_no_gap(name: str, column: object) -> None:
    """A chunk is kept as it came, and what is not of an entry would be kept with it."""
    if isinstance(column, Packed) and column.gap:
        raise InvalidRequest(name, int(column.gap), "a chunk has no gap before its entries")


def _check_payloads(w: World, batch: Batch) -> i64:
    payload_max: i64 = w.payload_bytes_max
    if isinstance(batch.payloads, Packed) and batch.payloads.longest <= payload_max:
        return batch.payloads.bytes
    size: i64 = 0
    for at, payload in enumerate(batch.payloads):
        if isinstance(payload, bytes) and len(payload) <= payload_max:
            size += len(payload)
            continue
        error = check_content(w, payload, f"payloads[{at}]")
        if error is not None:
            raise error
    return size


def _rest(batch: Batch) -> None:
    if isinstance(batch.payloads, Packed):
        batch.payloads.rest()
    if isinstance(batch.keys, Texts):
        batch.keys.packed.rest()


def _publish(w: World, tenant: str, request: Load) -> LoadReport:
    staged = w.loads.get((tenant, request.load_id))
    if staged is None:
        raise InvalidRequest(
            "load_id", request.load_id, "nothing is staged under it; it may have been aborted or be over a day old"
        )
    parts = request.parts or {}
    if request.digest:
        bound.key_text("digest", request.digest)
    if staged.published:
        if not _is_same(staged, parts, request.digest):
            raise Conflict(f"load {request.load_id} was published with other rows; publish these as another load", 0)
        return report(staged)
    for part, writing in parts.items():
        if not any(key[0] == part and key[1] == writing for key in staged.chunks):
            raise InvalidRequest("parts", f"{part}: {writing}", "that writing of that part was not staged")
    chosen = sorted(key for key in staged.chunks if parts.get(key[0]) == key[1])
    owed = Owed(OWED_PUBLISH, staged.number)
    owed.batches = [staged.chunks[key] for key in chosen]
    rows = sum(len(batch.payloads) for batch in owed.batches)
    w.staged_jobs -= staged.jobs - rows
    staged.jobs = rows
    staged.rows = rows
    for key in staged.chunks:
        if key not in chosen:
            w.journal.mark((journal.CHUNK, tenant, request.load_id, *key))
            let_go_all(w, staged.chunks[key].payloads)
            let_go_of_room(w, staged, key)
    staged.chunks = {key: staged.chunks[key] for key in chosen}
    staged.measured = {key: staged.measured[key] for key in chosen if key in staged.measured}
    staged.published = True
    w.journal.mark((journal.LOAD, tenant, request.load_id))
    staged.parts = dict(parts)
    staged.digest = request.digest
    if staged.alarm is not None:
        w.elapsed.cancel(staged.alarm)
    staged.alarm = Alarm(w.elapsed_ms + PUBLISHED_MS, LOAD, staged.number)
    w.elapsed.add(staged.alarm)
    w.owed.append(owed)
    return report(staged)


def _is_same(staged: Staged, parts: dict[int, str], digest: str) -> bool:
    """Whether the publication of a load that was published before is a repetition: by the digests of the two, or by
    their parts when one of them has none. The writings of a run that comes again are new, its rows are not."""
    return digest == staged.digest if digest and staged.digest else parts == staged.parts


def mark_load(w: World, staged: Staged) -> None:
    """The load and everything staged under it change in the journal."""
    w.journal.mark((journal.LOAD, staged.tenant, staged.load_id))
    for key in staged.chunks:
        w.journal.mark((journal.CHUNK, staged.tenant, staged.load_id, *key))
    for key in staged.given:
        w.journal.mark((journal.GIVEN, staged.tenant, staged.load_id, *key))


def let_in(w: World, staged: Staged, key: Key, batch: Batch, at: int) -> None:
    """One row of a published load, like any enqueue, or with its past; what becomes of it is noted."""
    options = batch.options if batch.each is None else batch.each[at]
    extras = batch.extra(at)
    source = 0
    if batch.pasts is None:
        outcome = enqueue_one(w, staged.tenant, (), options, batch.payloads[at], extras, True)
    else:
        past = batch.pasts[at]
        source = past.id
        outcome = bring_in(w, staged, options, batch.payloads[at], extras, past)
    given = staged.given_of(key)
    error = outcome.error
    if error is not None:
        if staged.refused < REFUSALS_KEPT:
            given.refused[int(given.rows)] = (error.code, error.message)
        staged.refused += 1
    elif outcome.duplicate:
        given.duplicates.append(int(given.rows))
        staged.duplicates += 1
    else:
        staged.new += 1
    given.add(outcome.id, source)
    w.staged_jobs -= 1
    staged.jobs -= 1


def let_in_run(w: World, staged: Staged, key: Key, batch: Batch, at: i64, most: i64) -> i64:
    """Several rows with nothing special about them, from `at` on; answers how many, 0 when the next needs a look."""
    try:
        spec = spec_of_run(w, staged.tenant, batch)
    except Overloaded:
        spec = None
    if spec is None:
        return 0
    before: i64 = w.last_id
    end: i64 = min(len(batch.payloads), at + most)
    chunk = (journal.CHUNK, staged.tenant, staged.load_id, *key)
    count = admit_run(w, spec, staged.rows_of(key), at, end, chunk)
    if count > 0:
        staged.is_quoted = True
        staged.given_of(key).add_run(int(before + 1), int(count))
        staged.new += count
        w.staged_jobs -= count
        staged.jobs -= count
    return count


def _read(w: World, tenant: str, request: Load) -> LoadReport:
    staged = w.loads.get((tenant, request.load_id))
    if staged is None:
        raise InvalidRequest("load_id", request.load_id, "nothing is known of it; it may be over 7 days old")
    key = (request.part, request.writing, request.chunk)
    given = staged.given.get(key)
    if given is None and key not in staged.chunks:
        if key == NO_CHUNK:
            return report(staged)
        raise InvalidRequest("chunk", f"{key[0]}: {key[1]}: {key[2]}", "that chunk is not in the load")
    known = report(staged)
    return known if given is None else msgspec.structs.replace(known, outcomes=_outcomes(given))


def _outcomes(given: Given) -> tuple[LoadedRow, ...]:
    ids = numbers(given.ids)
    sources = numbers(given.sources)
    duplicates = set(given.duplicates)
    rows: list[LoadedRow] = []
    for at in range(len(ids)):
        if ids[at]:
            rows.append(LoadedRow(ids[at], sources[at], at in duplicates))
        else:
            code, message = given.refused.get(at, UNTOLD)
            rows.append(LoadedRow(0, sources[at], False, code, message))
    return tuple(rows)


def has_let_in(w: World, staged: Staged) -> None:
    """All jobs of a published load. Chunks that records of the journal quote stay until the next checkpoint begins: it
    saves their jobs before it drops them."""
    staged.done = True
    staged.measured = {}
    if staged.is_quoted and w.journal.on:
        w.spent_loads.append(staged)
    else:
        drop_chunks(w, staged)


def drop_chunks(w: World, staged: Staged) -> None:
    mark_load(w, staged)
    let_go_of_load(w, staged)
    staged.chunks = {}
    staged.ids = {}


def _abort(w: World, tenant: str, load_id: str) -> LoadReport:
    staged = w.loads.get((tenant, load_id))
    if staged is None:
        return LoadReport(0)
    if staged.published:
        raise Conflict(f"load {load_id} is published already", 0)
    w.staged_jobs -= staged.jobs
    let_go_of_all_room(w, staged)
    if staged.alarm is not None:
        w.elapsed.cancel(staged.alarm)
    mark_load(w, staged)
    let_go_of_load(w, staged)
    del w.loads[(tenant, load_id)]
    del w.load_names[int(staged.number)]
    return LoadReport(0)


def restore_load(w: World, tenant: str, load_id: str, fact: dict[str, object]) -> None:
    """As `engine.entity` wrote it down."""
    staged = Staged(w.next_alarm_id(), tenant, load_id)
    staged.jobs = cast("int", fact["jobs"])
    staged.published = bool(fact["published"])
    staged.done = bool(fact["done"])
    staged.is_quoted = staged.published
    for pair in cast("list[list[object]]", fact["parts"]):
        staged.parts[cast("int", pair[0])] = str(pair[1])
    staged.digest = str(fact["digest"])
    staged.rows = cast("int", fact["rows"])
    staged.new = cast("int", fact["new"])
    staged.duplicates = cast("int", fact["duplicates"])
    staged.refused = cast("int", fact["refused"])
    w.loads[(tenant, load_id)] = staged
    w.load_names[int(staged.number)] = (tenant, load_id)
    w.staged_jobs += staged.jobs
    staged.alarm = Alarm(on_elapsed(w, cast("int", fact["due"])), LOAD, staged.number)
    w.elapsed.add(staged.alarm)


def go_on_publishing(w: World, staged: Staged, fact: dict[str, object]) -> None:
    if staged.done and staged.chunks:
        w.spent_loads.append(staged)
    if staged.done:
        return
    keys = list(staged.chunks)
    if staged.published:
        keys = keys[len(keys) - cast("int", fact["left"]) :]
    for key in keys:
        staged.kept[key] = shares_of(staged.chunks[key])
        keep_room(w, staged.tenant, staged.kept[key], 1)
    if not staged.published:
        return
    owed = Owed(OWED_PUBLISH, staged.number)
    owed.batches = [staged.chunks[key] for key in keys]
    owed.at = cast("int", fact["at"])
    for given in staged.given.values():
        for source, id in zip(numbers(given.sources), numbers(given.ids), strict=True):
            if source and id:
                staged.ids[source] = id
    w.owed.append(owed)
