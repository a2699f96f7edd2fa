"""Codecs from end to end: the codec of a job writes and reads its arguments, results and stream, in every mode."""

from typing import Any

import pytest

import tenure
from tenure.core.error import JobFailed
from tests.worker import codecs
from tests.worker.codecs import SECRET, app

WAIT = 60


async def enqueue_bytes(payload: bytes, **options: Any) -> "tenure.Job[Any]":
    """What another program, or another version of this one, might have stored."""
    client = app.home.here
    assert client is not None
    return app.job((await client.enqueue(payload, **options)).id)


async def reason_of(job: "tenure.Job[Any]") -> tuple[str, str]:
    with pytest.raises(JobFailed) as raised:
        await job.result(WAIT)
    return (await job.info()).reason, str(raised.value)


@pytest.mark.parametrize("mode", codecs.MODES)
@pytest.mark.parametrize("codec", ["sealed", "pickle", "msgpack"])
async def test_codec_of_a_job_writes_its_arguments_results_and_stream(url: str, codec: str, mode: str) -> None:
    app.use(url)
    async with app.worker(concurrency=1):
        job = await codecs.MODES[mode][codec].enqueue(SECRET)
        assert await job.result(WAIT) == [SECRET, SECRET]
        assert [item async for item in job.stream()] == [[SECRET, 1], [SECRET, 2]]
        record, client = await job.info(), app.home.here
        assert client is not None
        assert record.codec == codec
        assert record.result is not None
        stored = [record.payload, record.result, *(item.data for item in await client.stream(job.id))]
        if codec == "sealed":
            assert not any(SECRET.encode() in data for data in stored)
            assert all(data.startswith(b"TSL\0\x01\x072026-11") for data in stored)
        assert [app.codecs.get(codec).decoder(Any)(data) for data in stored] == [
            {"word": SECRET},
            [SECRET, SECRET],
            [SECRET, 1],
            [SECRET, 2],
        ]


@pytest.mark.parametrize("mode", codecs.MODES)
async def test_pickle_carries_what_json_cannot(mode: str) -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        job = await codecs.MODES[mode]["pickle"].enqueue({1, (2, 3)})
        assert await job.result(WAIT) == [{1, (2, 3)}] * 2
        assert [item async for item in job.stream()] == [[{1, (2, 3)}, 1], [{1, (2, 3)}, 2]]


@pytest.mark.parametrize("mode", codecs.MODES)
async def test_job_of_another_codec_is_answered_in_that_one(mode: str) -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        job = await enqueue_bytes(b'{"word":"a"}', task=codecs.MODES[mode]["sealed"].name)
        assert await job.result(WAIT) == ["a", "a"]
        assert (await job.info()).result == b'["a","a"]'
        assert [item async for item in job.stream()] == [["a", 1], ["a", 2]]


async def test_arguments_for_a_process_are_read_only_there() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        job = await codecs.who_read_it.enqueue(codecs.Noted())
        codecs.read_here.clear()
        reader, runner = await job.result(WAIT)
        assert reader == runner
        assert codecs.read_here == []


async def test_older_sealed_arguments_are_brought_up_in_a_process() -> None:
    app.use("memory://")
    payload = app.codecs.get("sealed").encode({"to": "a", "title": "hi"})
    async with app.worker(concurrency=1):
        job = await enqueue_bytes(payload, task="upgraded", codec="sealed", schema_version=1)
        assert await job.result(WAIT) == ["a", "hi"]


async def test_batch_opens_and_seals_each_job() -> None:
    app.use("memory://")
    async with app.worker():
        jobs = [await codecs.together.enqueue(word) for word in ("a", "b", "c")]
        assert [await job.result(WAIT) for job in jobs] == ["A", "B", "C"]
        assert (await jobs[0].info()).result != (await jobs[1].info()).result


@pytest.mark.parametrize("mode", codecs.MODES)
@pytest.mark.parametrize(
    ("codec", "other", "said"),
    [
        ("sealed", tenure.SealedCodec(keys={"1999-01": bytes(32)}), "'1999-01'"),
        ("sealed", tenure.SealedCodec(keys={"2026-11": bytes(32)}), "another key"),
        ("pickle", tenure.PickleCodec(b"other key, other key"), "signature"),
    ],
)
async def test_job_that_cannot_be_opened_is_parked_with_its_bytes(
    mode: str, codec: str, other: tenure.Codec, said: str
) -> None:
    app.use("memory://")
    payload = other.encode({"word": SECRET})
    async with app.worker(concurrency=1):
        job = await enqueue_bytes(payload, task=codecs.MODES[mode][codec].name, codec=codec)
        reason, message = await reason_of(job)
        assert reason == "undecodable"
        assert said in message
        found = await job.info()
        assert (found.payload, found.attempt) == (payload, 1)
