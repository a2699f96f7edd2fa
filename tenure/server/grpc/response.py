"""What a store answers, as messages of gRPC."""

from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from tenure.core.answer import Answers, Claimed, Outcome
from tenure.core.answer import Extended as StoreExtended
from tenure.core.error import Error, PayloadTooLarge
from tenure.core.record import BlobRecord, DeadLetterGroup, Ended, Failed, JobPage, JobRecord, LoadReport
from tenure.core.record import Event as EventRecord
from tenure.core.record import EventPage as EventsFound
from tenure.core.record import Explanation as Explained
from tenure.core.record import StreamItem as Item
from tenure.core.state import STATE_NAMES
from tenure.server.grpc import tenure_pb2 as pb
from tenure.wire import limit
from tenure.wire.option import CORE_NAMES, WireBackoff, extra_fields, fields_of

M = TypeVar("M", bound=Message)

DOUBLE_MAX: Final = 2**53  # whole numbers beyond are not kept by a Struct: they go as text
MESSAGE_CHARS_MAX: Final = 1_000
DETAIL_BYTES_MAX: Final = 4_096

# Public names of options that a leased job has as fields of its own.
LEASED_PLAIN = frozenset({"queue", "task", "codec", "schema_version", "timeout", "custom_id", "trace"})
NESTED = {"progress", "error", "history", "payload_blob", "result_blob"}
JOB_PLAIN = tuple(name for name in JobRecord.__struct_fields__ if name not in NESTED)
EVENT_PLAIN = tuple(name for name in EventRecord.__struct_fields__ if name != "detail")
LOAD_PLAIN = tuple(name for name in LoadReport.__struct_fields__ if name != "outcomes")


def copied(names: tuple[str, ...], record: object) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def bounded(message: M) -> M:
    size = message.ByteSize()
    if size > limit.MESSAGE_BYTES_MAX:
        raise PayloadTooLarge(size, limit.MESSAGE_BYTES_MAX, "answer")
    return message


def struct(values: Any) -> Struct:
    made = Struct()
    made.update(_sayable(msgspec.to_builtins(values, str_keys=True)))
    return made


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sayable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sayable(item) for item in value]
    if isinstance(value, int) and abs(value) > DOUBLE_MAX:
        return str(value)
    return value


def error(found: Error) -> pb.Error:
    """Short enough for the headers of an answer."""
    after = found.fields.get("retry_after_ms")
    made = pb.Error(
        code=found.code,
        message=found.message[:MESSAGE_CHARS_MAX],
        retryable=found.retryable,
        retry_after_ms=after if isinstance(after, int) else 0,
    )
    if found.fields:
        detail = struct(found.fields)
        if detail.ByteSize() <= DETAIL_BYTES_MAX:
            made.detail.CopyFrom(detail)
    return made


def outcome(found: Outcome) -> pb.Outcome:
    if found.error is not None:
        return pb.Outcome(error=error(found.error))
    return pb.Outcome(
        id=found.id,
        state=STATE_NAMES[found.state],
        duplicate=found.duplicate,
        replaced=found.replaced,
        run_at=found.run_at,
    )


def answers(found: Answers) -> pb.Answers:
    state = STATE_NAMES[found.state]
    if found.other:
        return pb.Answers(outcomes=[outcome(found.item(at)) for at in range(len(found))], count=found.count)
    return pb.Answers(outcomes=[pb.Outcome(id=id, state=state) for id in found.ids], count=found.count)


def leased(found: Claimed, at: int) -> pb.LeasedJob:
    options = found.options[at]
    extras = found.extras[at]
    others = {**fields_of(options), **({} if extras is None else extra_fields(extras))}
    others = {name: value for name, value in others.items() if name not in LEASED_PLAIN}
    return pb.LeasedJob(
        options=job_options(others) if others else None,
        id=found.ids[at],
        token=found.token,
        tenant=found.tenants[at],
        queue=options.queue,
        task=options.task,
        payload=found.payloads[at],
        codec=options.codec,
        schema_version=options.schema_version,
        attempt=found.attempts[at],
        lease_until=found.lease_until[at],
        lease_ms=found.lease_ms[at],
        timeout_ms=options.timeout_ms,
        custom_id="" if extras is None else extras.custom_id,
        trace="" if extras is None else extras.trace,
    )


def job_options(fields: dict[str, Any]) -> pb.JobOptions:
    """By the public names of the fields."""
    made: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, WireBackoff):
            value = pb.Backoff(
                kind=value.kind, base_ms=value.base, factor=value.factor, cap_ms=value.cap, delays_ms=value.delays
            )
        elif name == "max_attempts":
            value = value or 0
        made[CORE_NAMES.get(name, name)] = value
    return pb.JobOptions(**made)


def claimed(found: Claimed) -> pb.ClaimResponse:
    return pb.ClaimResponse(jobs=[leased(found, at) for at in range(len(found))])


def extended(found: StoreExtended) -> pb.ExtendResponse:
    errors = found.errors or {}
    return pb.ExtendResponse(
        jobs=[
            pb.Extended(error=error(errors[at]))
            if at in errors
            else pb.Extended(lease_until=until, lease_ms=found.lease_ms[at])
            for at, until in enumerate(found.lease_until)
        ]
    )


def load_report(found: LoadReport) -> pb.LoadReport:
    rows = [pb.LoadedRow(**msgspec.structs.asdict(row)) for row in found.outcomes]
    return pb.LoadReport(**copied(LOAD_PLAIN, found), outcomes=rows)


# Reading.


def failed(found: Failed | None) -> pb.JobError | None:
    return None if found is None else pb.JobError(**msgspec.structs.asdict(found))


def _blob(found: BlobRecord | None) -> pb.Blob | None:
    return None if found is None else pb.Blob(name=found.name, size=found.size, absent=found.absent)


def job(found: JobRecord) -> pb.Job:
    made = pb.Job(
        **copied(JOB_PLAIN, found),
        error=failed(found.error),
        payload_blob=_blob(found.payload_blob),
        result_blob=_blob(found.result_blob),
    )
    if found.progress is not None:
        made.progress.CopyFrom(pb.Progress(**msgspec.structs.asdict(found.progress)))
    for ended in found.history:
        made.history.append(attempt(ended))
    return made


def attempt(found: Ended) -> pb.Attempt:
    fields = {name: value for name, value in msgspec.structs.asdict(found).items() if name != "error"}
    return pb.Attempt(**fields, error=failed(found.error))


def found(records: list[JobRecord | None]) -> pb.GetResponse:
    return pb.GetResponse(jobs=[pb.Found(job=None if record is None else job(record)) for record in records])


def page(found: JobPage) -> pb.FindResponse:
    return pb.FindResponse(jobs=[job(record) for record in found.jobs], cursor=found.cursor)


def counts(found: dict[str, dict[str, int]]) -> pb.CountResponse:
    return pb.CountResponse(queues={queue: pb.Counts(states=states) for queue, states in found.items()})


def groups(found: list[DeadLetterGroup]) -> pb.GroupsResponse:
    return pb.GroupsResponse(groups=[pb.Group(**msgspec.structs.asdict(group)) for group in found])


def explanation(found: Explained) -> pb.Explanation:
    return pb.Explanation(**msgspec.structs.asdict(found))


def items(found: list[Item]) -> pb.StreamResponse:
    return pb.StreamResponse(items=[pb.StreamItem(offset=i.offset, at=i.at, data=i.data) for i in found])


def event(found: EventRecord) -> pb.Event:
    return pb.Event(**copied(EVENT_PLAIN, found), detail=struct(found.detail) if found.detail else None)


def events(found: EventsFound, wanted: list[EventRecord]) -> pb.EventPage:
    return pb.EventPage(events=[event(record) for record in wanted], cursor=found.cursor)
