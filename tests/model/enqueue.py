"""Enqueue: checks in order, duplicates, dependencies, backpressure."""

from tenure.core import dependency, job, state
from tenure.core.answer import Outcome
from tenure.core.error import Conflict, DependencyNotFound, Error, InvalidRequest, Overloaded, PayloadTooLarge
from tenure.core.job import Extras, Options
from tenure.core.request import Batch
from tenure.core.state import BLOCKED, ENQUEUE, FAIL_DEPENDENCY, FAILED, REASON_DEPENDENCY, SCHEDULED, UPDATE
from tests.model.ending import decide, finish, hear
from tests.model.limit import bucket_of
from tests.model.turn import make_ready
from tests.model.world import Job, World

PLAIN = Extras()


def enqueue_batch(world: World, tenant: str, batch: Batch, above_limits: bool = False) -> list[Outcome]:
    """One outcome per item. An atomic batch with a bad item leaves the world as it was."""
    check_shape(batch)
    before = world.copy() if batch.atomic else world
    answers: list[Outcome] = []
    for at, payload in enumerate(batch.payloads):
        options, extras = item_of(batch, at)
        try:
            answers.append(enqueue(world, tenant, options, extras, payload, above_limits))
        except Error as error:
            answers.append(Outcome(0, error=error))
            if batch.atomic:
                world.restore(before)
                return refuse_others(batch, at, error)
    return answers


def item_of(batch: Batch, at: int) -> tuple[Options, Extras]:
    options = batch.each[at] if batch.each is not None else batch.options
    return options, batch.extra(at) or PLAIN


def check_shape(batch: Batch) -> None:
    for column in (batch.extras, batch.each, batch.keys):
        if column is not None and len(column) != len(batch.payloads):
            raise InvalidRequest("batch", len(column), "its columns must have the same length")


def refuse_others(batch: Batch, bad: int, error: Error) -> list[Outcome]:
    others: list[Error] = [Conflict("another item was refused", 0) for _ in batch.payloads]
    others[bad] = error
    return [Outcome(0, error=each) for each in others]


def enqueue(
    world: World, tenant: str, options: Options, extras: Extras, payload: object, above_limits: bool = False
) -> Outcome:
    body = check_payload(world, payload)
    check_options(world, tenant, options, extras)
    delay_ms, expires_at = check_times(world, options, extras)
    duplicate = find_duplicate(world, tenant, options, extras, body)
    if duplicate is not None:
        return duplicate
    for id in extras.depends_on:
        if world.outcome(tenant, id) is None:
            raise DependencyNotFound(id)
    if not above_limits:
        check_room(world, tenant, options, body)
        take_enqueue_tokens(world, tenant, options)
    return store(world, tenant, options, extras, body, delay_ms, expires_at)


def check_payload(world: World, payload: object) -> bytes:
    if not isinstance(payload, bytes):
        raise InvalidRequest("payload", payload, "it must be bytes")
    largest = world.of_store("payload_bytes_max")
    assert isinstance(largest, int)
    if len(payload) > largest:
        raise PayloadTooLarge(len(payload), largest)
    return payload


def check_options(world: World, tenant: str, options: Options, extras: Extras) -> None:
    if options.lifo and extras.group:
        raise InvalidRequest("lifo", True, "a group has its own order")
    if options.lifo and world.of_queue(tenant, options.queue, "age_ms"):
        raise InvalidRequest("lifo", True, "a queue with ageing has its own order")
    if extras.debounce_key and not options.debounce_ms:
        raise InvalidRequest("debounce_key", extras.debounce_key, "it needs debounce_ms")
    if options.debounce_ms and not extras.debounce_key:
        raise InvalidRequest("debounce_ms", options.debounce_ms, "it needs debounce_key")


def check_times(world: World, options: Options, extras: Extras) -> tuple[int, int]:
    """How long it is to wait, unless until an instant, and when it expires (0: never)."""
    if options.delay_ms and extras.run_at:
        raise InvalidRequest("run_at", extras.run_at, "give either run_at or delay_ms")
    if options.ttl_ms and extras.expires_at:
        raise InvalidRequest("expires_at", extras.expires_at, "give either expires_at or ttl_ms")
    delay_ms = options.delay_ms
    if extras.debounce_key and options.debounce_mode == job.TRAILING:
        delay_ms = options.debounce_ms
    run_at = world.wall + delay_ms if delay_ms else extras.run_at
    expires_at = world.wall + options.ttl_ms if options.ttl_ms else extras.expires_at
    if expires_at and expires_at <= max(run_at, world.wall):
        raise InvalidRequest("expires_at", expires_at, "it must be after run_at and after now")
    return delay_ms, expires_at


# Duplicates.


def find_duplicate(world: World, tenant: str, options: Options, extras: Extras, payload: bytes) -> Outcome | None:
    found = (
        holder_of_custom_id(world, tenant, extras.custom_id)
        or holder_of_idempotency_key(world, tenant, options, extras.idempotency_key)
        or holder_of_unique_key(world, tenant, options.queue, extras.unique_key)
    )
    if found is not None:
        return answer_conflict(world, found, options, extras, payload)
    if extras.debounce_key:
        return debounce(world, tenant, options, extras, payload)
    return None


def everyone(world: World, tenant: str) -> list[Job]:
    """Jobs of the tenant, present and removed, the newest first."""
    both = [*world.graves.values(), *world.jobs.values()]
    return sorted((job for job in both if job.tenant == tenant), key=lambda job: -job.id)


def holder_of_custom_id(world: World, tenant: str, custom_id: str) -> Job | None:
    for found in everyone(world, tenant):
        if custom_id and found.extras.custom_id == custom_id and world.outcome(tenant, found.id) is not None:
            return found
    return None


def holder_of_idempotency_key(world: World, tenant: str, options: Options, key: str) -> Job | None:
    for found in everyone(world, tenant):
        if not key or found.extras.idempotency_key != key or (found.queue, found.task) != (options.queue, options.task):
            continue
        is_present = found.id in world.jobs and found.is_live
        if is_present or world.elapsed < found.opened_at + found.options.idempotency_ttl_ms:
            return found
    return None


def holder_of_unique_key(world: World, tenant: str, queue: str, key: str) -> Job | None:
    for found in world.live():
        if key and found.tenant == tenant and found.queue == queue and found.extras.unique_key == key:
            return found
    return None


def answer_conflict(world: World, found: Job, options: Options, extras: Extras, payload: bytes) -> Outcome:
    if options.on_conflict == job.ERROR:
        raise Conflict("the key is taken", found.id)
    is_open = found.id in world.jobs and found.is_live and found.state != state.RUNNING
    if options.on_conflict != job.REPLACE or not is_open:
        return Outcome(found.id, found.state, duplicate=True)
    found.payload = payload
    found.metadata = dict(extras.metadata or {})
    world.move(found, UPDATE, found.state, "updated")
    return Outcome(found.id, found.state, duplicate=True, replaced=True)


def debounce(world: World, tenant: str, options: Options, extras: Extras, payload: bytes) -> Outcome | None:
    for found in everyone(world, tenant):
        if found.extras.debounce_key != extras.debounce_key or found.queue != options.queue:
            continue
        if options.debounce_mode == job.LEADING:
            is_open = world.elapsed < found.opened_at + found.options.debounce_ms
            return Outcome(found.id, found.state, duplicate=True) if is_open else None
        if found.id not in world.jobs or found.state != SCHEDULED:
            return None
        return trail(world, found, options, extras, payload)
    return None


def trail(world: World, found: Job, options: Options, extras: Extras, payload: bytes) -> Outcome:
    wait_ms = options.debounce_max_wait_ms or job.DEBOUNCE_WINDOWS_MAX * options.debounce_ms
    found.payload = payload
    found.metadata = dict(extras.metadata or {})
    found.run_at = min(world.elapsed + options.debounce_ms, found.opened_at + wait_ms)
    world.move(found, UPDATE, SCHEDULED, "updated")
    return Outcome(found.id, SCHEDULED, duplicate=True, replaced=True)


# Backpressure.


def check_room(world: World, tenant: str, options: Options, payload: bytes) -> None:
    own = [found for found in world.live() if found.tenant == tenant]
    queue = [found for found in own if found.queue == options.queue]
    rooms = (
        (queue, world.of_queue(tenant, options.queue, "jobs_max"), world.of_queue(tenant, options.queue, "bytes_max")),
        (own, world.of_tenant(tenant, "jobs_max"), world.of_tenant(tenant, "bytes_max")),
        (list(world.live()), world.of_store("jobs_max"), world.of_store("bytes_max")),
    )
    for jobs, jobs_max, bytes_max in rooms:
        if isinstance(jobs_max, int) and len(jobs) >= jobs_max:
            raise Overloaded("jobs", 0)
        size = sum(len(found.payload) for found in jobs)
        if isinstance(bytes_max, int) and size + len(payload) > bytes_max:
            raise Overloaded("bytes", 0)
    for name in enqueue_buckets(tenant, options):
        bucket = bucket_of(world, name)
        if bucket is not None and not bucket.has_token(world.elapsed):
            raise Overloaded("rate", 0)


def enqueue_buckets(tenant: str, options: Options) -> list[tuple[str, ...]]:
    return [("enqueue queue", tenant, options.queue), ("enqueue tenant", tenant)]


def take_enqueue_tokens(world: World, tenant: str, options: Options) -> None:
    for name in enqueue_buckets(tenant, options):
        bucket = bucket_of(world, name)
        if bucket is not None and bucket.has_token(world.elapsed):
            bucket.take()


# Storing.


def store(
    world: World, tenant: str, options: Options, extras: Extras, payload: bytes, delay_ms: int, expires_at: int
) -> Outcome:
    world.last_id += 1
    new = Job(world.last_id, tenant, options, extras, payload, options.priority, world.at, 0, expires_at)
    world.run_after(new, delay_ms)
    if not delay_ms:
        new.run_at = max(extras.run_at, world.wall)
    new.metadata = dict(extras.metadata or {})
    new.tags = extras.tags
    new.opened_at = world.elapsed
    world.jobs[new.id] = new
    start(world, new, ENQUEUE, "enqueued")
    return Outcome(new.id, new.state)


def start(world: World, new: Job, cause: int, type: str) -> None:
    """Where a new, or replayed, job begins."""
    hear(world, new)
    decision = decide(new) if new.extras.depends_on else dependency.GO
    if decision != dependency.GO:
        world.move(new, cause, BLOCKED, type)
        if decision == dependency.FAIL:
            finish(world, new, FAIL_DEPENDENCY, FAILED, "failed", REASON_DEPENDENCY)
    elif world.overdue(new) < 0:
        world.move(new, cause, SCHEDULED, type)
    else:
        make_ready(world, new, cause, type)
