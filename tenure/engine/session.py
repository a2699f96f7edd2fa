"""Operation ids: a repeated request is answered as the first time, not executed again.

A session remembers the answers of its last 1,024 operations, each for 120 s. A counter that is older than what is
remembered is refused: it may have been executed, and nobody knows its answer any more. To be able to say so, the
session itself, without its answers, is remembered for a day after its last operation.
"""

from tenure.core.answer import Answers, Claimed
from tenure.core.error import InvalidRequest
from tenure.core.state import RUNNING
from tenure.core.tenant import OpId
from tenure.engine import journal
from tenure.engine.alarm import SESSION, Alarm
from tenure.engine.clock import lease_due, shown_lease_until
from tenure.engine.world import SESSION_KEPT_MS, SESSION_MS, SESSION_OPS, Owed, Session, World

ENQUEUE = "enqueue"
CLAIM = "claim"
SETTLE = "settle"
CHANGE = "change"
SWEEP = "change by filter"

SESSION_CHARS_MAX = 128


class NotSeen:
    """The operation is new."""


NOT_SEEN = NotSeen()


def look_up(w: World, tenant: str, op: OpId, verb: str) -> object:
    """The first answer, or NOT_SEEN. An id that named another verb's operation is refused: it answers nothing here."""
    if op.counter < 1:
        raise InvalidRequest("op_id", op.counter, "its counter must be 1 or more")
    if not 0 < len(op.session) <= SESSION_CHARS_MAX:
        raise InvalidRequest("op_id", op.session, f"its session must have 1 to {SESSION_CHARS_MAX} characters")
    name = f"{tenant}\n{op.session}"
    session = find_session(w, tenant, name)
    if session is None:
        return NOT_SEEN
    _trim(w, name, session)
    found = session.answers.get(op.counter)
    if found is not None:
        if found[2] and found[2] != verb:
            raise InvalidRequest(
                "op_id", op.counter, f"it named an operation of {found[2]}; take a new counter for every operation"
            )
        return found[0]
    if op.counter <= session.forgotten or op.counter <= session.newest - SESSION_OPS:
        raise InvalidRequest("op_id", op.counter, "it is too old to be repeated; ask for the state of the job instead")
    return NOT_SEEN


def look_up_each(w: World, tenant: str, op: OpId, verb: str, count: int) -> Answers | None:
    """The first answer of an operation that is answered item by item; it had as many items, or it was another one."""
    seen = look_up(w, tenant, op, verb)
    if seen is NOT_SEEN:
        return None
    assert isinstance(seen, Answers)
    if len(seen.ids) != count:
        rule = f"it named an operation on {len(seen.ids)} jobs, not {count}; take a new counter for every operation"
        raise InvalidRequest("op_id", op.counter, rule)
    return seen


def note(w: World, tenant: str, op: OpId, verb: str, answer: object) -> None:
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
    session.answers[op.counter] = (answer, int(w.elapsed_ms), verb)
    w.journal.mark((journal.SESSION, name))
    w.journal.mark((journal.OPERATION, name, op.counter))
    if len(session.answers) > SESSION_OPS:
        counter, _ = session.answers.popitem(last=False)
        session.forgotten = max(session.forgotten, counter)
        w.journal.mark((journal.OPERATION, name, counter))


def note_sweep(w: World, tenant: str, op: OpId, owed: Owed) -> None:
    """A change by filter goes on after its step: until it is done, its repeat is told to wait for the same ticket."""
    answers = Answers([], -1, None, 0, int(owed.id))
    owed.noted = (answers, (journal.OPERATION, f"{tenant}\n{op.session}", op.counter))
    note(w, tenant, op, SWEEP, answers)


def sweep_done(w: World, owed: Owed) -> None:
    if owed.noted is not None:
        answers, operation = owed.noted
        answers.count = int(owed.count)
        answers.ticket = 0
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
        if w.elapsed_ms - session.answers[counter][1] < SESSION_MS:
            return
        del session.answers[counter]
        session.forgotten = max(session.forgotten, counter)
        w.journal.mark((journal.SESSION, name))
        w.journal.mark((journal.OPERATION, name, counter))


def still_leased(w: World, claimed: Claimed) -> Claimed | None:
    """A repeated claim: the same leases as far as they live; None when none does."""
    again = Claimed(claimed.token)
    for at in range(len(claimed.ids)):
        job = w.index.get(claimed.ids[at])
        if job is None or job.state != RUNNING or job.lease is None or job.lease.token != claimed.token:
            continue
        again.ids.append(claimed.ids[at])
        blob = None if job.side is None else job.side.payload_blob
        if blob is not None or (claimed.blobs is not None and at in claimed.blobs):
            # As it is now: what the blob store had then may be gone.
            again.payloads.append(job.payload)
            if blob is not None:
                again.add_blob(len(again.ids) - 1, blob)
        else:
            again.payloads.append(claimed.payloads[at])
        again.options.append(claimed.options[at])
        again.tenants.append(claimed.tenants[at])
        again.attempts.append(claimed.attempts[at])
        again.lease_until.append(int(shown_lease_until(w, job.lease)))
        again.lease_ms.append(max(int(lease_due(w, job.lease) - w.served_ms), 0))
        again.extras.append(claimed.extras[at])
    return again if again.ids else None
