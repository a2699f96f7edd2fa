"""The stream of a worker: jobs for credits, never more; told of cancellations; nothing stays leased when it ends."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tenure.core.request import CLAIM_BYTES_MAX
from tenure.server.grpc import tenure_pb2 as pb
from tenure.store.url import open_store
from tenure.wire.limit import GRPC_CREDITS_MAX, GRPC_UNSENT_BYTES_MAX
from tests.grpc.rig import PATIENCE_S, Rig, error_of, serving, token, until


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as made:
        yield made


class Worker:
    """One end of a stream; answers by their ref, jobs and cancellations as they come."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.last = 0

    async def say(self, **what: Any) -> int:
        self.last += 1
        await self.call.write(pb.WorkRequest(ref=self.last, **what))
        return self.last

    async def hear(self) -> pb.WorkResponse:
        async with asyncio.timeout(PATIENCE_S):
            found = await self.call.read()
        assert isinstance(found, pb.WorkResponse)
        return found

    async def job(self) -> pb.LeasedJob:
        found = await self.hear()
        assert found.WhichOneof("what") == "job", found
        return found.job

    async def settle(self, verb: pb.SettleVerb, *jobs: pb.LeasedJob, **more: Any) -> pb.WorkResponse:
        items = [pb.Settlement(id=job.id, token=job.token or None, **more) for job in jobs]
        ref = await self.say(settle=pb.SettleRequest(verb=verb, items=items))
        answer = await self.hear()
        assert answer.ref == ref
        return answer


async def open_worker(rig: Rig, credits: int = 0, name: str = "w", **wish: Any) -> Worker:
    worker = Worker(rig.stub.Work())
    wanted = pb.Wish(queues=[pb.QueuePick(name="mail")], worker=name, **wish)
    ref = await worker.say(open=pb.Open(wish=wanted, credits=credits))
    answer = await worker.hear()
    assert answer.ref == ref
    assert answer.opened.worker == name or not name
    return worker


async def states(rig: Rig) -> dict[str, int]:
    counts = await rig.stub.Count(pb.CountRequest(queue="mail"))
    return {state: count for state, count in counts.queues["mail"].states.items() if count}


async def test_server_sends_as_many_jobs_as_there_are_credits(rig: Rig) -> None:
    await rig.enqueue(*[b"1"] * 10)
    worker = await open_worker(rig, credits=3)
    jobs = [await worker.job() for _ in range(3)]
    assert await states(rig) == {"ready": 7, "running": 3}
    # Every answer comes after what was sent before it: there is no fourth job.
    answer = await worker.settle(pb.SETTLE_VERB_COMPLETE, jobs[0])
    assert [outcome.state for outcome in answer.settled.outcomes] == ["completed"]
    assert await states(rig) == {"ready": 7, "running": 2, "completed": 1}
    await worker.say(credits=2)
    jobs += [await worker.job(), await worker.job()]
    assert await states(rig) == {"ready": 5, "running": 4, "completed": 1}
    assert len({job.id for job in jobs}) == 5
    worker.call.cancel()


async def test_job_that_comes_later_is_sent_at_once(rig: Rig) -> None:
    worker = await open_worker(rig, credits=1)
    hearing = asyncio.ensure_future(worker.job())
    [id] = await rig.enqueue(b"1")
    job = await hearing
    assert (job.id, job.attempt, job.payload) == (id, 1, b"1")
    worker.call.cancel()


async def test_worker_gets_only_tasks_that_it_knows(rig: Rig) -> None:
    await rig.enqueue(b"1", task="other")
    [id] = await rig.enqueue(b"2", task="send")
    worker = await open_worker(rig, credits=5, tasks=["send"], lease_ms=60_000)
    assert (await worker.job()).id == id
    worker.call.cancel()


async def test_everything_is_said_and_answered_on_the_stream(rig: Rig) -> None:
    await rig.enqueue(*[b"1"] * 4)
    worker = await open_worker(rig, credits=4)
    jobs = [await worker.job() for _ in range(4)]
    ref = await worker.say(append=pb.AppendRequest(id=jobs[0].id, token=jobs[0].token, log="line"))
    answer = await worker.hear()
    assert (answer.ref, answer.WhichOneof("what")) == (ref, "appended")
    held = [pb.Held(id=job.id, token=job.token) for job in jobs]
    await worker.say(extend=pb.ExtendRequest(jobs=held, lease_ms=120_000))
    assert all(job.lease_until for job in (await worker.hear()).extended.jobs)
    complete = await worker.settle(pb.SETTLE_VERB_COMPLETE, jobs[0], result=b"7")
    fail = await worker.settle(pb.SETTLE_VERB_FAIL, jobs[1], failure=pb.Failure(message="no", permanent=True))
    cancel = await worker.settle(pb.SETTLE_VERB_CANCEL, jobs[2])
    release = await worker.settle(pb.SETTLE_VERB_RELEASE, jobs[3])
    said = [answer.settled.outcomes[0].state for answer in (complete, fail, cancel, release)]
    assert said == ["completed", "failed", "cancelled", "ready"]
    assert (await rig.job(jobs[0].id)).result == b"7"
    worker.call.cancel()


async def test_token_may_be_left_out_on_the_stream_that_leased(rig: Rig) -> None:
    await rig.enqueue(b"1")
    worker, other = await open_worker(rig, credits=1), await open_worker(rig, name="")
    job = await worker.job()
    bare = pb.LeasedJob(id=job.id)
    refused = await other.settle(pb.SETTLE_VERB_COMPLETE, bare)
    assert refused.settled.outcomes[0].error.code or refused.error.code
    assert (await worker.settle(pb.SETTLE_VERB_COMPLETE, bare)).settled.outcomes[0].state == "completed"
    worker.call.cancel()
    other.call.cancel()


async def test_word_with_an_empty_token_lets_nothing_go(rig: Rig) -> None:
    await rig.enqueue(b"1")
    worker = await open_worker(rig, credits=1)
    job = await worker.job()
    item = pb.Settlement(id=job.id, token=b"")
    await worker.say(settle=pb.SettleRequest(verb=pb.SETTLE_VERB_COMPLETE, items=[item]))
    assert (await worker.hear()).settled.outcomes[0].error.code == "LeaseLost"
    worker.call.cancel()
    assert [(again.id, again.attempt) for again in await rig.claim(wait_ms=10_000)] == [(job.id, 1)]


async def test_nothing_is_claimed_for_a_worker_that_does_not_read(rig: Rig) -> None:
    size, count = 1_000_000, 80
    for _ in range(count // 10):
        await rig.enqueue(*[bytes(size)] * 10)
    worker = await open_worker(rig, credits=count)
    [stream] = rig.door.streams["w"]
    await until(lambda: not stream._may_go_on.is_set())
    for _ in range(20):
        running = (await states(rig))["running"]
    most = GRPC_UNSENT_BYTES_MAX + CLAIM_BYTES_MAX + size
    assert stream._unsent <= most
    assert running < count
    for _ in range(count):
        assert len((await worker.job()).payload) == size
    worker.call.cancel()


async def test_job_of_another_tenant_is_answered_as_none_on_a_stream() -> None:
    async with serving(ours=token("ours"), theirs=token("theirs", tenants=("acme",))) as house:
        metadata = (("authorization", "Bearer ours"),)
        batch = pb.Batch(options=pb.JobOptions(queue="mail"), jobs=[pb.NewJob(payload=b"1")])
        answers = await house.stub.Enqueue(pb.EnqueueRequest(batch=batch), metadata=metadata)
        id, absent = answers.outcomes[0].id, 77_777
        worker = Worker(house.stub.Work(metadata=(("authorization", "Bearer theirs"),)))
        await worker.say(open=pb.Open())
        assert (await worker.hear()).opened.worker

        async def said(job: int, **what: Any) -> str:
            await worker.say(**what)
            answer = await worker.hear()
            answer.ref = 0
            return re.sub(rf"\b{job}\b", "?", str(answer))

        async def all_said(job: int, given: bytes | None) -> list[str]:
            item = pb.Settlement(id=job, token=given)
            return [
                await said(job, settle=pb.SettleRequest(verb=pb.SETTLE_VERB_COMPLETE, items=[item])),
                await said(job, extend=pb.ExtendRequest(jobs=[pb.Held(id=job, token=given)])),
                await said(job, append=pb.AppendRequest(id=job, token=given, log="x")),
            ]

        for given in (None, b"", b"x" * 24):
            assert await all_said(id, given) == await all_said(absent, given)
        worker.call.cancel()


async def test_cancellation_is_pushed_to_the_stream_that_holds_the_job(rig: Rig) -> None:
    await rig.enqueue(b"1")
    first, second = await open_worker(rig, credits=1), await open_worker(rig)
    job = await first.job()
    cancel = pb.ChangeRequest(action=pb.ACTION_CANCEL, ids=[job.id])
    await rig.stub.Change(cancel)
    told = await first.hear()
    assert told.cancelled.id == job.id
    await rig.stub.Change(cancel)
    answer = await first.settle(pb.SETTLE_VERB_COMPLETE, job)
    assert answer.settled.outcomes[0].error.code == "JobCancelled"
    await second.say(extend=pb.ExtendRequest())
    assert (await second.hear()).WhichOneof("what") in ("extended", "error")
    first.call.cancel()
    second.call.cancel()


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_what_is_held_when_the_stream_ends_is_released(rig: Rig, how: str) -> None:
    await rig.enqueue(b"1", b"2", b"3")
    worker = await open_worker(rig, credits=3)
    jobs = [await worker.job() for _ in range(3)]
    await worker.settle(pb.SETTLE_VERB_COMPLETE, jobs[0])
    if how == "cancel":
        worker.call.cancel()
    else:
        await worker.call.done_writing()
        assert await worker.call.read() is grpc.aio.EOF
    found = await rig.claim(3, wait_ms=10_000)
    while len(found) < 2:
        found += await rig.claim(3, wait_ms=10_000)
    assert sorted(job.id for job in found) == sorted(job.id for job in jobs[1:])
    assert {job.attempt for job in found} == {1}
    await until(lambda: not rig.door.has_workers)


async def test_connection_that_is_cut_releases(rig: Rig) -> None:
    """The other side goes away without a word: its socket is cut in the middle."""
    cut, port = await cutting(rig.port)
    await rig.enqueue(b"1")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        work = channel.stream_stream(
            "/tenure.v1.Tenure/Work",
            request_serializer=pb.WorkRequest.SerializeToString,
            response_deserializer=pb.WorkResponse.FromString,
        )
        worker = Worker(work())
        wish = pb.Wish(queues=[pb.QueuePick(name="mail")])
        await worker.say(open=pb.Open(wish=wish, credits=1))
        assert (await worker.hear()).opened.worker
        job = await worker.job()
        cut()
        [again] = await rig.claim(wait_ms=10_000)
        assert (again.id, again.attempt) == (job.id, 1)
        with pytest.raises(grpc.aio.AioRpcError):
            await worker.hear()


async def cutting(target: int) -> tuple[Any, int]:
    """A port that leads to another one, until it is cut."""
    writers: list[asyncio.StreamWriter] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except OSError:
            pass
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", target)
        writers.extend((writer, out))
        await asyncio.gather(carry(reader, out), carry(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, family=socket.AF_INET)

    def cut() -> None:
        server.close()
        for writer in writers:
            writer.transport.abort()

    return cut, server.sockets[0].getsockname()[1]


async def test_waiting_stream_takes_nothing_after_its_end(rig: Rig) -> None:
    worker = await open_worker(rig, credits=1)
    worker.call.cancel()
    await until(lambda: not rig.door.has_workers)
    [id] = await rig.enqueue(b"1")
    assert [(job.id, job.attempt) for job in await rig.claim()] == [(id, 1)]


async def test_answers_are_sent_before_a_closed_stream_ends(rig: Rig) -> None:
    await rig.enqueue(*[b"1"] * 50)
    worker = await open_worker(rig, credits=50)
    jobs = [await worker.job() for _ in range(50)]
    for job in jobs:
        item = pb.Settlement(id=job.id, token=job.token)
        await worker.say(settle=pb.SettleRequest(verb=pb.SETTLE_VERB_COMPLETE, items=[item]))
    await worker.call.done_writing()
    refs = [(await worker.hear()).ref for _ in jobs]
    assert await worker.call.read() is grpc.aio.EOF
    assert sorted(refs) == list(range(2, 52))
    assert await states(rig) == {"completed": 50}


@pytest.mark.parametrize(
    "first",
    [
        pb.WorkRequest(credits=1),
        pb.WorkRequest(),
        pb.WorkRequest(open=pb.Open(credits=-1)),
        pb.WorkRequest(open=pb.Open(credits=GRPC_CREDITS_MAX + 1)),
        pb.WorkRequest(open=pb.Open(wish=pb.Wish(queues=[pb.QueuePick(name="no queue")]))),
        pb.WorkRequest(open=pb.Open(wish=pb.Wish(lease_ms=1))),
    ],
    ids=lambda _: "",
)
async def test_wrong_beginning_ends_the_stream(rig: Rig, first: pb.WorkRequest) -> None:
    call = rig.stub.Work()
    await call.write(first)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error_of(raised).code == "InvalidRequest"
    assert not rig.door.has_workers


async def test_wrong_request_is_answered_and_the_stream_goes_on(rig: Rig) -> None:
    worker = await open_worker(rig)
    ref = await worker.say(settle=pb.SettleRequest())
    answer = await worker.hear()
    assert (answer.ref, answer.error.code) == (ref, "InvalidRequest")
    await rig.enqueue(b"1")
    await worker.say(credits=1)
    assert (await worker.job()).payload == b"1"
    await worker.say(credits=GRPC_CREDITS_MAX + 1)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await worker.hear()
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert len(await rig.claim(wait_ms=10_000)) == 1


async def test_stream_of_a_token_without_the_role_is_refused() -> None:
    async with serving(shop=token("secret", roles=("producer",))) as rig:
        call = rig.stub.Work(metadata=(("authorization", "Bearer secret"),))
        await call.write(pb.WorkRequest(open=pb.Open(credits=1)))
        assert (await call.read()).opened.worker
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert raised.value.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_stop_ends_streams_and_releases(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with serving(open_store(url)) as rig:
        [id] = await rig.enqueue(b"1")
        worker = await open_worker(rig, credits=2)
        assert (await worker.job()).id == id
        stopping = asyncio.ensure_future(rig.server.stop())
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await worker.hear()
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
        await stopping
    async with serving(open_store(url)) as rig:
        assert [(job.id, job.attempt) for job in await rig.claim()] == [(id, 1)]
