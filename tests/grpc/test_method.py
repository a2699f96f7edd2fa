"""Every method of the gRPC door, against a real server on a real port."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
import pytest_asyncio
import uvloop
from google.protobuf.struct_pb2 import Struct
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tenure.core import error as errors
from tenure.server import health
from tenure.server.config import Settings, check
from tenure.server.grpc import health as grpc_health
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.door import SERVICE
from tenure.server.grpc.request import UNARY
from tenure.server.grpc.status import STATUSES
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tenure.wire import limit
from tenure.wire.limit import CALLS_PER_CONNECTION, MESSAGE_BYTES_MAX
from tests.grpc.rig import PATIENCE_S, Rig, Stub, channel, error_of, serving, token, until
from tests.grpc.store import ASK

Code = grpc.StatusCode


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as made:
        yield made


def struct(**values: Any) -> Struct:
    made = Struct()
    made.update(values)
    return made


# Producers.


async def test_enqueued_job_is_read_with_all_its_options(rig: Rig) -> None:
    [first] = await rig.enqueue(b"1")
    options = pb.JobOptions(
        queue="mail",
        task="send",
        codec="text",
        schema_version=3,
        priority=7,
        run_at=99_000_000_000_000,
        expires_at=99_000_000_000_001,
        timeout_ms=5_000,
        lease_ms=9_000,
        max_attempts=0,
        backoff=pb.Backoff(kind="exponential", base_ms=10),
        custom_id="c",
        unique_key="u",
        idempotency_key="i",
        idempotency_ttl_ms=5_000,
        on_conflict="return",
        depends_on=[first],
        dependency_policy="all_done",
        group="g",
        limit_keys=["k"],
        tags=["t"],
        metadata={"a": "b"},
        keep_completed_ms=70_000,
        keep_completed_count=1,
        keep_failed_ms=70_000,
        keep_failed_count=1,
        trace="00-1",
    )
    batch = pb.Batch(jobs=[pb.NewJob(payload=b"\xff", options=options)])
    [outcome] = (await rig.stub.Enqueue(pb.EnqueueRequest(batch=batch))).outcomes
    assert not outcome.HasField("error"), outcome.error
    job = await rig.job(outcome.id)
    assert (job.payload, job.codec, job.queue, job.task, job.state) == (b"\xff", "text", "mail", "send", "blocked")
    assert (job.priority, job.custom_id, job.group, list(job.tags), dict(job.metadata)) == (
        7,
        "c",
        "g",
        ["t"],
        {"a": "b"},
    )
    assert not job.HasField("max_attempts")
    assert (job.run_at, job.expires_at, list(job.depends_on), job.trace) == (
        99_000_000_000_000,
        99_000_000_000_001,
        [first],
        "00-1",
    )


async def test_wrong_job_of_a_batch_is_refused_alone(rig: Rig) -> None:
    jobs = [pb.NewJob(payload=b"1"), pb.NewJob(payload=b"2", options=pb.JobOptions(queue="no queue"))]
    jobs.append(pb.NewJob(payload=b"3"))
    answers = await rig.stub.Enqueue(pb.EnqueueRequest(batch=pb.Batch(jobs=jobs)))
    assert [outcome.error.code for outcome in answers.outcomes] == ["", "InvalidRequest", ""]
    assert answers.outcomes[1].error.detail["field"] == "queue"
    assert [bool(outcome.id) for outcome in answers.outcomes] == [True, False, True]
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Enqueue(pb.EnqueueRequest(batch=pb.Batch(jobs=jobs), atomic=True))
    assert raised.value.code() == Code.INVALID_ARGUMENT


async def test_repeat_of_an_operation_is_answered_and_not_done_again(rig: Rig) -> None:
    request = pb.EnqueueRequest(header=pb.Header(op_id="s:1"), batch=pb.Batch(jobs=[pb.NewJob(payload=b"1")]))
    first, second = await rig.stub.Enqueue(request), await rig.stub.Enqueue(request)
    assert first == second
    counts = await rig.stub.Count(pb.CountRequest())
    assert counts.queues["default"].states["ready"] == 1


async def test_load_is_staged_and_published(rig: Rig) -> None:
    batch = pb.Batch(options=pb.JobOptions(queue="mail"), jobs=[pb.NewJob(payload=b"1"), pb.NewJob(payload=b"2")])
    stage = pb.LoadRequest(load_id="l", step=pb.LOAD_STEP_STAGE, part=1, writing="w", batch=batch)
    assert (await rig.stub.Load(stage)).rows == 2
    publish = pb.LoadRequest(load_id="l", step=pb.LOAD_STEP_PUBLISH, parts={1: "w"})
    assert (await rig.stub.Load(publish)).published
    read = pb.LoadRequest(load_id="l", step=pb.LOAD_STEP_READ, part=1, writing="w")
    assert len((await rig.stub.Load(read)).outcomes) == 2
    assert len(await rig.claim(2)) == 2


async def test_record_with_a_past_is_imported_and_a_wrong_one_named(rig: Rig) -> None:
    at = rig.server.handler.clock().wall_ms - 1_000
    past = pb.Past(id=7, state="completed", attempt=1, delivery=1, created_at=at, ended_at=at + 9, result=b"r")
    batch = pb.Batch(options=pb.JobOptions(queue="mail"), jobs=[pb.NewJob(payload=b"1")])
    stage = pb.LoadRequest(load_id="l", step=pb.LOAD_STEP_STAGE, writing="w", batch=batch, pasts=[past])
    stage.pasts[0].attempt = -1
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Load(stage)
    assert error_of(raised).detail["field"] == "pasts[0].attempt"
    stage.pasts[0].attempt = 1
    await rig.stub.Load(stage)
    await rig.stub.Load(pb.LoadRequest(load_id="l", step=pb.LOAD_STEP_PUBLISH, parts={0: "w"}))
    [found] = (await rig.stub.Find(pb.FindRequest(filter=pb.Filter(queue="mail")))).jobs
    assert (found.state, found.result, found.created_at, found.ended_at) == ("completed", b"r", at, at + 9)


# Workers.


async def test_job_is_claimed_and_completed(rig: Rig) -> None:
    [id] = await rig.enqueue(b"1", task="send", custom_id="c")
    [job] = await rig.claim()
    assert (job.id, job.payload, job.codec, job.task, job.attempt, job.custom_id) == (id, b"1", "json", "send", 1, "c")
    follow = pb.Batch(options=pb.JobOptions(queue="next"), jobs=[pb.NewJob(payload=b"2")])
    done = pb.CompleteRequest(id=id, token=job.token, result=b"", followups=follow)
    assert (await rig.stub.Complete(done)).state == "completed"
    found = await rig.job(id)
    assert found.HasField("result")
    assert found.result == b""
    assert [job.payload for job in await rig.claim(queue="next")] == [b"2"]
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Fail(pb.FailRequest(id=id, token=job.token))
    assert raised.value.code() == Code.FAILED_PRECONDITION
    assert error_of(raised).code == "AlreadySettled"


async def test_job_is_failed_released_and_snoozed(rig: Rig) -> None:
    await rig.enqueue(b"1", max_attempts=2)
    [job] = await rig.claim()
    assert (await rig.stub.Release(pb.ReleaseRequest(id=job.id, token=job.token))).state == "ready"
    [job] = await rig.claim()
    assert job.attempt == 1
    assert (await rig.stub.Snooze(pb.SnoozeRequest(id=job.id, token=job.token, delay_ms=60_000))).state == "scheduled"
    promote = pb.ChangeRequest(action=pb.ACTION_PROMOTE, ids=[job.id])
    assert (await rig.stub.Change(promote)).outcomes[0].state == "ready"
    [job] = await rig.claim()
    failure = pb.Failure(type="ValueError", message="no", retry_after_ms=60_000)
    outcome = await rig.stub.Fail(pb.FailRequest(id=job.id, token=job.token, failure=failure))
    assert outcome.state == "retrying"
    found = await rig.job(job.id)
    assert found.history[-1].error.type == "ValueError"


async def test_permanent_failures_are_settled_grouped_replayed_and_removed(rig: Rig) -> None:
    await rig.enqueue(b"1", b"2")
    jobs = await rig.claim(2)
    items = [
        pb.Settlement(id=job.id, token=job.token, failure=pb.Failure(type="E", message="m", permanent=True))
        for job in jobs
    ]
    answers = await rig.stub.Settle(pb.SettleRequest(verb=pb.SETTLE_VERB_FAIL, items=items))
    assert [outcome.state for outcome in answers.outcomes] == ["failed", "failed"]
    [group] = (await rig.stub.Groups(pb.GroupsRequest(queue="mail"))).groups
    assert (group.type, group.count) == ("E", 2)
    replay = pb.ChangeRequest(action=pb.ACTION_REPLAY, ids=[jobs[0].id], payload=b"3", tags=pb.Tags(values=["again"]))
    [outcome] = (await rig.stub.Change(replay)).outcomes
    replayed = await rig.job(outcome.id)
    assert (replayed.payload, list(replayed.tags)) == (b"3", ["again"])
    remove = pb.ChangeRequest(action=pb.ACTION_REMOVE, filter=pb.Filter(states=["failed"]))
    assert (await rig.stub.Change(remove)).count == 1


async def test_heartbeat_tells_what_was_cancelled(rig: Rig) -> None:
    await rig.enqueue(b"1", b"2")
    jobs = await rig.claim(2)
    await rig.stub.Change(pb.ChangeRequest(action=pb.ACTION_CANCEL, ids=[jobs[0].id], reason="so"))
    held = [pb.Held(id=job.id, token=job.token) for job in jobs]
    cancelled, alive = (await rig.stub.Extend(pb.ExtendRequest(jobs=held, lease_ms=60_000))).jobs
    assert cancelled.error.code == "JobCancelled"
    assert alive.lease_until > jobs[1].lease_until


async def test_running_job_says_progress_logs_and_items(rig: Rig) -> None:
    await rig.enqueue(b"1")
    [job] = await rig.claim()
    said: dict[str, Any] = {"id": job.id, "token": job.token}
    await rig.stub.Append(pb.AppendRequest(**said, progress=pb.Progress(percent=40, message="half")))
    await rig.stub.Append(pb.AppendRequest(**said, log="a line"))
    reading = asyncio.ensure_future(rig.stub.Stream(pb.StreamRequest(id=job.id, wait_ms=10_000)))
    await rig.stub.Append(pb.AppendRequest(**said, emit=b"\x00item"))
    assert [item.data for item in (await reading).items] == [b"\x00item"]
    logs = await rig.stub.Stream(pb.StreamRequest(id=job.id, kind=pb.STREAM_KIND_LOG))
    assert [item.data for item in logs.items] == [b"a line"]
    assert (await rig.job(job.id)).progress.percent == 40
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Append(pb.AppendRequest(**said))
    assert raised.value.code() == Code.INVALID_ARGUMENT


async def test_waiting_claim_is_woken_by_a_job(rig: Rig) -> None:
    waiting = asyncio.ensure_future(rig.claim(wait_ms=60_000))
    await until(lambda: rig.door._waiting)
    [id] = await rig.enqueue(b"1")
    assert [job.id for job in await waiting] == [id]


async def test_claim_answers_before_the_deadline_of_the_call(rig: Rig) -> None:
    wish = pb.Wish(queues=[pb.QueuePick(name="mail")])
    assert not (await rig.stub.Claim(pb.ClaimRequest(wish=wish), timeout=0.3)).jobs
    assert not (await rig.stub.Claim(pb.ClaimRequest(wish=wish, wait_ms=60_000), timeout=0.3)).jobs


def claim_request(**fields: Any) -> pb.ClaimRequest:
    return pb.ClaimRequest(wish=pb.Wish(queues=[pb.QueuePick(name="mail")]), **fields)


async def test_cancelled_claim_takes_nothing(rig: Rig) -> None:
    call = rig.stub.Claim(claim_request(wait_ms=60_000))
    waiting = asyncio.ensure_future(call)
    await until(lambda: rig.door._waiting)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: not rig.door._waiting)
    [id] = await rig.enqueue(b"1")
    assert [(job.id, job.attempt) for job in await rig.claim()] == [(id, 1)]


async def test_answer_that_cannot_be_sent_gives_its_jobs_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    [id] = await rig.enqueue(bytes(1_000))
    with monkeypatch.context() as patch:
        patch.setattr(limit, "MESSAGE_BYTES_MAX", 1_000)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rig.claim()
    assert error_of(raised).code == "PayloadTooLarge"
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery) == ("ready", 0, 1)


async def test_waiting_calls_of_a_connection_are_bounded_and_the_next_waits_its_turn(rig: Rig) -> None:
    async with channel(rig.port, alone=True) as other:
        calls = [rig.stub.Claim(claim_request(wait_ms=60_000)) for _ in range(CALLS_PER_CONNECTION)]
        waiting = [asyncio.ensure_future(call) for call in calls]
        await until(lambda: len(rig.door._waiting) == CALLS_PER_CONNECTION)
        next_one = asyncio.ensure_future(rig.stub.Count(pb.CountRequest()))
        for _ in range(10):
            await other.Count(pb.CountRequest())
        assert not next_one.done()
        calls[0].cancel()
        await next_one
        for call in calls:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


# Reading.


async def test_found_pages_and_absent_jobs(rig: Rig) -> None:
    ids = await rig.enqueue(b"1", b"2", b"3", tags=["t"])
    await rig.enqueue(b"4")
    filter = pb.Filter(queue="mail", states=["ready"], tag="t")
    found: list[int] = []
    cursor = ""
    while True:
        page = await rig.stub.Find(pb.FindRequest(filter=filter, limit=2, cursor=cursor))
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if not cursor:
            break
    assert sorted(found) == sorted(ids)
    jobs = (await rig.stub.Get(pb.GetRequest(ids=[ids[0], 999_999], custom_ids=["none"]))).jobs
    assert [job.HasField("job") for job in jobs] == [True, False, False]


async def test_explanation_says_what_holds_a_job(rig: Rig) -> None:
    [id] = await rig.enqueue(b"1", delay_ms=60_000)
    found = await rig.stub.Explain(pb.ExplainRequest(id=id))
    assert (found.id, found.state) == (id, "scheduled")
    assert found.held_by


async def test_watch_answers_when_the_job_ends_or_the_time_is_over(rig: Rig) -> None:
    [id] = await rig.enqueue(b"1")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Watch(pb.WatchRequest(id=id, wait_ms=1))
    assert raised.value.code() == Code.DEADLINE_EXCEEDED
    assert error_of(raised).retryable
    [job] = await rig.claim()
    watching = asyncio.ensure_future(rig.stub.Watch(pb.WatchRequest(id=id)))
    await until(lambda: rig.door._waiting)
    await rig.stub.Complete(pb.CompleteRequest(id=id, token=job.token, result=b"7"))
    ended = await watching
    assert (ended.state, ended.result) == ("completed", b"7")


async def test_events_end_or_go_on_as_they_happen(rig: Rig) -> None:
    [id] = await rig.enqueue(b"1")
    pages = [page async for page in rig.stub.Events(pb.EventsRequest(queue="mail"))]
    events = [event for page in pages for event in page.events]
    assert events[0].job == id
    following = rig.stub.Events(pb.EventsRequest(after=pages[-1].cursor, types=["started"], follow=True))
    await rig.claim()
    async for page in following:
        if page.events:
            assert [(event.type, event.job, event.worker) for event in page.events] == [("started", id, "w")]
            break
    following.cancel()
    await until(lambda: not rig.door._waiting)


# Operators.


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (pb.ChangeRequest(action=pb.ACTION_CANCEL), "cancelled"),
        (pb.ChangeRequest(action=pb.ACTION_PRIORITY, priority=9), "ready"),
        (pb.ChangeRequest(action=pb.ACTION_UPDATE, metadata=pb.Metadata(entries={"a": "b"})), "ready"),
        (pb.ChangeRequest(action=pb.ACTION_DELAY, delay_ms=60_000), "scheduled"),
        (pb.ChangeRequest(action=pb.ACTION_DELAY, run_at=99_000_000_000_000), "scheduled"),
    ],
    ids=lambda value: "",
)
async def test_job_is_changed(rig: Rig, change: pb.ChangeRequest, state: str) -> None:
    [id] = await rig.enqueue(b"1")
    request = pb.ChangeRequest()
    request.CopyFrom(change)
    request.ids.append(id)
    [outcome] = (await rig.stub.Change(request)).outcomes
    assert not outcome.HasField("error"), outcome.error
    job = await rig.job(id)
    assert job.state == state
    if change.action == pb.ACTION_UPDATE:
        assert dict(job.metadata) == {"a": "b"}
    if change.action == pb.ACTION_PRIORITY:
        assert job.priority == 9


async def test_job_is_cloned_and_discarded(rig: Rig) -> None:
    [id] = await rig.enqueue(b"1")
    [clone] = (await rig.stub.Change(pb.ChangeRequest(action=pb.ACTION_CLONE, ids=[id], payload=b"2"))).outcomes
    assert (await rig.job(clone.id)).payload == b"2"
    discard = pb.ChangeRequest(action=pb.ACTION_DISCARD, ids=[id, 999_999])
    answers = await rig.stub.Change(discard)
    assert [outcome.error.code for outcome in answers.outcomes] == ["", "JobNotFound"]


async def test_settings_are_changed_read_and_put_back(rig: Rig) -> None:
    changes = struct(concurrency=5, rate={"tokens": 10, "period": 1000, "burst": 20}, paused=True)
    request = pb.ConfigureRequest(subject=pb.SUBJECT_QUEUE, name="mail", changes=changes)
    await rig.stub.Configure(request)
    read = pb.ConfigureRequest(subject=pb.SUBJECT_QUEUE, name="mail")
    settings = (await rig.stub.Configure(read)).settings
    assert (settings["concurrency"], settings["paused"]) == (5, True)
    assert dict(settings["rate"]) == {"tokens": 10, "period": 1000, "burst": 20}
    back = pb.ConfigureRequest(subject=pb.SUBJECT_QUEUE, name="mail", changes=struct(rate=None, paused=False))
    settings = (await rig.stub.Configure(back)).settings
    assert not settings["paused"]
    assert settings.fields["rate"].WhichOneof("kind") != "struct_value"
    for subject, name in (
        (pb.SUBJECT_KEY, "k"),
        (pb.SUBJECT_TENANT, ""),
        (pb.SUBJECT_STORE, ""),
        (pb.SUBJECT_WORKER, ""),
    ):
        header = pb.Header(tenant="default")
        await rig.stub.Configure(pb.ConfigureRequest(header=header, subject=subject, name=name))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("Find", pb.FindRequest(limit=0)),
        ("Stream", pb.StreamRequest(id=1, limit=-1)),
        ("Change", pb.ChangeRequest(ids=[1])),
        ("Change", pb.ChangeRequest(action=pb.ACTION_CANCEL, ids=[1], filter=pb.Filter())),
        ("Change", pb.ChangeRequest(action=pb.ACTION_DELAY, ids=[1])),
        ("Settle", pb.SettleRequest()),
        ("Configure", pb.ConfigureRequest()),
        ("Load", pb.LoadRequest(load_id="l")),
        ("Claim", pb.ClaimRequest(wait_ms=-1)),
        ("Claim", pb.ClaimRequest(count=-1)),
        ("Claim", pb.ClaimRequest(header=pb.Header(op_id="none"))),
        ("Find", pb.FindRequest(filter=pb.Filter(states=["asleep"]))),
        ("Enqueue", pb.EnqueueRequest(header=pb.Header(durability="never"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_makes_no_sense_is_an_invalid_argument(rig: Rig, method: str, message: object) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await getattr(rig.stub, method)(message)
    assert raised.value.code() == Code.INVALID_ARGUMENT
    assert error_of(raised).code == "InvalidRequest"


async def test_unknown_number_of_an_enum_is_an_invalid_argument(rig: Rig) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Change(pb.ChangeRequest.FromString(b"\x10\x63\x1a\x01\x01"))
    assert error_of(raised).detail["field"] == "action"


def test_every_error_has_its_status() -> None:
    kinds = [kind for kind in errors._kinds(errors.Error) if kind.__module__ == errors.__name__]
    assert {kind.__name__ for kind in kinds} - {"Error"} == set(STATUSES)


# Who calls.


async def test_token_is_needed_and_its_roles_and_queues_hold() -> None:
    async with serving(
        shop=token("secret", roles=("producer",), tenants=("acme",), queues=("mail",)),
        other=token("other", tenants=("umbrella",)),
        slow=token("slow", rate=1),
    ) as rig:
        request = pb.EnqueueRequest(batch=pb.Batch(options=pb.JobOptions(queue="mail"), jobs=[pb.NewJob(payload=b"1")]))
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", "secret"),)):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await rig.stub.Enqueue(request, metadata=metadata)
            assert raised.value.code() == Code.UNAUTHENTICATED
        for open_stream in (rig.stub.Events(pb.EventsRequest()), rig.stub.Work()):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await open_stream.read()
            assert raised.value.code() == Code.UNAUTHENTICATED
        async with channel(rig.port, "secret") as shop, channel(rig.port, "other") as other:
            [outcome] = (await shop.Enqueue(request)).outcomes
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await shop.Claim(pb.ClaimRequest())
            assert raised.value.code() == Code.PERMISSION_DENIED
            request.batch.options.queue = "image"
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await shop.Enqueue(request)
            assert raised.value.code() == Code.PERMISSION_DENIED
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await shop.Count(pb.CountRequest(header=pb.Header(tenant="umbrella")))
            assert raised.value.code() == Code.PERMISSION_DENIED
            await assert_absent(other, outcome.id)
        async with channel(rig.port, "slow") as slow:
            await slow.Count(pb.CountRequest())
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await slow.Count(pb.CountRequest())
            assert raised.value.code() == Code.RESOURCE_EXHAUSTED
            assert error_of(raised).retry_after_ms > 0


async def assert_absent(stub: Stub, id: int) -> None:
    """The job of another tenant is answered exactly as one that is not there, but for the id that was asked for. The
    methods are those that have no verb of a store: of the others this is shown for every door alike."""
    absent = id + 1_000

    async def said(method: str, message: object) -> str:
        try:
            return str(await getattr(stub, method)(message))
        except grpc.aio.AioRpcError as error:
            trailing = dict(error.trailing_metadata())
            return f"{error.code()} {error.details()} {pb.Error.FromString(trailing['tenure-error-bin'])}"

    token = b"x" * 16
    asked: list[tuple[str, Callable[[int], object]]] = [
        ("Complete", lambda id: pb.CompleteRequest(id=id, token=token)),
        ("Fail", lambda id: pb.FailRequest(id=id, token=token)),
        ("Release", lambda id: pb.ReleaseRequest(id=id, token=token)),
        ("Snooze", lambda id: pb.SnoozeRequest(id=id, token=token)),
    ]
    assert {method for method, _ in asked} == UNARY.keys() - {method for method, _ in ASK.values()}
    for method, make in asked:
        foreign, none = await said(method, make(id)), await said(method, make(absent))
        assert re.sub(rf"\b{id}\b", "N", foreign) == re.sub(rf"\b{absent}\b", "N", none)


async def test_message_of_a_stranger_is_not_read() -> None:
    """It would be refused as too large."""
    async with serving(shop=token("secret")) as rig:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rig.enqueue(bytes(MESSAGE_BYTES_MAX))
        assert raised.value.code() == Code.UNAUTHENTICATED
        assert error_of(raised).code == "Unauthenticated"


def test_public_address_without_authentication_is_refused() -> None:
    settings = Settings(host="0.0.0.0", tcp=False, http=False)
    with pytest.raises(errors.InvalidRequest, match="authentication"):
        check(settings)
    settings.tokens = {"shop": token("secret")}
    check(settings)


# The rest of a server.


async def test_health_is_told_and_ends_with_the_server(rig: Rig) -> None:
    stub: Any = health_pb2_grpc.HealthStub(rig.stub.channel)
    for name in ("", SERVICE.full_name):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


class Ill(MemoryStore):
    """Refuses to claim, until it is well."""

    is_ill = True

    async def claim(self, *arguments: Any) -> Any:
        if self.is_ill:
            raise errors.Unavailable("the disk is full")
        return await super().claim(*arguments)


async def test_store_that_cannot_claim_is_not_healthy() -> None:
    async with serving(Ill()) as rig:
        stub: Any = health_pb2_grpc.HealthStub(rig.stub.channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_watcher_of_health_is_told_when_the_store_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_S", 0.01)
    monkeypatch.setattr(grpc_health, "FRESH_S", 0.01)
    store = Ill()
    async with serving(store) as rig, asyncio.timeout(PATIENCE_S):
        stub: Any = health_pb2_grpc.HealthStub(rig.stub.channel)
        watching = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        store.is_ill = False
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        watching.cancel()


async def test_reflection_describes_the_service(rig: Rig) -> None:
    make: Any = reflection_pb2_grpc.ServerReflectionStub
    stub = make(rig.stub.channel)
    call = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    answer = await call.read()
    assert SERVICE.full_name in [service.name for service in answer.list_services_response.service]
    await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE.full_name))
    assert (await call.read()).file_descriptor_response.file_descriptor_proto
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_oversized_message_is_refused_and_the_connection_goes_on(rig: Rig) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.enqueue(bytes(MESSAGE_BYTES_MAX))
    assert raised.value.code() == Code.RESOURCE_EXHAUSTED
    assert await rig.enqueue(b"1")


async def test_oversized_answer_is_refused(rig: Rig) -> None:
    ids = []
    for _ in range(3):
        ids += await rig.enqueue(*[bytes(1_000_000)] * 6)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.stub.Get(pb.GetRequest(ids=ids))
    assert error_of(raised).code == "PayloadTooLarge"


async def test_stop_ends_what_waits_and_refuses_what_is_new(rig: Rig) -> None:
    waiting = asyncio.ensure_future(rig.claim(wait_ms=60_000))
    await until(lambda: rig.door._waiting)
    stopping = asyncio.ensure_future(rig.server.stop())
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await waiting
    assert raised.value.code() == Code.UNAVAILABLE
    await stopping
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await rig.claim()
    assert raised.value.code() == Code.UNAVAILABLE


async def test_port_that_is_taken_is_refused(rig: Rig) -> None:
    second = Server(Settings(tcp=False, http=False, grpc_port=rig.port), MemoryStore())
    with pytest.raises(errors.Unavailable, match="--grpc-port"):
        await second.start()


def test_door_works_in_the_loop_of_uvloop() -> None:
    async def run() -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        async with serving() as rig:
            waiting = asyncio.ensure_future(rig.claim(wait_ms=60_000))
            await until(lambda: rig.door._waiting)
            ids = await rig.enqueue(b"1")
            assert [job.id for job in await waiting] == ids

    uvloop.run(run())
