"""The low-level client on a store in memory, with a clock that only the test moves."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import pytest

import tenure
from tenure import Backoff, Client, Leased, Rate
from tenure.core.bound import make_options
from tenure.core.clock import Now
from tenure.core.request import CLONE, Batch, Change, Filter, Settle
from tenure.core.state import SETTLE_COMPLETE

T = TypeVar("T")
BEGIN = 1_700_000_000_000
HOUR_MS = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def __call__(self) -> Now:
        return Now(BEGIN + self.passed_ms, self.passed_ms)

    def advance(self, ms: int) -> None:
        self.passed_ms += ms

    @property
    def wall_ms(self) -> int:
        return BEGIN + self.passed_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(clock: Clock) -> AsyncIterator[Client]:
    async with tenure.connect("memory://", clock=clock) as client:
        yield client


async def settle_down() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def start(call: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    task = asyncio.ensure_future(call)
    await settle_down()
    return task


async def lease(client: Client, payload: bytes = b"", **fields: object) -> Leased:
    await client.enqueue(payload, **fields)
    [job] = await client.claim(str(fields.get("queue", "default")))
    return job


# Connecting.


def test_unknown_store_is_refused() -> None:
    with pytest.raises(tenure.InvalidRequest) as refused:
        tenure.connect("mongodb://localhost")
    assert refused.value.field == "url"


@pytest.mark.parametrize("url", ["postgresql://localhost/jobs", "redis://localhost"])
def test_store_that_is_planned_is_unsupported(url: str) -> None:
    with pytest.raises(tenure.Unsupported, match="memory:// and sqlite:// work"):
        tenure.connect(url)


async def test_client_that_was_not_opened_is_unavailable(clock: Clock) -> None:
    client = tenure.connect(clock=clock)
    with pytest.raises(tenure.Unavailable, match="open it first"):
        await client.count()


async def test_store_says_what_it_can_do(client: Client) -> None:
    assert client.capabilities.name == "memory"
    assert client.capabilities.durability == ()


# Enqueue.


async def test_enqueue_answers_id_and_state(client: Client) -> None:
    first = await client.enqueue(b"one")
    second = await client.enqueue(b"two", delay="5m")
    assert (first.state, first.duplicate, first.error) == ("ready", False, None)
    assert second.state == "scheduled"
    assert second.id > first.id


OPTIONS: dict[str, object] = {
    "queue": "mail",
    "task": "send",
    "priority": "high",
    "delay": "5s",
    "ttl": timedelta(hours=1),
    "max_attempts": None,
    "backoff": Backoff.fixed("1s"),
    "timeout": 60,
    "lease": "1m",
    "custom_id": "c",
    "unique_key": "u",
    "idempotency_key": "i",
    "idempotency_ttl": "1h",
    "on_conflict": "error",
    "dependency_policy": "all_done",
    "group": "g",
    "limit_keys": ["api:x"],
    "tags": ["t"],
    "metadata": {"k": "v"},
    "keep_completed": "1h",
    "keep_failed": "2h",
    "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "codec": "raw",
    "schema_version": 2,
}


async def test_enqueue_takes_every_option(client: Client, clock: Clock) -> None:
    before = await client.enqueue(b"")
    made = await client.enqueue(b"work", depends_on=[before.id], **OPTIONS)
    job = await client.get(made.id)
    assert (job.queue, job.task, job.priority, job.max_attempts, job.group) == ("mail", "send", 10, None, "g")
    assert (job.state, job.run_at, job.expires_at) == ("blocked", clock.wall_ms + 5_000, clock.wall_ms + HOUR_MS)
    assert (job.custom_id, job.tags, job.metadata, job.depends_on) == ("c", ("t",), {"k": "v"}, (before.id,))
    assert (job.codec, job.schema_version, job.trace) == ("raw", 2, OPTIONS["trace"])


async def test_enqueue_takes_times_of_the_clock(client: Client, clock: Clock) -> None:
    made = await client.enqueue(b"", run_at=clock.wall_ms / 1_000 + 1, expires_at=clock.wall_ms / 1_000 + 2)
    job = await client.get(made.id)
    assert (job.run_at, job.expires_at) == (clock.wall_ms + 1_000, clock.wall_ms + 2_000)


@pytest.mark.parametrize("option", ["remove_on_complete", "remove_on_fail"])
async def test_removal_at_the_end_can_be_asked_for_by_name(client: Client, option: str) -> None:
    made = await client.enqueue(b"", **{option: True})
    [job] = await client.claim()
    if option == "remove_on_complete":
        await client.complete(job)
    else:
        await client.fail(job, retryable=False)
    with pytest.raises(tenure.JobNotFound):
        await client.get(made.id)


@pytest.mark.parametrize("delay", ["90s", 90, 90.0, "1.5m", timedelta(minutes=1, seconds=30)])
async def test_durations_are_read_however_they_are_written(client: Client, clock: Clock, delay: object) -> None:
    made = await client.enqueue(b"", delay=delay)
    assert (await client.get(made.id)).run_at == clock.wall_ms + 90_000


@pytest.mark.parametrize("option", ["delay", "ttl", "timeout", "lease", "debounce", "keep_completed", "keep_failed"])
async def test_what_is_no_duration_is_refused_by_its_name(client: Client, option: str) -> None:
    with pytest.raises(tenure.InvalidRequest, match="it must be a timedelta, seconds, or text") as refused:
        await client.enqueue(b"", **{option: "soon"})
    assert refused.value.field == option


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("queu", "queue"),
        ("dealy", "delay"),
        ("uniq_key", "unique_key"),
        ("max_retries", "max_attempts"),
        ("tag", "tags"),
    ],
)
async def test_unknown_option_names_the_nearest(client: Client, wrong: str, right: str) -> None:
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.enqueue(b"", **{wrong: "x"})
    assert refused.value.field == wrong
    assert refused.value.rule == f"there is no such option; did you mean {right}?"


@pytest.mark.parametrize(
    ("field", "value"), [("queue", "a b"), ("priority", "urgent"), ("max_attempts", 0), ("tags", "t"), ("group", "")]
)
async def test_wrong_option_is_refused_by_its_name(client: Client, field: str, value: object) -> None:
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.enqueue(b"", **{field: value})
    assert refused.value.field == field
    assert await client.count() == {}


async def test_payload_that_is_too_large_is_refused(client: Client) -> None:
    with pytest.raises(tenure.PayloadTooLarge) as refused:
        await client.enqueue(b"x" * (1024 * 1024 + 1))
    assert refused.value.max == 1024 * 1024


async def test_dependency_that_is_not_there_is_named(client: Client) -> None:
    with pytest.raises(tenure.DependencyNotFound) as refused:
        await client.enqueue(b"", depends_on=[99])
    assert refused.value.job == 99


async def test_duplicate_is_answered_with_the_first_job(client: Client) -> None:
    first = await client.enqueue(b"one", unique_key="u")
    again = await client.enqueue(b"two", unique_key="u")
    replaced = await client.enqueue(b"three", unique_key="u", on_conflict="replace")
    assert (again.id, again.duplicate, again.replaced) == (first.id, True, False)
    assert (replaced.id, replaced.replaced) == (first.id, True)
    assert (await client.get(first.id)).payload == b"three"
    with pytest.raises(tenure.Conflict) as refused:
        await client.enqueue(b"four", unique_key="u", on_conflict="error")
    assert refused.value.existing == first.id


async def test_debounce_is_a_key_and_a_window(client: Client, clock: Clock) -> None:
    first = await client.enqueue(b"one", debounce_key="d", debounce="10s")
    assert (await client.enqueue(b"two", debounce_key="d", debounce="10s")).id == first.id
    clock.advance(10_000)
    assert (await client.enqueue(b"three", debounce_key="d", debounce="10s")).id != first.id


async def test_many_are_answered_one_by_one(client: Client) -> None:
    answers = await client.enqueue_many([b"a", b"x" * (1024 * 1024 + 1), b"b"], queue="q")
    assert [answer.id for answer in answers] == [1, 0, 2]
    assert isinstance(answers[1].error, tenure.PayloadTooLarge)
    assert (await client.count("q"))["q"]["ready"] == 2


async def test_many_share_their_extras(client: Client) -> None:
    answers = await client.enqueue_many([b"a", b"b"], tags=["t"])
    assert [(await client.get(answer.id)).tags for answer in answers] == [("t",), ("t",)]


async def test_batch_in_columns_is_stored_whole_or_not_at_all(client: Client) -> None:
    answers = await client.enqueue_batch(Batch(make_options(), [b"a", b"x" * (1024 * 1024 + 1)], atomic=True))
    assert {at: error.code for at, error in answers.errors().items()} == {0: "Conflict", 1: "PayloadTooLarge"}
    assert await client.count() == {}


# Claim.


async def test_claim_answers_all_that_a_worker_needs(client: Client, clock: Clock) -> None:
    made = await client.enqueue(b"work", task="send", codec="raw", schema_version=3, trace="t")
    [job] = await client.claim("default", worker="w1", lease="10s")
    assert (job.id, job.payload, job.tenant, job.queue, job.task) == (made.id, b"work", "default", "default", "send")
    assert (job.attempt, job.lease_until) == (1, clock.wall_ms + 10_000)
    assert (job.codec, job.schema_version, job.trace) == ("raw", 3, "t")
    assert (await client.get(made.id)).worker == "w1"


async def test_claim_without_a_queue_takes_from_the_default(client: Client) -> None:
    await client.enqueue(b"")
    assert len(await client.claim()) == 1
    assert await client.claim() == []


async def test_claim_takes_queues_weights_prefixes_and_tasks(client: Client) -> None:
    for queue in ("a.one", "a.two", "b"):
        await client.enqueue_many([b""] * 3, queue=queue, task=queue)
    assert {job.queue for job in await client.claim("a.*", n=10)} == {"a.one", "a.two"}
    assert len(await client.claim(("b", 2), "other", n=2, strict=True)) == 2
    assert await client.claim("b", tasks=["unknown"]) == []
    assert len(await client.claim("b", tasks=["unknown", "b"])) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 0),
        ("n", 10_001),
        ("wait", "soon"),
        ("lease", "never"),
        ("tasks", []),
        ("tasks", ["a b"]),
        ("worker", "w" * 257),
    ],
)
async def test_wrong_claim_is_refused_by_its_field(client: Client, field: str, value: Any) -> None:
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.claim("q", **{field: value})
    assert refused.value.field == field


async def test_wrong_queue_cannot_be_claimed(client: Client) -> None:
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.claim("a b")
    assert refused.value.field == "queues"


async def test_waiting_claim_is_woken_by_an_enqueue(client: Client) -> None:
    waiting = await start(client.claim("q", wait="1m"))
    assert not waiting.done()
    made = await client.enqueue(b"work", queue="q")
    [job] = await waiting
    assert (job.id, job.payload) == (made.id, b"work")


async def test_waiting_claim_is_woken_by_the_clock(client: Client, clock: Clock) -> None:
    made = await client.enqueue(b"", delay="10s")
    waiting = await start(client.claim(wait="1m"))
    clock.advance(9_999)
    await client.count()
    await settle_down()
    assert not waiting.done()
    clock.advance(1)
    await client.count()
    assert [job.id for job in await waiting] == [made.id]


async def test_waiting_claim_gives_up_after_its_wait(client: Client, clock: Clock) -> None:
    waiting = await start(client.claim(wait="10s"))
    clock.advance(10_000)
    await client.count()
    assert await waiting == []
    await client.enqueue(b"")
    assert len(await client.claim()) == 1


async def test_waiting_claims_are_served_in_the_order_they_came(client: Client) -> None:
    waiting = [await start(client.claim(wait="1m")) for _ in range(3)]
    made = await client.enqueue_many([b""] * 2)
    await settle_down()
    assert [task.done() for task in waiting] == [True, True, False]
    assert [(await task)[0].id for task in waiting[:2]] == [job.id for job in made]
    await client.enqueue(b"")
    assert len(await waiting[2]) == 1


async def test_claim_that_is_cancelled_while_it_waits_takes_nothing(client: Client) -> None:
    waiting = await start(client.claim(wait="1m"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    made = await client.enqueue(b"")
    assert (await client.get(made.id)).state == "ready"


async def test_claim_that_is_cancelled_as_it_is_answered_gives_its_lease_back(client: Client) -> None:
    waiting = await start(client.claim(wait="1m"))
    made = await client.enqueue(b"")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    job = await client.get(made.id)
    assert (job.state, job.attempt, job.delivery) == ("ready", 0, 1)
    [again] = await client.claim()
    assert (again.id, again.attempt) == (made.id, 1)


async def test_lease_given_back_goes_to_the_next_who_waits(client: Client) -> None:
    first = await start(client.claim(wait="1m"))
    second = await start(client.claim(wait="1m"))
    made = await client.enqueue(b"")
    first.cancel()
    assert [job.id for job in await second] == [made.id]
    assert first.cancelled()


# Settle.


async def test_completed_job_has_its_result(client: Client) -> None:
    job = await lease(client)
    settled = await client.complete(job, b"result")
    assert (settled.id, settled.state) == (job.id, "completed")
    assert (await client.get(job.id)).result == b"result"
    assert await client.complete(job, b"result") == settled


async def test_completion_brings_its_followups(client: Client) -> None:
    job = await lease(client)
    await client.complete(job, followups=Batch(make_options(queue="next"), [b"a", b"b"]))
    children = await client.claim("next", n=5)
    assert [child.payload for child in children] == [b"a", b"b"]
    assert (await client.get(children[0].id)).parent == job.id


async def test_completion_with_a_wrong_followup_is_refused_and_the_lease_stays(client: Client) -> None:
    job = await lease(client)
    with pytest.raises(tenure.PayloadTooLarge):
        await client.complete(job, followups=Batch(make_options(), [b"", b"x" * (1024 * 1024 + 1)]))
    assert (await client.complete(job)).state == "completed"


async def test_failed_job_is_tried_again_by_its_backoff(client: Client, clock: Clock) -> None:
    job = await lease(client, backoff=Backoff.fixed("5s"))
    settled = await client.fail(job, "ValueError", "boom", "line 1")
    assert (settled.state, settled.run_at) == ("retrying", clock.wall_ms + 5_000)
    record = await client.get(job.id)
    assert record.history[0].error is not None
    assert (record.history[0].error.type, record.history[0].error.message) == ("ValueError", "boom")
    clock.advance(5_000)
    [again] = await client.claim()
    assert (again.id, again.attempt) == (job.id, 2)


async def test_handler_may_name_the_delay_or_give_up(client: Client, clock: Clock) -> None:
    job = await lease(client)
    assert (await client.fail(job, retry_after="1h")).run_at == clock.wall_ms + HOUR_MS
    job = await lease(client)
    assert (await client.fail(job, retry_after=0)).state == "ready"
    [job] = await client.claim()
    assert (await client.fail(job, retryable=False)).state == "failed"
    assert (await client.get(job.id)).reason == "permanent"


async def test_released_job_keeps_its_attempt(client: Client, clock: Clock) -> None:
    job = await lease(client)
    assert (await client.release(job)).state == "ready"
    [job] = await client.claim()
    assert job.attempt == 1
    settled = await client.release(job, delay="5s")
    assert (settled.state, settled.run_at) == ("scheduled", clock.wall_ms + 5_000)


async def test_snoozed_job_comes_back_later(client: Client, clock: Clock) -> None:
    job = await lease(client)
    settled = await client.snooze(job, timedelta(minutes=1))
    assert (settled.state, settled.run_at) == ("scheduled", clock.wall_ms + 60_000)
    clock.advance(60_000)
    [again] = await client.claim()
    assert again.attempt == 1


async def test_worker_can_end_its_job_as_cancelled(client: Client) -> None:
    job = await lease(client)
    assert (await client.cancel_own(job)).state == "cancelled"


async def test_settling_under_a_lease_that_is_over_is_refused(client: Client, clock: Clock) -> None:
    job = await lease(client)
    clock.advance(30_000)
    with pytest.raises(tenure.LeaseLost) as lost:
        await client.complete(job)
    assert lost.value.reason == "expired"
    for call in (client.fail(job), client.release(job), client.snooze(job, 1), client.cancel_own(job)):
        with pytest.raises(tenure.LeaseLost):
            await call
    with pytest.raises(tenure.LeaseLost):
        await client.extend(job)


async def test_settling_by_another_verb_is_refused(client: Client) -> None:
    job = await lease(client)
    await client.complete(job)
    with pytest.raises(tenure.AlreadySettled) as settled:
        await client.fail(job)
    assert settled.value.outcome == "complete"


async def test_job_cancelled_by_another_is_not_completed(client: Client) -> None:
    job = await lease(client)
    await client.cancel(job.id)
    with pytest.raises(tenure.JobCancelled):
        await client.complete(job)


async def test_batch_is_settled_item_by_item(client: Client) -> None:
    await client.enqueue_many([b""] * 2)
    jobs = await client.claim(n=2)
    ids = [jobs[0].id, 99, jobs[1].id]
    answers = await client.settle_batch(Settle(SETTLE_COMPLETE, ids, [jobs[0].token, b"", jobs[1].token]))
    assert {at: error.code for at, error in answers.errors().items()} == {1: "JobNotFound"}
    assert (await client.count())["default"]["completed"] == 2


async def test_lease_is_extended(client: Client, clock: Clock) -> None:
    job = await lease(client)
    clock.advance(20_000)
    assert await client.extend(job) == clock.wall_ms + 30_000
    assert await client.extend(job, "10m") == clock.wall_ms + 600_000
    clock.advance(599_999)
    assert (await client.complete(job)).state == "completed"


async def test_lease_is_not_extended_beyond_its_bound(client: Client) -> None:
    job = await lease(client)
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.extend(job, "13h")
    assert refused.value.field == "lease_ms"


# While it runs.


async def test_progress_logs_and_stream_are_read_back(client: Client, clock: Clock) -> None:
    job = await lease(client)
    assert await client.progress(job, 40, "almost half") == 40
    progress = (await client.get(job.id)).progress
    assert progress is not None
    assert (progress.percent, progress.message, progress.at) == (40, "almost half", clock.wall_ms)
    assert [await client.log(job, line) for line in ("one", "two")] == [0, 1]
    assert [item.data for item in await client.logs(job.id)] == [b"one", b"two"]
    assert [await client.emit(job, data) for data in (b"a", b"b", b"c")] == [0, 1, 2]
    assert [(item.offset, item.data) for item in await client.stream(job.id, 1, 1)] == [(1, b"b")]
    assert [item.data for item in await client.stream(job.id)] == [b"a", b"b", b"c"]


async def test_output_of_a_wrong_kind_is_refused(client: Client) -> None:
    job = await lease(client)
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.progress(job, 101)
    assert refused.value.field == "percent"
    with pytest.raises(tenure.PayloadTooLarge):
        await client.emit(job, b"x" * (64 * 1024 + 1))
    await client.complete(job)
    with pytest.raises(tenure.AlreadySettled):
        await client.log(job, "late")
    with pytest.raises(tenure.JobNotFound):
        await client.logs(99)
    with pytest.raises(tenure.JobNotFound):
        await client.stream(99)


# Change.


async def test_job_is_cancelled_and_says_so_again(client: Client) -> None:
    made = await client.enqueue(b"")
    assert await client.cancel(made.id) == "cancelled"
    assert await client.cancel(made.id) == "cancelled"
    with pytest.raises(tenure.AlreadySettled):
        await client.discard(made.id)


async def test_discarded_job_is_a_dead_letter_and_can_be_replayed(client: Client) -> None:
    made = await client.enqueue(b"one")
    assert await client.discard(made.id) == "failed"
    assert (await client.get(made.id)).reason == "discarded"
    assert await client.replay(made.id, b"two") == "ready"
    job = await client.get(made.id)
    assert (job.payload, job.replays) == (b"two", 1)
    with pytest.raises(tenure.Conflict):
        await client.replay(made.id)


async def test_scheduled_job_is_promoted(client: Client) -> None:
    made = await client.enqueue(b"", delay="1h")
    assert await client.promote(made.id) == "ready"
    with pytest.raises(tenure.Conflict):
        await client.promote(made.id)


async def test_removed_job_is_gone(client: Client) -> None:
    made = await client.enqueue(b"")
    await client.remove(made.id)
    with pytest.raises(tenure.JobNotFound):
        await client.get(made.id)


async def test_running_job_is_not_removed(client: Client) -> None:
    job = await lease(client)
    with pytest.raises(tenure.Conflict, match="cancel it first"):
        await client.remove(job.id)


@pytest.mark.parametrize("verb", ["cancel", "discard", "promote", "replay", "remove", "get", "explain", "wait"])
async def test_job_that_is_not_there_is_not_found(client: Client, verb: str) -> None:
    with pytest.raises(tenure.JobNotFound) as missing:
        await getattr(client, verb)(99)
    assert missing.value.job == 99


@pytest.mark.parametrize("id", [0, -1, 2**53, 2**64, 10**30])
@pytest.mark.parametrize("verb", ["cancel", "discard", "promote", "replay", "remove", "get", "explain", "wait", "logs"])
async def test_number_that_is_no_id_is_refused(client: Client, verb: str, id: int) -> None:
    await client.enqueue(b"")
    with pytest.raises((tenure.JobNotFound, tenure.InvalidRequest)):
        await getattr(client, verb)(id)
    assert (await client.count())["default"]["ready"] == 1


async def test_batch_of_changes_is_answered_item_by_item(client: Client) -> None:
    made = await client.enqueue(b"one", tags=["t"])
    answers = await client.change_batch(Change(CLONE, [made.id, 99]))
    assert {at: error.code for at, error in answers.errors().items()} == {1: "JobNotFound"}
    clone = await client.get(answers.ids[0])
    assert (clone.payload, clone.tags) == (b"one", ("t",))
    assert clone.id != made.id


async def test_change_by_filter_answers_when_all_is_done(client: Client) -> None:
    await client.enqueue_many([b""] * 3_000, queue="old")
    await client.enqueue(b"", queue="new")
    answers = await client.change_batch(Change(0, filter=Filter(queue="old")))
    assert answers.count == 3_000
    counts = await client.count()
    assert (counts["old"]["cancelled"], counts["new"]["ready"]) == (3_000, 1)


# Settings.


async def test_settings_are_set_read_and_put_back(client: Client) -> None:
    assert await client.configure("queue", "q", concurrency=1) == {"concurrency": 1}
    assert await client.configure("queue", "q") == {"concurrency": 1}
    await client.enqueue_many([b""] * 2, queue="q")
    assert len(await client.claim("q", n=2)) == 1
    assert await client.configure("queue", "q", concurrency=None) == {}
    assert len(await client.claim("q", n=2)) == 1


async def test_every_subject_has_settings(client: Client) -> None:
    assert await client.configure("key", "api:", concurrency=2) == {"concurrency": 2}
    assert await client.configure("tenant", "default", weight=3) == {"weight": 3}
    assert await client.configure("store", "", payload_bytes_max=10) == {"payload_bytes_max": 10}
    worker = await client.configure("worker", "w1", version="2", tasks=["a"])
    assert (worker["name"], worker["version"], worker["tasks"]) == ("w1", "2", ["a"])


async def test_rate_of_a_queue_is_kept(client: Client, clock: Clock) -> None:
    await client.configure("queue", "default", rate=Rate(2, 1_000))
    await client.enqueue_many([b""] * 5)
    assert len(await client.claim(n=5)) == 2
    clock.advance(500)
    assert len(await client.claim(n=5)) == 1


async def test_settings_that_are_wrong_are_refused(client: Client) -> None:
    with pytest.raises(tenure.InvalidRequest, match="queue, key, tenant, store, worker"):
        await client.configure("job", "1")
    with pytest.raises(tenure.InvalidRequest, match="did you mean concurrency"):
        await client.configure("queue", "q", concurency=1)
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.configure("queue", "q", concurrency=-1)
    assert refused.value.field == "concurrency"
    with pytest.raises(tenure.QueueNotFound):
        await client.configure("queue", "q")


@pytest.mark.parametrize("numbers", [(0, 1_000), (1, 0), (-1, 1_000)], ids=["no tokens", "no period", "negative"])
async def test_rate_that_cannot_be_is_refused_and_breaks_nothing(client: Client, numbers: tuple[int, int]) -> None:
    await client.enqueue(b"")
    with pytest.raises(tenure.InvalidRequest):
        await client.configure("queue", "default", rate=Rate(*numbers))
    assert len(await client.claim()) == 1


# Read.


async def test_job_is_found_by_its_own_name(client: Client) -> None:
    made = await client.enqueue(b"", custom_id="order-7")
    assert (await client.get("order-7")).id == made.id
    with pytest.raises(tenure.JobNotFound) as missing:
        await client.get("order-8")
    assert missing.value.job == "order-8"


async def test_jobs_are_found_page_by_page(client: Client) -> None:
    await client.enqueue_many([b""] * 5, tags=["t"])
    await client.enqueue(b"")
    page = await client.find(Filter(tag="t"), limit=3)
    rest = await client.find(Filter(tag="t"), limit=3, cursor=page.cursor)
    assert [job.id for job in (*page.jobs, *rest.jobs)] == [1, 2, 3, 4, 5]
    assert len((await client.find()).jobs) == 6
    with pytest.raises(tenure.InvalidRequest):
        await client.find(cursor="nonsense")
    with pytest.raises(tenure.InvalidRequest):
        await client.find(limit=0)


async def test_jobs_are_counted_by_queue_and_state(client: Client) -> None:
    await client.enqueue_many([b""] * 2, queue="a")
    await client.enqueue(b"", queue="b", delay="1h")
    counts = await client.count()
    assert (counts["a"]["ready"], counts["b"]["scheduled"]) == (2, 1)
    assert list(await client.count("a")) == ["a"]


async def test_dead_letters_are_grouped_by_fingerprint(client: Client) -> None:
    for message in ("user 1", "user 2", "other"):
        await client.fail(await lease(client), "KeyError", message, retryable=False)
    groups = await client.dead_letter_groups()
    assert [(group.count, group.type, group.reason) for group in groups] == [
        (2, "KeyError", "permanent"),
        (1, "KeyError", "permanent"),
    ]
    assert await client.dead_letter_groups("elsewhere") == []


async def test_job_is_explained(client: Client, clock: Clock) -> None:
    await client.configure("queue", "q", paused=True)
    made = await client.enqueue(b"", queue="q")
    found = await client.explain(made.id)
    assert (found.id, found.state, found.held_by, found.place) == (made.id, "ready", "queue_paused", 0)
    later = await client.enqueue(b"", delay="5s")
    assert (await client.explain(later.id)).earliest == clock.wall_ms + 5_000


# Wait.


async def test_wait_answers_the_result_the_moment_there_is_one(client: Client) -> None:
    job = await lease(client)
    waiting = await start(client.wait(job.id))
    assert not waiting.done()
    await client.complete(job, b"result")
    assert await waiting == b"result"
    assert await client.wait(job.id) == b"result"


async def test_wait_for_a_failed_job_raises_its_error(client: Client) -> None:
    job = await lease(client)
    waiting = await start(client.wait(job.id))
    await client.fail(job, "ValueError", "boom", "line 1", retryable=False)
    for call in (waiting, client.wait(job.id)):
        with pytest.raises(tenure.JobFailed, match="ValueError: boom") as failed:
            await call
        assert (failed.value.type, failed.value.trace, failed.value.reason) == ("ValueError", "line 1", "permanent")


async def test_wait_for_a_discarded_job_raises_its_reason(client: Client) -> None:
    made = await client.enqueue(b"")
    await client.discard(made.id)
    with pytest.raises(tenure.JobFailed, match="discarded") as failed:
        await client.wait(made.id)
    assert failed.value.reason == "discarded"


async def test_wait_for_a_cancelled_job_says_so(client: Client) -> None:
    made = await client.enqueue(b"")
    waiting = await start(client.wait(made.id))
    await client.cancel(made.id)
    with pytest.raises(tenure.JobCancelled) as cancelled:
        await waiting
    assert cancelled.value.job == made.id


async def test_wait_that_is_too_long_times_out_and_the_job_goes_on(client: Client, clock: Clock) -> None:
    made = await client.enqueue(b"")
    waiting = await start(client.wait(made.id, timeout="10s"))
    clock.advance(10_000)
    await client.count()
    with pytest.raises(tenure.Timeout, match="it goes on"):
        await waiting
    assert (await client.get(made.id)).state == "ready"


async def test_wait_of_no_time_answers_at_once(client: Client) -> None:
    made = await client.enqueue(b"")
    with pytest.raises(TimeoutError):
        await client.wait(made.id, timeout=0)


async def test_wait_is_bounded(client: Client) -> None:
    made = await client.enqueue(b"")
    with pytest.raises(tenure.InvalidRequest):
        await client.wait(made.id, timeout="11m")


async def test_waiting_that_is_given_up_does_not_cancel_the_job(client: Client) -> None:
    job = await lease(client)
    waiting = await start(client.wait(job.id))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await client.complete(job)).state == "completed"


# Tenants.


async def test_tenants_do_not_see_each_other(client: Client) -> None:
    acme, globex = client.as_tenant("acme"), client.as_tenant("globex")
    made = await acme.enqueue(b"", custom_id="c", unique_key="u")
    assert await globex.claim() == []
    assert await globex.count() == {}
    assert (await globex.find()).jobs == ()
    assert not (await globex.enqueue(b"", custom_id="c", unique_key="u")).duplicate
    for call in (globex.get(made.id), globex.cancel(made.id), globex.explain(made.id), globex.wait(made.id)):
        with pytest.raises(tenure.JobNotFound):
            await call
    with pytest.raises(tenure.DependencyNotFound):
        await globex.enqueue(b"", depends_on=[made.id])
    assert {event.job async for event in acme.events()} == {made.id}
    [job] = await acme.claim()
    assert (job.id, job.tenant) == (made.id, "acme")
    with pytest.raises(tenure.AlreadySettled):
        await globex.complete(job)
    assert (await acme.complete(job)).state == "completed"


async def test_worker_of_all_tenants_takes_from_each(client: Client) -> None:
    for tenant in ("acme", "globex"):
        await client.as_tenant(tenant).enqueue_many([b""] * 2)
    everyone = client.as_tenant("workers", tenants=["*"])
    jobs = await everyone.claim(n=10)
    assert sorted(job.tenant for job in jobs) == ["acme", "acme", "globex", "globex"]
    for job in jobs:
        assert (await everyone.complete(job)).state == "completed"


async def test_worker_of_named_tenants_takes_from_those(client: Client) -> None:
    for tenant in ("acme", "globex", "initech"):
        await client.as_tenant(tenant).enqueue(b"")
    some = client.as_tenant("workers", tenants=["acme", "initech"])
    assert sorted(job.tenant for job in await some.claim(n=10)) == ["acme", "initech"]


async def test_connection_can_be_that_of_a_tenant(clock: Clock) -> None:
    async with tenure.connect("memory://", tenant="acme", clock=clock) as client:
        made = await client.enqueue(b"")
        assert (await client.get(made.id)).tenant == "acme"


async def test_wrong_tenant_is_refused(client: Client) -> None:
    with pytest.raises(tenure.InvalidRequest) as refused:
        await client.as_tenant("a b").enqueue(b"")
    assert refused.value.field == "tenant"


# Events.


async def test_events_are_read_from_the_oldest_on(client: Client) -> None:
    job = await lease(client)
    await client.complete(job)
    events = [event async for event in client.events()]
    assert [event.type for event in events] == ["enqueued", "started", "completed"]
    assert [event.seq for event in events] == [1, 2, 3]
    assert [event.job_seq for event in events] == [1, 2, 3]


async def test_events_are_read_from_a_cursor_and_from_the_end(client: Client) -> None:
    await client.enqueue_many([b""] * 3)
    assert [event.seq async for event in client.events("e1")] == [2, 3]
    assert [event.seq async for event in client.events("end")] == []
    with pytest.raises(tenure.InvalidRequest) as refused:
        await anext(client.events("nonsense"))
    assert refused.value.field == "cursor"


async def test_page_of_events_has_the_cursor_to_go_on_from(client: Client) -> None:
    await client.enqueue_many([b""] * 3)
    page = await client.event_page(limit=2)
    assert [event.seq for event in page.events] == [1, 2]
    rest = await client.event_page(page.cursor, wait="1m")
    assert [event.seq for event in rest.events] == [3]
    assert (await client.event_page("end")).cursor == rest.cursor


async def test_many_events_are_read_over_several_pages(client: Client) -> None:
    await client.enqueue_many([b""] * 2_500)
    assert [event.seq async for event in client.events()] == list(range(1, 2_501))


async def test_events_past_retention_are_reported_lost(client: Client) -> None:
    await client.configure("store", "", events_max=64)
    for _ in range(200):
        await client.enqueue(b"")
        await client.cancel((await client.find(Filter(states=1 << 2))).jobs[0].id)
    with pytest.raises(tenure.EventsLost) as lost:
        await anext(client.events("e0"))
    assert lost.value.oldest > 1
    assert (await anext(client.events())).seq == lost.value.oldest


async def collect(client: Client, into: list[int], cursor: str = "", follow: str = "10s") -> None:
    async for event in client.events(cursor, follow=follow):
        into.append(event.seq)


async def test_followed_events_come_as_they_happen_until_none_came_for_so_long(client: Client, clock: Clock) -> None:
    seen: list[int] = []
    following = await start(collect(client, seen))
    await client.enqueue(b"")
    await settle_down()
    assert seen == [1]
    clock.advance(9_000)
    await client.enqueue(b"")
    await settle_down()
    clock.advance(9_000)
    await client.count()
    await settle_down()
    assert (seen, following.done()) == ([1, 2], False)
    clock.advance(1_000)
    await client.count()
    await settle_down()
    assert following.done()
    await following


async def test_following_ends_though_other_tenants_are_busy(client: Client, clock: Clock) -> None:
    seen: list[int] = []
    await client.enqueue(b"")
    following = await start(collect(client.as_tenant("acme"), seen, "end"))
    for _ in range(11):
        clock.advance(1_000)
        await client.enqueue(b"")
        await settle_down()
    assert (following.done(), seen) == (True, [])


async def test_following_an_empty_store_ends_after_its_time(client: Client, clock: Clock) -> None:
    seen: list[int] = []
    following = await start(collect(client, seen))
    clock.advance(10_000)
    await client.count()
    await settle_down()
    assert following.done()


async def test_following_a_quiet_store_ends_by_itself() -> None:
    """With the real clock, and nobody else who calls the store."""
    seen: list[int] = []
    async with tenure.connect() as client, asyncio.timeout(2):
        await client.enqueue(b"")
        await collect(client, seen, follow="20ms")
    assert seen == [1]


# Timers.


async def test_timers_run_without_further_calls() -> None:
    """With the real clock: the driver itself wakes the claim when the job's time has come."""
    async with tenure.connect() as client, asyncio.timeout(5):
        await client.enqueue(b"", delay="20ms")
        assert len(await client.claim(wait="4s")) == 1


# Closing.


async def test_closing_ends_waiting_calls(clock: Clock) -> None:
    client = tenure.connect(clock=clock)
    seen: list[int] = []
    async with client:
        made = await client.enqueue(b"", delay="1h")
        waiting: list[asyncio.Task[Any]] = [
            await start(client.claim(wait="1m")),
            await start(client.wait(made.id)),
            await start(client.as_tenant("acme").claim("*", wait="1m")),
            await start(collect(client, seen, "end")),
        ]
        assert not any(task.done() for task in waiting)
    for task in waiting:
        with pytest.raises(tenure.Unavailable, match="closed"):
            await task


async def test_closed_client_is_unavailable(clock: Clock) -> None:
    async with tenure.connect(clock=clock) as client:
        await client.enqueue(b"")
        other = client.as_tenant("acme")
    for call in (client.count(), client.enqueue(b""), other.claim()):
        with pytest.raises(tenure.Unavailable):
            await call


async def test_closing_again_is_harmless(clock: Clock) -> None:
    client = tenure.connect(clock=clock)
    async with client:
        await client.enqueue(b"")
        await client.close()
        with pytest.raises(tenure.Unavailable):
            await client.count()
        await settle_down()
    await client.close()
