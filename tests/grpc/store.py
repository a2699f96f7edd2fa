"""A store behind gRPC: every verb of the contract is a method of the service."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from msgspec import structs

from tenure.client.remote import RemoteStore
from tenure.core import request as r
from tenure.core.answer import Answers, Claimed, Extended, Outcome
from tenure.core.bound import EXTRA_RULES, make_extras, make_options
from tenure.core.clock import Now
from tenure.core.error import Error, InvalidRequest, from_fields
from tenure.core.record import (
    BlobRecord,
    DeadLetterGroup,
    Event,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadedRow,
    LoadReport,
    Past,
    Progress,
    StreamItem,
)
from tenure.core.state import READY, STATE_NAMES
from tenure.core.tenant import Context
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.request import PAST_PLAIN, ended_of, failed_of, plain_struct, wishes
from tenure.server.grpc.response import JOB_PLAIN, attempt, failed, job_options, struct
from tenure.store.contract import Capabilities
from tenure.wire import verb as wire_verb
from tenure.wire.format import MSGPACK_FORMAT
from tenure.wire.option import backoff_of, extra_fields, fields_of
from tenure.wire.value import sendable
from tests.grpc.rig import UNBOUNDED, Stub

STATES = {name: code for code, name in enumerate(STATE_NAMES)}


# What is asked.


def header(context: Context) -> pb.Header:
    found = wire_verb.header(context)
    return pb.Header(
        tenant=found.get("tenant", ""),
        tenants=found.get("tenants", ()),
        op_id=found.get("opId", ""),
        durability=found.get("durability", ""),
    )


def batch_of(batch: r.Batch) -> pb.Batch:
    wire_verb.VERBS["enqueue"].ask(MSGPACK_FORMAT, batch)  # what it refuses cannot be said
    jobs: list[pb.NewJob] = []
    for at, payload in enumerate(batch.payloads):
        assert isinstance(payload, bytes)
        fields: dict[str, Any] = {} if batch.each is None else fields_of(batch.each[at])
        extras = batch.extra(at)
        if extras is not None:
            fields.update(extra_fields(extras))
        jobs.append(pb.NewJob(payload=payload, options=job_options(fields) if fields else None))
    shared = job_options(fields_of(batch.options)) if batch.each is None else None
    return pb.Batch(options=shared, jobs=jobs)


def filter_of(filter: r.Filter) -> pb.Filter:
    states = [name for code, name in enumerate(STATE_NAMES) if filter.states & 1 << code]
    names = [field.name for field in pb.Filter.DESCRIPTOR.fields if field.name not in ("states", "metadata")]
    plain: dict[str, Any] = {name: getattr(filter, name) for name in names}
    return pb.Filter(**plain, states=states, metadata=dict(filter.metadata))


def claim(claim: r.Claim) -> Message:
    wish = pb.Wish(
        queues=[pb.QueuePick(name=pick.name, weight=pick.weight) for pick in claim.queues],
        tasks=sorted(claim.tasks or ()),
        worker=claim.worker,
        lease_ms=claim.lease_ms,
        strict=claim.strict,
        max_bytes=claim.max_bytes,
    )
    return pb.ClaimRequest(wish=wish, count=claim.n, wait_ms=claim.wait_ms, withdraw=claim.withdraw)


def settle(settle: r.Settle) -> Message:
    items: list[pb.Settlement] = []
    for name in ("tokens", "results", "failures", "followups"):
        need_one_each(name, getattr(settle, name), len(settle.ids))
    for at, id in enumerate(sendable(settle.ids)):
        item = pb.Settlement(id=id, token=None if settle.tokens is None else settle.tokens[at])
        if settle.results is not None and settle.results[at] is not None:
            item.result = settle.results[at]  # type: ignore[assignment]
        if settle.failures is not None:
            failure = settle.failures[at]
            item.failure.CopyFrom(
                pb.Failure(
                    type=failure.type,
                    message=failure.message,
                    trace=failure.trace,
                    permanent=not failure.retryable,
                    undecodable=failure.undecodable,
                    retry_after_ms=None if failure.delay_ms < 0 else failure.delay_ms,
                )
            )
        followups = None if settle.followups is None else settle.followups[at]
        if followups is not None:
            item.followups.CopyFrom(batch_of(followups))
        items.append(item)
    name = wire_verb.SETTLE_NAMES[settle.verb].upper()
    verb = f"SETTLE_VERB_{name}"
    return pb.SettleRequest(verb=verb, items=items, delay_ms=settle.delay_ms, pause_key=settle.pause_key)


def extend(extend: r.Extend) -> Message:
    need_one_each("tokens", extend.tokens, len(extend.ids))
    tokens: Sequence[bytes | None] = extend.tokens or [None] * len(extend.ids)
    held = [pb.Held(id=id, token=token) for id, token in zip(extend.ids, tokens, strict=True)]
    return pb.ExtendRequest(jobs=held, lease_ms=extend.lease_ms)


def change(change: r.Change) -> Message:
    if change.ids is None and change.filter is None:
        raise InvalidRequest("ids", None, "either ids or a filter says which jobs are meant")
    made = pb.ChangeRequest(
        action=f"ACTION_{r.ACTION_NAMES[change.action].upper()}",
        ids=None if change.ids is None else sendable(change.ids),
        filter=None if change.filter is None else filter_of(change.filter),
        limit=change.limit,
        reason=change.reason,
        priority=change.priority,
        payload=change.payload,  # type: ignore[arg-type]
        metadata=None if change.metadata is None else pb.Metadata(entries=change.metadata),
        tags=None if change.tags is None else pb.Tags(values=change.tags),
        rate=change.rate_per_s,
    )
    if change.action == r.DELAY:
        made.run_at = change.run_at
    return made


def configure(configure: r.Configure) -> Message:
    fields = wire_verb.VERBS["configure"].ask(MSGPACK_FORMAT, configure)
    subject = f"SUBJECT_{r.SUBJECT_NAMES[configure.subject].upper()}"
    return pb.ConfigureRequest(subject=subject, name=configure.name, changes=struct(fields["changes"]))


def append(append: r.Append) -> Message:
    made = pb.AppendRequest(id=append.id, token=append.token)
    if append.kind == r.PROGRESS:
        made.progress.CopyFrom(pb.Progress(percent=append.percent, message=append.text))
    elif append.kind == r.LOG:
        made.log = append.text
    else:
        made.emit = append.data
    return made


def load(load: r.Load) -> Message:
    return pb.LoadRequest(
        load_id=load.load_id,
        step=f"LOAD_STEP_{wire_verb.STEP_NAMES[load.step].upper()}",
        part=load.part,
        writing=load.writing,
        chunk=load.chunk,
        batch=None if load.batch is None else batch_of(load.batch),
        parts=load.parts,
        digest=load.digest,
        pasts=[] if load.batch is None else [past_of(past) for past in load.batch.pasts or ()],
    )


def past_of(past: Past) -> pb.Past:
    fields: dict[str, Any] = {name: getattr(past, name) for name in (*PAST_PLAIN, "state", "result")}
    return pb.Past(
        **fields,
        progress=None if past.progress is None else pb.Progress(**structs.asdict(past.progress)),
        error=failed(past.error),
        history=[attempt(ended) for ended in past.history],
    )


def need_one_each(field: str, column: list[Any] | None, count: int) -> None:
    """In messages the columns are one."""
    if column is not None and len(column) != count:
        raise InvalidRequest(field, len(column), f"there must be one for each of the {count} ids")


def stream(id: int, kind: int, offset: int, limit: int, wait_ms: int) -> Message:
    which: Any = {r.LOG: pb.STREAM_KIND_LOG, r.EMIT: pb.STREAM_KIND_EMIT}.get(kind, kind)
    return pb.StreamRequest(id=id, kind=which, offset=offset, limit=limit, wait_ms=wait_ms)


ASK: dict[str, tuple[str, Callable[..., Message]]] = {
    "enqueue": ("Enqueue", lambda batch: pb.EnqueueRequest(batch=batch_of(batch), atomic=batch.atomic)),
    "claim": ("Claim", claim),
    "settle": ("Settle", settle),
    "extend": ("Extend", extend),
    "change": ("Change", change),
    "get": ("Get", lambda ids, names: pb.GetRequest(ids=sendable(ids), custom_ids=names)),
    "find": ("Find", lambda f, limit, cursor: pb.FindRequest(filter=filter_of(f), limit=limit, cursor=cursor)),
    "count": ("Count", lambda queue: pb.CountRequest(queue=queue)),
    "groups": ("Groups", lambda queue: pb.GroupsRequest(queue=queue)),
    "explain": ("Explain", lambda id: pb.ExplainRequest(id=id)),
    "configure": ("Configure", configure),
    "watch": ("Watch", lambda id, wait_ms: pb.WatchRequest(id=id, wait_ms=wait_ms)),
    "append": ("Append", append),
    "stream": ("Stream", stream),
    "load": ("Load", load),
}


# What is answered.


def error_of(error: pb.Error) -> Error:
    return from_fields(error.code, error.message, plain_struct(error.detail))


def answers_of(found: pb.Answers) -> Answers:
    other: dict[int, Outcome] = {}
    for at, one in enumerate(found.outcomes):
        if one.HasField("error"):
            other[at] = Outcome(0, error=error_of(one.error))
        else:
            other[at] = Outcome(one.id, STATES[one.state], one.duplicate, one.replaced, one.run_at)
    return Answers([one.id for one in found.outcomes], READY, other, found.count)


def claimed_of(found: pb.ClaimResponse) -> Claimed:
    made = Claimed(found.jobs[0].token if found.jobs else b"")
    for job in found.jobs:
        shared: dict[str, Any] = {"queue": job.queue, "task": job.task, "codec": job.codec}
        if job.timeout_ms:
            shared["timeout_ms"] = job.timeout_ms
        shared |= {name: value for name, value in wishes(job.options).items() if name not in EXTRA_RULES}
        own = {name: value for name, value in wishes(job.options).items() if name in EXTRA_RULES}
        own |= {name: value for name in ("custom_id", "trace") if (value := getattr(job, name))}
        if "backoff" in shared:
            shared["backoff"] = backoff_of(shared["backoff"])
        made.ids.append(job.id)
        made.payloads.append(job.payload)
        made.options.append(make_options(schema_version=job.schema_version, **shared))
        made.tenants.append(job.tenant)
        made.attempts.append(job.attempt)
        made.lease_until.append(job.lease_until)
        made.lease_ms.append(job.lease_ms)
        made.extras.append(make_extras(**own) if own else None)
    return made


def extended_of(found: pb.ExtendResponse) -> Extended:
    errors = {at: error_of(job.error) for at, job in enumerate(found.jobs) if job.HasField("error")}
    return Extended([job.lease_until for job in found.jobs], [job.lease_ms for job in found.jobs], errors or None)


def blob_of(blob: pb.Blob) -> BlobRecord:
    return BlobRecord(blob.name, blob.size, blob.absent)


def job_of(job: pb.Job) -> JobRecord:
    fields: dict[str, Any] = {name: getattr(job, name) for name in JOB_PLAIN}
    fields.update(
        tags=tuple(job.tags),
        metadata=dict(job.metadata),
        depends_on=tuple(job.depends_on),
        max_attempts=job.max_attempts if job.HasField("max_attempts") else None,
        result=job.result if job.HasField("result") else None,
        error=failed_of(job),
        progress=Progress(job.progress.percent, job.progress.message, job.progress.at)
        if job.HasField("progress")
        else None,
        payload_blob=blob_of(job.payload_blob) if job.HasField("payload_blob") else None,
        result_blob=blob_of(job.result_blob) if job.HasField("result_blob") else None,
        history=tuple(ended_of(attempt) for attempt in job.history),
    )
    return JobRecord(**fields)


def event_of(event: pb.Event) -> Event:
    fields: dict[str, Any] = {field.name: value for field, value in event.ListFields()}
    for name in ("limit_keys", "depends_on"):
        fields[name] = tuple(fields.get(name, ()))
    fields["detail"] = plain_struct(event.detail)
    return Event(**{"seq": 0, "at": 0, "type": "", **fields})


def _fields(message: Message) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def report_of(found: pb.LoadReport) -> LoadReport:
    return LoadReport(**{**_fields(found), "outcomes": tuple(LoadedRow(**_fields(row)) for row in found.outcomes)})


READ: dict[str, Callable[[Any], Any]] = {
    "enqueue": answers_of,
    "claim": claimed_of,
    "settle": answers_of,
    "extend": extended_of,
    "change": answers_of,
    "get": lambda found: [job_of(one.job) if one.HasField("job") else None for one in found.jobs],
    "find": lambda found: JobPage(tuple(job_of(job) for job in found.jobs), found.cursor),
    "count": lambda found: {queue: dict(counts.states) for queue, counts in found.queues.items()},
    "groups": lambda found: [DeadLetterGroup(**_fields(group)) for group in found.groups],
    "explain": lambda found: Explanation(**_fields(found)),
    "configure": lambda found: plain_struct(found.settings),
    "watch": job_of,
    "append": lambda found: found.offset,
    "stream": lambda found: [StreamItem(item.offset, item.at, item.data) for item in found.items],
    "load": report_of,
}


SHAPED = frozenset({"settle", "change", "append", "load"})  # numbers that stand for nothing cannot be said


class GrpcStore(RemoteStore):
    def __init__(self, port: Callable[[], int], token: str, capabilities: Capabilities) -> None:
        super().__init__(("127.0.0.1", 0), token)
        self._port = port
        self._capabilities = capabilities
        self._stub: Stub | None = None

    async def open(self, now: Now) -> None:
        self._closed = False
        self._stub = Stub(grpc.aio.insecure_channel(f"127.0.0.1:{self._port()}", options=UNBOUNDED))

    async def close(self) -> None:
        self._closed = True
        if self._stub is not None:
            await self._stub.channel.close()

    async def touch(self) -> None:
        """There and back, without a word to the store."""
        assert self._stub is not None
        make: Any = health_pb2_grpc.HealthStub
        with suppress(grpc.aio.AioRpcError):  # there is no such service
            await make(self._stub.channel).Check(health_pb2.HealthCheckRequest(service="nobody"))

    async def _call(self, verb: str, context: Context, arguments: tuple[Any, ...], wait_ms: int = 0) -> Any:
        assert self._stub is not None
        metadata = (("authorization", f"Bearer {self._token}"),) if self._token else ()
        try:
            if verb == "events":
                return await self._events(context, metadata, *arguments)
            method, ask = ASK[verb]
            if verb in SHAPED:
                wire_verb.VERBS[verb].ask(MSGPACK_FORMAT, *arguments)
            message: Any = ask(*arguments)
            message.header.CopyFrom(header(context))
            return READ[verb](await getattr(self._stub, method)(message, metadata=metadata))
        except grpc.aio.AioRpcError as error:
            trailing: dict[str, Any] = dict(error.trailing_metadata())
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "tenure-error-bin" not in trailing:
                raise InvalidRequest("batch", "", "it must fit into a message") from None
            if "tenure-error-bin" not in trailing:
                raise
            raise error_of(pb.Error.FromString(trailing["tenure-error-bin"])) from None

    async def _events(self, context: Context, metadata: Any, cursor: str, limit: int, wait_ms: int) -> EventPage:
        """The first page; none is sent when there is nothing new."""
        assert self._stub is not None
        request = pb.EventsRequest(header=header(context), after=cursor, limit=limit, wait_ms=wait_ms)
        call = self._stub.Events(request, metadata=metadata)
        try:
            async for page in call:
                return EventPage(tuple(event_of(event) for event in page.events), page.cursor)
        finally:
            call.cancel()
        return EventPage((), cursor)
