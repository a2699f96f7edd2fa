"""Workers that have shown a sign of life in the last minute, and what they say of themselves.

A worker belongs to the tenant of the context in which it showed up; two tenants may have workers of the same name. It
serves the tenants that its claims may take from. Nothing of this is written down: after a restart whoever lives shows
another sign. Number and bytes are bounded, per tenant and for the store: past that a registration is refused, and a
claim goes on without its worker being listed.
"""

from typing import Final

from mypy_extensions import i64

from tenure.core import bound, event
from tenure.core.error import InvalidRequest, Overloaded
from tenure.core.job import Options
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.alarm import WORKER, Alarm
from tenure.engine.job import Spec
from tenure.engine.world import WORKER_SILENT_MS, Roster, Tenant, Worker, World

NOTHING: Final[tuple[tuple[str, ...], str]] = ((), "")  # said of tasks and their options
PUBLISHED_TEXTS_MAX: Final = 10  # of one task, of the workers that joined last


def configure_worker(w: World, context: Context, name: str, changes: dict[str, object]) -> dict[str, object]:
    """What a worker says of itself, or an operator tells it. Without changes it only reads: empty, if there is none."""
    bound.worker_name("worker", name)
    if not name:
        raise InvalidRequest("worker", name, "a worker that says something of itself needs a name")
    checked = bound.check_fields(bound.WORKER_RULES, changes)
    known = _find(w, context.tenant, name)
    if not changes:
        return {} if known is None else _record(known)
    if checked.get("leaving"):
        if known is not None:
            lose_worker(w, known)
        return {}
    if "stop" in checked:
        if known is not None:
            known.stop = bool(checked["stop"])
            return _record(known)
        if not checked["stop"]:
            return {}
        raise InvalidRequest("worker", name, "no worker of that name has shown a sign of life")
    return _record(_register(w, context, name, checked))


def _find(w: World, tenant: str, name: str) -> Worker | None:
    roster = w.rosters.get(tenant)
    return None if roster is None else roster.workers.get(name)


def _register(w: World, context: Context, name: str, checked: dict[str, object]) -> Worker:
    known = _find(w, context.tenant, name)
    version = "" if known is None else known.version
    tasks: tuple[str, ...] = () if known is None else known.tasks
    published = "" if known is None else known.published
    if "version" in checked:
        version = str(checked["version"])
    if "tasks" in checked:
        given = checked["tasks"]
        assert isinstance(given, tuple)
        tasks = tuple(str(task) for task in given)
    if "published" in checked:
        published = str(checked["published"])
    t = w.tenant(context.tenant)
    roster = w.rosters.get(t.name) or Roster()
    if known is None:
        _need_room(w, t, roster)
    grown = _growth(roster, known, name, version, (tasks, published))
    _need_bytes(w, t, roster, grown)
    worker = _join(w, t, name) if known is None else known
    roster = w.rosters[t.name]
    _speak(roster, worker, version, (tasks, published))
    roster.bytes += grown
    w.worker_bytes += grown
    _serve(w, worker, context)
    _is_alive(w, worker)
    return worker


def see_worker(w: World, context: Context, name: str) -> None:
    """A worker shows a sign of life by a claim. It is not listed where there is no room for another."""
    worker = _find(w, context.tenant, name)
    if worker is not None:
        _is_alive(w, worker)
        return
    try:
        _register(w, context, name, {})
    except Overloaded:
        pass


def _is_alive(w: World, worker: Worker) -> None:
    worker.seen_at = w.at_ms
    worker.seen_elapsed = w.served_ms


def _join(w: World, t: Tenant, name: str) -> Worker:
    """A worker that has said nothing yet."""
    alarm = Alarm(w.served_ms + WORKER_SILENT_MS, WORKER, w.next_alarm_id())
    worker = Worker(t.name, name, w.at_ms, alarm)
    roster = w.rosters.get(t.name)
    if roster is None:
        roster = Roster()
        w.rosters[t.name] = roster
    roster.workers[name] = worker
    roster.said[NOTHING] = roster.said.get(NOTHING, 0) + 1
    w.workers[int(alarm.id)] = worker
    w.served.add(alarm)
    w.log.notice(None, event.WORKER_JOINED, 0, _spec(t), name, {})
    return worker


def _spec(t: Tenant) -> Spec:
    """What an event says of where it happened: the tenant alone."""
    return Spec(Options(queue="", task=""), int(t.number), t.name, 0)


def miss_worker(w: World, alarm: Alarm) -> None:
    """Its alarm rang: it has been silent for a minute, or the alarm is set to when it will have been."""
    worker = w.workers[int(alarm.id)]
    due = worker.seen_elapsed + WORKER_SILENT_MS
    if due > w.served_ms:
        worker.alarm = Alarm(due, WORKER, alarm.id)
        w.served.add(worker.alarm)
    else:
        lose_worker(w, worker)


def lose_worker(w: World, worker: Worker) -> None:
    roster = w.rosters[worker.tenant]
    freed = _bytes_of(worker.name) + _bytes_of(worker.version)
    if roster.said[(worker.tasks, worker.published)] == 1:
        freed += _said_bytes((worker.tasks, worker.published))
    _forget_said(roster, (worker.tasks, worker.published))
    del roster.workers[worker.name]
    roster.bytes -= freed
    w.worker_bytes -= freed
    if not roster.workers:
        del w.rosters[worker.tenant]
    w.served.cancel(worker.alarm)
    del w.workers[int(worker.alarm.id)]
    w.serving.pop(int(worker.alarm.id), None)
    spec = _spec(w.tenant(worker.tenant))
    w.log.notice(None, event.WORKER_LEFT, 0, spec, worker.name, {"version": worker.version})


# Room. Tasks and published options count once for all workers of a tenant that say the same, as those of one app do.


def _has_room(w: World, t: Tenant, roster: Roster) -> bool:
    return len(roster.workers) < t.workers_max and len(w.workers) < w.workers_max


def _has_bytes(w: World, t: Tenant, roster: Roster, grown: i64) -> bool:
    return grown <= 0 or (roster.bytes + grown <= t.worker_bytes_max and w.worker_bytes + grown <= w.worker_bytes_max)


def _need_room(w: World, t: Tenant, roster: Roster) -> None:
    if _has_room(w, t, roster):
        return
    whose = "tenant" if len(roster.workers) >= t.workers_max else "store"
    raise Overloaded(f"the {whose}'s list of workers (raise its workers_max, or use fewer names)", WORKER_SILENT_MS)


def _need_bytes(w: World, t: Tenant, roster: Roster, grown: i64) -> None:
    if _has_bytes(w, t, roster, grown):
        return
    whose = "tenant" if roster.bytes + grown > t.worker_bytes_max else "store"
    raise Overloaded(
        f"the {whose}'s room for what workers say of themselves (raise its worker_bytes_max, or publish less)",
        WORKER_SILENT_MS,
    )


def _growth(roster: Roster, known: Worker | None, name: str, version: str, said: tuple[tuple[str, ...], str]) -> i64:
    """By how many bytes the roster grows when the worker says this."""
    more: i64 = 0
    if said not in roster.said:
        more = _said_bytes(said)
    if known is None:
        return _bytes_of(name) + _bytes_of(version) + more
    before = (known.tasks, known.published)
    less: i64 = 0
    if said != before and roster.said[before] == 1:
        less = _said_bytes(before)
    return _bytes_of(version) - _bytes_of(known.version) + more - less


def _speak(roster: Roster, worker: Worker, version: str, said: tuple[tuple[str, ...], str]) -> None:
    _forget_said(roster, (worker.tasks, worker.published))
    worker.version = version
    worker.tasks, worker.published = said
    roster.said[said] = roster.said.get(said, 0) + 1


def _forget_said(roster: Roster, said: tuple[tuple[str, ...], str]) -> None:
    left = roster.said[said] - 1
    if left:
        roster.said[said] = left
    else:
        del roster.said[said]


def _said_bytes(said: tuple[tuple[str, ...], str]) -> i64:
    size = _bytes_of(said[1])
    for task in said[0]:
        size += _bytes_of(task)
    return size


def _bytes_of(text: str) -> i64:
    return len(text.encode())


# Whom they serve.


def _serve(w: World, worker: Worker, context: Context) -> None:
    """Those that the context may claim from."""
    worker.tenants = context.tenants or (context.tenant,)
    if worker.tenants == (worker.tenant,):
        w.serving.pop(int(worker.alarm.id), None)
    else:
        w.serving[int(worker.alarm.id)] = worker


def read_published(w: World, context: Context, task: str) -> dict[str, object]:
    """What is published of a task: by the tenant's own workers, else by those of other tenants that serve it too."""
    bound.name("task", task)
    roster = w.rosters.get(context.tenant)
    own: list[Worker] = [] if roster is None else list(roster.workers.values())
    texts = _published(own, task)
    if not texts:
        others = [
            worker for worker in w.serving.values() if ANY_TENANT in worker.tenants or context.tenant in worker.tenants
        ]
        texts = _published(others, task)
    return {"published": texts}


def _published(workers: list[Worker], task: str) -> list[str]:
    """Each text once, that of the worker that joined last first."""
    knowing = [worker for worker in workers if worker.published and task in worker.tasks]
    knowing.sort(key=lambda worker: (-int(worker.joined_at), -int(worker.alarm.id)))
    texts: list[str] = []
    for worker in knowing:
        if worker.published not in texts:
            texts.append(worker.published)
            if len(texts) == PUBLISHED_TEXTS_MAX:
                break
    return texts


# Reading.


def read_workers(w: World, context: Context) -> dict[str, object]:
    """Those of the tenant by name; of several tenants by tenant and name, as in `acme/web-1`."""
    if not context.tenants:
        roster = w.rosters.get(context.tenant)
        return {} if roster is None else {name: _record(worker) for name, worker in roster.workers.items()}
    everyone = ANY_TENANT in context.tenants
    return {
        f"{worker.tenant}/{worker.name}": _record(worker)
        for worker in w.workers.values()
        if everyone or worker.tenant in context.tenants
    }


def _record(worker: Worker) -> dict[str, object]:
    return {
        "name": worker.name,
        "tenant": worker.tenant,
        "tenants": list(worker.tenants),
        "version": worker.version,
        "tasks": list(worker.tasks),
        "published": worker.published,
        "stop": worker.stop,
        "joined_at": int(worker.joined_at),
        "seen_at": int(worker.seen_at),
    }
