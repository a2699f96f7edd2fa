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

SESSIONS_MAX = 1_000_000
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
    session = w.sessions.get(f"{tenant}\n{op.session}")
    if session is None:
        return NOT_SEEN
    _trim(w, f"{tenant}\n{op.session}", session)
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


def note(w: World, tenant: str, op: OpId, verb: str, answer: object) -> None:
    name = f"{tenant}\n{op.session}"
    session = w.sessions.get(name)
    if session is None:
        if len(w.sessions) >= SESSIONS_MAX:
            forget_session(w, next(iter(w.sessions)))
        session = Session(w.next_alarm_id())
        w.sessions[name] = session
        w.session_names[int(session.number)] = name
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
    note(w, tenant, op, CHANGE, answers)


def sweep_done(w: World, owed: Owed) -> None:
    if owed.noted is not None:
        answers, operation = owed.noted
        answers.count = int(owed.count)
        answers.ticket = 0
        w.journal.mark(operation)


def forget_session(w: World, name: str) -> None:
    session = w.sessions.pop(name)
    w.session_names.pop(int(session.number), None)
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
