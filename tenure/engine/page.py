"""Pages of the checkpoint: 64 jobs as rows (`engine.facts`), and the same for people, as JSON.

The JSON of a page is a list with an entry per job: [id, spec, state, priority, attempt, run_at, created_at, started_at,
ended_at, payload bytes], and for a failed job [..., reason, error type, message, fingerprint]. `spec` counts in the
list of [tenant, queue, task] beside it; times are milliseconds since 1970, 0 for none.
"""

from zlib import crc32

import msgspec
from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from tenure.core.record import Failed
from tenure.core.state import FAILED
from tenure.engine.clock import shown_run_at
from tenure.engine.facts import Rows
from tenure.engine.index import PAGE
from tenure.engine.job import Job, Spec, payload_bytes
from tenure.engine.journal import PAGE_BITS
from tenure.engine.world import World

NO_ERROR = Failed()
_json = msgspec.json.Encoder().encode


def page_checksum(number: int, facts: bytes) -> int:
    return crc32(facts, crc32(number.to_bytes(8, "little")))


class Sheet:
    """One page as it is saved; without jobs it is to be dropped."""

    def __init__(self, number: int, facts: bytes, specs: bytes, shown: bytes) -> None:
        self.number = number
        self.facts = facts
        self.checksum = page_checksum(number, facts)
        self.specs = specs
        self.shown = shown


def sheet(w: World, number: i64) -> Sheet:
    first: i64 = number << PAGE_BITS
    size: i64 = 1
    size = size << PAGE_BITS
    jobs = w.index.peek_all(first, first + size - 1)
    if not jobs:
        return Sheet(int(number), b"", b"", b"")
    out = BytesWriter()
    rows = Rows(out, w.wall_ms)
    shown = BytesWriter()
    specs: dict[Spec, int] = {}
    for job in jobs:
        rows.add(job, True)
        shown.append(u8(44 if len(shown) else 91))  # , or [
        known = specs.get(job.spec, -1)
        if known < 0:
            known = len(specs)
            specs[job.spec] = known
        _show(shown, job, shown_run_at(w, job), known)
    shown.append(u8(93))
    rows.finish()
    names = [(spec.tenant_name, spec.options.queue, spec.options.task) for spec in specs]
    return Sheet(int(number), out.getvalue(), _json(names), shown.getvalue())


def _show(out: BytesWriter, job: Job, run_at: i64, spec: i64) -> None:
    out.append(u8(91))
    _digits(out, job.id)
    for number in (spec, i64(job.state), i64(job.priority), i64(job.attempt)):
        out.append(u8(44))
        _digits(out, number)
    for at in (run_at, job.created_at, job.started_at, job.ended_at, payload_bytes(job)):
        out.append(u8(44))
        _digits(out, at)
    if job.state == FAILED:
        side = job.side
        error = NO_ERROR if side is None or side.error is None else side.error
        out.append(u8(44))
        texts = _json([side.reason if side is not None else "", error.type, error.message, error.fingerprint])
        out.write(texts[1:-1])
    out.append(u8(93))


def _digits(out: BytesWriter, number: i64) -> None:
    if number < 0:
        out.append(u8(45))
        number = -number
    if number < 10:
        out.append(u8(48 + number))
        return
    scale: i64 = 10
    while number // scale >= 10:
        scale *= 10
    while scale > 0:
        out.append(u8(48 + number // scale % 10))
        scale = scale // 10


class OutcomeSheet:
    """How the removed jobs of 1,024 ids ended: a code each (state + 1, 0 for none), and whose they were."""

    def __init__(self, number: int, at_ms: int, tenants: list[str], codes: bytes, owners: bytes) -> None:
        self.number = number
        self.at_ms = at_ms
        self.tenants = tenants
        self.codes = codes
        self.owners = owners


def outcome_sheet(w: World, number: i64) -> OutcomeSheet:
    at_ms, codes, owners = w.outcomes.page(number)
    if not codes:
        return OutcomeSheet(int(number), 0, [], b"", b"")
    distinct: dict[int, int] = {}
    rows: list[int] = []
    for owner in owners:
        rows.append(distinct.setdefault(owner, len(distinct)))
    names = [w.tenants[owner].name if owner >= 0 else "" for owner in distinct]
    packed = b"" if len(names) <= 1 else b"".join(row.to_bytes(2, "little") for row in rows)
    assert len(codes) == PAGE
    return OutcomeSheet(int(number), int(at_ms), names, codes, packed)
