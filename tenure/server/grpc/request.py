"""From messages of gRPC to calls: the same commands and the same checks as behind every other door.

A translator knows nothing of who asks. It makes a `Call`, and says how the answer of the store becomes a message.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from msgspec import UNSET, Raw, UnsetType

from tenure.core import bound
from tenure.core.answer import Answers
from tenure.core.error import Error, InvalidRequest
from tenure.core.job import Extras, Options
from tenure.core.record import Ended, Failed, Past, Progress
from tenure.core.request import Batch
from tenure.server.grpc import response as say
from tenure.server.grpc import tenure_pb2 as pb
from tenure.wire import command as c
from tenure.wire.command import PULL_WAIT_MS, WAIT_MS, Command
from tenure.wire.format import MSGPACK_FORMAT
from tenure.wire.option import WireBackoff
from tenure.wire.speech import Call, Speech, merged
from tenure.wire.translate import TRANSLATORS
from tenure.wire.work import need_few, need_few_followups

CODEC = "json"
PAGE = 100
EVENTS_PAGE = 1_000
MARGIN_MS = 100  # of a deadline: an answer that nothing came is to arrive before it
PAST_PLAIN = tuple(
    name for name in Past.__struct_fields__ if name not in ("state", "progress", "result", "error", "history")
)
STREAMS: dict[int, type[c.GetLogs]] = {pb.STREAM_KIND_EMIT: c.ReadStream, pb.STREAM_KIND_LOG: c.GetLogs}
LISTS = {"limit_keys": tuple, "depends_on": list, "tags": list}


class Asking(NamedTuple):
    call: Call
    answer: Callable[[Any], Message]


Translator = Callable[[Speech, Any, int | None], Asking]  # with what is left of the deadline, in milliseconds


def call_of(s: Speech, command: Command) -> Call:
    return TRANSLATORS[type(command)](s, command)


# Jobs.


def wishes(options: pb.JobOptions) -> dict[str, Any]:
    """The fields that were given, by the core's names."""
    found: dict[str, Any] = {}
    for field, value in options.ListFields():
        name = field.name
        if name in LISTS:
            found[name] = LISTS[name](value)
        elif name == "metadata":
            found[name] = dict(value)
        elif name == "backoff":
            found[name] = backoff_of(value)
        elif name == "max_attempts":
            found[name] = value or None
        else:
            found[name] = value
    return found


def backoff_of(backoff: pb.Backoff) -> WireBackoff:
    made = WireBackoff(delays=tuple(backoff.delays_ms))
    for name, own in (("kind", "kind"), ("base_ms", "base"), ("factor", "factor"), ("cap_ms", "cap")):
        if backoff.HasField(name):
            setattr(made, own, getattr(backoff, name))
    return made


def batch_of(s: Speech, message: pb.Batch) -> tuple[Batch, dict[int, Error]]:
    """The jobs of a batch, and what is wrong with those that are left out of it."""
    jobs = message.jobs
    need_few("jobs", jobs)
    shared = {"codec": CODEC, **wishes(message.options)}
    if not any(job.HasField("options") for job in jobs):
        options, extras = s.job(shared, UNSET)
        return Batch(options, [job.payload for job in jobs], None if extras is None else [extras] * len(jobs)), {}
    payloads: list[bytes] = []
    all_extras: list[Extras | None] = []
    each: list[Options] = []
    wrong: dict[int, Error] = {}
    for at, job in enumerate(jobs):
        try:
            options, extras = s.job({**shared, **wishes(job.options)}, UNSET)
        except Error as error:
            wrong[at] = error
            continue
        payloads.append(job.payload)
        each.append(options)
        all_extras.append(extras)
    has_extras = any(extras is not None for extras in all_extras)
    return Batch(each[0] if each else Options(), payloads, all_extras if has_extras else None, each), wrong


def whole_batch_of(s: Speech, message: pb.Batch) -> Batch:
    batch, wrong = batch_of(s, message)
    if wrong:
        raise next(iter(wrong.values()))
    return batch


def nothing(_: Any) -> dict[str, Any]:
    return {}


def enqueue(s: Speech, m: pb.EnqueueRequest, left_ms: int | None) -> Asking:
    batch, wrong = batch_of(s, m.batch)
    if m.atomic and wrong:
        raise next(iter(wrong.values()))
    batch.atomic = m.atomic
    call = Call("enqueue", (batch,), nothing)
    if not wrong:
        return Asking(call, say.answers)
    count = len(m.batch.jobs)
    return Asking(call, lambda found: say.answers(merged(found, wrong, count)))


def load(s: Speech, m: pb.LoadRequest, left_ms: int | None) -> Asking:
    step = choice("step", pb.LoadStep, m.step, "LOAD_STEP_")
    parts = dict(m.parts) if m.parts else None
    asked = c.LoadJobs(
        load_id=m.load_id, step=step, part=m.part, writing=m.writing, chunk=m.chunk, parts=parts, digest=m.digest
    )
    call = call_of(s, asked)
    if m.HasField("batch"):
        need_few("pasts", m.pasts)
        batch = call.arguments[0].batch = whole_batch_of(s, m.batch)
        batch.pasts = [past_of(past) for past in m.pasts] or None
    return Asking(call, say.load_report)


def past_of(past: pb.Past) -> Past:
    fields: dict[str, Any] = {name: getattr(past, name) for name in PAST_PLAIN}
    if past.HasField("state"):
        fields["state"] = past.state
    if past.HasField("progress"):
        fields["progress"] = Progress(past.progress.percent, past.progress.message, past.progress.at)
    return Past(
        **fields,
        result=past.result if past.HasField("result") else None,
        error=failed_of(past),
        history=tuple(ended_of(attempt) for attempt in past.history),
    )


def failed_of(message: pb.Past | pb.Attempt | pb.Job) -> Failed | None:
    error = message.error
    return Failed(error.type, error.message, error.trace, error.fingerprint) if message.HasField("error") else None


def ended_of(m: pb.Attempt) -> Ended:
    return Ended(m.attempt, m.delivery, m.worker, m.started_at, m.ended_at, m.cause, failed_of(m))


def choice(field: str, names: Any, number: int, prefix: str) -> str:
    """The word for a value of an enum."""
    if number == 0 or number not in names.values():
        known = ", ".join(name for name, _ in names.items() if not name.endswith("_UNSPECIFIED"))
        raise InvalidRequest(field, number, f"it must be one of {known}")
    word: str = names.Name(number)
    return word.removeprefix(prefix).lower()


# Claim and settle.


def patience(wanted_ms: int | None, default_ms: int, left_ms: int | None) -> int:
    """How long to wait: as asked for, or as long as the deadline lets."""
    if left_ms is None:
        return default_ms if wanted_ms is None else wanted_ms
    most = max(left_ms - MARGIN_MS, 0)
    return min(most, bound.WAIT_MS_MAX) if wanted_ms is None else min(wanted_ms, most) if wanted_ms >= 0 else wanted_ms


def claim_of(s: Speech, wish: pb.Wish, count: int, wait_ms: int, worker: str, withdraw: bool = False) -> Call:
    pull = c.PullMany(
        queues=[(pick.name, pick.weight or 1) for pick in wish.queues],
        count=count,
        timeout=wait_ms,
        worker=worker,
        lease=wish.lease_ms,
        tasks=list(wish.tasks) or None,
        max_bytes=wish.max_bytes if wish.HasField("max_bytes") else UNSET,
        order="strict" if wish.strict else "weighted",
        packed=True,
        withdraw=withdraw,
    )
    return call_of(s, pull)


def claim(s: Speech, m: pb.ClaimRequest, left_ms: int | None) -> Asking:
    wait_ms = patience(m.wait_ms if m.HasField("wait_ms") else None, PULL_WAIT_MS, left_ms)
    return Asking(claim_of(s, m.wish, m.count or 1, wait_ms, m.wish.worker, m.withdraw), say.claimed)


def tokens_of(items: Sequence[pb.Settlement | pb.Held]) -> list[bytes] | None:
    """All of them or none."""
    return [item.token for item in items] if any(item.HasField("token") for item in items) else None


def failure_of(failure: pb.Failure) -> c.SettleFailure:
    delay_ms = -1
    if failure.HasField("retry_after_ms"):
        delay_ms = bound.as_int(bound.duration_ms("retry_after_ms", failure.retry_after_ms))
    return c.SettleFailure(
        failure.type, failure.message, failure.trace, not failure.permanent, failure.undecodable, delay_ms
    )


def settle(s: Speech, m: pb.SettleRequest, left_ms: int | None) -> Asking:
    verb = choice("verb", pb.SettleVerb, m.verb, "SETTLE_VERB_")
    items = m.items
    need_few("items", items)
    command = c.SettleMany(verb=verb, ids=[item.id for item in items], tokens=tokens_of(items), delay=m.delay_ms)
    command.pause_key = m.pause_key
    if verb == "fail":
        command.failures = [failure_of(item.failure) for item in items]
    if any(item.HasField("result") for item in items):
        command.results = [item.result if item.HasField("result") else None for item in items]
    call = call_of(s, command)
    if any(item.HasField("followups") for item in items):
        need_few_followups(sum(len(item.followups.jobs) for item in items))
        followups = [whole_batch_of(s, item.followups) if item.HasField("followups") else None for item in items]
        call.arguments[0].followups = followups
    return Asking(call, say.answers)


def _one(s: Speech, verb: pb.SettleVerb, item: pb.Settlement, delay_ms: int = 0, pause_key: str = "") -> Asking:
    request = pb.SettleRequest(verb=verb, items=[item], delay_ms=delay_ms, pause_key=pause_key)
    return Asking(settle(s, request, None).call, _only)


def _only(answers: Answers) -> pb.Outcome:
    outcome = answers.item(0)
    if outcome.error is not None:
        raise outcome.error
    return say.outcome(outcome)


def complete(s: Speech, m: pb.CompleteRequest, left_ms: int | None) -> Asking:
    item = pb.Settlement(
        id=m.id,
        token=m.token,
        result=m.result if m.HasField("result") else None,
        followups=m.followups if m.HasField("followups") else None,
    )
    return _one(s, pb.SETTLE_VERB_COMPLETE, item)


def fail(s: Speech, m: pb.FailRequest, left_ms: int | None) -> Asking:
    return _one(s, pb.SETTLE_VERB_FAIL, pb.Settlement(id=m.id, token=m.token, failure=m.failure))


def release(s: Speech, m: pb.ReleaseRequest, left_ms: int | None) -> Asking:
    return _one(s, pb.SETTLE_VERB_RELEASE, pb.Settlement(id=m.id, token=m.token), m.delay_ms, m.pause_key)


def snooze(s: Speech, m: pb.SnoozeRequest, left_ms: int | None) -> Asking:
    return _one(s, pb.SETTLE_VERB_SNOOZE, pb.Settlement(id=m.id, token=m.token), m.delay_ms)


def extend(s: Speech, m: pb.ExtendRequest, left_ms: int | None) -> Asking:
    need_few("jobs", m.jobs)
    ids = [job.id for job in m.jobs]
    tokens = tokens_of(m.jobs)
    return Asking(call_of(s, c.HeartbeatMany(ids=ids, tokens=tokens, lease=m.lease_ms, packed=True)), say.extended)


def append(s: Speech, m: pb.AppendRequest, left_ms: int | None) -> Asking:
    token = m.token if m.HasField("token") else None
    what = m.WhichOneof("what")
    command: Command
    if what == "progress":
        command = c.SetProgress(id=m.id, token=token, progress=m.progress.percent, message=m.progress.message)
    elif what == "log":
        command = c.WriteLog(id=m.id, token=token, message=m.log)
    elif what == "emit":
        command = c.Partial(id=m.id, token=token, data=binary(m.emit), codec="binary")
    else:
        raise InvalidRequest("what", None, "progress, log or emit is needed")
    return Asking(call_of(s, command), lambda found: pb.AppendResponse(offset=found))


def binary(data: bytes) -> Raw:
    return Raw(MSGPACK_FORMAT.encode(data))


# Reading.


def get(s: Speech, m: pb.GetRequest, left_ms: int | None) -> Asking:
    return Asking(call_of(s, c.GetJobs(ids=list(m.ids), custom_ids=list(m.custom_ids), packed=True)), say.found)


def which(m: pb.Filter) -> dict[str, Any]:
    return {
        "queue": m.queue,
        "state": list(m.states),
        "task": m.task,
        "tag": m.tag,
        "metadata": dict(m.metadata),
        "worker": m.worker,
        "error": m.error,
        "fingerprint": m.fingerprint,
        "reason": m.reason,
        "from_": m.created_from,
        "to": m.created_to,
        "ended_before": m.ended_before,
        "group": m.group,
        "custom_id_prefix": m.custom_id_prefix,
    }


def find(s: Speech, m: pb.FindRequest, left_ms: int | None) -> Asking:
    command = c.Find(**which(m.filter), limit=m.limit if m.HasField("limit") else PAGE, cursor=m.cursor, packed=True)
    return Asking(call_of(s, command), say.page)


def count(s: Speech, m: pb.CountRequest, left_ms: int | None) -> Asking:
    return Asking(call_of(s, c.OfQueue(queue=m.queue, packed=True)), say.counts)


def groups(s: Speech, m: pb.GroupsRequest, left_ms: int | None) -> Asking:
    return Asking(call_of(s, c.DeadGroups(queue=m.queue)), say.groups)


def explain(s: Speech, m: pb.ExplainRequest, left_ms: int | None) -> Asking:
    return Asking(call_of(s, c.Explain(id=m.id)), say.explanation)


def watch(s: Speech, m: pb.WatchRequest, left_ms: int | None) -> Asking:
    wait_ms = patience(m.wait_ms if m.HasField("wait_ms") else None, WAIT_MS, left_ms)
    return Asking(call_of(s, c.WaitJob(id=m.id, timeout=wait_ms, packed=True)), say.job)


def stream(s: Speech, m: pb.StreamRequest, left_ms: int | None) -> Asking:
    if m.kind not in STREAMS:
        raise InvalidRequest("kind", m.kind, "it must be one of " + ", ".join(pb.StreamKind.keys()))
    wait_ms = patience(m.wait_ms, 0, left_ms)
    limit = m.limit if m.HasField("limit") else PAGE
    command = STREAMS[m.kind](id=m.id, offset=m.offset, limit=limit, timeout=wait_ms, packed=True)
    return Asking(call_of(s, command), say.items)


def events(s: Speech, m: pb.EventsRequest, cursor: str, wait_ms: int) -> Call:
    """A page of them."""
    limit = m.limit if m.HasField("limit") else EVENTS_PAGE
    return call_of(s, c.ReadEvents(after=cursor, limit=limit, timeout=wait_ms))


# Operators.


def change(s: Speech, m: pb.ChangeRequest, left_ms: int | None) -> Asking:
    action = choice("action", pb.Action, m.action, "ACTION_")
    if m.ids and m.HasField("filter"):
        raise InvalidRequest("ids", list(m.ids[:3]), "either ids or a filter says which jobs are meant")
    fields: dict[str, Any] = {
        "ids": None if m.HasField("filter") else list(m.ids),
        "filter": c.Which(**which(m.filter)) if m.HasField("filter") else None,
        "limit": m.limit,
        "reason": m.reason,
        "packed": True,
    }
    if action in ("update", "clone", "replay"):
        fields.update(_rewritten(m))
    return Asking(call_of(s, _command_of(action, m, fields)), say.answers)


def _command_of(action: str, m: pb.ChangeRequest, fields: dict[str, Any]) -> Command:
    if action == "priority":
        return c.ChangePriority(priority=m.priority, **fields)
    if action == "delay":
        delay: int | UnsetType = m.delay_ms if m.HasField("delay_ms") else UNSET
        return c.MoveToDelayed(delay=delay, run_at=m.run_at if m.HasField("run_at") else UNSET, **fields)
    if action == "replay":
        return c.RetryDead(rate=m.rate, **fields)
    return ACTIONS[action](**fields)


ACTIONS: dict[str, Callable[..., Command]] = {
    "cancel": c.Cancel,
    "discard": c.Discard,
    "promote": c.Promote,
    "update": c.UpdateJob,
    "clone": c.Clone,
    "remove": c.Remove,
}


def _rewritten(m: pb.ChangeRequest) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if m.HasField("payload"):
        fields.update(data=binary(m.payload), codec="binary")
    if m.HasField("metadata"):
        fields["metadata"] = dict(m.metadata.entries)
    if m.HasField("tags"):
        fields["tags"] = list(m.tags.values)
    return fields


def configure(s: Speech, m: pb.ConfigureRequest, left_ms: int | None) -> Asking:
    subject = choice("subject", pb.Subject, m.subject, "SUBJECT_")
    changes = plain_struct(m.changes)
    command: Command
    if subject == "queue":
        command = c.Settings(queue=m.name, changes=changes)
    elif subject == "key":
        command = c.Limit(key=m.name, changes=changes)
    elif subject == "tenant":
        command = c.Tenant(tenant=m.header.tenant, name=m.name or UNSET, changes=changes)
    elif subject == "store":
        command = c.StoreSettings(changes=changes)
    elif subject == "task":
        command = c.Workers(task=m.name, changes=changes)
    else:
        command = c.Workers(name=m.name or "*", changes=changes)
    call = call_of(s, command)
    return Asking(call, lambda found: pb.ConfigureResponse(settings=say.struct(call.answer(found)["settings"])))


def plain_struct(struct: Struct) -> dict[str, Any]:
    return {name: plain(value) for name, value in struct.fields.items()}


def plain(value: Value) -> Any:
    """Numbers of a Struct have a fraction; whole ones are meant as such."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return [plain(item) for item in value.list_value.values]
    return None if kind is None or kind == "null_value" else getattr(value, kind)


UNARY: dict[str, Translator] = {
    "Enqueue": enqueue,
    "Load": load,
    "Claim": claim,
    "Settle": settle,
    "Complete": complete,
    "Fail": fail,
    "Release": release,
    "Snooze": snooze,
    "Extend": extend,
    "Append": append,
    "Get": get,
    "Find": find,
    "Count": count,
    "Groups": groups,
    "Explain": explain,
    "Watch": watch,
    "Stream": stream,
    "Change": change,
    "Configure": configure,
}
