"""Limit keys: what each allows, who holds its slots, and who is looked at again when it has room.

A job's slots and tokens are taken together, when it is leased, or not at all. A job that a key holds back is parked at
that key. When the key has room, for each queue with jobs parked there the first ones go back into their line, as many
as there is room for: they are the key's candidates. A candidate that leaves the line without taking the room
(cancelled, set aside, held by another key) makes way for the next. One that was passed by a job with a better place,
which then had to be parked, counts no more. So whenever a key has room and jobs, the first of them stand in line.
"""

from mypy_extensions import i64

from tenure.core.limit import Bucket
from tenure.core.tenant import Context
from tenure.engine.alarm import LIMIT, Alarm
from tenure.engine.job import Job
from tenure.engine.journal import LIMIT as LIMIT_ENTITY
from tenure.engine.place import park, side_of, stand_in_line, unpark
from tenure.engine.world import OWED_TOP_UP, UNLIMITED, Limit, LimitSettings, Owed, Queue, Tenant, World


def limit_for(w: World, t: Tenant, key: str) -> Limit:
    """The key's record, made by first use, with its settings up to date."""
    number = -1
    if t.limits is not None:
        number = t.limits.get(key, -1)
    if number < 0:
        number = w.limits_shared.get(key, -1)
    if number >= 0:
        limit = w.limits[number]
        if limit.version == w.limits_version:
            return limit
        apply_settings(w, limit)
        return limit
    settings = settings_for(w, t, key)
    w.limits_given += 1
    shared = settings is not None and settings.shared
    limit = Limit(w.limits_given, key, -1 if shared else t.number)
    w.limits[w.limits_given] = limit
    if shared:
        w.limits_shared[key] = w.limits_given
    else:
        if t.limits is None:
            t.limits = {}
        t.limits[key] = w.limits_given
    apply_settings(w, limit)
    return limit


def settings_for(w: World, t: Tenant | None, key: str) -> LimitSettings | None:
    """The settings with the longest prefix of the key; the tenant's own win over shared ones of the same length.

    Settings that only pause say nothing about the limit.
    """
    own = t.limit_settings if t is not None else None
    if own is None and not w.limit_settings_shared:
        return None
    for length in range(len(key), -1, -1):
        prefix = key[:length]
        found = own.get(prefix) if own is not None else None
        if found is None or found.only_pauses():
            found = w.limit_settings_shared.get(prefix)
        if found is not None and not found.only_pauses():
            return found
    return None


def paused_until_for(w: World, t: Tenant | None, key: str) -> i64:
    """Until when the key is paused by settings: those of any prefix of it, the tenant's own and shared ones."""
    own = t.limit_settings if t is not None else None
    until: i64 = 0
    if own is None and not w.limit_settings_shared:
        return until
    for length in range(len(key) + 1):
        prefix = key[:length]
        found = own.get(prefix) if own is not None else None
        if found is not None:
            until = max(until, found.paused_until)
        found = w.limit_settings_shared.get(prefix)
        if found is not None:
            until = max(until, found.paused_until)
    return until


def apply_settings(w: World, limit: Limit) -> None:
    t = w.tenants[limit.tenant] if limit.tenant >= 0 else None
    settings = settings_for(w, t, limit.key)
    limit.version = w.limits_version
    limit.settings_until = paused_until_for(w, t, limit.key)
    if settings is None:
        limit.concurrency = UNLIMITED
        limit.bucket = None
        return
    limit.concurrency = settings.concurrency
    rate = settings.rate
    if rate is None:
        limit.bucket = None
    elif limit.bucket is None:
        limit.bucket = Bucket(rate, w.elapsed_ms)
    else:
        limit.bucket.change(rate, w.elapsed_ms)


def capacity(w: World, limit: Limit) -> i64:
    """How many jobs the key lets start now, at most a million."""
    found: i64 = 1_000_000
    if limit.concurrency != UNLIMITED:
        found = limit.concurrency - limit.running
    if paused_until(limit) > w.elapsed_ms:
        return 0
    if found > 0 and limit.bucket is not None:
        found = min(found, limit.bucket.available(w.elapsed_ms))
    return found


def paused_until(limit: Limit) -> i64:
    """When the key's pause for everybody ends, on the elapsed clock."""
    return max(limit.paused_until, limit.settings_until)


def is_paused_for(w: World, limit: Limit, tenant: i64) -> bool:
    """Whether a shared key is paused for this tenant alone."""
    return limit.pauses is not None and limit.pauses.get(tenant, 0) > w.elapsed_ms


def _next_resumed(w: World, limit: Limit) -> i64:
    """When the first of the tenants for which alone the key is paused may go on; 0 when there is none."""
    first: i64 = 0
    if limit.pauses is not None:
        for until in limit.pauses.values():
            if until > w.elapsed_ms and (first == 0 or until < first):
                first = until
    return first


def is_held_by(w: World, t: Tenant, key: str) -> bool:
    """Whether a job with this key could not start now; makes no record of the key."""
    number = -1 if t.limits is None else t.limits.get(key, -1)
    if number < 0:
        number = w.limits_shared.get(key, -1)
    if number >= 0:
        return capacity(w, w.limits[number]) <= 0 or is_paused_for(w, w.limits[number], t.number)
    settings = settings_for(w, t, key)
    if settings is not None and settings.concurrency == 0:
        return True
    return paused_until_for(w, t, key) > w.elapsed_ms


def hindrance(w: World, t: Tenant, job: Job) -> i64:
    """The number of the first key that holds the job back, or -1."""
    looked_at: list[int] = []
    for key in job.spec.options.limit_keys:
        limit = limit_for(w, t, key)
        if capacity(w, limit) <= 0 or is_paused_for(w, limit, t.number):
            # Those before it may have been made by this look, and nobody else may ever look at them again.
            w.changed_limits.extend(looked_at)
            return limit.number
        looked_at.append(int(limit.number))
    return -1


def take(w: World, t: Tenant, job: Job) -> None:
    """The job is leased: take a slot and a token of each of its keys."""
    side = side_of(job)
    held: list[int] = []
    for key in job.spec.options.limit_keys:
        limit = limit_for(w, t, key)
        limit.running += 1
        if limit.bucket is not None:
            limit.bucket.take(1)
            mark_limit(w, limit)
        held.append(limit.number)
    side.holds = held


def mark_limit(w: World, limit: Limit) -> None:
    w.journal.mark((LIMIT_ENTITY, "" if limit.tenant < 0 else w.tenants[limit.tenant].name, limit.key))


def give_back(w: World, held: list[int]) -> None:
    """Free the slots; tokens stay spent."""
    for number in held:
        w.limits[number].running -= 1
        w.changed_limits.append(number)


def hold_back(w: World, q: Queue, job: Job, number: i64) -> None:
    """Park a job that is out of the line already.

    Candidates that still stand there stand behind it: when the key has room, they are not the first.
    """
    park(w, q, job, number)
    limit = w.limits[number]
    if limit.candidates:
        if limit.passed is None:
            limit.passed = {}
        limit.passed[q.number] = limit.candidates.get(q.number, 0)
    _wake_later(w, limit)


def pause_key(w: World, context: Context, t: Tenant, key: str, for_ms: i64) -> None:
    """A handler asks for it. Who does not reach all tenants pauses a shared key for this tenant alone."""
    if for_ms <= 0:
        return
    limit = limit_for(w, t, key)
    until = w.elapsed_ms + for_ms
    if limit.tenant >= 0 or context.reaches_all_tenants:
        limit.paused_until = max(limit.paused_until, until)
    else:
        pauses = {} if limit.pauses is None else limit.pauses
        limit.pauses = {tenant: end for tenant, end in pauses.items() if end > w.elapsed_ms}
        limit.pauses[int(t.number)] = max(limit.pauses.get(int(t.number), 0), int(until))
    mark_limit(w, limit)
    _wake_later(w, limit)


def lift_pause(w: World, limit: Limit, t: Tenant, is_shared: bool) -> None:
    """By settings of a prefix: shared ones lift the pauses of shared keys, a tenant's own those that it has alone."""
    if limit.tenant == (-1 if is_shared else t.number):
        limit.paused_until = 0
        limit.pauses = None
    elif limit.pauses is not None and not is_shared:
        limit.pauses.pop(t.number, None)
    else:
        return
    mark_limit(w, limit)


def settle_limits(w: World, budget: i64) -> i64:
    """Look at every limit that changed in this step; what does not fit in the budget is owed.

    Answers the budget left.
    """
    while w.changed_limits:
        number = w.changed_limits.pop()
        limit = w.limits.get(number)
        if limit is not None:
            budget = top_up(w, limit, budget)
    return budget


def top_up(w: World, limit: Limit, budget: i64) -> i64:
    if limit.version != w.limits_version:
        apply_settings(w, limit)
    if not limit.is_parking():
        _forget_if_idle(w, limit)
        return budget
    assert limit.parked is not None
    free = capacity(w, limit)
    if free <= 0:
        _wake_later(w, limit)
        return budget
    if limit.candidates is None:
        limit.candidates = {}
    for number in sorted(limit.parked):
        if is_paused_for(w, limit, w.queues[number].tenant):
            continue
        budget = _let_in(w, limit, number, free, budget)
    if limit.is_parking():
        _wake_later(w, limit)
    return budget


def leading(limit: Limit, number: int) -> i64:
    """How many candidates of a queue stand before all that are parked."""
    found: i64 = 0
    if limit.candidates is not None:
        found = limit.candidates.get(number, 0)
    if limit.passed is not None:
        found -= limit.passed.get(number, 0)
    return found


def _let_in(w: World, limit: Limit, number: int, free: i64, budget: i64) -> i64:
    q = w.queues[number]
    assert limit.parked is not None and limit.candidates is not None
    order = limit.parked[number]
    while order.size > 0 and leading(limit, number) < free:
        if budget <= 0:
            owed = Owed(OWED_TOP_UP, limit.number)
            w.owed.append(owed)
            return budget
        job = order.first()
        unpark(w, q, job)
        side_of(job).candidate_of = limit.number
        limit.candidates[number] = limit.candidates.get(number, 0) + 1
        stand_in_line(w, q, job)
        budget -= 1
    return budget


def _wake_later(w: World, limit: Limit) -> None:
    """If only time is missing, set the alarm for when the key may have more room."""
    due = more_room_at(w, limit)
    if due:
        _set_alarm(w, limit, due)


def more_room_at(w: World, limit: Limit) -> i64:
    """When the key lets more jobs start than now, by time alone; 0 when time does not help."""
    if paused_until(limit) > w.elapsed_ms:
        return paused_until(limit)
    resumed = _next_resumed(w, limit)
    filled = _filled_at(w, limit)
    return min(resumed, filled) if resumed and filled else resumed or filled


def _filled_at(w: World, limit: Limit) -> i64:
    """When the bucket lets more jobs start than now; 0 when time does not help."""
    bucket = limit.bucket
    if bucket is None:
        return 0
    there = max(bucket.available(w.elapsed_ms), 0)
    if (there + 1) * bucket.period_ms > bucket.full:
        return 0
    if there > 0 and limit.concurrency != UNLIMITED and limit.concurrency - limit.running <= there:
        return 0
    return bucket.next_at_ms(there + 1)


def _set_alarm(w: World, limit: Limit, due: i64) -> None:
    alarm = limit.alarm
    if alarm is not None and alarm.live:
        if alarm.due_ms == due:
            return
        w.elapsed.cancel(alarm)
    limit.alarm = Alarm(due, LIMIT, limit.number)
    w.elapsed.add(limit.alarm)


def _forget_if_idle(w: World, limit: Limit) -> None:
    """Nothing runs, nothing waits, the bucket is full: the record has nothing to say."""
    if limit.running > 0 or limit.is_parking() or limit.candidates:
        return
    bucket = limit.bucket
    resumed = max(paused_until(limit), _next_resumed(w, limit))
    if resumed > w.elapsed_ms:
        _set_alarm(w, limit, resumed)
        return
    if bucket is not None:
        bucket.refill(w.elapsed_ms)
        if bucket.level < bucket.full:
            missing = bucket.full - bucket.level
            _set_alarm(w, limit, w.elapsed_ms + (missing + bucket.tokens - 1) // bucket.tokens)
            return
    if limit.alarm is not None:
        w.elapsed.cancel(limit.alarm)
    mark_limit(w, limit)
    del w.limits[limit.number]
    if limit.tenant < 0:
        w.limits_shared.pop(limit.key, None)
    else:
        table = w.tenants[limit.tenant].limits
        if table is not None:
            table.pop(limit.key, None)
