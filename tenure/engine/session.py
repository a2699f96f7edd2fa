"""Operation ids: a repeated request is answered as the first time, not executed again.

A session remembers the answers of its last 1,024 operations, each for 120 s. Payloads are left out: a client may claim
thousands of jobs at once, and a remembered claim must not keep them in memory. A counter that is older than what is
remembered is refused: it may have been executed, and its answer is not known any more. To be able to say so, the
session itself, without its answers, is remembered for a day after its last operation.
"""

from librt.strings import BytesWriter
from mypy_extensions import i64

from tenure.core.answer import Answers, Claimed
from tenure.core.bound import ID_MAX
from tenure.core.error import InvalidRequest
from tenure.core.state import RUNNING
from tenure.core.tenant import OpId
from tenure.engine import journal
from tenure.engine.alarm import SESSION, Alarm
from tenure.engine.clock import lease_due, shown_lease_until
from tenure.engine.code import Cursor, put
from tenure.engine.world import SESSION_KEPT_MS, SESSION_MS, SESSION_OPS, Owed, Remembered, Session, World

ENQUEUE = "enqueue"
CLAIM = "claim"
SETTLE = "settle"
CHANGE = "change"
SWEEP = "change by filter"

SESSION_CHARS_MAX = 128


def look_up(w: World, tenant: str, op: OpId, verb: str) -> Remembered | None:
    """What is remembered of the operation. An id that named another verb's operation is refused: it answers nothing
    here."""
    if op.counter < 1:
        raise InvalidRequest("op_id", op.counter, "its counter must be 1 or more")
    if not 0 < len(op.session) <= SESSION_CHARS_MAX:
        raise InvalidRequest("op_id", op.session, f"its session must have 1 to {SESSION_CHARS_MAX} characters")
    name = f"{tenant}\n{op.session}"
    session = find_session(w, tenant, name)
    if session is None:
        return None
    _trim(w, name, session)
    found = session.answers.get(op.counter)
    if found is not None:
        if found.verb and found.verb != verb:
            raise InvalidRequest(
                "op_id", op.counter, f"it named an operation of {found.verb}; take a new counter for every operation"
            )
        return found
    if op.counter <= session.forgotten or op.counter <= session.newest - SESSION_OPS:
        raise InvalidRequest("op_id", op.counter, "it is too old to be repeated; ask for the state of the job instead")
    return None


def look_up_each(w: World, tenant: str, op: OpId, verb: str, count: int) -> Answers | None:
    """The first answer of an operation that is answered item by item; it had as many items, or it was another one."""
    seen = look_up(w, tenant, op, verb)
    if seen is None:
        return None
    ids = unpack_ids(seen.ids)
    if len(ids) != count:
        rule = f"it named an operation on {len(ids)} jobs, not {count}; take a new counter for every operation"
        raise InvalidRequest("op_id", op.counter, rule)
    return Answers(ids, int(seen.state), seen.other, int(seen.count), int(seen.ticket))


def note(w: World, tenant: str, op: OpId, verb: str, answers: Answers) -> Remembered:
    remembered = Remembered(verb, w.elapsed_ms, pack_ids(answers.ids), b"")
    remembered.state = answers.state
    remembered.other = answers.other
    remembered.count = answers.count
    remembered.ticket = answers.ticket
    _remember(w, tenant, op, remembered)
    return remembered


def note_claim(w: World, tenant: str, op: OpId, claimed: Claimed) -> None:
    _remember(w, tenant, op, Remembered(CLAIM, w.elapsed_ms, pack_ids(claimed.ids), claimed.token))


def _remember(w: World, tenant: str, op: OpId, remembered: Remembered) -> None:
    name = f"{tenant}\n{op.session}"
    session = find_session(w, tenant, name)
    if session is None:
        _make_room(w, tenant)
        session = Session(w.next_alarm_id())
        add_session(w, name, session)
        w.elapsed.add(Alarm(w.elapsed_ms + SESSION_KEPT_MS, SESSION, session.number))
    session.last_at = w.elapsed_ms
    session.newest = max(session.newest, op.counter)
    session.answers.pop(op.counter, None)  # a claim made anew is the newest again
    session.answers[op.counter] = remembered
    w.journal.mark((journal.SESSION, name))
    w.journal.mark((journal.OPERATION, name, op.counter))
    if len(session.answers) > SESSION_OPS:
        counter, _ = session.answers.popitem(last=False)
        session.forgotten = max(session.forgotten, counter)
        w.journal.mark((journal.OPERATION, name, counter))


def pack_ids(ids: list[int]) -> bytes:
    """Runs of consecutive ids as varints: the first id and the count. An id that no job can have is stored as 0."""
    out = BytesWriter()
    first: i64 = 0
    count: i64 = 0
    for given in ids:
        id: i64 = given if 0 < given <= ID_MAX else 0
        if count > 0 and first > 0 and id == first + count:
            count += 1
            continue
        if count > 0:
            put(out, first)
            put(out, count)
        first = id
        count = 1
    if count > 0:
        put(out, first)
        put(out, count)
    return out.getvalue()


def unpack_ids(packed: bytes) -> list[int]:
    ids: list[int] = []
    cursor = Cursor(packed, 0)
    end: i64 = len(packed)
    while cursor.pos < end:
        first: i64 = cursor.number()
        count: i64 = cursor.number()
        ids.extend(range(int(first), int(first + count)))
    return ids


def note_sweep(w: World, tenant: str, op: OpId, owed: Owed) -> None:
    """A change by filter goes on after its step: until it is done, its repeat is told to wait for the same ticket."""
    remembered = note(w, tenant, op, SWEEP, Answers([], -1, None, 0, int(owed.id)))
    owed.noted = (remembered, (journal.OPERATION, f"{tenant}\n{op.session}", op.counter))


def sweep_done(w: World, owed: Owed) -> None:
    if owed.noted is not None:
        remembered, operation = owed.noted
        remembered.count = owed.count
        remembered.ticket = 0
        w.journal.mark(operation)


def find_session(w: World, tenant: str, name: str) -> Session | None:
    own = w.sessions.get(tenant)
    return None if own is None else own.get(name)


def add_session(w: World, name: str, session: Session) -> None:
    w.sessions.setdefault(tenant_of(name), {})[name] = session
    w.session_names[int(session.number)] = name


def tenant_of(name: str) -> str:
    """Of the session with this name: the tenant, and behind a line feed what the client called it."""
    return name.partition("\n")[0]


def _make_room(w: World, tenant: str) -> None:
    """For one more session: a tenant at its bound loses its oldest. At the bound of the store one that has more than
    an even share does, and else the one that has most."""
    own = w.sessions.get(tenant)
    count = 0 if own is None else len(own)
    if count >= w.sessions_per_tenant_max:
        _forget_oldest(w, tenant)
    elif len(w.session_names) >= w.sessions_max:
        if count * len(w.sessions) > len(w.session_names):
            _forget_oldest(w, tenant)
        else:
            _forget_oldest(w, max(w.sessions, key=lambda name: len(w.sessions[name])))


def _forget_oldest(w: World, tenant: str) -> None:
    forget_session(w, next(iter(w.sessions[tenant])))


def forget_session(w: World, name: str) -> None:
    tenant = tenant_of(name)
    own = w.sessions[tenant]
    session = own.pop(name)
    if not own:
        del w.sessions[tenant]
    del w.session_names[int(session.number)]
    w.journal.mark((journal.SESSION, name))
    for counter in session.answers:
        w.journal.mark((journal.OPERATION, name, counter))


def _trim(w: World, name: str, session: Session) -> None:
    while session.answers:
        counter = next(iter(session.answers))
        if w.elapsed_ms - session.answers[counter].at_ms < SESSION_MS:
            return
        del session.answers[counter]
        session.forgotten = max(session.forgotten, counter)
        w.journal.mark((journal.SESSION, name))
        w.journal.mark((journal.OPERATION, name, counter))


def still_leased(w: World, seen: Remembered) -> Claimed | None:
    """A repeated claim: the same leases as far as they live, with the jobs as they are now; None when none does."""
    again = Claimed(seen.token)
    for id in unpack_ids(seen.ids):
        job = w.index.get(id)
        if job is None or job.state != RUNNING or job.lease is None or job.lease.token != seen.token:
            continue
        side = job.side
        if side is not None and side.payload_blob is not None:
            again.add_blob(len(again.ids), side.payload_blob)
        again.ids.append(id)
        again.payloads.append(job.payload)
        again.options.append(job.spec.options)
        again.tenants.append(job.spec.tenant_name)
        again.attempts.append(int(job.attempt))
        again.lease_until.append(int(shown_lease_until(w, job.lease)))
        again.lease_ms.append(max(int(lease_due(w, job.lease) - w.served_ms), 0))
        again.extras.append(None if side is None else side.extras)
    return again if again.ids else None
