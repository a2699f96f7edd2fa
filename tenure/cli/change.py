"""Changing jobs, by ids or by a filter: asked first when it may be many, and told what became of each."""

import sys
from collections.abc import Iterator

from tenure.cli.field import error_fields
from tenure.cli.screen import ask, show_count, show_error, show_json, show_line
from tenure.cli.session import Session
from tenure.core import request
from tenure.core.error import Conflict, Error, InvalidRequest, JobNotFound
from tenure.core.record import JobRecord
from tenure.core.request import Change, Filter
from tenure.core.state import STATE_NAMES

DONE = {
    request.CANCEL: "cancelled",
    request.PROMOTE: "promoted",
    request.REPLAY: "replayed",
    request.REMOVE: "removed",
    request.CLONE: "cloned",
}
PAGE = 1_000
COUNTED_MAX = 10_000


def find_job(session: Session, text: str) -> JobRecord:
    """By id or, if there is no such job, by custom id."""
    if text.isascii() and text.isdigit() and len(text) <= 16:
        try:
            return session.client.get(int(text))
        except JobNotFound:
            pass
    return session.client.get(text)


def change_ids(session: Session, change: Change, ids: list[str], only: str = "") -> None:
    """Each on its own, and `only` those in that state; exits with 1 when one was refused."""
    client = session.of_one_tenant()
    refused = False
    for text in ids:
        try:
            job = find_job(session, text)
            if only and job.state != only:
                raise Conflict(f"job {job.id} is {job.state}, not {only}", job.id)
            change.ids = [job.id]
            outcome = client.change_batch(change).item(0)
            if outcome.error is not None:
                raise outcome.error
            _show_changed(session, change.action, job.id, outcome.id, STATE_NAMES[outcome.state])
        except Error as error:
            refused = True
            if session.as_json:
                show_json({"job": text, "error": error_fields(error)})
            else:
                show_error(str(error))
    if refused:
        sys.exit(1)


def _show_changed(session: Session, action: int, id: int, new_id: int, state: str) -> None:
    if session.as_json:
        found: dict[str, object] = {"id": id, "action": request.ACTION_NAMES[action]}
        if action == request.CLONE:
            found["clone"] = new_id
        show_json(found if action == request.REMOVE else {**found, "state": state})
    elif action == request.CLONE:
        show_line(f"cloned {id} as {new_id}, {state}", "green")
    elif action == request.REMOVE:
        show_line(f"removed {id}", "green")
    else:
        show_line(f"{DONE[action]} {id}, now {state}", "green")


def change_all(session: Session, change: Change, yes: bool, which: str = "") -> None:
    """All that match. `which` tells a person which those are."""
    client = session.of_one_tenant()
    assert change.filter is not None
    verb = request.ACTION_NAMES[change.action]
    if not yes:
        found = count_matching(session, change.filter)
        confirm(session, f"{verb} {found}{which}?")
    count = client.change_batch(change).count
    if session.as_json:
        show_json({"action": verb, "count": count})
    else:
        show_line(f"{DONE[change.action]} {show_count(count, 'job')}{which}", "green" if count else "")


def confirm(session: Session, question: str) -> None:
    """Ends the command when it is not meant."""
    if session.as_json:
        raise InvalidRequest("yes", False, "a program is not asked; say --yes")
    if ask(f"{question} [y/N] ").lower() not in ("y", "yes"):
        show_error("nothing was changed")
        sys.exit(1)


def count_matching(session: Session, filter: Filter) -> str:
    found = 0
    for _ in matching(session, filter):
        found += 1
        if found > COUNTED_MAX:
            return f"more than {COUNTED_MAX:,} jobs"
    return show_count(found, "job")


def matching(session: Session, filter: Filter) -> Iterator[JobRecord]:
    cursor = ""
    while True:
        page = session.client.find(filter, PAGE, cursor)
        yield from page.jobs
        cursor = page.cursor
        if not cursor:
            return


def describe_filter(filter: Filter) -> str:
    """In words, for the question and the answer."""
    states = [name for code, name in enumerate(STATE_NAMES) if filter.states & 1 << code]
    words = [f"queue {filter.queue}"] if filter.queue else []
    words += [" or ".join(states)] if 0 < len(states) < len(STATE_NAMES) else []
    for name in ("task", "tag", "worker", "error", "fingerprint", "reason"):
        given = getattr(filter, name)
        words += [f"{name} {given}"] if given else []
    return f" ({', '.join(words)})" if words else ""


def ids_or_filter(ids: list[str] | None, filter: Filter | None) -> None:
    """Exactly one of them says which jobs are meant."""
    if ids and filter is not None:
        raise InvalidRequest("ids", ids[0], "either ids or a filter says which jobs are meant, not both")
    if not ids and filter is None:
        raise InvalidRequest("ids", "", "name jobs by their ids, or by a filter such as --queue")
